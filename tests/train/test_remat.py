"""What waits for the backward pass: read from the leaves of `jax.vjp`'s closure."""

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from bayesprune.train.storage import Active, products_only


def waiting(loss: Callable, at: jax.Array) -> list[int]:
    """Sizes of the arrays that the backward pass finds."""
    return [leaf.size for leaf in jax.tree.leaves(jax.vjp(loss, at)[1])]


@pytest.mark.slow
def test_no_whole_array_waits_where_only_alive_weights_are_stored() -> None:
    rng = np.random.default_rng(0)
    mask, x = rng.random((40, 30)) < 0.1, jnp.asarray(rng.normal(size=(3, 40)), jnp.float32)
    storage = Active((("w", mask.shape),), (("w", int(mask.sum())),))
    kept = storage.keep_mask({"w": jnp.asarray(mask)})

    def loss(values):
        whole = storage.whole({"w_auto_loc": values}, kept)["w_auto_loc"]
        weights = jnp.where(storage.whole_mask(kept)["w"], jax.nn.softplus(whole) ** 2, 0.0)
        return jnp.sum(jnp.tanh(x @ weights)) + jnp.sum(weights**3)

    values = jnp.linspace(-1.0, 1.0, int(mask.sum()))
    assert max(waiting(loss, values)) == 40 * 30
    assert max(waiting(storage.thrifty(loss), values)) <= 3 * 40
    np.testing.assert_allclose(jax.grad(storage.thrifty(loss))(values), jax.grad(loss)(values), rtol=1e-6)


@pytest.mark.slow
def test_of_ten_layers_only_their_products_wait(rng_key) -> None:
    x, outputs, num_layers = jax.random.normal(rng_key, (100, 8)), 100 * 8, 10

    def loss(weights):
        y = x
        for w in weights:
            y = jax.nn.softplus(jnp.tanh(y @ w) ** 2)
        return jnp.sum(y)

    weights = jax.random.normal(rng_key, (num_layers, 8, 8))
    long = lambda fn: sum(size == outputs for size in waiting(fn, weights))  # noqa: E731
    assert long(products_only(loss)) <= num_layers + 1  # and x
    assert long(loss) >= 2 * num_layers
    np.testing.assert_allclose(jax.grad(products_only(loss))(weights), jax.grad(loss)(weights), rtol=1e-5)
