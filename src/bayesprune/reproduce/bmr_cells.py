"""The cells of the BMR paper's comparison: what one fit is, and which there are."""

import itertools
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from bayesprune.core.checks import check_name
from bayesprune.courses import paper

EPOCH = 500  # steps
COURSES = {"map": paper("map"), "flat": paper("flat"), "tiered": paper("flat"), "bmr": paper("bmr")}
NETS = ("mlp", "lenet5", "vit", "mixer")
DATASETS = ("fashion_mnist", "cifar10")
FIRST_LAYER = "first_layer.npy"


@dataclass(frozen=True)
class PaperCell:
    """One fit. ``evals``: epochs between two evaluations on the way, of ``draws`` posterior draws each; ``final_draws`` of the
    last one."""

    net: str
    method: str
    seed: int
    epochs: int = 50
    dataset: str = "fashion_mnist"
    evals: int = 5
    draws: int = 10
    steps_per_epoch: int = EPOCH
    final_draws: int = 100


KEPT = ("map", "flat", "tiered", "bmr")
FULL = (
    *(PaperCell("lenet5", method, seed) for seed in range(3) for method in KEPT),
    *(PaperCell("mlp", method, 0) for method in KEPT),
    *(PaperCell("mlp", "bmr", seed) for seed in (1, 2)),
)
# What an accelerator was at hand for.
LONG = (
    *(PaperCell(net, "bmr", 0) for net in ("vit", "mixer")),
    *(PaperCell(net, "bmr", 0, dataset="cifar10") for net in NETS),
)
# What two cores can do of it: a tenth of the paper's steps.
SHORT = tuple(
    PaperCell(net, method, 0, epochs=5, dataset="cifar10", final_draws=20) for net in ("mlp", "lenet5") for method in KEPT
)
# And of the nets that take seconds for a step: a hundred steps.
GLANCE = tuple(
    PaperCell(net, method, 0, epochs=5, dataset=dataset, draws=1, steps_per_epoch=20, final_draws=2)
    for dataset in DATASETS
    for net in ("mixer", "vit")
    for method in KEPT
)
CELLS = FULL + LONG + SHORT + GLANCE


def grid(nets: Iterable[str], methods: Iterable[str], seeds: Iterable[int], **settings: Any) -> tuple[PaperCell, ...]:
    """Every combination. Raises `ValueError` for an unknown net, method or data set."""
    nets, methods = tuple(nets), tuple(methods)
    named = {"net": (nets, NETS), "method": (methods, COURSES), "dataset": ((settings.get("dataset", DATASETS[0]),), DATASETS)}
    for kind, (chosen, known) in named.items():
        for name in chosen:
            check_name(kind, name, known)
    return tuple(PaperCell(net, method, seed, **settings) for net, method, seed in itertools.product(nets, methods, seeds))
