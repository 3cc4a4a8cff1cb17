"""What is read at the rows' own numbers is of its own row; at any other number, or elsewhere, it is not."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from tests.structure.test_independence import by

from bayesprune.structure.row_states import TOLD_APART

KEPT = {
    "a place of each row": (lambda x: x[jnp.arange(len(x)), x.argmax(1)], (4,)),
    "one place of all": (lambda x: x[jnp.arange(len(x)), 1], (4,)),
    "by NumPy's numbers": (lambda x: x[np.arange(len(x)), x.argmax(1)], (4,)),
    "the rows themselves": (lambda x: x[jnp.arange(len(x))], (4,)),
    "the last token": (lambda x: x[jnp.arange(len(x)), (x[:, :, 0] > 0).sum(1) - 1], (5, 4)),
    "between two axes": (lambda x: x[jnp.arange(len(x)), :, (x[:, 0, 0] > 0).astype(int)], (5, 4)),
    "of the transpose": (lambda x: x.T[x.argmax(1), jnp.arange(len(x))], (4,)),
    "with an axis more": (lambda x: x[jnp.arange(len(x))[:, None], jnp.argsort(x, 1)], (4,)),
    "a loop of each row": (
        lambda x: jax.vmap(lambda r: jax.lax.while_loop(lambda c: c.sum() < 9, lambda c: c + 1, r))(x),
        (4,),
    ),
    "no row is left out": (lambda x: jnp.where(np.zeros((len(x), 1), bool), 0.0, x), (4,)),
}
MEET = {
    "turned round": lambda x: x[jnp.arange(len(x))[::-1], x.argmax(1)],
    "the first": lambda x: x[jnp.arange(len(x)) * 0, x.argmax(1)],
    "the next": lambda x: x[jnp.arange(len(x)) + 1, x.argmax(1)],
    "from the end": lambda x: x[-jnp.arange(len(x)), x.argmax(1)],
    "of another table": lambda x: jnp.ones((2000, 4))[jnp.arange(len(x)), x.argmax(1)],
    "the number itself": lambda x: jnp.arange(len(x)),
    "small numbers, which begin anew": lambda x: x[jnp.arange(len(x), dtype=jnp.uint8), x.argmax(1)],
    "both places": lambda x: (x @ x.T)[jnp.arange(len(x)), jnp.arange(len(x))] + x[:, 0],
    "of other rows": lambda x: x[jnp.arange(len(x)), x[::-1].argmax(1)],
    "a loop of all": lambda x: jax.lax.while_loop(lambda c: c.sum() < 9, lambda c: c + 1, x),
}


@pytest.mark.parametrize("name", KEPT)
def test_a_row_reads_its_own(name) -> None:
    net, shape = KEPT[name]
    assert by(net, shape) == ""


@pytest.mark.parametrize("name", MEET)
def test_a_row_may_read_another(name) -> None:
    found = by(MEET[name])
    assert found, "rows that are told apart have passed"
    others = {"of other rows": "rev", "both places": "dot_general", "a loop of all": "a loop that ends by the rows"}
    assert found == others.get(name, TOLD_APART)


def test_a_loop_over_some_rows_at_a_time_is_named() -> None:
    assert "leave batch_size out" in by(lambda x: jax.lax.map(jnp.sin, x, batch_size=2))
