"""The choice of a likelihood on the command line, where names have dashes."""

import dataclasses
from typing import Any

from bayesprune.core.checks import check_name
from bayesprune.model.likelihoods import protocol
from bayesprune.model.likelihoods.counts import KNOWN, starting_at

AUTO = "auto"
# The other readings that one's own targets may have, most usual first.
KINDS = (protocol.NUMBERS, protocol.CLASSES, protocol.COUNTS, protocol.OVERDISPERSED, protocol.SHARES)


def dashed(name: str) -> str:
    """The name as it is typed here."""
    return name.replace("_", "-")


def undashed(name: str) -> str:
    """The name as it is in Python."""
    return name.replace("-", "_")


def names(kind: str) -> list[str]:
    """Of targets of a kind, the one for "auto" first."""
    return [dashed(name) for name in protocol.of_kind(kind)]


def check(name: str) -> None:
    """Refuse an unknown name."""
    check_name("choice of likelihood", name, [AUTO, *map(dashed, protocol.all_named())])


def kind_of(name: str) -> str | None:
    """The kind of targets that a likelihood is for; None for "auto", which takes them as they look."""
    return None if name == AUTO else protocol.all_named()[undashed(name)].kinds[0]


def chosen(name: str, kind: str) -> str:
    """The name itself, or that for targets of a kind where it is "auto". A `ValueError` for one of another kind."""
    known = names(kind)
    name = known[0] if name == AUTO else name
    if name not in known:
        raise ValueError(f"likelihood={name} does not fit the data set, whose targets are {kind}: choose {' or '.join(known)}.")
    return name


def make(name: str, kind: str, size: int, rate: float | None = None, exposure: bool = False) -> tuple[Any, int]:
    """A likelihood and the number of the network's outputs. ``size``: classes, or targets in a row.

    ``rate``, ``exposure``: of counts, their mean, at which the likelihood starts, and whether their exposures are known.
    """
    found = protocol.of_kind(kind)[undashed(chosen(name, kind))]
    made = starting_at(found.make(size), rate)
    if exposure and hasattr(made, "exposure"):
        made = dataclasses.replace(made, exposure=KNOWN)
    return made, found.outputs(size)
