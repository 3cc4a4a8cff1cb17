"""How functions are compiled by numba."""

from typing import Any

from numba import njit

LANES = 32  # rows, or networks, at a time: two registers of 512 bits, four of 256

# Sums keep their order, NaN and infinities their meaning; a multiplication and an addition may be one instruction.
_OPTIONS: dict[str, Any] = {"fastmath": {"contract", "nsz", "arcp"}, "error_model": "numpy", "nogil": True}


def jit(function):  # type: ignore[no-untyped-def]
    """Compiled by numba at its first call, and kept on disk where there is room for it."""
    try:
        return njit(cache=True, **_OPTIONS)(function)
    except RuntimeError:  # no folder can be written to
        return njit(**_OPTIONS)(function)
