"""Exact removal, one after the other, against the evidence of regressions and of whole covariances."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats
from tests.oracles import gaussian_full

import bayesprune as bp
from bayesprune.methods.bmr import one_by_one
from bayesprune.posteriors.correlated import Correlated, marginal

ONE = jnp.ones((1, 1))


def node(loc, rows, columns=ONE, prior_scale=1.0) -> Correlated:
    loc, rows, columns = (jnp.asarray(part) for part in (loc, rows, columns))
    return Correlated(loc, marginal(rows, columns, loc.shape), prior_scale, rows=rows, columns=columns)


def regression(seed=0):
    """40 rows of five inputs, two pairs of near twins; the exact posterior under N(0, 1) and noise 1."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(40, 5))
    x[:, 1], x[:, 3] = 0.97 * x[:, 0] + 0.2 * x[:, 1], 0.9 * x[:, 2] + 0.4 * x[:, 3]
    y = x @ np.array([1.0, 0, 0.5, 0, 0]) + rng.normal(size=40)
    covariance = np.linalg.inv(x.T @ x + np.eye(5))
    return x, y, node(covariance @ x.T @ y, np.linalg.cholesky(covariance))


def evidence(x, y, kept) -> float:
    return stats.multivariate_normal.logpdf(y, cov=np.eye(len(y)) + x[:, kept] @ x[:, kept].T)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(4))
def test_the_evidence_gained_is_that_of_the_smaller_regression(seed, float64) -> None:
    """And what is left is its posterior; no other cut of the 32 has more evidence at these four seeds."""
    x, y, posterior = regression(seed)
    pruned = bp.bmr_prune({"w": posterior})
    kept = np.flatnonzero(pruned.mask["w"])
    gained = {
        c: evidence(x, y, list(c)) - evidence(x, y, range(5)) for n in range(6) for c in itertools.combinations(range(5), n)
    }
    assert float(pruned.info.evidence_gained) == pytest.approx(gained[tuple(kept)], abs=1e-9)
    assert gained[tuple(kept)] == max(gained.values())
    smaller = np.linalg.inv(x[:, kept].T @ x[:, kept] + np.eye(len(kept)))
    left = pruned.params["w"]
    np.testing.assert_allclose(np.asarray(left.loc)[kept], smaller @ x[:, kept].T @ y, atol=1e-10)
    np.testing.assert_allclose(np.asarray(left.rows @ left.rows.T)[np.ix_(kept, kept)], smaller, atol=1e-12)


def test_weights_that_vary_together_ask_for_no_margin() -> None:
    """Their evidence is that of all that go; (2.13) would spare the idle ones, which nothing else lets fall."""
    idle = node(np.zeros(3), 0.99 * np.eye(3, dtype=np.float32))
    assert not np.asarray(bp.bmr_prune({"w": idle}, idle=0.05, margin=0.25).mask["w"]).any()
    apart = bp.MeanField(idle.loc, idle.scale)
    assert np.asarray(bp.bmr_prune({"w": apart}, prior_scale=1.0, idle=0.0, margin=0.25).mask["w"]).all()


def test_of_twins_one_stays() -> None:
    """Each alone could go; a cut at once, as of independent weights of the same marginals, takes both."""
    covariance = np.array([[1.0, -0.99], [-0.99, 1.0]]) * 0.5
    twins = node(np.array([0.5, 0.5]), np.linalg.cholesky(covariance).astype(np.float32))
    apart = bp.MeanField(twins.loc, twins.scale)
    assert int(bp.bmr_prune({"w": twins}).mask["w"].sum()) == 1
    assert int(bp.bmr_prune({"w": apart}).mask["w"].sum()) == 0


@pytest.mark.slow
def test_independent_weights_are_cut_as_by_the_mean_field(rng_key) -> None:
    """A diagonal factor beside the same mean field, and beside an array of independent weights that shares their rate."""
    loc, scale = jax.random.normal(rng_key, (30,)), jnp.linspace(0.05, 0.9, 30)
    other = bp.MeanField(loc[::-1] / 3, scale)
    ours = bp.bmr_prune({"net.w": node(loc, jnp.diag(scale)), "net.v": other})
    theirs = bp.bmr_prune({"net.w": bp.MeanField(loc, scale), "net.v": other})
    for site in ("net.w", "net.v"):
        np.testing.assert_array_equal(ours.mask[site], theirs.mask[site])
        np.testing.assert_allclose(ours.params[site].loc, theirs.params[site].loc, rtol=1e-5)
    assert float(ours.info.evidence_gained) == pytest.approx(float(theirs.info.evidence_gained), rel=1e-5)


def matrix(seed=1):
    """Five rows, four columns; the third row and the second column near zero."""
    rng = np.random.default_rng(seed)
    loc = rng.normal(size=(5, 4)) * 3
    loc[2], loc[:, 1] = 0.05, 0.05
    factors = [np.linalg.cholesky(0.3 * ((a := rng.normal(size=(size, 9))) @ a.T) / 9) for size in (5, 4)]
    return node(loc, *factors)


@pytest.mark.slow
def test_rows_and_columns_of_a_matrix_normal_go_by_their_exact_evidence(float64) -> None:
    """The sum of the gains is (2.2) of the Kronecker covariance with a prior that has no variance where weights went."""
    posterior = matrix()
    pruned = bp.bmr_prune({"w": posterior})
    alive = np.asarray(pruned.mask["w"])
    assert not alive[2].any() and not alive[:, 1].any() and alive.sum() == 12
    covariance = np.kron(*(np.asarray(part @ part.T) for part in (posterior.rows, posterior.columns)))
    zero, eye = np.zeros(20), np.eye(20)
    arguments = (posterior.loc.reshape(-1), covariance, zero, eye, zero, np.diag(alive.reshape(-1).astype(float)))
    expected = gaussian_full.log_evidence_gain(*map(jnp.asarray, arguments))
    assert float(pruned.info.evidence_gained) == pytest.approx(float(expected), abs=1e-8)
    mean, rest = gaussian_full.reduced_posterior(*map(jnp.asarray, arguments))
    left = pruned.params["w"]
    np.testing.assert_allclose(left.loc.reshape(-1), mean, atol=1e-9)
    np.testing.assert_allclose(jnp.kron(left.rows @ left.rows.T, left.columns @ left.columns.T), rest, atol=1e-9)


def near_singular(case):
    """loc and two factors whose variances, given what goes before, are 1e-8 of the marginal ones."""
    twins, third = np.array([[1.0, 0.0], [1.0, 1e-4]]), np.array([[1.0, 0, 0], [1, 1e-4, 0], [1, 5e-5, 1e-4]])
    if case == "full":
        return np.full(3, 0.1), third, np.ones((1, 1))
    if case == "columns":
        return np.array([[0.02, 0.02], [2.0, 2.0]]), 0.1 * np.eye(2), twins
    return np.array([[0.02, 2.0], [0.02, 2.0]]), twins, 0.1 * np.eye(2)


@pytest.mark.parametrize("case", ["full", "columns", "rows"])
def test_single_precision_cuts_by_the_evidence_of_double(case) -> None:
    """Near singular covariances: the gain is SciPy's, of the ratio of densities where the dead weights are zero."""
    loc, rows, columns = (part.astype(np.float32) for part in near_singular(case))
    pruned = bp.bmr_prune({"w": node(loc, rows, columns, prior_scale=10.0)})
    dead = ~np.asarray(pruned.mask["w"]).ravel()
    assert dead.sum() == {"full": 3, "columns": 2, "rows": 2}[case]
    factor = np.kron(rows.astype(np.float64), columns)[dead]
    here = stats.multivariate_normal.logpdf(np.zeros(dead.sum()), loc.ravel()[dead], factor @ factor.T)
    gained = here - stats.norm.logpdf(0, 0, 10.0) * dead.sum()
    assert float(pruned.info.evidence_gained) == pytest.approx(gained, abs=1e-3)


def test_what_is_near_singular_does_not_take_its_neighbours_along() -> None:
    """A bias fifty deviations from zero beside such a kernel, with which it shares its rate."""
    loc, rows, columns = map(jnp.float32, near_singular("columns"))
    bias = bp.MeanField(jnp.array([5.0, 5.0]), jnp.array([0.1, 0.1]))
    pruned = bp.bmr_prune({"d.kernel": node(loc, rows, columns, prior_scale=10.0), "d.bias": bias})
    assert pruned.mask["d.bias"].all() and pruned.mask["d.kernel"].tolist() == [[False, False], [True, True]]


@pytest.mark.slow
def test_nothing_dies_by_nan() -> None:
    """A threshold that is not known kills nothing; nor has a weight without spread, whatever its mean, a NaN to give."""
    posterior = {"v": bp.MeanField(jnp.zeros(2), jnp.ones(2)), "w": node(jnp.zeros(2), jnp.array([[1.0, 0.0], [1.0, 0.0]]))}
    alive = jax.tree.map(lambda n: jnp.ones(2, bool), posterior, is_leaf=lambda n: hasattr(n, "loc"))
    _, kept = one_by_one(posterior, alive, lambda gain: dict.fromkeys(gain, jnp.array(jnp.nan)))
    assert all(mask.all() for mask in kept.values())
    gain, kept = one_by_one(posterior, alive, lambda gain: dict.fromkeys(gain, jnp.float32(-1.0)))
    assert int(kept["w"].sum()) == 1 and not jnp.isnan(gain["w"]).any()


def test_single_weights_of_a_matrix_normal_are_not_cut() -> None:
    """By what the method says, so that tracing, which knows no mask, hides nothing; nor by a mask that is given."""
    posterior, method = {"w": matrix()}, bp.methods.SNR(0.3)
    for cut in (bp.prune_once, jax.jit(lambda nodes, method: bp.prune_once(nodes, method).mask, static_argnums=1)):
        with pytest.raises(ValueError, match=r"SNR cuts single weights.*whole rows or columns"):
            cut(posterior, method)
    single = np.arange(20).reshape(5, 4) > 0
    for cut in (bp.bmr_prune, jax.jit(lambda nodes, mask=None: bp.bmr_prune(nodes, mask={"w": single}).mask)):
        with pytest.raises(ValueError, match=r"bmr_prune\(params\) finds without a mask"):
            cut(posterior, mask={"w": single})
    with pytest.raises(ValueError, match="close over it"):
        jax.jit(lambda mask: bp.bmr_prune(posterior, mask=mask).mask)({"w": single})


def test_a_cut_by_another_score_leaves_the_posterior_given_zeros(float64) -> None:
    _, _, posterior = regression()
    pruned = bp.prune_once({"w": posterior}, bp.methods.SNR(0.4))
    again = posterior.given_zero(pruned.mask["w"])
    np.testing.assert_allclose(pruned.params["w"].loc, again.loc, atol=1e-12)
    assert int(pruned.mask["w"].sum()) == 2 and not np.allclose(
        pruned.params["w"].loc, jnp.where(pruned.mask["w"], posterior.loc, 0)
    )


@pytest.mark.slow
def test_it_is_pure_and_the_same_when_compiled() -> None:
    _, _, posterior = regression()
    before = jax.tree.map(jnp.copy, posterior)
    plain, compiled = bp.bmr_prune({"w": posterior}), jax.jit(lambda q: tuple(bp.bmr_prune({"w": q}))[:2])(posterior)
    np.testing.assert_array_equal(plain.mask["w"], compiled[1]["w"])
    np.testing.assert_allclose(plain.params["w"].loc, compiled[0]["w"].loc, rtol=1e-5)
    assert jax.tree.all(jax.tree.map(lambda a, b: bool((a == b).all()), before, posterior))


@pytest.mark.slow
def test_what_was_dead_stays_dead_and_has_no_say(float64) -> None:
    """A mask given with parameters that are not cut by it: the rest is decided given that those are zero."""
    _, _, posterior = regression()
    alive = jnp.array([True, True, False, True, True])
    gain, kept = one_by_one({"w": posterior}, {"w": alive}, lambda gain: {"w": jnp.zeros(())})
    other_gain, other = one_by_one({"w": posterior.given_zero(alive)}, {"w": alive}, lambda gain: {"w": jnp.zeros(())})
    np.testing.assert_array_equal(kept["w"], other["w"])
    assert not kept["w"][2] and np.allclose(gain["w"][alive], other_gain["w"][alive])


@pytest.mark.slow
def test_permuted_weights_are_cut_alike(float64) -> None:
    _, _, posterior = regression()
    order = np.array([3, 0, 4, 2, 1])
    covariance = np.asarray(posterior.rows @ posterior.rows.T)[np.ix_(order, order)]
    turned = bp.bmr_prune({"w": node(posterior.loc[order], np.linalg.cholesky(covariance))})
    np.testing.assert_array_equal(turned.mask["w"], bp.bmr_prune({"w": posterior}).mask["w"][order])
