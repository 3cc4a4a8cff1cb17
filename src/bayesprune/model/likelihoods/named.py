"""Likelihoods by name, for the command line and the scikit-learn estimators.

Every file of this folder lists its own in ``NAMED``, name -> `Named`; a new file is found by it.
"""

import functools
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from bayesprune.core.folder import files

NUMBERS, CLASSES, COUNTS, OVERDISPERSED, SHARES = "numbers", "classes", "counts", "overdispersed counts", "shares"


def as_many(size: int) -> int:
    """One output of the network for each."""
    return size


class Named(NamedTuple):
    """A likelihood of targets of ``kinds``, as they come to it; the first is the one that it says of the targets.

    ``make`` and ``outputs`` have one argument, of classes their number, else that of the targets in a row: the likelihood, and
    how many outputs it asks of the network. ``default_of``: the kinds that get it where no likelihood is named.
    """

    kinds: tuple[str, ...]
    make: Callable[[int], Any]  # a `Likelihood`, of targets of its own kind alone
    outputs: Callable[[int], int] = as_many
    default_of: tuple[str, ...] = ()


@functools.cache
def all_named() -> Mapping[str, Named]:
    """Every likelihood that has a name.

    >>> list(all_named())[:3]
    ['beta', 'categorical', 'negative_binomial']
    """
    return {name: named for file in files(__package__) for name, named in getattr(file, "NAMED", {}).items()}


def of_kind(kind: str) -> dict[str, Named]:
    """Those for targets of a kind, the default first.

    >>> list(of_kind("overdispersed counts"))
    ['negative_binomial', 'poisson']
    """
    found = [(name, named) for name, named in all_named().items() if kind in named.kinds]
    return dict(sorted(found, key=lambda one: (kind not in one[1].default_of, one[0])))
