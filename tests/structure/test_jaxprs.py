"""Programs that equations stand for."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from jax.extend.core import Literal

from bayesprune.structure import jaxprs

X = np.random.default_rng(0).normal(size=(5, 3)).astype(np.float32)


def turn(carry, x):
    return (jnp.tanh(carry[0] @ carry[1]) + x, carry[1]), (carry[0], x.sum())


def nested(total, x):
    return lax.scan(lambda inner, one: (inner * one, None), total, x)[0] + 1.0, total


SCANS = {
    "both ends": lambda x: lax.scan(turn, (jnp.ones(3), jnp.eye(3)), x),
    "backwards": lambda x: lax.scan(turn, (jnp.ones(3), jnp.eye(3)), x, reverse=True),
    "nothing carried": lambda x: lax.map(jnp.sin, x),
    "nothing cut": lambda x: lax.scan(lambda c, _: (c + 1, None), x, None, length=4),
    "keys": lambda x: lax.scan(lambda c, key: (c + jax.random.uniform(key), None), x, jax.random.split(jax.random.key(0), 3)),
    "a loop in a loop": lambda x: lax.scan(nested, 1.0, x),
}


def without_loops(closed, *arrays):
    """The results of a program whose loops are written out, operation by operation; and how many loops there were."""
    values, loops = dict(zip([*closed.jaxpr.constvars, *closed.jaxpr.invars], [*closed.consts, *arrays], strict=True)), 0
    read = lambda atom: atom.val if isinstance(atom, Literal) else values[atom]  # noqa: E731
    for equation in closed.jaxpr.eqns:
        operands, made = map(read, equation.invars), equation.primitive
        if made.name == "scan":
            results, inner = without_loops(jaxprs.called(equation), *operands)
            loops += 1 + inner
        else:
            found = made.bind(*operands, **equation.params)
            results = found if made.multiple_results else [found]
        values.update(zip(equation.outvars, results, strict=True))
    return [read(atom) for atom in closed.jaxpr.outvars], loops


@pytest.mark.parametrize("name", SCANS)
def test_a_short_loop_is_written_out(name) -> None:
    results, loops = without_loops(jax.make_jaxpr(SCANS[name])(X), X)
    assert loops == (6 if name == "a loop in a loop" else 1)  # the inner one once for each of five turns
    for ours, theirs in zip(results, jax.tree.leaves(SCANS[name](X)), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-5)


def test_a_long_loop_and_one_without_turns_are_not() -> None:
    count = lambda turns: jax.make_jaxpr(lambda x: lax.fori_loop(0, turns, lambda _, x: x + 1.0, x))(X).jaxpr.eqns[-1]  # noqa: E731
    assert count(jaxprs.MOST_EQUATIONS).primitive.name == "scan"
    assert jaxprs.called(count(jaxprs.MOST_EQUATIONS)) is None
    assert jaxprs.called(count(5)) is not None
    empty = jax.make_jaxpr(lambda x: lax.scan(lambda c, row: (c, row), 0.0, x))(X[:0]).jaxpr.eqns[-1]
    assert jaxprs.called(empty) is None


def test_inner_loops_count() -> None:
    def net(turns):
        return jax.make_jaxpr(
            lambda x: lax.scan(lambda c, _: (lax.scan(lambda d, _: (d * 2, None), c, None, turns)[0], None), x, None, 9)
        )(X)

    assert jaxprs.length(net(7)) == 9 * 7
    assert jaxprs.length(net(jaxprs.MOST_EQUATIONS + 1)) == 9
