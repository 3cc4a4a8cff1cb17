"""The comparison of the BMR paper: MAP, flat and tiered mean field, and stochastic BMR, on four nets and two data sets.

Settings of the paper: 50 epochs of 500 steps, batches of 128, AdaBelief (1e-3 for MAP, with dropout 0.2; 5e-3 for flat and
tiered; 1e-2 for BMR), pruning before every epoch but the first, 100 posterior draws for the final figures, all training images.
The figures on the way are of 10 draws, every fifth epoch, unless a cell says otherwise. A killed cell goes on from its last
checkpoint. The test set is looked at after training and along the way, and decides nothing.
"""

import functools
import io
import itertools
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jax
import numpy as np

import bayesprune as bp
from bayesprune import cells
from bayesprune.core import files
from bayesprune.core.checks import check_name
from bayesprune.core.types import Dataset
from bayesprune.courses import paper
from bayesprune.model.families import Family
from bayesprune.model.prior import Prior
from bayesprune.report.connected import connected

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


# Figures of the paper, final epoch, single runs: read off its plots, accuracy and ECE to .002, NLL to .01.
# (data, net, method): accuracy, ECE of 20 equal-mass bins, NLL, pruned share. A bound ("more than") is given as the bound.
PUBLISHED: dict[tuple[str, str, str], tuple[float | None, ...]] = {
    ("fashion_mnist", "lenet5", "map"): (0.887, 0.064, 0.438, None),
    ("fashion_mnist", "lenet5", "flat"): (0.884, 0.041, 0.335, None),
    ("fashion_mnist", "lenet5", "tiered"): (0.889, 0.008, 0.313, None),
    ("fashion_mnist", "lenet5", "bmr"): (0.902, 0.014, 0.283, 0.811),
    ("fashion_mnist", "mlp", "map"): (0.898, 0.060, 0.430, None),
    ("fashion_mnist", "mlp", "flat"): (0.843, 0.040, 0.444, None),
    ("fashion_mnist", "mlp", "tiered"): (0.860, 0.032, 0.394, None),
    ("fashion_mnist", "mlp", "bmr"): (0.869, 0.009, 0.358, 0.99),
    ("fashion_mnist", "vit", "map"): (0.855, 0.037, 0.417, None),
    ("fashion_mnist", "vit", "flat"): (0.845, 0.038, 0.438, None),
    ("fashion_mnist", "vit", "tiered"): (0.832, 0.015, 0.467, None),
    ("fashion_mnist", "vit", "bmr"): (0.855, 0.009, 0.402, 0.99),
    ("fashion_mnist", "mixer", "map"): (0.892, 0.046, 0.344, None),
    ("fashion_mnist", "mixer", "flat"): (0.853, 0.021, 0.399, None),
    ("fashion_mnist", "mixer", "tiered"): (0.864, 0.011, 0.373, None),
    ("fashion_mnist", "mixer", "bmr"): (0.869, 0.007, 0.355, 0.992),
    ("cifar10", "lenet5", "map"): (0.609, 0.2, 2.5, None),
    ("cifar10", "lenet5", "flat"): (0.558, 0.094, 1.25, None),
    ("cifar10", "lenet5", "tiered"): (0.596, 0.051, 1.15, None),
    ("cifar10", "lenet5", "bmr"): (0.632, 0.036, 1.05, 0.970),
    ("cifar10", "mlp", "map"): (0.562, 0.2, 1.72, None),
    ("cifar10", "mlp", "flat"): (0.438, 0.105, 1.60, None),
    ("cifar10", "mlp", "tiered"): (0.491, 0.078, 1.45, None),
    ("cifar10", "mlp", "bmr"): (0.514, 0.019, 1.37, 0.99),
    ("cifar10", "vit", "map"): (0.498, 0.109, 1.46, None),
    ("cifar10", "vit", "flat"): (0.510, 0.061, 1.39, None),
    ("cifar10", "vit", "tiered"): (0.360, 0.038, 1.72, None),
    ("cifar10", "vit", "bmr"): (0.525, 0.015, 1.35, 0.99),
    ("cifar10", "mixer", "map"): (0.687, 0.173, 1.30, None),
    ("cifar10", "mixer", "flat"): (0.547, 0.054, 1.27, None),
    ("cifar10", "mixer", "tiered"): (0.454, 0.023, 1.51, None),
    ("cifar10", "mixer", "bmr"): (0.566, 0.015, 1.18, 0.994),
}


def published(dataset: str, net: str, method: str) -> str:
    """The figures in a line: accuracy / ECE / NLL / pruned share."""
    return " / ".join("-" if value is None else f"{value:g}" for value in PUBLISHED[dataset, net, method])


BATCH = 128
QUANTILES = 101  # of the weights of each array, for the paper's figure 3


def build(
    cell: PaperCell, input_shape: tuple[int, ...], prior: Prior | None = None, posterior: str | Family | None = None
) -> bp.BNN:
    """The network and its prior, the paper's unless given; in transformers and mixers norms and places are Bayesian."""
    dropout = 0.2 if cell.method == "map" else 0.0
    wide = {"features": (18, 48, 360), "units": 256} if cell.dataset == "cifar10" else {}
    nets = {
        "mlp": lambda: bp.nets.MLP(hidden=(400,) * 5, num_outputs=10, dropout=dropout),
        "lenet5": lambda: bp.nets.LeNet5(num_outputs=10, dropout=dropout, **wide),
        "vit": lambda: bp.nets.ViT(num_outputs=10, dropout=dropout),
        "mixer": lambda: bp.nets.MLPMixer(num_outputs=10),
    }
    bayesian: dict[str, Any] = {"bayesian": bp.select.everything} if cell.net in ("vit", "mixer") else {}
    return bp.BNN(
        nets[cell.net](),
        prior=prior or (bp.priors.Horseshoe() if cell.method == "tiered" else bp.priors.Flat()),
        likelihood=bp.likelihoods.Categorical(),
        input_shape=input_shape,
        posterior=posterior or ("map" if cell.method == "map" else "mean_field"),
        **bayesian,
    )


def run_cell(cell: PaperCell, folder: Path) -> cells.Record:
    """Train one cell, or go on with it."""
    pad = 32 if cell.net == "lenet5" and cell.dataset == "fashion_mnist" else 0
    train, test = bp.data.load(cell.dataset, pad=pad)
    bnn = build(cell, train.x.shape[1:])
    fit = _fit(cell, bnn, train, test, folder)
    draws = 1 if cell.method == "map" else cell.final_draws
    figures = bp.evaluate(jax.random.key(1000 + cell.seed), bnn, fit.params, test, mask=fit.mask, num_samples=draws)
    return {**figures, **sparsity(bnn, fit.mask), **_weights(bnn, fit, folder), **cells.flat({"history": dict(fit.history)})}


def _fit(cell: PaperCell, bnn: bp.BNN, train: Dataset, test: Dataset, folder: Path) -> Any:
    acts: dict[str, Any] = {"sparsifier": bp.methods.BMR(), "every": cell.steps_per_epoch} if cell.method == "bmr" else {}
    return bp.fit_svi(
        jax.random.key(cell.seed),
        bnn,
        train,
        num_steps=cell.epochs * cell.steps_per_epoch,
        batch_size=BATCH,
        course=COURSES[cell.method],
        eval_data=test,
        eval_every=cell.evals * cell.steps_per_epoch,
        eval_samples=1 if cell.method == "map" else cell.draws,
        checkpoint=str(folder / "checkpoints"),
        checkpoint_every=cell.steps_per_epoch,
        on_interrupt="raise",
        **acts,
    )


def sparsity(bnn: bp.BNN, masks: Mapping[str, Any]) -> cells.Record:
    """Shares of the prunable weights: cut, and in use; and counts by array."""
    alive = {site: int(mask.sum()) for site, mask in masks.items()}
    sizes = {site: int(mask.size) for site, mask in masks.items()}
    if not sizes:
        return {"pruned": 0.0}
    used = sum(int(np.sum(np.asarray(mask))) for mask in connected(bnn, masks).values())
    total = sum(sizes.values())
    shares = {"pruned": 1 - sum(alive.values()) / total, "connected": used / total}
    return shares | cells.flat({"alive": alive, "sizes": sizes})


def _weights(bnn: bp.BNN, fit: bp.FitResult, folder: Path) -> cells.Record:
    """Quantiles of |E w| by array, the dead at zero; the first layer's means go to a file of the cell."""
    means = {}
    for site, node in bnn.posterior(fit.params).items():
        mean = np.asarray(node.loc * node.unit)
        means[site] = np.where(np.asarray(fit.mask[site]), mean, 0.0) if site in fit.mask else mean
    kernels = [site for site, mean in means.items() if mean.ndim > 1]
    content = io.BytesIO()
    np.save(content, means[kernels[0]])
    files.write_atomically(files.make_folder(folder) / FIRST_LAYER, content.getvalue())
    levels = np.linspace(0, 1, QUANTILES)
    return {f"cdf/{site}": np.quantile(np.abs(means[site]), levels).astype(np.float32) for site in kernels}


def comparison(found: cells.Found, wanted: tuple[PaperCell, ...] = CELLS) -> str:
    """Mean and spread over seeds, beside the published figures; the pruned and the connected share of every seed."""
    of_figures = ["accuracy", "ece_quantile", "NLL", "pruned, by seed", "connected, by seed"]
    head = ["data", "net", "method", "steps", "seeds", *of_figures, "published acc / ece / NLL / pruned"]
    rows = []
    for dataset, net, method in PUBLISHED:
        planned = [c for c in wanted if (c.dataset, c.net, c.method) == (dataset, net, method)]
        have = [found[cell] for cell in planned if cell in found]
        if not planned:
            continue
        values = lambda name, of=have: cells.mean_and_spread([record[name] for record in of])  # noqa: E731
        figures = [values(name) for name in ("accuracy", "ece_quantile", "nll")]
        of_seeds = lambda name, of=have: ", ".join(f"{r[name]:.3f}" if name in r else "?" for r in of) or "-"  # noqa: E731
        shares = [of_seeds(name) if method == "bmr" else "-" for name in ("pruned", "connected")]
        steps = ", ".join(dict.fromkeys(str(cell.epochs * cell.steps_per_epoch) for cell in planned))
        about = [dataset, net, method, steps, cells.count(have, planned)]
        rows.append([*about, *figures, *shares, published(dataset, net, method)])
    return cells.table(head, rows, "lllrrllllll")


def draw(found: cells.Found, folder: Path) -> None:
    """The paper's figures 1 to 4 from what is finished."""
    from bayesprune.reproduce.bmr_figures import draw_all

    draw_all(found, folder)


PARTS = {"fashion_mnist": FULL, "long": LONG, "short": SHORT, "glance": GLANCE}
TABLES = {name: functools.partial(comparison, wanted=part) for name, part in PARTS.items()}
STUDY = cells.Study("bmr", CELLS, run_cell, TABLES, draw)
