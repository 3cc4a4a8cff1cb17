"""Results in one line: the figures that matter, and no array."""

import math
from collections.abc import Mapping
from typing import Any

import jax
import numpy as np


def line(kind: str, *figures: str) -> str:
    """A result's kind and its figures; empty ones are left out.

    >>> line("Pruned", share_pruned({"w": np.array([True, False])}), "")
    'Pruned(50.0 % of 2 weights pruned)'
    """
    return f"{kind}({', '.join(filter(None, figures))})"


def share_pruned(mask: object) -> str:
    """How many weights of a mask are dead; nothing where there is no mask, or none that has values yet."""
    leaves = jax.tree.leaves(mask)
    if not leaves or any(not has_values(leaf) for leaf in leaves):
        return ""
    size, alive = sum(np.size(leaf) for leaf in leaves), sum(int(np.sum(np.asarray(leaf))) for leaf in leaves)
    return f"{percent(1 - alive / size)} of {size:,} weights pruned" if size else ""


def percent(share: float) -> str:
    """A share of one digit after the point; of up to eight, where it would read as nothing or as all and is neither.

    >>> percent(0.5), percent(0.0), percent(0.99997), percent(2e-6)
    ('50.0 %', '0.0 %', '99.997 %', '0.0002 %')
    """
    digits = next((digits for digits in range(1, 9) if f"{100 * share:.{digits}f}".rstrip("0") not in ("0.", "100.")), 1)
    return f"{100 * share:.{digits}f} %"


def share_connected(mask: object, connected: Any) -> str:
    """The share of a mask's weights that is on a living path; nothing where that is not known, or there are no values yet.

    >>> share_connected({"w": np.array([True, True, False, False])}, 1)
    '25.0 % connected'
    """
    leaves = jax.tree.leaves(mask)
    known = connected is not None and leaves and all(map(has_values, [*leaves, connected]))
    if not known or not (size := sum(np.size(leaf) for leaf in leaves)) or math.isnan(float(connected)):
        return ""
    return f"{percent(float(connected) / size)} connected"


def number(name: str, value: Any) -> str:
    """A name and its number to four digits; nothing for what is no single number, is NaN, or has no value yet.

    >>> number("nll", 0.123456), number("readiness", float("nan"))
    ('nll 0.1235', '')
    """
    if not has_values(value) or np.size(value) != 1 or math.isnan(single := float(np.asarray(value).reshape(()))):
        return ""
    return f"{name} {single:.4g}"


def last(history: Mapping[str, Any], kind: str) -> str:
    """The last row of one kind of a fit's history.

    >>> last({"eval/step": np.array([5, 10]), "eval/nll": np.array([0.5, 0.25])}, "eval")
    'at step 10: nll 0.25'
    """
    steps = history.get(f"{kind}/step", ())
    if not len(steps):
        return ""
    names = [name for name in history if name.startswith(f"{kind}/") and name != f"{kind}/step"]
    figures = ", ".join(filter(None, (number(name.removeprefix(f"{kind}/"), history[name][-1]) for name in names)))
    return f"at step {int(steps[-1]):,}: {figures}"


def has_values(leaf: object) -> bool:
    """Whether it is an array or number, and no stand-in for one, as a traced function has."""
    return isinstance(leaf, bool | int | float | np.ndarray | np.generic | jax.Array) and not isinstance(leaf, jax.core.Tracer)


def shapes(value: Any) -> str:
    """Of an array its shape and dtype, of several theirs, of all else its type.

    >>> shapes(np.zeros((3, 2))), shapes({"ids": np.zeros(3, int)}), shapes("rows.csv")
    ('(3, 2) float64', '{ids: (3,) int64}', 'str')
    """
    if isinstance(value, Mapping):
        return f"{{{', '.join(f'{name}: {shapes(one)}' for name, one in value.items())}}}"
    if isinstance(value, tuple):
        return f"({', '.join(map(shapes, value))})"
    return f"{tuple(value.shape)} {value.dtype}" if hasattr(value, "dtype") else type(value).__name__
