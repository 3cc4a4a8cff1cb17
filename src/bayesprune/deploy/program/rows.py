"""The type of the rows that a compact network takes."""

from typing import Any

import numpy as np

from bayesprune.deploy.program.weights import Weighted
from bayesprune.deploy.reader import WHOLE


def takes(network: Weighted) -> str:
    """The type of its rows: "float32", or what `Compact.takes` says."""
    return str(getattr(network, "takes", "float32"))


def check_taken(network: Weighted, x: Any) -> None:
    """Refuse rows of another type than the network takes.

    No bytes, where it scales bytes: whether they were scaled already, nothing says. Real numbers, where it takes whole ones or
    booleans; and whole numbers beyond `WHOLE`.
    """
    kind = takes(network)
    if kind == "float32":
        return
    x = np.asarray(x)
    if kind == "uint8" and x.dtype != np.uint8:
        raise TypeError(
            f"x must be bytes, dtype uint8, for the network scales them itself, got {x.dtype}: give the rows before they were "
            "scaled."
        )
    if kind in ("int32", "bool") and x.dtype.kind not in {"int32": "iu", "bool": "b"}[kind]:
        raise TypeError(f"x must hold {'integers' if kind == 'int32' else 'booleans'}, as the network takes, got {x.dtype}.")
    if kind == "int32" and np.abs(x.astype(np.int64)).max(initial=0) > WHOLE:
        raise ValueError(f"x holds integers beyond {WHOLE:,}, which a smaller network cannot tell apart: number them anew.")


def random_rows(rng: np.random.Generator, takes: str, vocabulary: int | None, shape: tuple[int, ...]) -> np.ndarray:
    """Rows of the type that a network takes; whole numbers are below ``vocabulary``, the length of its smallest table.

    >>> random_rows(np.random.default_rng(0), "int32", 3, (1, 5)).max()
    np.int32(2)
    """
    ends = {"uint8": 256, "int32": 2 if vocabulary is None else vocabulary, "bool": 2}
    return rng.integers(0, ends[takes], shape).astype(takes) if takes in ends else rng.standard_normal(shape).astype(np.float32)
