"""Nets, methods and priors by the names that flags use: ``bmr`` is `methods.BMR`, ``scale-mixture`` `priors.ScaleMixture`."""

import re
from collections.abc import Callable
from typing import NamedTuple

import docstring_parser

from bayesprune import methods as all_methods
from bayesprune import nets as all_nets
from bayesprune import priors as all_priors
from bayesprune.core.checks import unknown_name
from bayesprune.train.result import KeepAll


class Choice(NamedTuple):
    """What a name stands for, and the name as flags spell it."""

    name: str
    cls: type


def flag_name(name: str) -> str:
    """A class's name as flags spell it.

    >>> flag_name("BMR"), flag_name("ScaleMixture")
    ('bmr', 'scale-mixture')
    """
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "-", name).replace("_", "-").lower()


# What there is by name; "none" trains densely. Looked for when it is asked for, for that imports every file of a folder.
KINDS: dict[str, Callable[[], dict[str, type]]] = {
    "net": lambda: {name.lower(): getattr(all_nets, name) for name in all_nets.__all__},
    "method": lambda: {"none": KeepAll} | {flag_name(name): cls for name, cls in sorted(all_methods.find().items())},
    "prior": lambda: {
        flag_name(name): cls for name in all_priors.__all__ if isinstance(cls := getattr(all_priors, name), type)
    },
}


def choose(kind: str, name: str) -> Choice:
    """The net, method or prior of a name, whatever its case and separators; a `ValueError` with the nearest names if unknown.

    >>> choose("prior", "ScaleMixture").name
    'scale-mixture'
    """
    known = KINDS[kind]()
    for candidate, cls in known.items():
        if _squash(candidate) == _squash(name):
            return Choice(candidate, cls)
    raise unknown_name(kind, name, known, "`bayesprune methods` describes them.")


def one_line(thing: object) -> str:
    """The first line of a docstring."""
    return docstring_parser.parse(thing.__doc__ or "").short_description or ""


def _squash(name: str) -> str:
    return re.sub(r"[-_. ]", "", name).lower()
