"""When two settings are the same: keys that hash, made of a value's parts, and the spelling of a value for other processes."""

import dataclasses
import functools
import hashlib
import re
import types
from collections.abc import Callable, Hashable, Mapping
from typing import Any

import jax
import numpy as np

from bayesprune.core.keys import key_numbers

_PLAIN = (bool, int, float, complex, str, bytes, type(None), type(Ellipsis))


@dataclasses.dataclass(frozen=True, eq=False)
class Itself:
    """A key that equals none but that of the very same object, which it keeps alive."""

    value: Any

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Itself) and self.value is other.value

    def __hash__(self) -> int:
        return id(self.value)


def key(value: object) -> Hashable:
    """A key that hashes: equal for values of the same type with the same parts, arrays by their bytes.

    Parts are those of numbers, strings, arrays, containers, frozen dataclasses (Flax linen modules too), pytrees (Equinox and
    nnx modules) and partial functions. Anything else, functions above all, equals itself alone: what it does may depend on
    names that are bound elsewhere.

    >>> import jax.numpy as jnp
    >>> key({"w": jnp.ones(3), "n": 1}) == key({"n": 1, "w": np.ones(3, np.float32)}), key(1) == key(1.0)
    (True, False)
    """
    return _parts(value, Itself)


def first(value: object, key: Hashable) -> Any:
    """The first value of recent calls with an equal key: functions that compare by identity then see one object."""
    return _first(_Keyed(key, value))


@dataclasses.dataclass(frozen=True)
class _Keyed:
    key: Hashable
    value: Any = dataclasses.field(compare=False)


@functools.lru_cache(maxsize=128)
def _first(keyed: _Keyed) -> Any:
    return keyed.value


def spelled(value: object) -> str:
    """What a setting looks like in every process: its start in words, and a digest of all its parts.

    Functions count by their code, and by the values that they close over.

    >>> spelled(3), spelled("weight")
    ('3', "'weight'")
    >>> spelled(lambda step: 1.0) == spelled(lambda step: 1.0), spelled(lambda step: 1.0) == spelled(lambda step: 2.0)
    (True, False)
    """
    text = _without_addresses(value)
    if isinstance(value, _PLAIN):
        return text
    return f"{text if len(text) <= 120 else text[:117] + '...'} [{digest(_parts(value, _Code()))[:8]}]"


def digest(parts: object) -> str:
    """A digest of nested tuples of plain values, the same in every process."""
    return hashlib.sha256(repr(parts).encode()).hexdigest()


def array_digest(value: Any) -> tuple[str, tuple[int, ...], str]:
    """(dtype, shape, digest of the bytes) of an array, or of a key's numbers."""
    dtype = str(value.dtype)
    array = np.ascontiguousarray(key_numbers(value))
    return dtype, tuple(np.shape(value)), hashlib.sha256(array.view(np.uint8).data if array.size else b"").hexdigest()


def _parts(value: Any, atom: Callable[[Any], Hashable]) -> Hashable:
    """Nested tuples; ``atom`` has what has no parts."""
    parts = functools.partial(_parts, atom=atom)
    if isinstance(value, _PLAIN):
        return type(value).__name__, repr(value)  # NaN equals NaN, 1 is not True, and 0.0 not -0.0
    if isinstance(value, np.dtype):
        return "dtype", str(value)
    if isinstance(value, np.ndarray | np.generic) or (isinstance(value, jax.Array) and not isinstance(value, jax.core.Tracer)):
        return ("array", *array_digest(value)) if value.dtype != object else atom(value)
    if isinstance(value, Mapping):
        return "mapping", tuple(sorted(((parts(k), parts(v)) for k, v in value.items()), key=repr))
    if isinstance(value, set | frozenset):
        return "set", tuple(sorted(map(parts, value), key=repr))
    if isinstance(value, tuple | list):
        return atom(type(value)), tuple(map(parts, value))
    if isinstance(value, functools.partial):
        return "partial", parts(value.func), parts(value.args), parts(value.keywords)
    if isinstance(value, types.MethodType):
        return "method", atom(value.__func__), parts(value.__self__)
    if _has_fixed_fields(value):
        return atom(type(value)), tuple((f.name, parts(getattr(value, f.name, None))) for f in dataclasses.fields(value))
    if not isinstance(value, type) and not callable(getattr(value, "__array__", None)) and _is_tree(value):
        leaves, structure = jax.tree.flatten(value)
        return atom(type(value)), atom(structure) if atom is not Itself else _hashed(structure), tuple(map(parts, leaves))
    return atom(value)


def _has_fixed_fields(value: object) -> bool:
    """Whether it is a dataclass that says itself that its fields make it what it is."""
    params = getattr(type(value), "__dataclass_params__", None)
    return params is not None and not isinstance(value, type) and (params.frozen or params.unsafe_hash)


def _is_tree(value: object) -> bool:
    return not jax.tree_util.all_leaves([value])


def _hashed(structure: object) -> Hashable:
    """The structure of a pytree, which hashes unless something static in it does not."""
    try:
        hash(structure)
    except TypeError:
        return Itself(structure)
    return structure


class _Code:
    """The atoms of `spelled`: functions by their code, classes and modules by their names, other objects by what they hold."""

    def __init__(self, above: tuple[int, ...] = ()) -> None:
        self._above = above  # objects that are being spelled: one that holds itself is spelled once

    def __call__(self, value: object) -> Hashable:
        name = f"{getattr(value, '__module__', '')}.{getattr(value, '__qualname__', type(value).__qualname__)}"
        if isinstance(value, type | types.ModuleType | types.BuiltinFunctionType) or id(value) in self._above:
            return name
        within = functools.partial(_parts, atom=_Code((*self._above, id(value))))
        if isinstance(value, types.FunctionType):
            cells = tuple(within(cell.cell_contents) for cell in value.__closure__ or ())
            return name, _code(value.__code__), within(value.__defaults__), within(value.__kwdefaults__), cells
        if hasattr(value, "__wrapped__"):
            return name, within(value.__wrapped__)
        return (name, within(vars(value))) if hasattr(value, "__dict__") else (name, _without_addresses(value))


def _code(code: types.CodeType) -> Hashable:
    as_text = lambda c: tuple(sorted(map(repr, c))) if isinstance(c, frozenset) else repr(c)  # noqa: E731
    constants = tuple(_code(c) if isinstance(c, types.CodeType) else as_text(c) for c in code.co_consts)
    return code.co_name, code.co_code.hex(), code.co_names, constants


def _without_addresses(value: object) -> str:
    return re.sub(r" at 0x[0-9a-fA-F]+", "", repr(value))
