"""Nested dicts of arrays, such as NumPyro's parameters, as named tensors and a plan of how they nest.

The plan is made of JSON's types. An array is ``{"tensor": its name, "dtype": its type}``, a dict a list of pairs of key and
plan: keys keep their order and kind, and a dict without entries stays one.
"""

from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

Plan = Any


def pack(tree: Mapping[Any, Any], name: str, held: Mapping[int, str]) -> tuple[Plan, dict[str, np.ndarray]]:
    """The plan of a dict, and its tensors: those of a dict within are named by their keys in brackets.

    ``held``: names of tensors that are kept already, by the identity of the array. An entry of placeholders without arrays,
    such as NumPyro's ``"nn$params"``, is left out: a model makes it again. Raises ``TypeError`` for what is neither a dict, by
    texts or integers, nor an array of numbers.

    >>> plan, tensors = pack({"w": np.ones(2), "net": {"mean": np.ones(3)}, "empty": {}}, "param/{}", {})
    >>> list(tensors), plan[2]
    (['param/w', 'param/net[mean]'], ['empty', []])
    """
    plan: list[Any] = []
    tensors: dict[str, np.ndarray] = {}
    for key, value in tree.items():
        here = name.format(key)
        if type(key) not in (str, int):
            raise TypeError(f"{here} has the key {key!r}: keys must be texts or integers.")
        if isinstance(value, Mapping):
            part, more = pack(value, here.replace("{", "{{").replace("}", "}}") + "[{}]", held)
            if part or not value:
                plan.append([key, part])
            tensors |= more
        elif jax.tree.leaves(value):
            array = _numbers(value, here)
            plan.append([key, {"tensor": held.get(id(value), here), "dtype": array.dtype.name}])
            tensors |= {} if id(value) in held else {here: plain(array)}
    return plan, tensors


def _numbers(value: Any, name: str) -> np.ndarray:
    array = np.asarray(value)
    if array.dtype.kind not in "biuf" and array.dtype.name != "bfloat16":
        raise TypeError(
            f"{name} is a {type(value).__name__}, which cannot be saved: parameters are arrays of numbers or dicts."
        )
    return array


def unpack(plan: Plan, tensors: Mapping[str, np.ndarray]) -> Any:
    """What `pack` took apart, as JAX arrays."""
    if isinstance(plan, list):
        return {key: unpack(part, tensors) for key, part in plan}
    return jnp.asarray(tensors[plan["tensor"]], plan["dtype"])


def plain(array: Any) -> np.ndarray:
    """On the host; bfloat16, which NumPy alone cannot read, widened to float32 without loss."""
    host = np.asarray(array)
    return host.astype(np.float32) if host.dtype.name == "bfloat16" else host
