"""Columns that reach far are read as normal scores beside themselves."""

import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats
from sklearn.preprocessing import QuantileTransformer

import bayesprune as bp
from bayesprune.sklearn.bends import SCORES, fit_bends, reaches_far
from bayesprune.sklearn.columns import fit_columns
from tests.sklearn.problems import NET


def far(rows: int = 500) -> np.ndarray:
    """Over five decades, over one, and far with gaps of a third zeros."""
    rng = np.random.default_rng(0)
    zeros = np.where(rng.random(rows) < 1 / 3, 0.0, np.exp(2.0 * rng.standard_normal(rows)))
    return np.stack([np.exp(2.0 * rng.standard_normal(rows)), rng.standard_normal(rows), zeros], axis=1)


def test_scores_are_those_of_scikit_learn() -> None:
    """At as many quantiles as there are rows its map goes through every row; ours is straight between 33 of them."""
    x = far()[:, :1]
    other = QuantileTransformer(n_quantiles=len(x), output_distribution="normal").fit(x)
    (found,) = fit_bends(x).apply(x)
    wanted = np.clip(other.transform(x), -3.0, 3.0)
    within = np.abs(wanted[:, 0]) < 2.5
    assert np.abs(found - wanted)[within].max() < 0.12 and np.abs(found).max() <= 3.0 + 1e-12


def test_what_does_not_reach_far_is_read_once() -> None:
    """By the ratio of deviations, exact of laws: 1 of a normal one, .78 of a uniform one, 2 and 20 of log-normal ones."""
    rng = np.random.default_rng(1)
    assert fit_bends(far()).owner.tolist() == [0, 2]
    laws = {"norm": stats.norm(), "uniform": stats.uniform(), "expon": stats.expon()}
    laws |= {"near": stats.lognorm(1.0), "far": stats.lognorm(2.0)}
    seen = {name: reaches_far(law.rvs(5000, random_state=rng)) for name, law in laws.items()}
    ratios = {name: 1.349 * law.std() / (law.ppf(0.75) - law.ppf(0.25)) for name, law in laws.items()}
    assert seen == {name: ratio > 4.0 for name, ratio in ratios.items()} and sum(seen.values()) == 1
    assert not reaches_far(np.repeat([0.0, 1e9], [400, 100]))  # a mark of two values
    assert not reaches_far(np.where(rng.random(500) < 0.6, 0.0, np.exp(2.0 * rng.standard_normal(500))))
    assert not reaches_far(np.where(rng.random(500) < 0.45, 0.0, rng.standard_normal(500)))  # filled gaps


def test_ties_are_the_mean_of_their_scores_and_what_is_beyond_is_at_the_ends() -> None:
    x = far()
    bends = fit_bends(x)
    _, found = bends.apply(np.array([[0.0, 0.0, 0.0], [1e12, 0.0, 1e12], [-1e12, 0.0, -5.0]]))
    share = (x[:, 2] == 0).mean()
    assert found[1, 0] == pytest.approx(3.0) and found[2, 0] == found[0, 0]
    assert found[0, 0] == pytest.approx(SCORES[stats.norm.cdf(SCORES) <= share].mean(), abs=0.1)
    assert (np.diff(bends.at, axis=1) >= 0).all() and (bends.slopes >= 0).all()


def test_the_network_reads_both_and_both_are_of_the_column() -> None:
    x = far()
    columns = fit_columns(x)
    assert columns.num_inputs == 5 and not columns.silent.any()
    read = columns.apply(x)
    np.testing.assert_allclose(read[:, :3], (x - x.mean(0)) / x.std(0), rtol=1e-5, atol=1e-6)
    assert [stats.spearmanr(read[:, 3 + k], x[:, c]).statistic > 0.999 for k, c in enumerate((0, 2))] == [True, True]
    assert columns.of_column(np.array([1, 2, 3, 10, 20]), np.add).tolist() == [11, 2, 23]
    np.testing.assert_allclose(columns.apply(jnp.asarray(x, jnp.float32), jnp), read, atol=2e-5)


def test_numbers_next_to_zero_have_slopes_that_single_precision_holds() -> None:
    """p-values: what lies below 1e-30 is one number, and JAX reads the others as NumPy does."""
    x = 10.0 ** -np.random.default_rng(3).uniform(0.0, 60.0, (400, 1))
    columns = fit_columns(x)
    assert len(columns.bends.owner) == 1 and (columns.bends.slopes < 1e36).all()
    np.testing.assert_allclose(columns.apply(jnp.asarray(x, jnp.float32), jnp), columns.apply(x), atol=1e-4)


def test_as_many_columns_as_rows_are_read_as_they_are() -> None:
    assert fit_columns(np.exp(2.0 * np.random.default_rng(0).standard_normal((20, 30)))).num_inputs == 30


@pytest.mark.slow
def test_a_law_over_decades_is_learnt_and_shipped() -> None:
    """y = log x1 + x2: on one straight scale 99 of 100 rows of x1 lie within a tenth of its deviation."""
    x = far(600)
    y = np.log(x[:, 0]) + x[:, 1] + 0.2 * np.random.default_rng(2).standard_normal(600)
    model = bp.BayesianSparseRegressor(**NET | {"hidden": (20,), "num_steps": 1500}).fit(x[:400], y[:400])
    assert model.score(x[400:], y[400:]) > 0.97
    small = model.compact(keep="mean")
    assert (
        small.certify().holds and np.corrcoef(small.predict(x[400:].astype(np.float32)), model.predict(x[400:]))[0, 1] > 0.999
    )
