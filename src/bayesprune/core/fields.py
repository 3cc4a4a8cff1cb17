"""Data sets at the door: they have fields x and y, and no weights of rows that would be lost in silence."""

from collections.abc import Mapping, Sequence
from typing import Any

# Names under which rows come with what is meant to make them count otherwise than the rest.
WEIGHTS = ("w", "weight", "weights", "sample_weight", "mask")


def check_no_weights(data: object, name: str, but: Sequence[str] = ("x", "y")) -> None:
    """Refuse weights or masks of rows, as keys or fields beside inputs and targets, where they would be lost in silence.

    Others are let pass, such as an id. ``but``: names of the inputs and targets.

    >>> check_no_weights({"x": 1.0, "y": 2.0, "id": 3}, "data")
    """
    if lost := [field for field in WEIGHTS if field not in but and _says_something(_of_data(data, field))]:
        raise TypeError(
            f"{name} has {', '.join(lost)} beside {' and '.join(but)}, and rows count alike: repeat rows, np.repeat(x, counts, "
            "axis=0), and y alike, or leave out those that do not count; a mask that the network reads goes into x. Give x and "
            "y alone then."
        )


def _of_data(data: Any, field: str) -> Any:
    """A key of a mapping, a column of a frame, or a field; None where there is none that could be read."""
    if isinstance(data, Mapping):
        return data.get(field)
    if (columns := getattr(data, "columns", None)) is not None:  # a frame has methods of such names too
        return data[field] if field in columns else None
    try:
        return getattr(data, field, None)
    except Exception:  # of a property that cannot be read nobody reads weights
        return None


def _says_something(value: object) -> bool:
    return not (value is None or value is False or callable(value) or (isinstance(value, tuple | list) and not value))


def has_fields(data: object) -> bool:
    """Whether it is a data set, with fields x and y."""
    return hasattr(data, "x") and hasattr(data, "y")


def check_fields(data: object, name: str) -> None:
    """Refuse data without fields x and y, or with weights of rows beside them."""
    if isinstance(data, type) or not has_fields(data):
        kind = f"the class {data.__name__}" if isinstance(data, type) else type(data).__name__
        raise TypeError(f"{name} must have fields x and y, got {kind}: wrap your arrays as bp.Dataset(x, y).")
    check_no_weights(data, name)
