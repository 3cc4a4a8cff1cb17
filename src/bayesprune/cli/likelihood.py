"""Likelihoods by name, each for a kind of targets, with the outputs that it asks of the network."""

import dataclasses
from collections.abc import Callable
from typing import Any

from bayesprune.core.checks import unknown_name
from bayesprune.model import likelihoods
from bayesprune.model.likelihoods.counts import KNOWN, power_of_two
from bayesprune.model.likelihoods.protocol import Likelihood

AUTO = "auto"
# Of the number of targets in a row: (the likelihood, the network's outputs). The first of a kind is the one for "auto".
Maker = Callable[[int], tuple[Any, int]]
OF_NUMBERS: dict[str, Maker] = {
    "normal": lambda targets: (likelihoods.Normal(), targets),
    "predicted-noise": lambda targets: (likelihoods.Normal("predicted"), 2 * targets),
    "student-t": lambda targets: (likelihoods.StudentT(), targets),
}
OF_CLASSES: dict[str, Maker] = {  # of the number of classes
    "categorical": lambda classes: (likelihoods.Categorical(), classes),
    "ordinal": lambda classes: (likelihoods.Ordinal(classes), 1),
}
OF_COUNTS: dict[str, Maker] = {
    "poisson": lambda targets: (likelihoods.Poisson(), targets),
    "negative-binomial": lambda targets: (likelihoods.NegativeBinomial(), targets),
}
KINDS: dict[str, dict[str, Maker]] = {
    "numbers": OF_NUMBERS,
    "classes": OF_CLASSES,
    "counts": OF_COUNTS,
    "overdispersed counts": dict(reversed(OF_COUNTS.items())),
    "shares": {"beta": lambda targets: (likelihoods.Beta(), targets)},
}


def check(name: str) -> None:
    """Refuse an unknown name."""
    known = {AUTO, *(known for of_kind in KINDS.values() for known in of_kind)}
    if name not in known:
        raise unknown_name("choice of likelihood", name, known)


def kind_of(name: str) -> str | None:
    """The kind of targets that a likelihood is for; None for "auto", which takes them as they look."""
    return next((kind for kind, known in KINDS.items() if name in known), None)


def first(kind: str) -> str:
    """The likelihood that "auto" is for targets of a kind."""
    return next(iter(KINDS[kind]))


def chosen(name: str, kind: str) -> str:
    """The name itself, or that for targets of a kind where it is "auto". A `ValueError` for one of another kind."""
    known = KINDS[kind]
    name = first(kind) if name == AUTO else name
    if name not in known:
        raise ValueError(f"likelihood={name} does not fit the data set, whose targets are {kind}: choose {' or '.join(known)}.")
    return name


def placed(likelihood: Likelihood, rate: float | None, exposure: bool) -> Any:
    """One of counts that starts where the data lie, as the scikit-learn face has it, with their known exposures."""
    if rate is None or not isinstance(likelihood, likelihoods.Poisson | likelihoods.NegativeBinomial):
        return likelihood
    return dataclasses.replace(likelihood, start=power_of_two(rate), exposure=KNOWN if exposure else None)


def make(name: str, kind: str, size: int) -> tuple[Any, int]:
    """A likelihood and the number of the network's outputs. ``size``: classes, or targets in a row."""
    return KINDS[kind][chosen(name, kind)](size)
