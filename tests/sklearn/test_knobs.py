"""Knobs of methods, priors and likelihoods under the names that scikit-learn's searches give them."""

import numpyro.distributions as dist
import pytest
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline

import bayesprune as bp
from tests.sklearn.problems import LINEAR, linear_rows


def classifier(**settings):
    return bp.BayesianSparseClassifier(method=bp.methods.SNR(0.3), **settings)


def test_knobs_are_listed_where_they_are_asked_for():
    model = classifier(prior=bp.priors.GaussianSlab(), likelihood="auto")
    deep, flat = model.get_params(), model.get_params(deep=False)
    assert deep["method__density"] == 0.3 and deep["method__scope"] == "global"
    assert {name for name in deep if name.startswith("prior__")} == {
        "prior__spike_scale", "prior__slab_scale", "prior__slab_probability",
    }  # fmt: skip
    assert not any("__" in name for name in flat) and flat.items() <= deep.items()


def test_a_knob_that_is_set_puts_another_object_in_the_place_of_the_one_that_was_given():
    given, copy = classifier(), clone(classifier())
    first = copy.method
    assert copy.set_params(method__density=0.2, num_steps=7) is copy
    assert copy.method == bp.methods.SNR(0.2) and copy.num_steps == 7
    assert first == given.method == bp.methods.SNR(0.3)
    assert clone(copy).get_params() == copy.get_params()


def test_an_object_goes_before_its_knobs_and_they_go_together():
    """A density and a threshold exclude one another: one at a time, either order would be refused."""
    model = bp.BayesianSparseRegressor().set_params(prior__slab_scale=0.5, prior=bp.priors.GaussianSlab())
    assert model.prior == bp.priors.GaussianSlab(slab_scale=0.5)
    model.set_params(method=bp.methods.Cut("snr", density=0.5)).set_params(method__threshold=1.0, method__density=None)
    assert model.method == bp.methods.Cut("snr", threshold=1.0)


def test_knobs_of_objects_within_objects():
    cut = bp.methods.SNR(bp.schedules.Cubic(0.1, begin=0.2, end=0.8))
    model = bp.BayesianSparseRegressor(method=cut)
    assert model.get_params()["method__density__final_density"] == 0.1
    assert model.set_params(method__density__final_density=0.3).method.density == bp.schedules.Cubic(0.3, begin=0.2, end=0.8)
    learned = {"scale": dist.Gamma(2.0, 2.0)}
    custom = bp.likelihoods.Custom(lambda f, scale: dist.Laplace(f[..., 0], scale), learned=learned)
    other = {"scale": dist.Gamma(3.0, 2.0)}
    model = bp.BayesianSparseRegressor(likelihood=custom).set_params(likelihood__learned=other)
    assert model.likelihood.learned is other and model.likelihood.fn is custom.fn


def test_knobs_of_the_estimator_of_a_selector_and_of_a_step_in_a_pipeline():
    selector = bp.BayesianFeatureSelector(classifier()).set_params(estimator__method__density=0.2, estimator__num_steps=5)
    assert selector.estimator.method == bp.methods.SNR(0.2) and selector.estimator.num_steps == 5
    pipeline = make_pipeline(classifier()).set_params(bayesiansparseclassifier__method__scope="layer")
    assert pipeline[0].method == bp.methods.SNR(0.3, scope="layer")


@pytest.mark.parametrize(
    ("params", "words"),
    [
        ({"methd__density": 0.1}, "Invalid parameter 'methd' for estimator"),
        ({"method__denstiy": 0.1}, r"Invalid parameter 'denstiy' for method=SNR.*Valid parameters are: \['density', 'scope'\]"),
        ({"method__density__final": 0.1}, "method__density__final cannot be set, as method__density=0.3 has no knobs"),
        (
            {"prior__slab_scale": 0.1},
            "prior__slab_scale cannot be set, as prior='auto' has no knobs: give prior= an object first",
        ),
        ({"method__density": 5.0}, r"density must lie in \(0, 1\], got 5.0"),
    ],
)
def test_what_is_no_knob_is_refused(params, words):
    with pytest.raises(ValueError, match=words):
        classifier().set_params(**params)


@pytest.mark.slow
def test_a_grid_search_over_a_knob():
    x, y = linear_rows()
    model = bp.BayesianSparseRegressor(**LINEAR, method=bp.methods.SNR(1.0))
    search = GridSearchCV(model, {"method__density": [1 / 7, 4 / 7]}, cv=2).fit(x, y)
    assert search.best_params_ == {"method__density": 4 / 7}
    assert search.best_estimator_.density_ == pytest.approx(4 / 7)
