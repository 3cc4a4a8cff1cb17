"""What a plan says of itself, checked before anything is allocated or run: shapes, streams, operations, limits.

What a stranger's file says is believed after this: no operation fails, none makes more numbers than are stated, and none takes
some of the rows apart.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from bayesprune.deploy import reader
from bayesprune.deploy.program.packing import Leaf
from bayesprune.deploy.program.rules import Abstract, made
from bayesprune.deploy.reader import LARGEST
from bayesprune.structure.lookups import Bounds

CODINGS = ("bits", "gaps")
STEPS = ("|i1", "<i2", "<i4")
LAWS = {"mean": (), "gaussian": ("loc", "scale"), "draws": ("draws",)}  # the arrays of a site under each law
LONGEST = 1 << 22  # letters of a plan: what JSON makes of them takes ten times as many bytes
MOST_OPERATIONS = 1 << 13
DEEPEST = 16  # axes of an array
Sizes = Mapping[int, tuple[int, ...]]
LONGEST_NAME = 200  # letters of a table's name


def check(plan: Mapping[str, Any], streams: Mapping[str, np.ndarray]) -> dict[str, str]:
    """The kind of each array's numbers, see `rules`. Raises ``ValueError`` where the program, the plan and the streams differ.

    ``streams``: those of the file, whose sizes are believed, for they are there.
    """
    _check_shapes(plan)
    kinds, sizes = dict[str, str](), dict[str, int]()
    for name, how in plan["arrays"].items():
        places, stream, size = how["places"], streams[f"{name}.values"], math.prod(how["shape"])
        found = plan["places"][places] if places else {"count": size, "coding": CODINGS[0]}
        whole = type(found["count"]) is int and 0 <= found["count"] <= size and found["coding"] in CODINGS
        if not whole or sizes.setdefault(places or name, size) != size or (places and streams[places].dtype != np.uint8):
            raise ValueError(f"{name} claims {found['count']} values for {size} places")
        if not _is_coded(how, stream, found["count"], plan["arrays"]):
            raise ValueError(f"{name} is not coded as it says: {str(how['values'])[:60]}")
        kinds[name] = stream.dtype.kind.replace("u", "i") if how["values"] == "plain" else "f"
    if {*streams} != {*(f"{name}.values" for name in plan["arrays"]), *plan["places"]} or not {*plan["places"]} <= {*sizes}:
        raise ValueError("there are streams, or places, of no array")
    return kinds


def _check_shapes(plan: Mapping[str, Any]) -> None:
    """The arrays are those of the program, in the shapes that it has; of draws there is one more axis."""
    expected = {
        f"{prefix}/{number}": part["sizes"][str(number)]
        for prefix, part in (("constant", plan), ("head", plan["head"]))
        for number in part["constants"]
    }
    law = LAWS[plan["law"]["kind"]]
    expected |= {f"{kind}/{site}": plan["sizes"][str(number)] for site, number in plan["weights"].items() for kind in law}
    stated = {name: how["shape"] for name, how in plan["arrays"].items()}
    if any(type(n) is not int or not 0 <= n <= LARGEST for shape in stated.values() for n in shape):
        raise ValueError("shapes that are none")
    if sum(map(math.prod, stated.values())) > LARGEST:
        raise ValueError(f"the arrays claim more than {LARGEST:,} numbers")
    own = {name: shape[name.startswith("draws/") :] for name, shape in stated.items()}
    for name in sorted({*own, *expected}):
        if own.get(name) != expected.get(name):
            raise ValueError(f"{name} has the shape {own.get(name)}, and the program has {expected.get(name)}")
    if len(numbers := {shape[0] for name, shape in stated.items() if name.startswith("draws/")}) > 1 or 0 in numbers:
        raise ValueError(f"draws of different numbers, or none: {', '.join(map(str, sorted(numbers)))}")


def _is_coded(how: Mapping[str, Any], stream: np.ndarray, count: int, arrays: Mapping[str, Any]) -> bool:
    """Whether a stream can hold so many values, as far as can be said before it is unpacked."""
    coding, step = how["values"], how["step"]
    if isinstance(coding, str):
        known = {"plain": map(np.dtype, reader.TYPES.values()), "bfloat16": (np.dtype("<u2"),)}.get(coding, ())
        return not step and stream.size == count and stream.dtype in known
    of = {"log": how, "scale": arrays.get(step, {})}.get(coding["of"], {})
    alike = bool(step) == (coding["of"] == "scale") and [of.get("shape"), of.get("places")] == [how["shape"], how["places"]]
    # A step comes before what is in steps of it.
    before = not step or list(arrays).index(step) < list(arrays).index(next(n for n, one in arrays.items() if one is how))
    return alike and before and coding["type"] in STEPS and stream.dtype == np.uint8


# ---- finite numbers
def check_numbers(arrays: Mapping[str, np.ndarray]) -> None:
    """Weights are finite and scales not below zero; a constant of a network may be anything, as what pads a maximum is."""
    for name, array in arrays.items():
        prefix = name.split("/")[0]
        if prefix in ("loc", "scale", "draws") and not np.isfinite(array).all():
            raise ValueError(f"{name} has entries that are not finite")
        if prefix == "scale" and (array < 0).any():
            raise ValueError(f"{name} has scales below zero")


# ---- operations, in one pass
def check_program(
    ops: object,
    sizes: Sizes,
    kinds: Mapping[int, str],
    rows: int,
    output: int,
    inputs: Sequence[int],
    outputs: Sequence[int] | None,
) -> None:
    """Refuse operations that cannot be run, or that give other sizes than are stated, for one row or for two.

    Args:
        ops: ``[name, inputs, outputs, attributes]`` each, as a file has them.
        sizes: of every array, below zero where they grow with the rows.
        kinds: of the constants and weights, see `rules`.
        rows, output: the numbers of the data and of the result.
        inputs, outputs: their shapes for a row; None: whatever the operations give.

    Raises:
        ValueError: with the operation and what is wrong with it.
    """
    if not isinstance(ops, list) or len(ops) > MOST_OPERATIONS:
        raise ValueError(f"more than {MOST_OPERATIONS:,} operations, or no list of them")
    if rows in kinds or sizes[rows] != (-1, *inputs):
        raise ValueError(f"rows of the sizes {sizes[rows]}, where {(-1, *inputs)} are taken")
    known = {**kinds, rows: "f"}
    one, two = ({n: Abstract(_shape(sizes[n], count), kind) for n, kind in known.items()} for count in (1, 2))
    for place, op in enumerate(ops):
        try:
            number = _checked(op, sizes, one)
            for count, arrays in ((1, one), (2, two)):
                arrays[number] = made(op[0], op[3], count, *(arrays[i] for i in op[1]))
                if arrays[number].shape != _shape(sizes[number], count):
                    raise ValueError(f"{count} rows give {arrays[number].shape}, and the sizes {sizes[number]} are stated")
        except (ValueError, TypeError, KeyError, IndexError) as error:
            raise ValueError(f"operation {place}, {str(op[:1])[:40]}: {type(error).__name__}, {error}") from error
    if sum(math.prod(array.shape) for array in one.values()) > LARGEST:
        raise ValueError(f"the arrays between the operations take more than {LARGEST:,} numbers for one row")
    if output not in one or sizes[output][:1] != (-1,) or (outputs is not None and sizes[output] != (-1, *outputs)):
        raise ValueError(f"the operations give {sizes.get(output)} for each row, where {outputs} are stated")


def _checked(op: Any, sizes: Sizes, known: Mapping[int, Any]) -> int:
    """The number that an operation defines; it reads only what is there, and leaves the rows together."""
    name, inputs, outputs, attributes = op
    if not (type(name) is str and isinstance(attributes, dict) and all(type(number) is int for number in (*inputs, *outputs))):
        raise ValueError("a name, numbers and attributes of other kinds")
    (number,) = outputs
    if number in known or not {*inputs} <= {*known}:
        raise ValueError(f"it defines {number} of {inputs}, which is there already, or which are not")
    whole = sizes[inputs[0]]
    apart = [n < 0 and high != n for (_, high, _), n in zip(attributes.get("ranges", ()), whole, strict=False)]
    if any(apart) or (name == "take" and whole[attributes["axis"]] < 0):
        raise ValueError("it takes some of the rows apart from the others")
    return number


def _shape(sizes: tuple[int, ...], rows: int) -> tuple[int, ...]:
    return tuple(-n * rows if n < 0 else n for n in sizes)


def sizes_of(stated: Any) -> dict[int, tuple[int, ...]]:
    """The sizes of a plan by number. Raises ``ValueError`` for what are none.

    >>> sizes_of({"3": [-1, 4]})
    {3: (-1, 4)}
    """
    found = {int(number): tuple(sizes) for number, sizes in stated.items()}
    whole = all(type(n) is int and abs(n) <= LARGEST for sizes in found.values() for n in sizes)
    if not whole or [str(number) for number in found] != [*stated] or any(len(sizes) > DEEPEST for sizes in found.values()):
        raise ValueError("sizes of arrays that are none, or of more axes than any has")
    return found


# ---- the numbers that tables take, as `reader.check_places` reads them
def as_data(bounds: Sequence[Bounds | None]) -> list[Any]:
    """Of each array nothing, or its limits, [[least, most, table], ...], and for every entry of a row the number of its own, -1
    where it has none."""
    return [None if limits is None else _of_one(limits) for limits in bounds]


def of_data(stated: Sequence[Any], leaves: Sequence[Leaf]) -> tuple[Bounds | None, ...]:
    """From JSON. Raises ``ValueError`` for what are no limits of rows of these arrays."""
    if len(stated) != len(leaves):
        raise ValueError(f"limits of {len(stated)} arrays, and a row has {len(leaves)}")
    return tuple(None if one is None else _read(one, leaf) for one, leaf in zip(stated, leaves, strict=True))


def _of_one(bounds: Bounds) -> dict[str, Any]:
    of_entries = list(zip(bounds.low.ravel().tolist(), bounds.high.ravel().tolist(), bounds.tables.ravel(), strict=True))
    limits = list(dict.fromkeys(one for one in of_entries if np.isfinite(one[1])))
    numbers = {one: number for number, one in enumerate(limits)}
    whole = [[int(low), int(high), table[:LONGEST_NAME]] for low, high, table in limits]
    return {"limits": whole, "entries": [numbers.get(one, -1) for one in of_entries]}


def _read(stated: Any, leaf: Leaf) -> Bounds:
    limits, entries = stated["limits"], stated["entries"]
    if any(not _is_limit(*one) for one in limits):
        raise ValueError("limits that are none")
    if len(entries) != leaf.size or any(type(n) is not int or not -1 <= n < len(limits) for n in entries):
        raise ValueError(f"limits of {len(entries)} entries, and {leaf.name} has {leaf.size} a row")
    every = [(-np.inf, np.inf, ""), *limits]
    low, high, tables = (
        np.array([every[n + 1][field] for n in entries], kind).reshape(leaf.shape)
        for field, kind in enumerate((float, float, object))
    )
    return Bounds(low, high, tables)


def _is_limit(least: object, most: object, table: object) -> bool:
    whole = type(least) is int and type(most) is int and -LARGEST <= least <= most <= LARGEST
    return whole and isinstance(table, str) and len(table) <= LONGEST_NAME
