"""A plan's program checked in one pass, without being run: every array has the size that the plan states.

What a stranger's file says is believed after this: no operation fails, none makes more numbers than are stated, and none takes
some of the rows apart.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any

from bayesprune.deploy.program.rules import Abstract, made
from bayesprune.deploy.reader import LARGEST

MOST_OPERATIONS = 1 << 13
DEEPEST = 16  # axes of an array
Sizes = Mapping[int, tuple[int, ...]]


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
