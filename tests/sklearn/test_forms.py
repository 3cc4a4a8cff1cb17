"""The forms of a network for a table, what is chosen among, and what held-out rows are good for."""

import numpy as np
import pytest
from scipy import stats
from sklearn.base import clone

import bayesprune as bp
from bayesprune.sklearn import forms
from bayesprune.sklearn.choosing import spoken_for
from bayesprune.sklearn.thresholds import fit_thresholds
from tests.sklearn.problems import NET, linear_rows

DEFAULT = forms.PRESETS["default"]
FORMED = {name: value for name, value in NET.items() if name != "hidden"} | {"hidden": (4,)}


def rows(count: int) -> np.ndarray:
    return np.random.default_rng(0).standard_normal((count, 3))


def test_what_auto_chooses_among() -> None:
    def choice(count: int = 500, form: object = "auto", share: object = "auto", steps: object = "auto", hidden=(5,)):
        return forms.read_choice(form, share, DEFAULT, steps, hidden, rows(count))

    assert choice() == forms.FormChoice(("plain", "linear", "steps", "trees"), 1, 0.2)
    assert choice(count=499) == choice(count=160) == forms.FormChoice(("plain", "linear", "steps", "trees"), 3, 0.2)
    assert choice(count=160, share=0.2) == choice()
    assert choice(count=100) == forms.FormChoice(("plain", "linear", "trees"), 3, 1 / 3)
    assert choice(count=100, share=0.2) == forms.FormChoice(("plain", "linear", "steps", "trees"), 1, 0.2)
    assert choice(count=10) == choice(count=100)
    assert choice(count=9) == forms.FormChoice(("plain",), 0, 0.0)
    assert choice(steps=100) == forms.FormChoice(("plain",), 0, 0.0) == choice(steps=100, hidden=())
    for form in ("linear", "trees"):  # they have no hidden layers in any case
        assert choice(form=form, hidden=()) == choice(form=form)
    assert choice(steps=100, share=0.3) == forms.FormChoice(("plain",), 1, 0.3)
    assert choice(form="steps", share=0) == forms.FormChoice(("steps",), 0, 0.0)
    copies = np.column_stack([rows(400), rows(400)[:, 0] + 1e-3 * rows(401)[1:, 1]])
    assert "components" in forms.read_choice("auto", "auto", DEFAULT, "auto", (5,), copies).forms
    many = np.random.default_rng(0).standard_normal((200, 200))
    wide = forms.read_choice("auto", "auto", DEFAULT, "auto", (5,), many)
    assert wide.forms == ("components", "plain", "steps", "trees")
    assert forms.read_choice("auto", 0, DEFAULT, "auto", (5,), many).forms == ("plain",)


def test_a_large_table_has_more_steps_and_thresholds() -> None:
    """In proportion to the rows from 2,000 to 8,000; "fast" stays as it is."""
    assert [DEFAULT.steps_for(n) for n in (100, 2_000, 3_000, 8_000, 10**6)] == [5_000, 5_000, 7_500, 20_000, 20_000]
    assert [forms.PRESETS["fast"].steps_for(n) for n in (100, 10**6)] == [2_000, 2_000]
    x = np.random.default_rng(0).uniform(size=(3_000, 1))
    y = np.sin(60.0 * x[:, 0])  # so many waves that every threshold pays
    found = [len(fit_thresholds(np.random.RandomState(0), x[:n], y[:n], labels=False).at) for n in (2_000, 3_000)]
    assert found == [8, 12]


def test_a_linear_network_is_the_simplest_form() -> None:
    """It is taken before the plain one where it is not behind by its mean, and larger ones must be ahead of it by an error."""
    rows = np.arange(40.0) % 3
    assert spoken_for({"plain": rows, "linear": rows + 0.01}) == "linear"
    assert spoken_for({"plain": rows, "linear": rows - 0.01}) == "plain"
    assert spoken_for({"plain": rows, "linear": rows + 0.5, "steps": rows + 0.5 + 0.2 * (rows - 0.9)}) == "linear"
    assert spoken_for({"plain": rows, "linear": rows + 0.5, "steps": rows + 1.0}) == "steps"


def test_the_linear_form_is_the_estimator_without_hidden_layers() -> None:
    x, y = linear_rows()
    one = bp.BayesianSparseRegressor(**NET | {"form": "linear"}).fit(x, y)
    other = bp.BayesianSparseRegressor(**NET | {"hidden": ()}).fit(x, y)
    np.testing.assert_array_equal(one.predict(x), other.predict(x))
    assert one.form_ == "linear"


def test_a_larger_form_must_lead_by_a_standard_error() -> None:
    """Leads of a normal law over 40 rows, by SciPy's t of pairs: some within one error of nothing, some not."""
    rng, taken = np.random.default_rng(0), set()
    for shift in np.linspace(-1.0, 1.0, 41):
        plain, steps = rng.standard_normal(40), rng.standard_normal(40) + shift
        wanted = "steps" if stats.ttest_rel(steps, plain).statistic > 1.0 else "plain"
        assert spoken_for({"plain": plain, "steps": steps, "components": np.full(40, -20.0)}) == wanted
        taken.add((wanted, bool(steps.mean() > plain.mean())))
    assert taken == {("plain", False), ("plain", True), ("steps", True)}


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"form": "wid"}, "unknown form 'wid'. Did you mean 'wide'"),
        ({"presets": "bets"}, "unknown presets 'bets'. Did you mean 'best'"),
        ({"held_out": 0.9}, "held_out must be 'auto' or lie in"),
        ({"form": "steps", "hidden": ()}, "goes with hidden layers"),
    ],
)
def test_bad_settings_are_named(settings: dict, words: str) -> None:
    x, y = linear_rows()
    with pytest.raises(ValueError, match=words):
        bp.BayesianSparseRegressor(**NET | settings).fit(x, y)


@pytest.fixture(scope="module")
def calibrated():
    x, y = linear_rows(rows=200)
    return bp.BayesianSparseRegressor(**FORMED, form="steps", held_out=0.2).fit(x, y), x, y


@pytest.mark.slow
def test_an_interval_is_the_deviation_times_one_number(calibrated) -> None:
    model, x, _ = calibrated
    mean, std, ends = model.predict(x, return_std=True, interval=0.8)
    np.testing.assert_allclose(mean, model.predict(x), atol=1e-4)
    times = (ends[:, 1] - mean) / std
    np.testing.assert_allclose(times, times[0], rtol=1e-6)
    np.testing.assert_allclose(mean - ends[:, 0], ends[:, 1] - mean, atol=1e-9)
    assert len(model._conformity) == 40 and (model._conformity[:, 0] <= times[0] + 1e-9).sum() == 33
    assert np.isinf(model.predict(x, interval=0.999)[1]).all()
    with pytest.raises(ValueError, match="interval must lie in"):
        model.predict(x, interval=90)


@pytest.mark.slow
def test_steps_are_read_of_their_columns(calibrated) -> None:
    model, x, _ = calibrated
    assert model.inputs_of(x).shape[1] > 6 == len(model.used_features_) == len(model.inclusion_probabilities_)
    assert ((model.feature_importances_ >= 0) & (model.feature_importances_ <= 1)).all()


@pytest.mark.slow
def test_without_held_out_rows_there_is_no_calibrated_interval() -> None:
    x, y = linear_rows()
    model = bp.BayesianSparseRegressor(**NET).fit(x, y)
    with pytest.raises(ValueError, match="held out no rows to calibrate by: fit with held_out"):
        model.predict(x, interval=0.9)


@pytest.mark.slow
def test_a_constant_column_has_no_living_weight_and_no_importance() -> None:
    x, y = linear_rows()
    model = bp.BayesianSparseRegressor(**NET).fit(np.column_stack([x, np.ones(len(x))]), y)
    assert not model.mask_["Dense_0.kernel"][-1].any() and model.inclusion_probabilities_[-1] == 0
    assert not model.used_features_[-1] and model.feature_importances_[-1] == 0


@pytest.mark.slow
def test_sets_of_classes_cover_new_rows_at_their_level() -> None:
    """By 400 held-out rows coverage is .9 ± .015, and 2,000 rows count it to ± .007: four such deviations."""
    rng = np.random.default_rng(0)
    x = rng.standard_normal((4000, 3))
    y = np.where(rng.random(4000) < 1 / (1 + np.exp(-2 * x[:, 0])), "up", "down")
    model = bp.BayesianSparseClassifier(**FORMED, held_out=0.2).fit(x[:2000], y[:2000])
    sets = model.predict_set(x[2000:], level=0.9)
    covered = sets[np.arange(2000), np.searchsorted(model.classes_, y[2000:])]
    assert abs(covered.mean() - 0.9) < 0.066 and clone(model).held_out == 0.2


@pytest.mark.every  # a default fit by thirds of its rows: minutes of a core; a class of two rows goes the same road
@pytest.mark.slow
def test_few_rows_judge_one_after_another() -> None:
    """What 60 columns say of two small factors, by 90 rows: R² of new rows .991 by a simpler form than the plain one, .984."""
    rng = np.random.default_rng(0)
    factors = rng.standard_normal((1090, 4))
    sizes = np.array([[10.0], [3.0], [1.0], [0.3]])
    x = factors @ (sizes * rng.standard_normal((4, 60))) + 0.01 * rng.standard_normal((1090, 60))
    y = factors[:, 3] + 0.5 * factors[:, 2] + 0.1 * rng.standard_normal(1090)
    model = bp.BayesianSparseRegressor(random_state=0).fit(x[:90], y[:90])
    assert model.form_ in ("linear", "components") and model.score(x[90:], y[90:]) > 0.97
    _, ends = model.predict(x[90:], interval=0.9)
    covered = np.mean((ends[:, 0] <= y[90:]) & (y[90:] <= ends[:, 1]))
    assert covered > 0.8  # .85: of 90 rows coverage is .9 ± .03, and 1,000 rows count it to ± .01


@pytest.mark.slow
def test_a_class_of_two_rows_may_be_missing_from_those_that_are_fitted() -> None:
    rng = np.random.default_rng(0)
    x, y = rng.standard_normal((100, 2)), np.array(["common"] * 98 + ["rare"] * 2)
    model = bp.BayesianSparseClassifier(random_state=0).fit(x, y)
    assert np.isfinite(np.log(model.predict_proba(x))).all() and model.predict_set(x).any(axis=1).all()
