"""The estimator as one network of the table's own columns, in the units of y."""

import jax
import numpy as np
import pytest

import bayesprune as bp
from bayesprune.data.scaling import Scaling
from bayesprune.deploy import reader
from bayesprune.model.likelihoods.masked import of_observed
from bayesprune.sklearn import forms, network, whole
from bayesprune.sklearn.columns import fit_columns
from bayesprune.sklearn.thresholds import Thresholds

SETTINGS = {"hidden": (6,), "num_steps": 200, "num_samples": 20, "random_state": 0}
NAMES = ("a", "b", "c", "d", "e")
FORMS = ("components", "steps", "plain", "wide")


def table(rows: int = 200) -> tuple[np.ndarray, np.ndarray]:
    """Columns far from zero and of other sizes, one of them constant and one with a far number; y in hundreds."""
    rng = np.random.default_rng(0)
    x = rng.standard_normal((rows, 5)) * [1.0, 20.0, 0.01, 3.0, 0.0] + [0.0, 500.0, 2.0, -7.0, 4.0]
    x[0, 3] = 90.0
    return x, 300.0 + 50.0 * (x[:, 0] > 0.3) + 2.0 * (x[:, 1] - 500.0) + rng.standard_normal(rows)


@pytest.mark.parametrize("form", FORMS)
def test_what_is_read_is_what_the_columns_are_on_the_host(form: str) -> None:
    """Single precision beside double: a thousandth of a deviation, but for a row whose number lies at a threshold."""
    x, _ = table()
    cuts = Thresholds(np.array([0, 1, 1]), np.array([0.3, 480.0, 520.0]))
    of = forms.FORMS[form]
    columns = fit_columns(x, cuts=cuts, components=of.components).only(of.steps, of.components, of.wide)
    read = whole.Ends(columns, bp.data.Scaling(0.0, 1.0)).inputs(jax.numpy.asarray(x, "float32"))
    np.testing.assert_allclose(read, columns.apply(x), atol=1e-3)
    whole.check_single(columns, x, NAMES)


def test_components_that_stand_alone_are_those_of_the_host() -> None:
    x = table(40)[0][:5]
    columns = fit_columns(x, components=True).only(steps=False, components=True, clipped=True)
    read = whole.Ends(columns, bp.data.Scaling(0.0, 1.0)).inputs(jax.numpy.asarray(x, "float32"))
    assert columns.alone and read.shape == (5, 4)
    np.testing.assert_allclose(read, columns.apply(x), atol=1e-3)


def test_a_column_that_single_precision_cannot_tell_is_named() -> None:
    x, _ = table()
    x[:, 2] = 1.7e9 + np.arange(len(x))
    with pytest.raises(ValueError, match="column c of X cannot be read in single precision"):
        whole.check_single(fit_columns(x), x, NAMES)


@pytest.mark.parametrize(("loc", "scale"), [(-76_000.0, 0.02), (1.7e9, 60.0), (0.0, 1e60), (1e-50, 1e-50), (0.0, [1.0, 1e40])])
def test_targets_that_single_precision_rounds_away_are_refused(loc: float, scale: float) -> None:
    """Predictions of 1.7e9 ± 60 were three numbers by the compact network, and R² -2.8 of its draws."""
    units = bp.data.Scaling(np.asarray(loc), np.asarray(scale))
    with pytest.raises(ValueError, match=r"y lies about .* subtract a constant from y before the fit, or divide it"):
        whole.check_single_target(units)
    whole.check_single_target(bp.data.Scaling(np.asarray([1e6, -3.0]), np.asarray([100.0, 1e-3])))


@pytest.mark.slow
def test_three_factors_of_three_hundred_columns_are_foreseen_by_their_components(tmp_path) -> None:
    """R² of 1,000 new rows: .92 by components, .75 by the columns, one key; and its compact network is the same function."""
    rng = np.random.default_rng(0)
    factors = rng.standard_normal((1160, 3))
    x = factors @ rng.standard_normal((3, 300)) + 3.0 * rng.standard_normal((1160, 300))
    y = factors[:, 0] - factors[:, 1] + 0.3 * rng.standard_normal(1160)
    settings = SETTINGS | {"num_steps": 1500}
    model = bp.BayesianSparseRegressor(**settings, form="components").fit(x[:160], y[:160])
    plain = bp.BayesianSparseRegressor(**settings, form="plain").fit(x[:160], y[:160])
    assert model.score(x[160:], y[160:]) > 0.85 > 0.05 + plain.score(x[160:], y[160:])
    assert model.used_features_.all() and model.inputs_of(x).shape == (1160, 24)
    small = model.compact(keep="mean")
    assert np.corrcoef(small.predict(x[160:]), model.predict(x[160:]))[0, 1] > 0.99


@pytest.mark.slow
@pytest.mark.slow_cases(1)
@pytest.mark.parametrize("form", FORMS)
def test_a_regressor_is_the_same_function(form: str, tmp_path) -> None:
    """The same networks, drawn with the same key, in y's units; the certificate holds; NumPy alone reads the file."""
    x, y = table()
    model = bp.BayesianSparseRegressor(**SETTINGS, form=form).fit(x, y)
    bnn, key = whole.whole(model._network, model._columns, model._target_scaling), jax.random.key(3)
    mine = bp.predict_draws(key, bnn, model.params_, np.asarray(x, np.float32), mask=model.mask_, num_samples=5)
    inner = bp.predict_draws(key, model.bnn_, model.params_, model.inputs_of(x), mask=model.mask_, num_samples=5)
    np.testing.assert_allclose(mine, np.asarray(inner) * y.std() + y.mean(), atol=2e-4 * y.std())
    for keep in ("posterior", "mean"):
        small = model.compact(keep=keep)
        assert small.certify().holds
        # Twenty networks are other twenty than those of predict: their means are a fraction of their spread apart.
        spread = model.predict_draws(x).std(0) + 0.02 * y.std()
        assert (np.abs(np.asarray(small.predict(x)).reshape(-1) - model.predict(x)) < 3.0 * spread).all()
    small.save(tmp_path / "net.bayesprune")
    read = reader.predict(*reader.load(tmp_path / "net.bayesprune"), x.astype(np.float32))
    np.testing.assert_allclose(read, small.predict(x), rtol=1e-5)


@pytest.mark.slow
@pytest.mark.slow_cases(1)
@pytest.mark.parametrize("form", ["steps", "plain"])
def test_a_classifier_gives_its_classes_calibrated(form: str) -> None:
    x, y = table()
    labels = np.array(["low", "mid", "high"])[np.digitize(y, [290.0, 330.0])]
    model = bp.BayesianSparseClassifier(**SETTINGS, form=form, held_out=0.2).fit(x, labels)
    small = model.compact(num_draws=200)
    found = np.asarray(small.predict(x))
    assert model.temperature_ != 1.0 and small.certify().holds and found.shape == (len(x), 3)
    np.testing.assert_allclose(found, model.set_params(num_samples=200).predict_proba(x), atol=0.15)
    assert np.abs(found - model.predict_proba(x)).mean() < 0.02


@pytest.mark.slow
def test_noise_is_in_the_units_of_y() -> None:
    """One and two outputs, and a given noise: the compact network's noise is the regressor's."""
    x, y = table()
    for targets in (y, np.column_stack([y, 1000.0 * y])):
        model = bp.BayesianSparseRegressor(**SETTINGS, likelihood="normal").fit(x, targets)
        noise = np.sqrt(model._noise_variance(x)) * model._target_scaling.scale
        np.testing.assert_allclose(np.ravel(model.compact(keep="mean").noise_scale), np.ravel(noise), rtol=0.02)
    given = bp.BayesianSparseRegressor(**SETTINGS, likelihood=bp.likelihoods.Normal(scale=0.1)).fit(x, y)
    np.testing.assert_allclose(given.compact(keep="mean").noise_scale, 0.1 * given._target_scaling.scale[0])


def test_a_given_noise_is_in_the_units_of_y() -> None:
    two = Scaling(np.zeros(2), np.array([3.0, 4.0]))
    for given in (bp.likelihoods.Normal(scale=0.5), bp.likelihoods.Masked(bp.likelihoods.Normal(scale=0.5))):
        recipe = network.NetworkRecipe((4,), "relu", bp.priors.Flat(), given, 3, 1)
        found, params = whole.in_units(recipe, {}, Scaling(np.zeros(1), np.array([200.0])))
        assert of_observed(found.likelihood).scale == 100.0 and type(found.likelihood) is type(given) and not params
        with pytest.raises(ValueError, match="one noise for several outputs has no one size"):
            whole.in_units(recipe, {}, two)


@pytest.mark.slow
def test_what_has_no_such_network_is_refused_with_a_remedy() -> None:
    x, y = table()
    model = bp.BayesianSparseRegressor(**SETTINGS | {"num_steps": 20}, likelihood="predicted_noise").fit(x, y)
    with pytest.raises(ValueError, match=r"compact bp\.compact\(model\.bnn_"):
        model.compact()
    two = bp.BayesianSparseRegressor(**SETTINGS | {"num_steps": 20}, likelihood="predicted_noise")
    with pytest.raises(ValueError, match=r"compact bp\.compact\(model\.bnn_"):
        two.fit(x, np.column_stack([y, y])).compact(keep="mean")
    with pytest.raises(ValueError, match="keep must be one of"):
        bp.BayesianSparseRegressor(**SETTINGS | {"num_steps": 20}).fit(x, y).compact(keep="draws")
    with pytest.raises(Exception, match="not fitted"):
        bp.BayesianSparseRegressor().compact()
