"""Targets with gaps: every column is fitted, scaled and judged by the rows that have it."""

import numpy as np
import pandas as pd
import pytest

import bayesprune as bp
from bayesprune.sklearn import gaps, network
from tests.sklearn.problems import LINEAR, linear_rows

X, _ = linear_rows(rows=200, features=3, relevant=3)
Y = X @ np.array([[1.0, 0.0], [-1.0, 5.0], [0.5, 5.0]]) + np.array([0.1, 100.0])
Y = Y + np.array([0.3, 1.0]) * np.random.default_rng(1).standard_normal(Y.shape)
GAPS = np.random.default_rng(2).random(Y.shape) < np.array([0.1, 0.6])
WITH = np.where(GAPS, np.nan, Y)


@pytest.fixture(scope="module")
def fitted():
    return bp.BayesianSparseRegressor(**LINEAR).fit(X, WITH)


@pytest.mark.slow
def test_the_columns_are_found_from_what_is_there(fitted):
    """R² of the truth is .96 and .98; standard deviations of the residuals within a fifth, of 80 rows a tenth is one."""
    mean, std = fitted.predict(X, return_std=True)
    assert fitted.score(X, Y) > 0.94 and fitted.score(X, WITH) > 0.94
    for place in range(2):
        observed = WITH[~GAPS[:, place], place]
        assert fitted._target_scaling.loc[place] == pytest.approx(observed.mean())
        assert np.sqrt(np.mean((mean - Y)[:, place] ** 2)) == pytest.approx(std[:, place].mean(), rel=0.35)
    density = fitted.log_density(X, WITH)
    alone = ~GAPS.any(1)
    np.testing.assert_allclose(density[alone], fitted.log_density(X, Y)[alone], rtol=1e-4)
    assert (density[GAPS.all(1)] == 0).all() and np.isfinite(density).all()


@pytest.mark.slow
def test_a_number_may_stand_for_what_is_missing(fitted):
    likelihood = bp.likelihoods.Masked(network.LEARNED_NOISE, missing=-999)
    other = bp.BayesianSparseRegressor(**LINEAR, likelihood=likelihood).fit(X, np.where(GAPS, -999.0, Y))
    np.testing.assert_array_equal(other.predict(X), fitted.predict(X))


def test_what_cannot_be_left_out_is_refused():
    one = WITH.copy()
    one[:, 1] = np.r_[1.0, np.full(199, np.nan)]
    with pytest.raises(ValueError, match=r"column 1 of y has 1 target\(s\)"):
        bp.BayesianSparseRegressor(**LINEAR).fit(X, one)
    for bad in (WITH[:, 0], np.where(GAPS, np.inf, Y)):
        with pytest.raises(ValueError, match=r"NaN|infinity"):
            bp.BayesianSparseRegressor(**LINEAR).fit(X, bad)


@pytest.mark.parametrize("missing", [np.nan, -999])
def test_a_gap_in_the_only_column_is_refused_whatever_stands_for_it(missing):
    """Its mask would be lost, and the number be learned."""
    model = bp.BayesianSparseRegressor(
        **LINEAR, form="plain", likelihood=bp.likelihoods.Masked(bp.likelihoods.Normal(), missing=missing)
    ).set_params(num_steps=5)
    given = np.where(GAPS[:, 0], missing, Y[:, 0])
    told = rf"{GAPS[:, 0].sum()} of its 200 targets are missing \(.*{missing}\): leave these rows out"
    for y in (given, given[:, None]):
        with pytest.raises(ValueError, match=f"(?i){told}"):
            model.fit(X, y)
    model.fit(X, Y[:, 0])
    for said_of in (model.score, model.log_density):
        with pytest.raises(ValueError, match=f"(?i){told}"):
            said_of(X, given)


@pytest.mark.slow
def test_scores_know_the_number_that_stands_for_a_gap():
    likelihood = bp.likelihoods.Masked(bp.likelihoods.Normal(), missing=-999)
    model = bp.BayesianSparseRegressor(**LINEAR | {"num_steps": 20}, form="plain", likelihood=likelihood)
    marked = np.where(GAPS, -999.0, Y)
    with pytest.raises(ValueError, match="the targets of the fit had none: leave the rows with gaps out"):
        model.fit(X, Y).log_density(X, marked)
    model.fit(X, marked)
    assert model.score(X, marked) == model.score(X, WITH)
    np.testing.assert_array_equal(model.log_density(X, marked), model.log_density(X, WITH))


def test_whole_targets_have_no_mask():
    assert gaps.gaps_in(Y) is None and gaps.gaps_in(Y[:, 0]) is None and gaps.gaps_in(["a", "b"]) is None
    assert gaps.masked(bp.likelihoods.Masked(bp.likelihoods.Poisson()), None) == bp.likelihoods.Poisson()


@pytest.mark.every
@pytest.mark.slow
def test_outputs_that_share_no_rows_are_fitted_without_a_forest() -> None:
    apart = np.where(np.column_stack([np.arange(200) % 2 == 0, np.arange(200) % 2 == 1]), np.nan, Y)
    model = bp.BayesianSparseRegressor(hidden=(4,), num_samples=10, random_state=0).fit(X, apart)
    assert model.score(X, Y) > 0.9 and "steps" not in model.weights_


FRAME = pd.DataFrame(WITH, columns=["a", "b"])
TYPES = {
    "float64": FRAME,
    "None": FRAME.astype(object).where(FRAME.notna(), None),
    "NA": FRAME.astype(object).where(FRAME.notna(), pd.NA),
    "Float64": FRAME.astype("Float64"),
    "one of each": FRAME.astype({"a": "Float64"}),
    "arrow": FRAME.astype("double[pyarrow]"),
}


@pytest.mark.parametrize("kind", TYPES)
def test_gaps_are_the_same_in_frames_of_every_type(kind: str) -> None:
    pytest.importorskip("pyarrow")
    y = TYPES[kind]
    found = gaps.gaps_in(y)
    np.testing.assert_array_equal(found, GAPS)
    np.testing.assert_array_equal(gaps.without(y, found), np.where(GAPS, 0.0, Y))
    for one in (y["b"], y[["b"]]):
        with pytest.raises(ValueError, match=rf"y is one column, and {GAPS[:, 1].sum()} of its 200 targets are missing"):
            gaps.gaps_in(one)


def test_texts_and_dates_with_gaps_are_no_numbers() -> None:
    pytest.importorskip("pyarrow")
    days, texts = (pd.DataFrame(np.where(GAPS, None, text), columns=["a", "b"]) for text in ("2020-01-01", "7"))
    for y in (texts, texts.astype("string"), days.astype("M8[s]")):
        with pytest.raises(ValueError, match=r"y holds (texts|dates)"):
            bp.BayesianSparseRegressor(**LINEAR).fit(X, y)
    assert gaps.gaps_in(days.astype("M8[s]")) is None and gaps.gaps_in(days.astype("timestamp[s][pyarrow]")) is None


def test_a_frame_with_gaps_is_fitted_and_judged_as_an_array_is() -> None:
    pytest.importorskip("pyarrow")
    model = bp.BayesianSparseRegressor(**LINEAR | {"num_steps": 20}, form="plain").fit(X, WITH)
    other = bp.BayesianSparseRegressor(**LINEAR | {"num_steps": 20}, form="plain").fit(X, TYPES["arrow"])
    np.testing.assert_array_equal(other.predict(X), model.predict(X))
    assert other.score(X, TYPES["arrow"]) == model.score(X, WITH)
    np.testing.assert_array_equal(other.log_density(X, TYPES["Float64"]), model.log_density(X, WITH))


def test_targets_that_reach_too_far_for_single_precision_are_scaled_by_their_deviation() -> None:
    y = 10.0 ** np.linspace(-44, 50, 200)[:, None]
    scaled = gaps.scaling_of(y, robust=True).apply(y)
    assert np.isfinite(np.square(scaled.astype(np.float32))).all()
    near = np.random.default_rng(0).standard_t(2.0, (500, 1))
    low, high = np.quantile(near, (0.25, 0.75))
    np.testing.assert_allclose(gaps.scaling_of(near, robust=True).scale, (high - low) / 1.349, rtol=1e-3)
