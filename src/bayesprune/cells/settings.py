"""A cell is a frozen dataclass of plain settings; its key is what a finished one is found by."""

import dataclasses
from collections.abc import Iterable, Sequence
from typing import Any

Cell = Any  # a frozen dataclass whose fields are text, numbers and booleans


def settings(cell: Cell) -> dict[str, Any]:
    """Field name -> value, in the order of the fields."""
    return {field.name: getattr(cell, field.name) for field in dataclasses.fields(cell)}


def key(cell: Cell) -> str:
    """``name=value`` of every field, those at their default left out: a field added later, with a default, changes no key."""
    defaults = {field.name: field.default for field in dataclasses.fields(cell)}
    return " ".join(f"{name}={value}" for name, value in settings(cell).items() if value != defaults[name])


def change(cell: Cell, changes: Sequence[str]) -> Cell:
    """The cell with fields set from ``NAME=VALUE``; a value has the type that the field has."""
    return dataclasses.replace(cell, **{name: value for name, (value,) in _parsed(cell, changes, several=False).items()})


def select(cells: Iterable[Cell], only: Sequence[str]) -> list[Cell]:
    """Those that have all of ``NAME=VALUE``; ``NAME=ONE,OTHER`` takes either."""
    return [
        cell
        for cell in cells
        if all(getattr(cell, name) in values for name, values in _parsed(cell, only, several=True).items())
    ]


def with_seeds(cells: Sequence[Cell], seeds: Sequence[int]) -> list[Cell]:
    """Every cell, whatever its own seed, once with each of these."""
    if cells and "seed" not in settings(cells[0]):
        raise ValueError(f"seeds: a {type(cells[0]).__name__} of this study has no seed, only {', '.join(settings(cells[0]))}.")
    return list(dict.fromkeys(dataclasses.replace(cell, seed=seed) for cell in cells for seed in seeds))


def _parsed(cell: Cell, pairs: Sequence[str], several: bool) -> dict[str, list[Any]]:
    have, found = settings(cell), {}
    for pair in pairs:
        name, equals, text = pair.partition("=")
        if not equals or name not in have:
            raise ValueError(f"expected NAME=VALUE with a NAME of {', '.join(have)}; got {pair!r}.")
        found[name] = [_typed(have[name], one, pair) for one in (text.split(",") if several else [text])]
    return found


def _typed(now: Any, text: str, pair: str) -> Any:
    try:
        return {"True": True, "False": False}[text] if isinstance(now, bool) else type(now)(text)
    except (KeyError, ValueError):
        raise ValueError(f"{pair!r}: the value must be a {type(now).__name__}, as {now!r} is.") from None
