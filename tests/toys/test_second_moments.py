"""A posterior from an optimiser's second moments as one new file: the scale is written by the kernel, not descended to.

By Bonnet's and Price's theorems, with w = loc + scale eps and L the negative ELBO against a Gaussian prior,

  E[dL/dscale] = scale E[U''(w)] - 1/scale,   so   h = (dL/dscale + 1/scale) / scale   estimates E[U''(w)],

the precision of the best Gaussian. Its running mean is the optimiser's second moment: scale = h^-1/2, loc <- loc - rate g / h.
A variational online Newton method in the spirit of Khan et al. (2018) and of IVON (Shen et al. 2024).
"""

from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import bayesprune as bp
from tests.infer import programs

LOC, SCALE = "_auto_loc", "_auto_scale"


@dataclass(frozen=True)
class SecondMoments:
    """Newton steps of loc by ``rate``; the curvature is averaged with ``decay``. Parameters of other names stay as they are."""

    rate: float = 0.05
    decay: float = 0.995

    def init(self, params) -> dict[str, jax.Array]:
        return {name: jax.nn.softplus(raw) ** -2 for name, raw in params.items() if name.endswith(SCALE)}

    def step(self, rng_key, gradient, params, state) -> tuple[dict[str, Any], dict[str, jax.Array]]:
        params, state = dict(params), dict(state)
        for name, h in state.items():
            loc, raw = name.removesuffix(SCALE) + LOC, params[name]
            scale = jax.nn.softplus(raw)  # parameters are unconstrained
            slope = gradient[name] / jax.nn.sigmoid(raw)
            h = self.decay * h + (1 - self.decay) * jnp.maximum((slope + 1 / scale) / scale, 0.0)
            state[name], params[name] = h, jnp.log(jnp.expm1(h**-0.5))
            params[loc] = params[loc] - self.rate * gradient[loc] / h
        return params, state

    def moments(self, state):
        return {"precision": state}

    def with_moments(self, state, moments):
        return moments["precision"]


@pytest.mark.slow
def test_it_finds_the_exact_mean_field_posterior(rng_key) -> None:
    data, _ = programs.line()
    loc, scale, _ = programs.best_mean_field(data, prior_scale=2.0)
    fit = bp.fit_svi(rng_key, programs.linear_program(2.0), data, num_steps=2_000, optimizer=SecondMoments(), num_particles=8)
    # loc moves about its mean by sqrt(rate / (2 * 8)) = .06 scales, h by .04 of itself: a fixed key, at seven such deviations.
    np.testing.assert_allclose(fit.params["w_auto_loc"], loc, atol=0.4 * scale.min())
    np.testing.assert_allclose(fit.params["w_auto_scale"], scale, rtol=0.15)
    assert np.abs(0.1 / scale - 1).min() > 0.15, "it started where it should end"


@pytest.mark.slow
def test_its_moments_follow_an_exchange_of_weights(rng_key) -> None:
    """Vectors of the alive weights, in the state as in the parameters."""
    bnn, data = programs.small_bnn(prior=bp.priors.Gaussian(0.5)), programs.classes()
    fit = bp.fit_svi(
        rng_key, bnn, data, num_steps=5, optimizer=SecondMoments(), sparsifier=bp.methods.SSVI(0.4), every=2, storage="active"
    )
    params, state = fit.state.optim_state[1]
    assert fit.history["prune/num_grown"].sum() > 0
    for name, precision in state.items():
        np.testing.assert_allclose(jax.nn.softplus(params[name]) ** -2, precision, rtol=1e-4)
