"""Which likelihoods a compact network has the figures of; of the others it has the mean, and says so."""

import jax
import numpy as np
import pytest

import bayesprune as bp
from tests.deploy.fits import DATA
from tests.infer.programs import small_bnn
from tests.infer.test_predict import start

KEY = jax.random.key(0)
MEANS = {
    "counts": (bp.likelihoods.Poisson(), 1, np.arange(90) % 4),
    "predicted noise": (bp.likelihoods.Normal("predicted"), 2, DATA.x[:, 0]),
}


@pytest.mark.fast_cases(1)
@pytest.mark.parametrize("case", MEANS)
def test_of_a_likelihood_that_is_not_held_the_mean_is_the_same_and_figures_are_refused(case) -> None:
    likelihood, outputs, y = MEANS[case]
    bnn = bp.BNN(
        bp.nets.MLP((4,), outputs), prior=bp.priors.Gaussian(0.3), likelihood=likelihood, input_shape=(4,), posterior="map"
    )
    params = start(bnn)
    small = bp.compact(bnn, params, keep="mean")
    mean = bp.predict(KEY, bnn, params, DATA.x, num_samples=1)
    np.testing.assert_allclose(small.predict(DATA.x), mean, rtol=1e-4, atol=1e-5)
    with pytest.raises(TypeError, match="holds the mean of y, not its distribution"):
        bp.evaluate(KEY, small, None, bp.Dataset(DATA.x, y))
    with pytest.raises(TypeError, match="Compact holds the mean of y"):
        bp.sample_targets(KEY, small, None, DATA.x)


def test_a_mean_that_asks_for_more_than_outputs_is_refused() -> None:
    net = bp.nets.MLP((), 1)
    bnn = bp.BNN(net, prior=bp.priors.Gaussian(), likelihood=bp.likelihoods.Ordinal(3), input_shape=(4,), posterior="map")
    with pytest.raises(ValueError, match="the mean of Ordinal asks for cut_gaps"):
        bp.compact(bnn, start(bnn), keep="mean")


@pytest.mark.slow
def test_binary_labels_have_the_figures_of_the_network() -> None:
    y = (DATA.x[:, :3] > 0).astype(np.int32)
    bnn = small_bnn(likelihood=bp.likelihoods.Bernoulli(), prior=bp.priors.Gaussian(0.3))
    params = start(bnn)
    small = bp.compact(bnn, params, keep="mean")
    sure = {name: jax.numpy.zeros_like(value) if name.endswith("_scale") else value for name, value in params.items()}
    figures = bp.evaluate(KEY, bnn, sure, bp.Dataset(DATA.x, y), num_samples=1)
    assert bp.evaluate(KEY, small, None, bp.Dataset(DATA.x, y), num_samples=1) == pytest.approx(figures, rel=1e-3)
