"""Whether numbers are finite, without a copy of what the host holds: of parameters at every door, of a state between steps."""

from collections.abc import Iterator, Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from bayesprune.core.types import PyTree

# Entries that may be infinite: the standard deviation of a flat prior, the log-odds of what is certain.
_MAY_BE_INFINITE = ("$prior_scale", "$unit", "_logit")


def check_finite(params: Mapping[str, Any], name: str = "params") -> None:
    """Refuse parameters with NaN or infinities, which predictions, cuts and files would take for numbers.

    Tracers and arrays of other processes cannot be looked at, and pass. Raises ``ValueError``.

    >>> check_finite({"w_auto_loc": np.zeros(3), "w$prior_scale": np.inf})
    """
    for site, lost in lost_in(params):
        raise ValueError(
            f"{name} hold {lost} value(s) that are NaN or infinite at {site!r}: they are of a fit that diverged, and say "
            "nothing. Go on from the last finite ones (error.params of its DivergedError, or a checkpoint), or fit again "
            "with a smaller learning rate."
        )


def lost_in(params: Mapping[str, Any]) -> Iterator[tuple[str, int]]:
    """Entries that hold NaN, or infinities that mean nothing there, and how many values those are.

    >>> list(lost_in({"w_auto_loc": np.array([0.0, np.nan]), "w$prior_scale": np.inf}))
    [('w_auto_loc', 1)]
    """
    for site, value in params.items():
        lost = sum(_count(leaf, not site.endswith(_MAY_BE_INFINITE)) for leaf in jax.tree.leaves(value))
        if lost:
            yield site, lost


def broken(tree: PyTree) -> frozenset[str]:
    """The ways to the arrays of a pytree with NaN or infinities. Keys and whole numbers have none.

    >>> sorted(broken({"w": jnp.ones(2), "m": (jnp.zeros(1), jnp.array([jnp.inf]))}))
    ["['m'][1]"]
    """
    floats = [(path, leaf) for path, leaf in jax.tree_util.tree_leaves_with_path(tree) if _is_float(leaf)]
    leaves = [leaf for _, leaf in floats]
    sound = [np.isfinite(leaf).all() for leaf in leaves] if all(map(_is_here, leaves)) else np.asarray(_sound(leaves))
    return frozenset(jax.tree_util.keystr(path) for (path, _), one in zip(floats, sound, strict=True) if not one)


@jax.jit
def _sound(leaves: list[jax.Array]) -> jax.Array:
    return jnp.stack([jnp.isfinite(leaf).all() for leaf in leaves])


def _count(leaf: PyTree, infinite_too: bool) -> int:
    """How many numbers are NaN, or infinite."""
    if isinstance(leaf, jax.core.Tracer) or not _is_float(leaf) or not getattr(leaf, "is_fully_addressable", True):
        return 0
    if _is_here(leaf):
        array = np.asarray(leaf)
        lost = ~np.isfinite(array) if infinite_too else np.isnan(array)
        return int(np.count_nonzero(lost))
    return int(jnp.sum(~jnp.isfinite(leaf) if infinite_too else jnp.isnan(leaf)))


def _is_here(leaf: PyTree) -> bool:
    """Whether the host holds it: NumPy then looks at it as it is, and nothing is compiled for its shape."""
    return not isinstance(leaf, jax.Array) or (
        leaf.is_fully_addressable and all(device.platform == "cpu" for device in leaf.devices())
    )


def _is_float(leaf: PyTree) -> bool:
    return bool(jnp.issubdtype(getattr(leaf, "dtype", np.asarray(leaf).dtype if np.isscalar(leaf) else np.int32), jnp.inexact))
