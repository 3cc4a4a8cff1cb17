"""A network of no library, two pure functions in this one file: fitted, pruned, predicted with and made smaller."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import bayesprune as bp
from bayesprune.model.adapters import Net

ROWS, INPUTS, UNITS = 80, 5, 6
X = np.random.default_rng(0).normal(size=(ROWS, INPUTS)).astype(np.float32)
DATA = bp.Dataset(X, np.tanh(2 * X[:, 0]))


def init(rng_key):
    one, two = jax.random.split(rng_key)
    kernels = {"first.kernel": jax.random.normal(one, (INPUTS, UNITS)), "last.kernel": jax.random.normal(two, (UNITS, 1))}
    return kernels | {"first.bias": jnp.zeros(UNITS)}, {}


def apply(params, state, x, train, rng_key):
    return jnp.tanh(x @ params["first.kernel"] + params["first.bias"]) @ params["last.kernel"], state


NET = Net(init, apply, own=lambda params, state: params, random_start=True)


def bnn_of(net: Net) -> bp.BNN:
    return bp.BNN(net, prior=bp.priors.Gaussian(), likelihood=bp.likelihoods.Normal(0.1), input_shape=(INPUTS,))


def test_its_layers_are_found() -> None:
    found = [(str(spec.path), spec.shape, spec.prunable) for spec in bnn_of(NET).layout]
    assert found == [("first.kernel", (5, 6), True), ("first.bias", (6,), True), ("last.kernel", (6, 1), False)]
    assert bnn_of(NET) == bnn_of(NET)


def test_words_for_a_module_are_refused() -> None:
    with pytest.raises(ValueError, match=r"apply_kwargs are for a module's call, got .* with a Net: set them in its apply"):
        bp.BNN(
            NET,
            prior=bp.priors.Flat(),
            likelihood=bp.likelihoods.Normal(),
            input_shape=(INPUTS,),
            apply_kwargs={"train": False},
        )


@pytest.mark.slow
def test_it_goes_all_the_way(rng_key) -> None:
    bnn = bnn_of(NET)
    fit = bp.fit_svi(rng_key, bnn, DATA, num_steps=300, progress=False)
    pruned = bp.bmr_prune(fit.params)
    assert 0 < pruned.info.num_alive < 36
    means = bnn.net_params(pruned.params, pruned.mask)
    by_hand = np.tanh(X @ means["first.kernel"] + means["first.bias"]) @ means["last.kernel"]
    small = bp.compact(bnn, pruned.params, pruned.mask)
    np.testing.assert_allclose(small.predict(X).reshape(-1), np.asarray(by_hand)[:, 0], atol=1e-5)
    assert small.cost.numbers < small.cost.dense_numbers
    assert bp.predict(rng_key, bnn, pruned.params, X, mask=pruned.mask, num_samples=5).shape == (ROWS,)
