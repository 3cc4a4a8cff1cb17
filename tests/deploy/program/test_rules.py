"""The rules of a plan's operations, against NumPy and JAX themselves: what passes runs, and has its shape and kind."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from bayesprune.deploy import reader
from bayesprune.deploy.files.promises import check_program
from bayesprune.deploy.program import run
from bayesprune.deploy.program.ops import Op
from bayesprune.deploy.program.rules import Abstract, made
from tests.deploy import small_trees

RNG = np.random.default_rng(0)
REAL, WHOLE = RNG.uniform(0.3, 0.9, (2, 3, 4)).astype(np.float32), np.arange(24, dtype=np.int32).reshape(2, 3, 4)
IMAGE, KERNEL = RNG.normal(size=(2, 5, 6, 4)).astype(np.float32), RNG.normal(size=(2, 3, 2, 4)).astype(np.float32)
ONE, INDEX = np.float32(0.5), np.array([[1], [2]], np.int32)
NHWC = {"data": [0, 3, 1, 2], "weights": [3, 2, 0, 1], "result": [0, 3, 1, 2], "groups": 2}
SIDES = [[0, 0], [0, 1], [2, 0], [0, 0]]
CASES: list[tuple[str, dict[str, Any], list[Any]]] = [
    *[(name, {}, [REAL]) for name in reader.UNARY],
    *[(name, {}, [REAL, REAL[:1]]) for name in reader.BINARY],
    *[(name, {"axes": [1, 2]}, [REAL]) for name in reader.REDUCE],
    *[(name, {"window": [1, 2, 3, 1], "strides": [1, 2, 1, 1], "sides": SIDES}, [IMAGE]) for name in reader.WINDOW],
    ("integer_pow", {"y": 3}, [REAL]),
    ("convert", {"dtype": "int32"}, [REAL]),
    ("select", {}, [REAL > 0.5, REAL, WHOLE]),
    ("clamp", {}, [ONE, REAL, REAL[:1]]),
    ("dot", {"contract": [[2], [2]], "batch": [[0], [0]]}, [REAL, REAL]),
    ("dot", {"contract": [[2], [0]], "batch": [[], []]}, [REAL, REAL[0].T]),
    ("conv", NHWC | {"strides": [2, 1], "sides": [[1, 2], [0, 2]], "dilation": [1, 2]}, [IMAGE, KERNEL]),
    ("lookup", {"fill": True}, [REAL, INDEX]),
    ("reshape", {"sizes": [-1, 12]}, [REAL]),
    ("transpose", {"order": [2, 0, 1]}, [REAL]),
    ("broadcast", {"sizes": [-1, 3, 5, 4], "axes": [0, 1, 3]}, [REAL]),
    ("slice", {"ranges": [[0, -1, 1], [1, 3, 1], [0, 4, 3]]}, [REAL]),
    ("take", {"index": [3, 0, 0], "axis": 2}, [REAL]),
    ("reverse", {"axes": [1, 2]}, [REAL]),
    ("concatenate", {"axis": 2}, [REAL, WHOLE]),
    ("pad", {"sides": [[0, 0], [1, 0], [0, 2]]}, [REAL, ONE]),
    ("trees", small_trees.HOW, [REAL[:, 0], *small_trees.NODES]),
]
ODD: list[Any] = [-7, -1, 0, 1, 2, 5, 1.5, True, None, "float16", "object", [], [1], {}]


def abstract(array: Any) -> Abstract:
    return Abstract(np.shape(array), np.asarray(array).dtype.kind.replace("u", "i"))


def by_numpy(name: str, attributes: dict[str, Any], arrays: list[Any]) -> Abstract:
    with np.errstate(all="ignore"):
        return abstract(reader.step(name, attributes, 2, *map(np.asarray, arrays)))


def by_jax(name: str, attributes: dict[str, Any], arrays: list[Any]) -> Abstract:
    op = Op(name, tuple(range(len(arrays))), (9,), attributes)
    (made,) = jax.eval_shape(lambda *given: run.step(op, 2, list(given)), *map(jnp.asarray, arrays))
    return Abstract(made.shape, np.dtype(made.dtype).kind.replace("u", "i"))


def changed(value: Any, rng: np.random.Generator) -> Any:
    """The same with one entry somewhere that is another one, gone, or there twice."""
    if isinstance(value, dict) and value:
        key = rng.choice(list(value))
        return {**value, str(key): changed(value[key], rng)}
    if isinstance(value, list) and value and rng.random() < 0.9:
        place, how = int(rng.integers(len(value))), rng.random()
        inner = [changed(value[place], rng)] * (1 if how < 0.8 else 2 if how < 0.9 else 0)
        return [*value[:place], *inner, *value[place + 1 :]]
    return ODD[int(rng.integers(len(ODD)))]


def other(array: Any, rng: np.random.Generator) -> np.ndarray:
    """An array of another shape or kind."""
    made = np.asarray(array)
    if rng.random() < 0.5:
        return made.astype([np.float32, np.int32, bool][int(rng.integers(3))])
    return RNG.uniform(0.3, 0.9, tuple(rng.integers(0, 4, int(rng.integers(0, 4))))).astype(made.dtype)


@pytest.mark.fast_cases(10)
@pytest.mark.parametrize("case", CASES, ids=[f"{place}-{name}" for place, (name, *_) in enumerate(CASES)])
def test_what_passes_runs_by_numpy_and_by_jax(case: Any) -> None:
    name, attributes, arrays = case
    found = made(name, attributes, 2, *map(abstract, arrays))
    assert found == by_numpy(*case) == by_jax(*case)
    rng, passed = np.random.default_rng(len(name)), 0
    for _ in range(60):
        tried = changed(attributes, rng) if attributes and rng.random() < 0.7 else attributes
        given = [other(array, rng) if rng.random() < 0.3 else array for array in arrays]
        try:
            found = made(name, tried, 2, *map(abstract, given))
        except (ValueError, TypeError, KeyError, IndexError):  # as `check_program` takes them
            continue
        passed += 1
        assert found == by_numpy(name, tried, given), (tried, [abstract(a) for a in given])
        assert found == by_jax(name, tried, given), (tried, [abstract(a) for a in given])
    assert passed < 60 or not attributes


def test_every_operation_has_its_case() -> None:
    assert {name for name, *_ in CASES} == reader.NAMES


DENSE = [["dot", [0, 1], [2], {"contract": [[1], [0]], "batch": [[], []]}], ["tanh", [2], [3], {}]]
LARGE = ["broadcast", [0], [4], {"sizes": [-1, 4, 1 << 27], "axes": [0, 1]}]
SIZES = {0: (-1, 4), 1: (4, 3), 2: (-1, 3), 3: (-1, 3)}
WRONG: dict[str, tuple[Any, Any, Any]] = {
    "a size that is not made": (DENSE, SIZES | {2: (-1, 4)}, "operation 0"),
    "an array that is not there": ([["tanh", [7], [3], {}]], SIZES, "7"),
    "a number that is there already": ([["tanh", [0], [1], {}]], SIZES, "defines 1"),
    "another output": (DENSE[:1], SIZES, "the operations give"),
    "rows of another size": (DENSE, SIZES | {0: (-1, 5)}, "rows of the sizes"),
    "an opaque operation": ([["opaque", [0], [3], {}]], SIZES, "no operation"),
    "rows apart": ([["take", [0], [3], {"index": [0], "axis": 0}]], SIZES, "apart"),
    "the first row": ([["slice", [0], [3], {"ranges": [[0, 1, 1], [0, 3, 1]]}]], SIZES, "apart"),
    "too many operations": ([DENSE[1]] * 10**5, SIZES, "more than"),
    "more numbers than there may be": ([LARGE, *DENSE], SIZES | {4: (-1, 4, 1 << 27)}, "more than"),
    "no list": ({}, SIZES, "no list"),
    "no operation": ([["tanh"]], SIZES, "operation 0"),
}  # fmt: skip


@pytest.mark.parametrize("what", WRONG)
def test_a_program_is_refused_before_it_is_run(what: str) -> None:
    check_program(DENSE, SIZES, {1: "f"}, 0, 3, (4,), (3,))
    ops, sizes, told = WRONG[what]
    with pytest.raises(ValueError, match=told):
        check_program(ops, sizes, {1: "f"}, 0, 3, (4,), (3,))
