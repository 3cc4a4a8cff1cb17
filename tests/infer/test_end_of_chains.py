"""A chain says when the networks that it has kept have learnt nothing."""

import warnings

import jax
import numpy as np
import pytest

import bayesprune as bp

RNG = np.random.default_rng(0)
X = RNG.standard_normal((200, 3)).astype(np.float32)
KINDS = {
    "classes": ((X[:, 0] > 0).astype(np.int32), bp.likelihoods.Categorical(), 2),
    "numbers": (X[:, :1] - X[:, 1:2], bp.likelihoods.Normal(), 1),
}


def chain(kind: str, step_size: float, num_steps: int = 300, **settings):
    y, likelihood, outputs = KINDS[kind]
    bnn = bp.BNN(
        bp.nets.MLP((8,), outputs), prior=bp.priors.Gaussian(), likelihood=likelihood, input_shape=(3,), posterior="map"
    )
    how = {"num_steps": num_steps, "num_samples": 4, "batch_size": 50, "progress": False} | settings
    return bp.fit_sgmcmc(jax.random.key(0), bnn, bp.Dataset(X, y), kernel=bp.kernels.SGHMCSPL(step_size=step_size), **how)


@pytest.mark.parametrize("kind", KINDS)
def test_a_chain_that_stays_where_it_was_says_so(kind) -> None:
    with pytest.warns(UserWarning, match="the chain has not learnt"):
        chain(kind, 1e-9)


@pytest.mark.parametrize("kind", KINDS)
def test_a_chain_that_learns_says_nothing(kind) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        chain(kind, 1.0)


def test_a_chain_that_is_cut_to_death_says_so() -> None:
    """The potential falls by what the dead weights had, so that it cannot tell."""
    with pytest.warns(UserWarning, match="or has died"):
        chain("classes", 1e-9, sparsifier=bp.methods.Magnitude(0.1), every=100)


def test_of_few_steps_nothing_is_said() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        chain("classes", 1e-9, num_steps=60)
