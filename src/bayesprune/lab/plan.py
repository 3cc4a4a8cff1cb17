"""The cells of a comparison: tries on held-out rows, and then, at the best of them, trainings that the test rows judge."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from bayesprune.cells import Record
from bayesprune.lab.entry import ANY, rivals

TRY, TEST = "try", "test"


@dataclass(frozen=True)
class Cell:
    """One training. ``density``: the wanted connected share, 0: what the method finds or leaves. ``trial``: its setting.

    ``part``: "try" judges by held-out rows, "test" by the test rows. ``rows``: of the training set, 0: all.
    """

    data: str
    net: str
    method: str
    density: float
    trial: int
    seed: int
    steps: int
    part: str = TEST
    batch_size: int = 128
    rows: int = 0
    ood: str = "permuted"
    noise: str = "0.5,1.0"


def tried(base: Cell, methods: Sequence[str], densities: Sequence[float], budget: int) -> list[Cell]:
    """As many tries of every method, all of one seed; of those that take a density at the middle one of ``densities``."""
    middle = sorted(densities)[len(densities) // 2]
    known = rivals()
    return [
        replace(base, method=name, density=middle if known[name].gives == ANY else 0.0, trial=trial, seed=0, part=TRY)
        for name in methods
        for trial in range(budget)
    ]


def best_try(found: Mapping[Cell, Record], tries: Sequence[Cell], method: str) -> int:
    """The try of lowest NLL on the held-out rows, the first of equals; 0 where all have failed, or none is there."""
    have = {cell.trial: found[cell].get("nll") for cell in tries if cell.method == method and cell in found}
    scored = {trial: nll for trial, nll in have.items() if nll is not None}
    return min(scored, key=lambda trial: (scored[trial], trial)) if scored else 0


def judged(base: Cell, chosen: Mapping[str, int], densities: Sequence[float], seeds: int) -> list[Cell]:
    """Every method at its chosen try: at each density, or at its own; a training for each seed."""
    known = rivals()
    return [
        replace(base, method=name, density=density, trial=trial, seed=seed)
        for name, trial in chosen.items()
        for density in (sorted(densities, reverse=True) if known[name].gives == ANY else [0.0])
        for seed in range(seeds)
    ]


def numbers(text: str, name: str = "noise") -> list[float]:
    """``"0.5,1.0"`` as numbers; a `ValueError` that names what they are for anything else.

    >>> numbers("0.5,1.0"), numbers("")
    ([0.5, 1.0], [])
    """
    try:
        return [float(one) for one in text.split(",") if one]
    except ValueError:
        raise ValueError(f"{name} must be numbers with commas between them, such as 20,10,5; got {text!r}.") from None


def columns(noise: str) -> dict[str, Any]:
    """Names of the figures of corrupted rows, by size of the noise.

    >>> columns("0.5")
    {'accuracy, noise 0.5': 0.5, 'nll, noise 0.5': 0.5}
    """
    return {f"{figure}, noise {size:g}": size for size in numbers(noise) for figure in ("accuracy", "nll")}
