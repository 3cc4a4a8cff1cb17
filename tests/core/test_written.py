"""Values written as in Python come back as they were, and what cannot be read is told."""

import types
from typing import Literal

import jax
import pytest

from bayesprune.core.schedules import Constant, Cubic
from bayesprune.core.written import from_text, plain_type, to_text


@pytest.mark.parametrize("value", [0.5, None, -3, (1, 2), Constant(0.25), Cubic(0.05, 0, 20), jax.nn.relu])
def test_a_value_comes_back(value) -> None:
    assert from_text(to_text(value), "knob") == value


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("1 +", "density must be a number, a schedule"),
        ("reluu", r"unknown function for density 'reluu'. Did you mean 'relu'"),
        ("Cubik(0.1)", r"unknown schedule 'Cubik'. Did you mean 'Cubic'"),
        ("Cubic(0.1)", r"density='Cubic\(0.1\)'"),
        ("Cubic(x, 0, 20)", r"density='Cubic\(x, 0, 20\)'"),
        ("LinearWarmup(0, 9, **{'peak': 0.5})", "unexpected keyword argument"),
    ],
)
def test_what_cannot_be_read_is_told_with_its_knob(text, told) -> None:
    with pytest.raises(ValueError, match=told):
        from_text(text, "density")


def test_what_is_plain_has_a_type_and_the_rest_is_written() -> None:
    assert plain_type(str | float) == float | str, "any text is a str: the number is tried first"
    assert plain_type(list[int]) == types.GenericAlias(tuple, (int, ...))
    assert plain_type(Literal["a", "b"]) == Literal["a", "b"]
    assert plain_type(float | Cubic) is None
