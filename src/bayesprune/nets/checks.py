"""What the networks of this package are made with, checked where they are made: inside they would fail without a word."""

from collections.abc import Mapping
from typing import Any

import jax

from bayesprune.core.checks import check_function, check_integer, check_within


def check_widths(widths: Any, name: str) -> None:
    """Refuse what is no sequence of positive integers; a bare number above all, and what can be read but once.

    >>> check_widths((400, 400), "hidden")
    """
    if isinstance(widths, str | Mapping) or not hasattr(widths, "__getitem__"):  # a generator would be empty after this look
        shown = f"({widths!r},)" if isinstance(widths, int) else "(400, 400)"
        raise TypeError(f"{name} must be a sequence, the units of each layer, got {widths!r}: write {name}={shown}.")
    for width in widths:
        check_integer(width, name)


def check_counts(net: object, *names: str) -> None:
    """Refuse fields of a network that are no positive integers."""
    for name in names:
        check_integer(getattr(net, name), name)


def check_dropout(dropout: object) -> None:
    """Refuse what is no probability below 1; percents above all, of which nothing would be left."""
    check_within(dropout, "dropout", "[0, 1)", "0.2 drops a fifth")


def check_activation(given: object) -> None:
    """Refuse what is no function, names above all."""
    named = isinstance(given, str) and callable(getattr(jax.nn, given, None))
    check_function(given, "activation", f"jax.nn.{given if named else 'swish'}")
