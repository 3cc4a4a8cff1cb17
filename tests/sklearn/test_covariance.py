"""Correlations for knockoff copies: near the truth where rows are few, and such as copies can be made by."""

import jax
import numpy as np
import pytest
from sklearn.covariance import ledoit_wolf

import bayesprune as bp
from bayesprune.sklearn import rules as module
from bayesprune.sklearn.rules import covariance
from tests.sklearn.problems import linear_rows


def standardised(rows: np.ndarray) -> np.ndarray:
    return (rows - rows.mean(axis=0)) / rows.std(axis=0)


def test_copies_can_be_made_of_few_rows_and_of_repeated_columns() -> None:
    x, _ = linear_rows(rows=20, features=30)
    for rows in (x, np.repeat(x[:, :4], 2, axis=1), np.repeat(x[:, :15], 2, axis=1)):
        found = covariance(z := standardised(rows), "auto")
        np.testing.assert_allclose(np.diag(found), 20 / 19)
        assert np.linalg.eigvalsh(found)[0] > 1e-4
        copies = bp.features.gaussian_knockoffs(jax.random.key(0), z, np.zeros(rows.shape[1]), found)
        assert np.isfinite(copies).all()
        with pytest.raises(ValueError, match="singular"):
            bp.features.knockoffs(jax.random.key(0), z, 0.0)


@pytest.mark.parametrize("kind", ["neighbours", "blocks"])
def test_where_columns_outnumber_rows_neighbours_are_as_alike_as_they_are(kind: str) -> None:
    """Of correlations of .8 and of .6 little is lost beside what drawing them towards 0 loses, .2 and more."""
    columns = 100
    true = 0.8 ** np.abs(np.subtract.outer(np.arange(columns), np.arange(columns)))
    if kind == "blocks":
        true = np.kron(np.eye(10), np.full((10, 10), 0.6)) + 0.4 * np.eye(columns)
    rows = np.random.default_rng(0).standard_normal((60, columns)) @ np.linalg.cholesky(true).T
    near = (true > 0.5) & (true < 1)
    z = standardised(rows)
    assert abs((covariance(z, "auto") - true)[near].mean()) < 0.16
    assert (ledoit_wolf(z)[0] - true)[near].mean() < -0.2


@pytest.mark.parametrize(("rows", "columns", "shared"), [(100, 120, 2.0), (60, 150, 1.0)])
def test_columns_that_share_a_factor_keep_their_correlation(rows: int, columns: int, shared: float) -> None:
    """Their partial correlations are not sparse, and the graphical lasso finds nothing: 0 in their place was an error once."""
    rng = np.random.default_rng(0)
    x = shared * rng.standard_normal((rows, 1)) + rng.standard_normal((rows, columns))
    found = covariance(standardised(x), "auto")[np.triu_indices(columns, 1)]
    true = shared**2 / (1 + shared**2)
    assert 0.75 * true < np.median(found) < 1.2 * true


def test_many_rows_have_the_share_of_ledoit_and_wolf() -> None:
    """By scikit-learn's own: of standardised columns its target is the identity."""
    z = standardised(np.random.default_rng(0).standard_normal((80, 6)) @ np.triu(np.ones((6, 6))))
    np.testing.assert_allclose(79 / 80 * covariance(z, "auto"), ledoit_wolf(z)[0], atol=1e-12)
    np.testing.assert_allclose(79 / 80 * covariance(z, 0.25), 0.75 * np.corrcoef(z.T) + 0.25 * np.eye(6))


def test_what_is_too_large_is_said_and_what_is_no_share_refused(monkeypatch) -> None:
    z = standardised(np.random.default_rng(0).standard_normal((5, 8)))
    monkeypatch.setattr(module, "LARGEST", 7)
    with pytest.warns(UserWarning, match="copies of 8 columns by 5 rows are rough"):
        covariance(z, "auto")
    for wrong in (1.0, "much"):
        with pytest.raises(ValueError, match=r"shrinkage must be a number in \[0, 1\) or 'auto'"):
            covariance(z, wrong)
