"""Nets, methods, priors, courses by the names of flags: ``bmr`` is `methods.BMR`, ``scale-mixture`` `priors.ScaleMixture`."""

import dataclasses
import inspect
import re
from collections.abc import Callable
from types import ModuleType
from typing import NamedTuple

from bayesprune import methods as all_methods
from bayesprune import nets as all_nets
from bayesprune import priors as all_priors
from bayesprune.cli import own_net
from bayesprune.core.checks import unknown_name
from bayesprune.core.types import Weighing
from bayesprune.courses import Plain, Standard, paper, papers
from bayesprune.data.catalogue import squash
from bayesprune.prune.keep_all import KeepAll
from bayesprune.prune.needs import needs_of

# What a method does that moves a sampler's chain, and a kernel that samples.
_MOVES = "moves a chain", "SGHMC()"


class NamedClass(NamedTuple):
    """The class of a name, and the name as flags spell it."""

    name: str
    cls: type


def flag_name(name: str) -> str:
    """A class's name as flags spell it.

    >>> flag_name("BMR"), flag_name("ScaleMixture")
    ('bmr', 'scale-mixture')
    """
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "-", name).replace("_", "-").lower()


def methods_of(sampled: bool) -> dict[str, type]:
    """Methods by their flags' names: those of `fit_svi`, or those of a sampler, which set its decays or move its chain."""
    found = {flag_name(name): cls for name, cls in sorted(all_methods.find().items())}
    return {name: cls for name, cls in found.items() if (needs_of(cls()).chain or issubclass(cls, Weighing)) == sampled}


# What there is by name; "none" trains densely. Looked for when it is asked for, for that imports every file of a folder.
KINDS: dict[str, Callable[[], dict[str, type]]] = {
    "net": lambda: {name.lower(): cls for name, cls in _public(all_nets).items()},
    "method": lambda: {"none": KeepAll} | methods_of(sampled=False),
    # Those that are made of a fit are for Python alone.
    "prior": lambda: {flag_name(name): cls for name, cls in _public(all_priors).items() if _has_defaults(cls)},
    "course": lambda: {"standard": Standard, "plain": Plain} | {name: _with_defaults_of(paper(name)) for name in papers()},
}


def choose(kind: str, name: str) -> NamedClass:
    """The class of a name, whatever its case and separators; a `ValueError` with the nearest names if unknown.

    ``kind``: one of `KINDS`. A net may be the user's own, MODULE:FUNCTION.

    >>> choose("prior", "ScaleMixture").name
    'scale-mixture'
    """
    if kind == "net" and own_net.MARK in name:
        own_net.load(name)  # an error comes now
        return NamedClass(name, own_net.OwnNet)
    known = KINDS[kind]()
    for candidate, cls in known.items():
        if squash(candidate) == squash(name):
            return NamedClass(candidate, cls)
    if kind == "method":
        _check_trained(name)
    raise unknown_name(kind, name, known, "`bayesprune methods` describes them.")


def _check_trained(name: str) -> None:
    """Refuse a method that prunes on the way of a sampler: runs train by an optimiser."""
    for candidate, cls in methods_of(sampled=True).items():
        if squash(candidate) == squash(name):
            does, kernel = ("sets the decay of single weights", "SGHMCSPL()") if issubclass(cls, Weighing) else _MOVES
            raise ValueError(
                f"method {candidate!r} {does}, which no optimizer of a run has: sample by "
                f"bp.fit_sgmcmc(..., sparsifier=bp.methods.{cls.__name__}(), kernel=bp.kernels.{kernel}) in Python."
            )


def _with_defaults_of(course: Plain) -> type:
    """The class of a paper's course, whose knobs have the paper's values where they are not given."""
    fields = dataclasses.fields(course)
    columns = [(field.name, field.type, dataclasses.field(default=getattr(course, field.name))) for field in fields]
    _, _, about = (Plain.__doc__ or "").partition("\n")
    own = {"__doc__": f"The plain course with a paper's values, see `courses.paper`.\n{about}", "__module__": Plain.__module__}
    return dataclasses.make_dataclass("Plain", columns, bases=(Plain,), frozen=True, namespace=own)


def _public(module: ModuleType) -> dict[str, type]:
    return {name: cls for name in module.__all__ if isinstance(cls := getattr(module, name), type)}


def _has_defaults(cls: type) -> bool:
    return all(one.default is not one.empty for one in inspect.signature(cls).parameters.values())
