"""A toy family of posteriors in one file, low rank plus diagonal: fitted, cut by evidence, predicted, saved and compacted."""

from dataclasses import dataclass
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
from jax.scipy.linalg import solve_triangular
from numpyro.distributions import constraints
from scipy import stats

import bayesprune as bp
from bayesprune.formulas import gaussian
from bayesprune.methods.bmr import one_by_one
from bayesprune.model.families import Family
from bayesprune.posteriors.joint import Joint
from tests.infer import programs


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class LowRank(Joint):
    """q(w) = N(loc, F F' + diag(d²)): ``factor`` F (weights, rank), ``diagonal`` d (weights,)."""

    loc: Any
    scale: Any
    factor: Any
    diagonal: Any
    prior_scale: Any = None
    unit: Any = 1.0

    @classmethod
    def of(cls, loc, factor, diagonal, prior_scale=None, unit=1.0) -> "LowRank":
        scale = jnp.sqrt(jnp.sum(factor**2, 1) + diagonal**2).reshape(jnp.shape(loc))
        return cls(loc, scale, factor, diagonal, prior_scale, unit)

    def draw(self, rng_key):
        return LowRankNormal(self.loc, self.factor, self.diagonal).sample(rng_key) * self.unit

    def moments(self):
        return self.loc * self.unit, (self.scale * self.unit) ** 2

    def gain(self):
        return gaussian.log_evidence_gain_of_removal(self.loc, self.scale, self.prior_scale)

    def divergence(self, prior):
        raise ValueError("sampled")

    def given_zero(self, alive):
        """w = loc + F z + d e: the dead are observations of z, whose posterior the others have in place of its prior."""
        alive = jnp.broadcast_to(alive, jnp.shape(self.loc))
        dead, loc = ~alive.ravel() & (self.scale.ravel() > 0), self.loc.ravel()
        weight = jnp.where(dead, 1 / jnp.where(dead, self.diagonal, 1.0) ** 2, 0.0)
        inverse = jnp.eye(self.factor.shape[1]) + self.factor.T @ (weight[:, None] * self.factor)
        root = jnp.linalg.cholesky(jnp.linalg.inv(inverse))
        z = -root @ root.T @ self.factor.T @ (weight * loc)
        kept = alive.ravel()
        loc, factor = jnp.where(kept, loc + self.factor @ z, 0), jnp.where(kept[:, None], self.factor @ root, 0)
        return self.of(loc.reshape(alive.shape), factor, jnp.where(kept, self.diagonal, 0), self.prior_scale, self.unit)


class LowRankNormal(dist.Distribution):
    """Its law, one weight after the other."""

    support = constraints.real
    arg_constraints: ClassVar[dict[str, Any]] = {}

    def __init__(self, loc, factor, diagonal) -> None:
        self.loc, self.factor, self.diagonal = loc, factor, diagonal
        super().__init__(batch_shape=jnp.shape(loc), validate_args=False)

    def sample(self, key, sample_shape=()):
        first, second = jax.random.split(key)
        z = jax.random.normal(first, (*sample_shape, self.factor.shape[1]))
        e = jax.random.normal(second, (*sample_shape, len(self.diagonal)))
        return self.loc + (z @ self.factor.T + self.diagonal * e).reshape((*sample_shape, *self.batch_shape))

    def log_prob(self, value, intermediates=None):
        root = jnp.linalg.cholesky(self.factor @ self.factor.T + jnp.diag(self.diagonal**2))
        z = solve_triangular(root, (value - self.loc).ravel(), lower=True)
        return (dist.Normal().log_prob(z) - jnp.log(jnp.diagonal(root))).reshape(self.batch_shape)


@dataclass(frozen=True)
class LowRankFamily(Family):
    """The knobs, the guide, and the names of its parameters."""

    rank: int = 2
    init_scale: float = 0.1

    def guide(self, spec):
        name, size = str(spec.path), int(np.prod(spec.shape))
        loc = numpyro.param(f"{name}_low_loc", lambda key: 0.3 * jax.random.normal(key, spec.shape))
        factor = numpyro.param(f"{name}_low_factor", lambda key: 0.05 * jax.random.normal(key, (size, self.rank)))
        start = jnp.full(size, self.init_scale)
        diagonal = numpyro.param(f"{name}_low_diagonal", start, constraint=constraints.softplus_positive)
        return numpyro.sample(name, LowRankNormal(loc, factor, diagonal))

    def read(self, params, spec):
        return LowRank.of(*(params[f"{spec.path}_low_{field}"] for field in ("loc", "factor", "diagonal")))

    def write(self, node, spec):
        return {f"{spec.path}_low_{field}": getattr(node, field) for field in ("loc", "factor", "diagonal")}

    def joint(self, spec):
        return True


DATA = programs.classes()


def build(posterior=LowRankFamily()) -> bp.BNN:
    return programs.small_bnn(posterior=posterior, prior=bp.priors.Gaussian())


@pytest.fixture(scope="module")
def fit():
    return bp.fit_svi(jax.random.key(0), build(), DATA, num_steps=40, progress=False)


def node(seed=0, size=5) -> LowRank:
    rng = np.random.default_rng(seed)
    parts = (
        0.3 * rng.normal(size=size) + 2.0 * (np.arange(size) < 2),
        0.3 * rng.normal(size=(size, 2)),
        rng.uniform(0.1, 0.4, size),
    )
    return LowRank.of(*map(jnp.array, parts), prior_scale=0.8)


@pytest.mark.slow
def test_a_cut_leaves_the_conditional_posterior(float64) -> None:
    whole = node()
    covariance = np.asarray(whole.factor @ whole.factor.T + jnp.diag(whole.diagonal**2))
    kept = np.array([True, False, True, True, False])
    slope = covariance[np.ix_(kept, ~kept)] @ np.linalg.inv(covariance[np.ix_(~kept, ~kept)])
    left = whole.given_zero(kept)
    np.testing.assert_allclose(np.asarray(left.loc)[kept], whole.loc[kept] - slope @ whole.loc[~kept])
    expected = covariance[np.ix_(kept, kept)] - slope @ covariance[np.ix_(~kept, kept)]
    np.testing.assert_allclose((left.factor @ left.factor.T + jnp.diag(left.diagonal**2))[np.ix_(kept, kept)], expected)
    assert not np.asarray(left.scale)[~kept].any()


def test_removal_gains_the_joint_evidence(float64) -> None:
    """What the library's removal, one by one, gains in all is log q(0) - log p(0) of the weights that went, by SciPy."""
    whole = node()
    gains, mask = one_by_one({"w": whole}, {"w": jnp.ones(5, bool)}, lambda gains: {"w": 0.0})
    gone = ~np.asarray(mask["w"])
    assert 0 < gone.sum() < gone.size
    covariance = np.asarray(whole.factor @ whole.factor.T + jnp.diag(whole.diagonal**2))
    q = stats.multivariate_normal(np.asarray(whole.loc)[gone], covariance[np.ix_(gone, gone)]).logpdf(np.zeros(gone.sum()))
    expected = q - gone.sum() * stats.norm.logpdf(0, 0, 0.8)
    assert float(gains["w"][gone].sum()) == pytest.approx(expected, rel=1e-6)


@pytest.mark.slow
def test_it_is_fitted_cut_predicted_saved_and_compacted(fit, tmp_path, rng_key) -> None:
    bnn = build()
    pruned = bp.prune_once(fit.params, bp.methods.BMR(), program=bnn)
    assert 0 < float(pruned.info.density) < 1
    nodes = bnn.read(pruned.params)
    assert all(isinstance(one, LowRank) for one in nodes.values())
    for site, alive in pruned.mask.items():
        np.testing.assert_array_equal(np.asarray(nodes[site].scale) > 0, alive)
    probs = bp.predict(rng_key, bnn, pruned.params, DATA.x, mask=pruned.mask, num_samples=20)
    np.testing.assert_allclose(probs.sum(1), 1, rtol=1e-5)
    with pytest.raises(ValueError, match="posterior is another without them"):
        bp.predict(rng_key, bnn, fit.params, DATA.x, mask=pruned.mask)

    fit.save(tmp_path / "fit.bayesprune")
    again = bp.load(tmp_path / "fit.bayesprune")
    np.testing.assert_array_equal(bp.predict(rng_key, bnn, again.params, DATA.x), bp.predict(rng_key, bnn, fit.params, DATA.x))
    bp.report.save_fit(tmp_path / "fit.safetensors", bnn, pruned)
    saved = bp.report.load_posterior(tmp_path / "fit.safetensors")
    np.testing.assert_array_equal(saved.posterior["Dense_0.kernel"].scale, nodes["Dense_0.kernel"].scale)
    assert isinstance(bnn.read(saved.params)["Dense_0.kernel"], LowRank)

    small = bp.compact(bnn, pruned.params, pruned.mask, keep="mean")
    net = bnn.net_params(pruned.params, pruned.mask)
    assert small.predict(DATA.x).shape == probs.shape and jax.tree.leaves(net)
    drawn = bp.compact(bnn, pruned.params, pruned.mask, keep="posterior", rng_key=rng_key, num_draws=20)
    np.testing.assert_allclose(drawn.predict(DATA.x), probs, atol=1e-5)
    drawn.save(tmp_path / "net.bayesprune")
    np.testing.assert_allclose(bp.load(tmp_path / "net.bayesprune").predict(DATA.x), probs, atol=1e-5)


def test_what_is_not_of_it_is_refused(fit, rng_key) -> None:
    bnn = build()
    with pytest.raises(ValueError, match=r"LowRankFamily writes its nodes itself|LowRankFamily lets weights vary"):
        bp.fit_svi(rng_key, bnn, DATA, num_steps=1, sparsifier=bp.methods.BMR())
    with pytest.raises(ValueError, match="does not add up"):
        bp.prune_once(fit.params, bp.methods.Cut("evidence"), program=bnn)
    with pytest.raises(ValueError, match=r"LowRankFamily are not independent Gaussians"):
        bp.compact(bnn, fit.params, {}, keep="posterior")
    with pytest.raises(ValueError, match="from_trained needs"):
        bp.from_trained(bnn, bnn.net_params(fit.params))
    with pytest.raises(ValueError, match="LowRankFamily has no method gated"):
        bp.fit_svi(rng_key, programs.small_bnn(posterior=LowRankFamily(), prior=bp.priors.DiracSlab()), DATA, num_steps=1)


def test_a_missing_method_is_named() -> None:
    methods = {name: value for name, value in vars(LowRankFamily).items() if name in ("guide", "read")}
    with pytest.raises(TypeError, match="write"):
        type("Half", (Family,), methods)()
    with pytest.raises(TypeError, match="write"):
        build(posterior=type("NoFamily", (), methods)())
    answers = {name: value for name, value in vars(LowRank).items() if name in ("draw", "moments", "given_zero", "divergence")}
    with pytest.raises(TypeError, match="gain"):
        type("Mute", (Joint,), answers)()
