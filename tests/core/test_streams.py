"""A purpose has a stream of its own, and its number is what it always was."""

import ast
from pathlib import Path

import jax
import numpy as np
import pytest

import bayesprune
from bayesprune.core import streams
from bayesprune.core.streams import OfAFit, OfAnAct, OfAnEstimator, OfAStep, stream

KINDS = (OfAFit, OfAStep, OfAnAct, OfAnEstimator)


def test_numbers_count_for_ever():
    assert {kind.__name__: {purpose.name: int(purpose) for purpose in kind} for kind in KINDS} == {
        "OfAFit": {"SPARSIFIER": 3},
        "OfAStep": {
            "PRUNING": 2147483648,
            "AUGMENTING": 2147483649,
            "MOVING": 2147483650,
            "STARTING": 2147483651,
            "REDRAWING": 2147483652,
        },
        "OfAnAct": {"VERIFYING": 2147483648},
        "OfAnEstimator": {"PREDICTING": 1, "DISTRIBUTION": 2, "CUTTING": 3, "POSTERIOR": 4, "MEMBERS": 5},
    }


@pytest.mark.parametrize("kind", KINDS)
def test_no_two_purposes_of_a_key_share_a_stream(kind):
    assert len(kind.__members__) == len(list(kind))  # of equal numbers, the second name is another one's


def test_compiled_or_not_the_key_is_the_same():
    key = jax.random.key(7)
    wanted = jax.random.key_data(jax.random.fold_in(key, 2**31))
    for found in (stream(key, OfAStep.PRUNING), jax.jit(lambda k: stream(k, OfAStep.PRUNING))(key)):
        np.testing.assert_array_equal(jax.random.key_data(found), wanted)


def test_it_passes_a_guard_of_transfers():
    key = jax.random.key(7)
    with jax.transfer_guard("disallow"):
        stream(key, OfAFit.SPARSIFIER)


def numbers_folded_in(source: str) -> list[int]:
    """Lines on which a number is folded into a key as it is written, or by a constant's name."""
    calls = [n for n in ast.walk(ast.parse(source)) if isinstance(n, ast.Call) and len(n.args) == 2]
    folds = [call for call in calls if isinstance(call.func, ast.Attribute) and call.func.attr == "fold_in"]
    return [
        call.lineno for call in folds if isinstance(call.args[1], ast.Constant) or getattr(call.args[1], "id", "").isupper()
    ]


@pytest.mark.slow
def test_purposes_are_nowhere_else():
    home, allowed = Path(bayesprune.__file__).parent, {"of_flax.py", "gaussian_array.py"}  # of one call, which counts its own
    files = [file for file in home.rglob("*.py") if file.name not in allowed and file != Path(streams.__file__)]
    assert {file.name: lines for file in files if (lines := numbers_folded_in(file.read_text()))} == {}
    assert numbers_folded_in("jax.random.fold_in(key, 3)\njax.random.fold_in(key, _X)\njax.random.fold_in(key, step)") == [1, 2]
