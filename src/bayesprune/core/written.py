"""Values as a line of text has them, written as in Python.

A schedule is written as ``Cubic(0.05, 0, 20)`` (of `bayesprune.schedules`), a function of `jax.nn` or a floating type by its
name, as ``relu`` or ``bfloat16``, a number as itself.
"""

import ast
import dataclasses
import functools
import operator
import textwrap
import types
import typing
from collections.abc import Callable, Sequence
from types import ModuleType
from typing import Any

import jax

from bayesprune.core import schedules
from bayesprune.core.checks import unknown_name

FLOATS = ("bfloat16", "float16", "float32")  # types to compute in
_PLAIN = (bool, int, float, str, types.NoneType)


def to_text(value: object) -> str:
    """A value as `from_text` reads it."""
    return value.__name__ if callable(value) and hasattr(value, "__name__") else repr(value)


def from_text(text: str, name: str) -> Any:
    """A number, None, a schedule, a floating type's name, or a function of `jax.nn`; ``name`` is the knob's, for the error.

    >>> from_text("Cubic(0.05, 0, end=20)", "density")
    Cubic(final_density=0.05, begin=0, end=20)
    >>> from_text("bfloat16", "dtype")
    'bfloat16'
    """
    try:
        node = ast.parse(text.strip(), mode="eval").body
        if isinstance(node, ast.Name):
            return node.id if node.id in FLOATS else _named(f"function for {name}", node.id, jax.nn, callable)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            schedule = _named("schedule", node.func.id, schedules, dataclasses.is_dataclass)
            keywords = {str(word.arg): ast.literal_eval(word.value) for word in node.keywords}
            return schedule(*(ast.literal_eval(part) for part in node.args), **keywords)
        return ast.literal_eval(node)
    except (SyntaxError, RecursionError, MemoryError):  # the last two: it nests too deep for Python's own parser
        shown = textwrap.shorten(text, 60) if len(text) > 60 else text
        raise ValueError(
            f"{name} must be a number, a schedule such as 'Cubic(0.05, 0, 20)', or a name, got {shown!r}."
        ) from None
    except (TypeError, ValueError) as error:
        raise ValueError(f"{name}={text!r}: {error}") from error


def plain_type(hint: object) -> Any:
    """The type of the plain values, or lists of them, that an annotation allows; None where they have to be written out.

    >>> plain_type(int | None), plain_type(tuple[float, ...]), plain_type(Callable)
    (int | None, tuple[float, ...], None)
    """
    if hint in _PLAIN or typing.get_origin(hint) is typing.Literal:
        return hint
    arguments = [part for part in typing.get_args(hint) if part is not ...]
    if not arguments or any(plain_type(part) is None for part in arguments):
        return None
    origin = typing.get_origin(hint)
    if origin in (typing.Union, types.UnionType):
        # Any flag's text is a str, so that the other types have to be tried first.
        return functools.reduce(operator.or_, sorted(arguments, key=lambda part: part is str))
    # `tuple[X, ...]` for an X known only now.
    return types.GenericAlias(tuple, (arguments[0], ...)) if origin in (Sequence, list) else hint if origin is tuple else None


def _named(kind: str, name: str, module: ModuleType, wanted: Callable[[Any], bool]) -> Any:
    """The public thing of a name in a module."""
    known = {key: value for key, value in vars(module).items() if not key.startswith("_") and wanted(value)}
    if name not in known:
        raise unknown_name(kind, name, known)
    return known[name]
