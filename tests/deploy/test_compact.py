"""The door: smaller networks with the law of the fit, whatever the prior; and what is refused."""

from dataclasses import dataclass
from typing import Any

import jax
import jax.export
import jax.numpy as jnp
import numpy as np
import pytest
from flax import linen

import bayesprune as bp
from bayesprune.deploy.program.weights import GaussianLaw
from bayesprune.posteriors.structured import StructuredFamily
from tests.deploy.fits import DATA, PRIORS, fitted, mask_of, regression
from tests.deploy.functions import FUNCTIONS, compact_of, numbers, program_of
from tests.infer.programs import small_bnn

DRAWS = 400


def at_the_mean(bnn, params, mask) -> jax.Array:
    """The net itself with every alive weight at loc * unit."""
    nodes = bnn.posterior(params)
    means = {site: jnp.where(jnp.asarray(mask.get(site, True)), node.loc * node.unit, 0) for site, node in nodes.items()}
    return jax.nn.softmax(bnn.forward(means, {}, jnp.asarray(DATA.x)))


@pytest.mark.slow_cases(1)
@pytest.mark.parametrize("prior", PRIORS)
@pytest.mark.fast_cases(1)
def test_the_law_of_the_posterior_is_kept(prior) -> None:
    """E[y | x, w] over 400 draws beside those of `predict_draws`: means within five standard errors, spreads within a third.

    90 rows of three classes: under the law itself one of the 270 means is off by more with probability 1.5e-4.
    """
    bnn, params, mask = fitted(prior)
    small = bp.compact(bnn, params, mask)
    ours = small.predict_draws(jax.random.key(1), DATA.x, DRAWS)
    theirs = bp.predict_draws(jax.random.key(2), bnn, params, DATA.x, mask=mask, num_samples=DRAWS)
    assert ours.shape == theirs.shape == (DRAWS, 90, 3)
    error = np.sqrt((ours.var(0) + theirs.var(0)) / DRAWS)
    assert (np.abs(ours.mean(0) - theirs.mean(0)) < 5 * error + 1e-6).all()
    spread = ours.std(0).mean() / theirs.std(0).mean()
    assert 0.75 < spread < 1.33
    np.testing.assert_allclose(
        small.predict(DATA.x, rng_key=jax.random.key(1), num_samples=DRAWS), ours.mean(0), rtol=1e-3, atol=1e-5
    )


@pytest.mark.slow
def test_a_scale_of_a_layer_is_shared_by_its_weights() -> None:
    """Flat: log s of the draws' ratio w / w_hat is one number for kernel and bias of a layer."""
    bnn, params, mask = fitted()
    law = bp.compact(bnn, params, mask).law
    flat = {site: np.zeros_like(scale) for site, scale in law.scale.items()}
    still = type(law)(law.loc, flat, law.shared, law.log)
    drawn = still.draw(jax.random.key(3), 0, still.tensors())
    ratios = {site: np.unique(np.round(np.asarray(drawn[site])[loc != 0] / loc[loc != 0], 3)) for site, loc in law.loc.items()}
    assert all(len(ratio) == 1 for ratio in ratios.values())
    assert ratios["Dense_0.kernel"] == ratios["Dense_0.bias"] != ratios["Dense_1.kernel"]


@pytest.mark.slow
@pytest.mark.parametrize("keep", ["posterior", "mean"])
def test_the_network_at_the_mean(keep) -> None:
    """Against the net itself at loc * unit, which shares no code with the smaller one."""
    bnn, params, mask = fitted("gaussian")
    small = bp.compact(bnn, params, mask, keep=keep)
    expected = at_the_mean(bnn, params, mask)
    np.testing.assert_allclose(small.predict(DATA.x), expected, rtol=1e-4, atol=1e-6)
    assert small.certify().holds
    assert small.cost.numbers < small.cost.dense_numbers
    assert small.cost.executed < small.cost.dense
    assert small.cost.theoretical <= small.cost.executed
    apply, arrays = small.net()
    np.testing.assert_allclose(jax.nn.softmax(apply(arrays, jnp.asarray(DATA.x))), expected, rtol=1e-4, atol=1e-6)
    gradient = jax.grad(lambda p: apply(p, DATA.x).sum())(arrays)
    assert all(jnp.isfinite(leaf).all() for leaf in jax.tree.leaves(gradient))
    assert max(float(jnp.abs(leaf).max()) for leaf in jax.tree.leaves(gradient)) > 0


@pytest.mark.slow
def test_dead_units_are_gone_and_live_ones_stay() -> None:
    bnn, params, mask = fitted("gaussian")
    small = bp.compact(bnn, params, mask)
    units = (mask["Dense_0.kernel"].any(0) | mask["Dense_0.bias"]) & mask["Dense_1.kernel"].any(1)
    assert 2 < units.sum() <= 6
    assert small.law.loc["Dense_0.kernel"].shape == (4, units.sum())
    assert small.law.loc["Dense_1.kernel"].shape[0] == units.sum()


@pytest.mark.slow
def test_nothing_pruned_is_the_network_itself() -> None:
    bnn, params, _ = fitted("gaussian")
    small = bp.compact(bnn, params)
    assert small.cost.executed == small.cost.dense
    assert small.cost.numbers == small.cost.dense_numbers


@pytest.mark.slow
def test_everything_pruned_is_a_constant() -> None:
    """The last layer's biases are all that is left, of the classes as of the draws."""
    bnn, params, _ = fitted("gaussian")
    mask = {str(spec.path): np.zeros(spec.shape, bool) for spec in bnn.layout if spec.prunable}
    for keep in ("posterior", "mean"):
        small = bp.compact(bnn, params, mask, keep=keep)
        outputs = small.predict(DATA.x)
        np.testing.assert_allclose(outputs, np.broadcast_to(outputs[:1], (90, 3)), rtol=1e-6)
        np.testing.assert_allclose(outputs, at_the_mean(bnn, params, mask), rtol=1e-4, atol=1e-6)


@pytest.mark.slow
def test_points_have_no_spread() -> None:
    bnn, params, mask = fitted("flat", "map")
    small = bp.compact(bnn, params, mask)
    expected = bp.predict(jax.random.key(0), bnn, params, DATA.x, mask=mask, num_samples=1)
    np.testing.assert_allclose(small.predict(DATA.x), expected, rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(small.predict(DATA.x, rng_key=jax.random.key(0), num_samples=3), expected, rtol=1e-4, atol=1e-6)


@pytest.mark.slow_cases(1)
@pytest.mark.slow
@pytest.mark.parametrize("prior", [bp.priors.Horseshoe(), bp.priors.DiracSlab(), bp.priors.GroupNormalJeffreys()])
def test_other_laws_are_drawn(prior) -> None:
    bnn = small_bnn(prior=prior)
    params = bp.fit_svi(jax.random.key(0), bnn, DATA, num_steps=30, batch_size=30, progress=False).params
    mask = mask_of(bnn)
    with pytest.raises(ValueError, match="num_draws="):
        bp.compact(bnn, params, mask)
    small = bp.compact(bnn, params, mask, rng_key=jax.random.key(5), num_draws=DRAWS)
    assert small.certify().holds
    ours = small.predict_draws(jax.random.key(1), DATA.x, DRAWS)
    theirs = bp.predict_draws(jax.random.key(2), bnn, params, DATA.x, mask=mask, num_samples=DRAWS)
    error = np.sqrt((ours.var(0) + theirs.var(0)) / DRAWS)
    assert (np.abs(ours.mean(0) - theirs.mean(0)) < 5 * error + 1e-6).all()


@pytest.mark.slow
def test_stored_samples_are_kept_as_they_are() -> None:
    bnn = small_bnn(prior=bp.priors.Gaussian(centred=True))
    kernel = bp.kernels.SGLD(1e-4)
    fit = bp.fit_sgmcmc(
        jax.random.key(0), bnn, DATA, num_steps=80, batch_size=30, kernel=kernel, num_samples=4, sample_every=10, progress=False
    )
    mask = mask_of(bnn)
    small = bp.compact(bnn, fit.params, mask)
    assert small.law.num_draws == 4
    expected = bp.predict(jax.random.key(0), bnn, fit.params, DATA.x, mask=mask, num_samples=4)
    np.testing.assert_allclose(small.predict(DATA.x), expected, rtol=1e-4, atol=1e-6)
    for key in (None, jax.random.key(3)):  # nothing is drawn of what was drawn before
        np.testing.assert_allclose(small.predict_draws(key, DATA.x).mean(0), expected, rtol=1e-4, atol=1e-6)


@pytest.mark.slow
def test_a_regression_gives_rows() -> None:
    bnn, params, data = regression()
    small = bp.compact(bnn, params)
    with pytest.raises(TypeError, match="key"):
        small.predict_draws(None, data.x)
    assert small.predict(data.x).shape == (len(data.x),)
    assert small.predict_draws(jax.random.key(0), data.x, 3).shape == (3, len(data.x), 1)


class Batchwise(linen.Module):
    @linen.compact
    def __call__(self, x):
        return linen.Dense(3)(x - x.mean(axis=0))


class Reordered(linen.Module):
    @linen.compact
    def __call__(self, x):
        x = linen.Dense(4)(x)
        return linen.Dense(3)(x.T.reshape(x.shape))


class First(linen.Module):
    """The first number of all rows, by its place in them."""

    @linen.compact
    def __call__(self, x):
        place = dict(mode="promise_in_bounds", wrap_negative_indices=False)
        return linen.Dense(3)(x) + 1e-4 * x.reshape(-1).at[jnp.array([0])].get(**place)


class Remembering(linen.Module):
    """A loop over rows, in which they meet."""

    @linen.compact
    def __call__(self, x):
        _, x = jax.lax.scan(lambda total, row: (total + row, total + row), jnp.zeros(4), x)
        return linen.Dense(3)(x)


@pytest.mark.fast_cases(1)
@pytest.mark.parametrize("net", [Batchwise(), Reordered(), First(), Remembering()])
def test_networks_that_mix_rows_are_refused(net) -> None:
    bnn = bp.BNN(net, prior=bp.priors.Gaussian(), likelihood=bp.likelihoods.Categorical(), input_shape=(4,))
    params = bp.fit_svi(jax.random.key(0), bnn, DATA, num_steps=1, progress=False).params
    with pytest.raises(ValueError, match="row"):
        bp.compact(bnn, params)


@pytest.mark.slow
def test_bad_arguments_are_refused() -> None:
    bnn, params, mask = fitted("gaussian")
    with pytest.raises(ValueError, match="keep must be one of"):
        bp.compact(bnn, params, mask, keep="both")
    with pytest.raises(ValueError, match="num_draws=5 goes with keep='posterior'"):
        bp.compact(bnn, params, mask, keep="mean", num_draws=5)
    with pytest.raises(ValueError, match="mask"):
        bp.compact(bnn, params, {"nowhere": np.ones(3, bool)})
    with pytest.raises(TypeError, match="BNN"):
        bp.compact(object(), params)
    small = bp.compact(bnn, params, mask)
    with pytest.raises(ValueError, match="reshape it"):
        small.predict(np.zeros((2, 5)))
    with pytest.raises(ValueError, match="no rows"):
        small.predict(np.zeros((0, 4)))
    with pytest.raises((ValueError, TypeError), match="key"):
        small.predict(DATA.x, rng_key="seed")


def test_it_stands_in_the_place_of_a_network() -> None:
    bnn, params, mask = fitted("gaussian")
    small = bp.compact(bnn, params, mask)
    key = jax.random.key(4)
    own = small.predict(DATA.x, rng_key=key, num_samples=3)
    np.testing.assert_array_equal(bp.predict(key, small, None, DATA.x, num_samples=3), own)
    np.testing.assert_array_equal(
        bp.predict_draws(key, small, None, DATA.x, num_samples=3), small.predict_draws(key, DATA.x, 3)
    )
    ours, theirs = bp.evaluate(key, small, None, DATA, num_samples=200), bp.evaluate(key, bnn, params, DATA, mask=mask)
    assert ours.keys() == theirs.keys()
    assert ours["nll"] == pytest.approx(theirs["nll"], abs=0.05)
    with pytest.raises(ValueError, match="holds its own weights"):
        bp.predict(key, small, params, DATA.x)


@pytest.mark.slow
def test_a_regression_is_evaluated_with_its_noise(tmp_path) -> None:
    bnn, params, data = regression()
    small = bp.compact(bnn, params)
    small.save(tmp_path / "net.bayesprune")
    ours = bp.evaluate(jax.random.key(0), bp.load(tmp_path / "net.bayesprune"), None, data, num_samples=300)
    theirs = bp.evaluate(jax.random.key(1), bnn, params, data, num_samples=300)
    assert ours.keys() == theirs.keys()
    assert ours["nll"] == pytest.approx(theirs["nll"], rel=0.2)  # two sets of 300 draws of a posterior that is still wide


class Whole(linen.Module):
    """Operations that mean something else of whole numbers than of real ones, or have no form as data."""

    kind: str

    @linen.compact
    def __call__(self, x):
        whole = (x * 2).astype(jnp.int32)
        made = {
            "and": lambda: (whole & 3).astype(jnp.float32),
            "not": lambda: (~whole).astype(jnp.float32),
            "div": lambda: jax.lax.div(whole, jnp.full_like(whole, 3)).astype(jnp.float32),
            "rem": lambda: jax.lax.rem(whole + 7, whole).astype(jnp.float32),  # by zero: what is divided itself
            "one hot": lambda: jax.nn.one_hot(jnp.argmax(x, -1), 4),
        }[self.kind]()
        return linen.Dense(3)(made + linen.Dense(4)(x))


@pytest.mark.slow_cases(2)
@pytest.mark.parametrize("kind", ["and", "not", "div", "rem", "one hot"])
@pytest.mark.slow
def test_whole_numbers_mean_what_they_mean_to_jax(kind) -> None:
    bnn = bp.BNN(Whole(kind), prior=bp.priors.Gaussian(), likelihood=bp.likelihoods.Categorical(), input_shape=(4,))
    params = bp.fit_svi(jax.random.key(0), bnn, DATA, num_steps=1, progress=False).params
    small = bp.compact(bnn, params, keep="mean")
    assert small.pinned
    np.testing.assert_allclose(small.predict(DATA.x), at_the_mean(bnn, params, {}), rtol=1e-4, atol=1e-6)
    assert small.certify().holds


def test_no_weight_left_of_a_drawn_law() -> None:
    bnn, params, _ = fitted("gaussian")
    dead = {str(spec.path): np.zeros(spec.shape, bool) for spec in bnn.layout}
    small = bp.compact(bnn, params, dead, rng_key=jax.random.key(0), num_draws=3)
    np.testing.assert_allclose(small.predict(DATA.x), 1 / 3, rtol=1e-6)


@pytest.mark.slow
def test_a_convolution_that_trims_its_images() -> None:
    class Trimming(linen.Module):
        @linen.compact
        def __call__(self, x):
            x = linen.tanh(linen.Conv(4, (3, 3), padding=((-1, 0), (0, -1)))(x))
            return linen.Dense(3)(x.reshape(len(x), -1))

    bnn = bp.BNN(Trimming(), prior=bp.priors.Gaussian(), likelihood=bp.likelihoods.Categorical(), input_shape=(6, 6, 2))
    rows = np.random.default_rng(0).normal(size=(7, 6, 6, 2)).astype(np.float32)
    data = bp.Dataset(rows, np.arange(7) % 3)
    fit = bp.fit_svi(jax.random.key(0), bnn, data, num_steps=1, progress=False)
    small = bp.compact(bnn, fit.params, keep="mean")
    nodes = bnn.posterior(fit.params)
    expected = bnn.forward({site: node.loc * node.unit for site, node in nodes.items()}, {}, jnp.asarray(rows))
    np.testing.assert_allclose(small.predict(rows), jax.nn.softmax(expected), rtol=1e-4, atol=1e-6)


# ---- what a fresh reader found
@pytest.mark.slow
def test_stored_samples_are_taken_evenly_from_all_chains() -> None:
    """As `predict` takes them; without a key all of them; their noise goes with them."""
    bnn, _, data = regression()
    kernel = bp.kernels.SGLD(1e-4)
    fit = bp.fit_sgmcmc(
        jax.random.key(0), bnn, data, num_steps=60, kernel=kernel, num_samples=6, sample_every=5, num_chains=2, progress=False
    )
    small, key = bp.compact(bnn, fit.params), jax.random.key(0)
    for number in (4, 12):
        expected = bp.predict(key, bnn, fit.params, data.x, num_samples=number)
        np.testing.assert_allclose(small.predict(data.x, rng_key=key, num_samples=number), expected, rtol=1e-4, atol=1e-6)
        ours, theirs = (
            bp.evaluate(key, net, params, data, num_samples=number) for net, params in ((small, None), (bnn, fit.params))
        )
        assert ours["nll"] == pytest.approx(theirs["nll"], rel=1e-4)
    np.testing.assert_allclose(small.predict(data.x), expected, rtol=1e-4, atol=1e-6)
    fewer = bp.compact(bnn, fit.params, num_draws=4)
    assert fewer.noise_scale.shape == (4, 1, 1)
    one = bp.compact(bnn, fit.params, num_draws=1)
    apply, values = one.net()
    np.testing.assert_allclose(apply(values, data.x), one.predict_draws(key, data.x, 1)[0], rtol=1e-5, atol=1e-6)


@pytest.mark.slow
def test_several_chains_have_no_mean_network(tmp_path) -> None:
    """Their units are in orders of their own: only one network can be trained on, or put into a header."""
    bnn = small_bnn(prior=bp.priors.Gaussian(centred=True))
    options = {"num_steps": 6, "kernel": bp.kernels.SGLD(1e-4), "num_samples": 1, "sample_every": 5, "num_chains": 2}
    fit = bp.fit_sgmcmc(jax.random.key(0), bnn, DATA, progress=False, **options)
    wide = {name: 20.0 * value if name.endswith("$draws") else value for name, value in fit.params.items()}
    small = bp.compact(bnn, wide)
    np.testing.assert_allclose(np.asarray(small.exported().call(DATA.x)), small.predict(DATA.x), rtol=1e-4, atol=1e-6)
    at_mean = jax.nn.softmax(bnn.forward(jax.tree.map(jnp.asarray, small.law.mean()), {}, jnp.asarray(DATA.x)))
    assert np.abs(np.asarray(at_mean) - small.predict(DATA.x)).max() > 0.1
    with pytest.raises(ValueError, match=r"hidden units of 2 chains are in orders of their own.*num_draws=1"):
        bp.compact(bnn, fit.params, keep="mean")
    for what, told in ((small.net, "a network to train on is of one"), (lambda: small.save(tmp_path / "net.h"), "a C header")):
        with pytest.raises(ValueError, match=rf"{told}.*2 are stored here.*num_draws=1"):
            what()


@pytest.mark.slow
def test_the_mean_of_stored_samples_is_that_of_the_weights() -> None:
    """Of a non-centred prior E[c w_hat], not E[c] E[w_hat]."""
    bnn = small_bnn()
    fit = bp.fit_sgmcmc(
        jax.random.key(0),
        bnn,
        DATA,
        num_steps=200,
        kernel=bp.kernels.SGLD(1e-3),
        num_samples=5,
        sample_every=20,
        progress=False,
    )
    drawn = bp.compact(bnn, fit.params).law.values
    means = {site: jnp.asarray(values.mean(0)) for site, values in drawn.items()}
    expected = jax.nn.softmax(bnn.forward(means, {}, jnp.asarray(DATA.x)))
    np.testing.assert_allclose(bp.compact(bnn, fit.params, keep="mean").predict(DATA.x), expected, rtol=1e-4, atol=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize("norm", ["group", "batch"])
def test_stored_samples_of_a_net_with_norms(norm) -> None:
    """Parameters that are not Bayesian are drawn too; running statistics are refused."""
    net = bp.nets.ResNet(3, (1,), 4, norm=norm)
    bnn = bp.BNN(net, prior=bp.priors.Gaussian(centred=True), likelihood=bp.likelihoods.Categorical(), input_shape=(6, 6, 2))
    rows = np.random.default_rng(0).normal(size=(20, 6, 6, 2)).astype(np.float32)
    data = bp.Dataset(rows, np.arange(20) % 3)
    fit = bp.fit_sgmcmc(
        jax.random.key(0), bnn, data, num_steps=12, kernel=bp.kernels.SGLD(1e-4), num_samples=2, sample_every=5, progress=False
    )
    if norm == "batch":
        with pytest.raises(ValueError, match="running statistics"):
            bp.compact(bnn, fit.params)
        return
    expected = bp.predict(jax.random.key(0), bnn, fit.params, rows, num_samples=2)
    np.testing.assert_allclose(bp.compact(bnn, fit.params).predict(rows), expected, rtol=1e-4, atol=1e-5)


@dataclass(frozen=True)
class Squashed(bp.priors.Gaussian):
    """Weights that are no multiple of their sites, though its class inherits the method that says so."""

    def model(self, layout):
        return {path: jnp.tanh(value) for path, value in super().model(layout).items()}


@dataclass(frozen=True)
class Silent:
    """A user's own prior that says nothing of what its weights are."""

    def model(self, layout):
        return {path: 3.0 * value for path, value in bp.priors.Gaussian().model(layout).items()}

    def guide(self, layout, family):
        bp.priors.Gaussian().guide(layout, family)


@pytest.mark.slow
def test_a_prior_that_does_not_speak_for_itself_is_drawn() -> None:
    for prior in (Squashed(), Silent()):
        bnn = small_bnn(prior=prior)
        params = bp.fit_svi(jax.random.key(0), bnn, DATA, num_steps=1, progress=False).params
        with pytest.raises(ValueError, match="num_draws="):
            bp.compact(bnn, params)
    with pytest.raises(ValueError, match="method node"):
        bp.compact(bnn, params, keep="mean")


@dataclass(frozen=True)
class Summed(bp.likelihoods.Categorical):
    """A mean with an operation that no file holds, and figures of its own."""

    def mean(self, outputs):
        return jnp.sort(jax.nn.softmax(outputs), -1)

    def metrics(self, draws, y, params):
        return {"mine": 1.0}


@pytest.mark.slow
def test_a_likelihood_of_one_s_own(tmp_path) -> None:
    bnn = small_bnn(likelihood=Summed())
    small = bp.compact(bnn, bp.fit_svi(jax.random.key(0), bnn, DATA, num_steps=1, progress=False).params)
    assert "sort" in small.pinned
    with pytest.raises(ValueError, match="sort"):
        small.save(tmp_path / "net.bayesprune")
    with pytest.raises(TypeError, match="holds the mean of y, not its distribution"):
        bp.evaluate(jax.random.key(0), small, None, DATA)


def test_short_floats_are_refused_with_the_remedy() -> None:
    class Short(linen.Module):
        @linen.compact
        def __call__(self, x):
            return linen.Dense(3, dtype=jnp.bfloat16)(x).astype(jnp.float32)

    bnn = bp.BNN(Short(), prior=bp.priors.Gaussian(), likelihood=bp.likelihoods.Categorical(), input_shape=(4,))
    params = bp.fit_svi(jax.random.key(0), bnn, DATA, num_steps=1, progress=False).params
    with pytest.raises(ValueError, match="dtype=float32"):
        bp.compact(bnn, params)


@pytest.mark.fast_cases(1)
@pytest.mark.parametrize("short", [jnp.bfloat16, jnp.float16])
def test_a_frozen_base_may_be_kept_in_short_floats(short, tmp_path) -> None:
    """Its numbers are made float32 before the network computes with them; what is moved before is moved exactly."""

    class Frozen(linen.Module):
        dtype: Any = jnp.float32

        @linen.compact
        def __call__(self, x):
            x = linen.Dense(6, dtype=self.dtype, param_dtype=short, name="base")(x)
            scale = self.param("base_scale", linen.initializers.normal(1.0, short), (2, 3)).reshape(6)
            return linen.Dense(3, dtype=jnp.float32)(jnp.tanh(x) + scale)

    x = np.random.default_rng(0).standard_normal((30, 4)).astype(np.float32)
    data = bp.Dataset(x, np.arange(30) % 3)

    def of(net: linen.Module) -> tuple[bp.BNN, dict[str, Any]]:
        bnn = bp.BNN(
            net, prior=bp.priors.Gaussian(), likelihood=bp.likelihoods.Categorical(), input_shape=(4,),
            frozen=lambda path, _: str(path).startswith("base"),
        )  # fmt: skip
        given = bp.from_trained(bnn, net.init(jax.random.key(1), x))
        return bnn, bp.fit_svi(jax.random.key(0), bnn, data, num_steps=1, progress=False, init_params=given).params

    bnn, params = of(Frozen())
    assert params["base.kernel"].dtype == short
    mask = {"Dense_0.kernel": np.arange(18).reshape(6, 3) > 8}
    small = bp.compact(bnn, params, mask)
    assert small.certify().holds and small.cost.numbers < small.cost.dense_numbers
    small.save(tmp_path / "net.bayesprune")
    loc = {name: np.asarray(value, np.float64) for name, value in params.items()}
    h = np.tanh(x @ loc["base.kernel"] + loc["base.bias"]) + loc["base_scale"].reshape(6)
    logits = h @ (loc["Dense_0.kernel_auto_loc"] * mask["Dense_0.kernel"]) + loc["Dense_0.bias_auto_loc"]
    expected = np.exp(logits) / np.exp(logits).sum(1, keepdims=True)
    for made in (small.predict(x, engine="jax"), bp.load(tmp_path / "net.bayesprune").predict(x)):
        np.testing.assert_allclose(made, expected, atol=1e-5)
    with pytest.raises(ValueError, match=f"computes in {np.dtype(short).name}"):
        bp.compact(*of(Frozen(short)))


def test_rows_of_any_numbers() -> None:
    bnn, params, mask = fitted("gaussian")
    small, rows = bp.compact(bnn, params, mask), np.arange(8).reshape(2, 4)
    np.testing.assert_array_equal(small.predict(rows.astype(np.uint8)), small.predict(rows.astype(np.float64)))


@pytest.mark.slow
def test_an_exact_gelu_is_followed() -> None:
    class Exact(linen.Module):
        @linen.compact
        def __call__(self, x):
            return linen.Dense(3)(jax.nn.gelu(linen.Dense(5)(x), approximate=False))

    bnn = bp.BNN(Exact(), prior=bp.priors.Gaussian(), likelihood=bp.likelihoods.Categorical(), input_shape=(4,))
    params = bp.fit_svi(jax.random.key(0), bnn, DATA, num_steps=1, progress=False).params
    assert not bp.compact(bnn, params).pinned


@pytest.mark.parametrize("name", ["dense", "images", "branches", "tokens"])
def test_what_is_exported_is_the_network_for_any_number_of_rows(name) -> None:
    function, shapes, shape = FUNCTIONS[name]
    program, rng = program_of(function, shapes, shape).single(), np.random.default_rng(0)
    loc = numbers(program, rng)
    small = compact_of(program, GaussianLaw(loc, {site: np.abs(array) for site, array in loc.items()}, {}, {}))
    again = jax.export.deserialize(small.exported(("cpu", "tpu")).serialize())
    for count in (1, 6):
        x = rng.standard_normal((count, *shape)).astype(np.float32)
        np.testing.assert_allclose(again.call(x), small.predict(x, engine="jax"), rtol=1e-5, atol=1e-6)


@pytest.mark.slow
def test_the_mean_of_weights_that_vary_with_their_scale_is_refused() -> None:
    """E[tau w] is not E[tau] E[w] there; drawn networks are right."""
    bnn = small_bnn(prior=bp.priors.Horseshoe(), posterior=StructuredFamily())
    fit = bp.fit_svi(jax.random.key(0), bnn, DATA, num_steps=1, batch_size=30, progress=False)
    with pytest.raises(ValueError, match="StructuredFamily vary with the scales"):
        bp.compact(bnn, fit.params, keep="mean")
    with pytest.raises(ValueError, match=r"num_draws= to keep so many drawn networks\.$"):  # names no mean, which is refused
        bp.compact(bnn, fit.params)
    small = bp.compact(bnn, fit.params, rng_key=jax.random.key(1), num_draws=3)
    assert small.predict_draws(jax.random.key(2), DATA.x, 3).shape[0] == 3
