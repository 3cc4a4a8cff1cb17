"""Likelihoods by name, each with the outputs that it asks of the network."""

from collections.abc import Callable
from typing import Any

import numpy as np

from bayesprune.core.checks import unknown_name
from bayesprune.model import likelihoods

AUTO = "auto"
OF_NUMBERS: dict[str, tuple[Any, int]] = {  # with the outputs for each target
    "normal": (likelihoods.Normal(), 1),
    "predicted-noise": (likelihoods.Normal("predicted"), 2),
    "student-t": (likelihoods.StudentT(), 1),
}
OF_LABELS: dict[str, tuple[Callable[[int], Any], Callable[[int], int]]] = {  # both of the number of classes
    "categorical": (lambda classes: likelihoods.Categorical(), lambda classes: classes),
    "ordinal": (likelihoods.Ordinal, lambda classes: 1),
}


def check(name: str) -> None:
    """Refuse an unknown name."""
    if name not in (AUTO, *OF_NUMBERS, *OF_LABELS):
        raise unknown_name("choice of likelihood", name, (AUTO, *OF_NUMBERS, *OF_LABELS))


def make(name: str, real: bool, *targets: Any) -> tuple[Any, int]:
    """A likelihood and the number of the network's outputs, for the targets of all parts of the data, real or labels."""
    kind: dict[str, Any] = OF_NUMBERS if real else OF_LABELS
    name = next(iter(kind)) if name == AUTO else name
    if name not in kind:
        raise ValueError(
            f"likelihood={name} does not fit the data set, whose targets are {'real' if real else 'labels'}: choose "
            f"{' or '.join(kind)}."
        )
    made, outputs = kind[name]
    if real:
        return made, outputs * (1 if np.ndim(targets[0]) == 1 else np.shape(targets[0])[1])
    classes = int(max(np.max(y) for y in targets)) + 1
    return made(classes), outputs(classes)
