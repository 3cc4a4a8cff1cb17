"""Tables in markdown, and the ways to put several seeds or splits into one figure."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

MISSING = "missing"


def table(head: Sequence[str], rows: Iterable[Sequence[str]], align: str) -> str:
    """``align``: a letter for each column, "l" or "r"."""
    rule = "|".join({"l": " --- ", "r": " ---: "}[letter] for letter in align)
    return "\n".join([f"| {' | '.join(head)} |", f"|{rule}|", *(f"| {' | '.join(row)} |" for row in rows)])


def count(have: Sequence[Any], planned: Sequence[Any]) -> str:
    """How many of the planned ones are there."""
    return str(len(have)) if len(have) == len(planned) else f"{len(have)} of {len(planned)}"


def mean_and_spread(values: Sequence[float] | np.ndarray, digits: int = 4, factor: float | int = 1.0) -> str:
    """Mean ± standard deviation; no spread for one value."""
    spread = f" ± {factor * np.std(values, ddof=1):.{digits}f}" if len(values) > 1 else ""
    return f"{factor * np.mean(values):.{digits}f}{spread}" if len(values) else MISSING


def mean_and_range(values: Sequence[float] | np.ndarray) -> str:
    """Mean (lowest to highest)."""
    spread = f" ({min(values):.4f} to {max(values):.4f})" if len(values) > 1 else ""
    return f"{np.mean(values):.4f}{spread}" if len(values) else MISSING


def mean_and_error(values: Sequence[float] | np.ndarray) -> str:
    """Mean ± standard error; no error for one value."""
    error = f" ± {np.std(values, ddof=1) / np.sqrt(len(values)):.2g}" if len(values) > 1 else ""
    return f"{np.mean(values):.4g}{error}" if len(values) else MISSING


def flat(tree: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """``{"a": {"b": 1}}`` as ``{"a/b": 1}``."""
    found: dict[str, Any] = {}
    for name, value in tree.items():
        found |= flat(value, f"{prefix}{name}/") if isinstance(value, Mapping) else {f"{prefix}{name}": value}
    return found
