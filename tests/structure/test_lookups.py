"""The numbers that a network looks up, against the tables that its own code names."""

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from bayesprune.structure.lookups import bounds

TABLE, LONG, FREE = jnp.ones((5, 2)), jnp.ones((9, 2)), (-np.inf, np.inf)


def of(net, shape=(3,), tables=(TABLE, LONG), dtype=int):
    """(low, high) of each entry of a row."""
    traced = jax.make_jaxpr(net)(*tables, jnp.zeros((1, *shape), dtype))
    (found,) = bounds(traced, [f"t{number}" for number in range(len(tables))], [shape])
    return None if found is None else list(zip(found.low.ravel().tolist(), found.high.ravel().tolist(), strict=True))


FIVE = (0.0, 4.0)
NETS = {
    "indexing": (lambda t, u, x: t[x], [FIVE] * 3),
    "take": (lambda t, u, x: jnp.take(t, x, axis=0), [FIVE] * 3),
    "take of a later axis": (lambda t, u, x: jnp.take(t.T, x, axis=1), [FIVE] * 3),
    "one hot": (lambda t, u, x: jax.nn.one_hot(x, 7), [(0.0, 6.0)] * 3),
    "columns": (lambda t, u, x: t[x[:, 0]] + u[x[:, 2]], [FIVE, FREE, (0.0, 8.0)]),
    "two tables for one": (lambda t, u, x: t[x] + u[x], [FIVE] * 3),
    "an offset": (lambda t, u, x: u[x + 2], [(-2.0, 6.0)] * 3),
    "fields of one table": (lambda t, u, x: u[x + jnp.array([0, 3, 6])], [(0.0, 8.0), (-3.0, 5.0), (-6.0, 2.0)]),
    "reversed and cut": (lambda t, u, x: t[x[:, ::-1][:, :1]], [FREE, FREE, FIVE]),
    "beside a token of the net's": (lambda t, u, x: t[jnp.concatenate([jnp.zeros((len(x), 1), int), x], 1)], [FIVE] * 3),
    "padded": (lambda t, u, x: t[jnp.pad(x, ((0, 0), (1, 2)))], [FIVE] * 3),
    "row by row": (lambda t, u, x: jax.vmap(lambda row: t[row])(x), [FIVE] * 3),
    "entry by entry, as Equinox": (lambda t, u, x: jax.vmap(jax.vmap(lambda i: t[i]))(x), [FIVE] * 3),
    "a slice for each": (lambda t, u, x: jax.vmap(lambda i: jax.lax.dynamic_slice(u, (i, 0), (2, 2)))(x[0]), [(0.0, 7.0)] * 3),
    "a slice that is set": (
        lambda t, u, x: jax.lax.dynamic_update_slice(u, t[:2], (x[0, 0], x[0, 2])),
        [(0.0, 7.0), FREE, (0.0, 0.0)],
    ),
    "a slice set for each": (
        lambda t, u, x: jax.vmap(lambda i: jax.lax.dynamic_update_slice(jnp.zeros(6), jnp.ones(2), (i,)))(x[0]),
        [FIVE] * 3,
    ),
    "in a loop": (lambda t, u, x: jax.lax.scan(lambda c, i: (c + t[i].sum(), None), 0.0, x[0])[0], [FIVE] * 3),
    "within jit": (lambda t, u, x: jax.jit(lambda x: t[x])(x), [FIVE] * 3),
    "chosen entries": (lambda t, u, x: t[x[:, jnp.array([2, 0])]], [FIVE, FREE, FIVE]),
    "a pair": (lambda t, u, x: t[x[:, 0], x[:, 1]], [FIVE, (0.0, 1.0), FREE]),
    "floats as numbers": (lambda t, u, x: t[x.astype(jnp.float32).astype(int)], [FIVE] * 3),
    "set": (lambda t, u, x: jnp.zeros((1, 6)).at[0, x[0]].set(1.0), [(0.0, 5.0)] * 3),
    "along an axis": (lambda t, u, x: jnp.take_along_axis(jnp.ones((1, 4)), x, axis=1), [(0.0, 3.0)] * 3),
}


@pytest.mark.parametrize("net", NETS)
def test_tables_limit_what_is_looked_up(net) -> None:
    function, wanted = NETS[net]
    assert of(function) == wanted


@pytest.mark.parametrize(
    "net",
    [
        lambda t, u, x: t[x % 5],
        lambda t, u, x: t[jnp.clip(x, 0, 4)],
        lambda t, u, x: jnp.take(t, x, axis=0, mode="clip"),
        lambda t, u, x: t[jnp.where(x < 0, 0, x)],
        lambda t, u, x: x * 1.0 @ jnp.ones((3, 2)),
        lambda t, u, x: jnp.where(x == 0, 1.0, 2.0),
        lambda t, u, x: t[jnp.arange(3)] * x[:, :, None],
    ],
)
def test_what_the_net_sees_to_itself_has_no_limit(net) -> None:
    assert of(net) is None


def test_tables_have_names_and_layers_of_flax_are_found() -> None:
    layer = nn.Embed(50, 4)
    traced = jax.make_jaxpr(lambda e, x: layer.apply({"params": {"embedding": e}}, x))(
        jnp.ones((50, 4)), jnp.zeros((1, 6), int)
    )
    (found,) = bounds(traced, ["Embed_0.embedding"], [(6,)])
    assert found.tables.tolist() == ["Embed_0.embedding"] * 6 and found.high.tolist() == [49] * 6


def test_of_several_arrays_each_has_its_own() -> None:
    traced = jax.make_jaxpr(lambda t, a, b: t[b] + a)(TABLE, jnp.ones((1, 2)), jnp.zeros((1,), int))
    none, found = bounds(traced, ["t"], [(2,), ()])
    assert none is None and (found.low, found.high) == (0, 4)
