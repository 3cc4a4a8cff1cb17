"""A knob that is one number refuses all else, by its name: an array would broadcast, and each column have its own."""

import dataclasses
import typing
from typing import Any

import numpy as np
import pytest

import bayesprune as bp

NEEDED: dict[str, dict[str, Any]] = {"Ordinal": {"num_classes": 3}}
BAD = {"an array": np.array([0.1, 0.2]), "a list": [0.1], "a word": "a", "nothing": None, "a truth value": True, "complex": 1j}
OTHERS = {"BlackJAX", "Custom", "Masked", "Posterior"}  # around something of the caller's; each has tests of its own
WORDS = {str: "a word", type(None): "nothing", bool: "a truth value"}


def knobs(kind: type) -> list[tuple[str, list[str]]]:
    """Fields of one number, and what each must refuse."""
    found, types = [], typing.get_type_hints(kind)
    for field in dataclasses.fields(kind):
        parts = typing.get_args(types[field.name]) or (types[field.name],)
        others = [part for part in parts if part is not float]
        if field.init and float in parts and all(part in WORDS for part in others if isinstance(part, type)):
            found.append((field.name, [bad for bad in BAD if bad not in [WORDS.get(part) for part in others]]))
    return found


KINDS = [
    kind
    for face in (bp.priors, bp.likelihoods, bp.methods, bp.courses, bp.kernels)
    for name in sorted(set(dir(face)))
    if isinstance(kind := getattr(face, name), type) and dataclasses.is_dataclass(kind) and name not in OTHERS and knobs(kind)
]


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_what_is_no_number_is_refused(kind: type) -> None:
    needed = NEEDED.get(kind.__name__, {})
    for name, refused in knobs(kind):
        for bad in refused:
            with pytest.raises((TypeError, ValueError), match=name):
                kind(**needed | {name: BAD[bad]})


def test_they_are_many() -> None:
    assert len(KINDS) > 20 and {"Flat", "Normal", "BMR", "Standard", "IVON"} <= {kind.__name__ for kind in KINDS}
