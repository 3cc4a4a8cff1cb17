"""A sampler as one new file: stochastic gradient Langevin dynamics is a kernel, and `fit_svi` runs it as it stands.

  w <- w - (eps/2) grad U(w) + sqrt(eps) xi,   U = -log p(y, w),   xi ~ N(0, 1).

Source: Welling and Teh (2011). With all rows in every batch and a Gaussian U of precision H its stationary covariance is
(H (1 - eps H / 4))^-1, which is what is tested here, not the posterior's own H^-1.
"""

from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import linen

import bayesprune as bp
from bayesprune.train.kernel import Kernel
from tests.infer import programs


class Sums(NamedTuple):
    """Sums over the samples so far, parameter by parameter."""

    first: dict[str, jax.Array]
    second: dict[str, jax.Array]


@dataclass(frozen=True)
class SGLD:
    """The step above, of size ``step_size``. Its state has the sums of w and of w²."""

    step_size: float

    def init(self, params) -> Sums:
        zeros = jax.tree.map(jnp.zeros_like, params)
        return Sums(zeros, zeros)

    def step(self, rng_key, gradient, params, state) -> tuple[dict[str, Any], Sums]:
        keys = dict(zip(params, jax.random.split(rng_key, len(params)), strict=True))
        noise = {name: jax.random.normal(keys[name], value.shape) for name, value in params.items()}
        drift = jax.tree.map(lambda w, g: w - self.step_size / 2 * g, params, gradient)
        params = jax.tree.map(lambda w, xi: w + self.step_size**0.5 * xi, drift, noise)
        return params, Sums(*(jax.tree.map(lambda s, w, p=p: s + w**p, s, params) for p, s in enumerate(state, start=1)))

    def moments(self, state):
        return state._asdict()

    def with_moments(self, state, moments) -> Sums:
        return Sums(**moments)


EPS, STEPS, PRIOR_SCALE = 0.002, 20_000, 0.8


@pytest.mark.slow
def test_its_samples_are_those_of_the_exact_posterior(rng_key) -> None:
    data, _ = programs.line()
    net = linen.Dense(1, use_bias=False)
    bnn = bp.BNN(
        net, prior=bp.priors.Gaussian(PRIOR_SCALE), likelihood=bp.likelihoods.Normal(programs.NOISE), input_shape=3,
        posterior="map", prunable=lambda path, shape: True,
    )  # fmt: skip
    sampler = SGLD(EPS)
    fit = bp.fit_svi(rng_key, bnn, data, num_steps=STEPS, optimizer=sampler, init_params={"kernel_map_loc": np.zeros((3, 1))})
    sums = fit.state.optim_state[1][1]
    mean, square = (np.asarray(s["kernel_map_loc"], np.float64)[:, 0] / STEPS for s in sums)

    # By linear algebra, in the coordinates of the posterior, w / PRIOR_SCALE.
    x = np.asarray(data.x, np.float64) * PRIOR_SCALE
    precision = x.T @ x / programs.NOISE**2 + np.eye(3)
    exact = np.linalg.solve(precision, x.T @ np.asarray(data.y, np.float64) / programs.NOISE**2)
    covariance = np.linalg.inv(precision @ (np.eye(3) - EPS * precision / 4))
    # Autocovariances A^k C, A = 1 - eps H / 2, give the variances of both means over a chain of this length.
    decay, lagged, of_mean, of_square = np.eye(3) - EPS * precision / 2, covariance, 0.0, 0.0
    for lag in range(2_000):
        weight = (1 if lag == 0 else 2) / STEPS
        of_mean = of_mean + weight * np.diag(lagged)
        of_square = of_square + weight * 2 * np.diag(lagged) ** 2
        lagged = decay @ lagged
    # Six numbers at five standard errors: a right sampler fails with a chance of 4e-6. The way in from 0 moves them by less.
    assert np.all(np.abs(mean - exact) < 5 * np.sqrt(of_mean))
    variance = square - 2 * mean * exact + exact**2  # about the exact mean
    assert np.all(np.abs(variance - np.diag(covariance)) < 5 * np.sqrt(of_square))
    assert np.all(5 * np.sqrt(of_square) < 0.2 * np.diag(covariance)), "the test could not fail"


@pytest.mark.slow
def test_its_noise_is_new_at_every_step_and_the_same_for_the_same_key(rng_key) -> None:
    data, _ = programs.line()
    seen = []

    @dataclass(frozen=True)
    class Keys(SGLD):
        def init(self, params):
            return jnp.zeros((4, 2), jnp.uint32), jnp.zeros((), jnp.int32)

        def step(self, rng_key, gradient, params, state):
            keys, number = state
            return params, (keys.at[number].set(jax.random.key_data(rng_key)), number + 1)

        def moments(self, state):
            return {}

        def with_moments(self, state, moments):
            return state

    for _ in range(2):
        fit = bp.fit_svi(rng_key, programs.linear_program(), data, num_steps=4, optimizer=Keys(0.1))
        seen.append(np.asarray(fit.state.optim_state[1][1][0]))
    assert len({tuple(key) for key in seen[0]}) == 4
    np.testing.assert_array_equal(*seen)


def test_it_is_a_kernel() -> None:
    assert isinstance(SGLD(0.1), Kernel)
    with pytest.raises(AttributeError, match="no kernel 'Newton'"):
        _ = bp.kernels.Newton
