"""What Laplace reads as a trained network: its units, its dead weights, weights that are one number."""

import flax.linen as nn
import jax.numpy as jnp
import numpy as np
import pytest
from tests.infer import programs
from tests.infer.test_laplace import around_exact, correlated_rows, linear

import bayesprune as bp


class _OneSlope(nn.Module):
    @nn.compact
    def __call__(self, x, train=False):
        return x @ jnp.ones((4, 1)) * self.param("slope", nn.initializers.ones, ())


@pytest.mark.parametrize("curvature", ["diag", "kron", "full"])
def test_a_weight_that_is_one_number_has_its_variance(curvature, rng_key) -> None:
    data = correlated_rows()
    bnn = bp.BNN(_OneSlope(), prior=bp.priors.Gaussian(2.0), likelihood=bp.likelihoods.Normal(1.0), input_shape=(4,))
    fit = bp.laplace(rng_key, bnn, {"params": {"slope": np.float32(0.3)}}, data, curvature=curvature, prior_precision=0.7)
    node = bnn.posterior(fit.params)["slope"]
    precision = np.square(data.x.sum(1, dtype=np.float64)).sum() + 0.7
    np.testing.assert_allclose([node.loc * node.unit, node.scale * node.unit], [0.3, precision**-0.5], rtol=1e-5)


def test_a_point_at_zero_is_no_dead_weight(rng_key) -> None:
    """Biases that start at 0, around which the last layer's approximation leaves no spread."""
    data, bnn = programs.classes(), programs.small_bnn(prior=bp.priors.Gaussian())
    trained = bp.nets.MLP((8, 6), 3).init(rng_key, jnp.ones((1, 4)))
    around = bp.laplace(rng_key, bnn, trained, data, curvature="last_layer")
    first, again = (bp.laplace(rng_key, bnn, of, data, prior_precision=1.0).params for of in (trained, around))
    np.testing.assert_allclose(again["Dense_0.bias_auto_scale"], first["Dense_0.bias_auto_scale"], rtol=1e-4)  # as it was 0


def test_a_fit_of_another_prior_is_refused(rng_key) -> None:
    data, theirs = correlated_rows(), linear(prior=bp.priors.Gaussian(0.5))
    params = bp.from_trained(theirs, {"params": {"kernel": np.ones((4, 1), np.float32)}})
    with pytest.raises(ValueError, match=r"in units of 0\.5, and this network in units of 2: they are of another prior"):
        bp.laplace(rng_key, linear(), params, data)  # as its weights were four times as large
    carried = bp.laplace(rng_key, linear(), theirs.net_params(params), data)
    np.testing.assert_allclose(linear().net_params(carried.params)["params"]["kernel"], 1.0, rtol=1e-6)


@pytest.mark.parametrize("call", [bp.predict, bp.predict_draws])
def test_a_word_does_not_linearise(call, rng_key) -> None:
    bnn, data, fit = around_exact(rng_key, "diag")
    with pytest.raises(TypeError, match="linearised must be True or False, got 'no'"):
        call(rng_key, bnn, fit.params, data.x, num_samples=2, linearised="no")
