"""Sparse from the first step: SSVI against dense VI, RigL, SET and one-shot SNR, by density, on MNIST and Fashion-MNIST.

    python benchmarks/reproduce_ssvi.py run                                     # what is not in runs/ssvi.jsonl yet
    python benchmarks/reproduce_ssvi.py run --only dataset=fashion_mnist net=lenet300 part=density
    python benchmarks/reproduce_ssvi.py table                                   # from the results kept here

All methods: the same network, batches of 128, Adam with a cosine from 3e-3 to 0, weights from He's start, prior N(0, 1) on
every weight, kernels prunable, 30 posterior draws for the figures (LeNet-5: ten; MAP, RigL, SET: one). VI and SSVI: local
reparameterisation, scales from 0.01. Their divergence has the paper's weight, 0.01 min(2 epoch/epochs, 1): a COLD POSTERIOR;
"vi_full" and "ssvi_full" have it with full weight at every step. SSVI, RigL, SET: an exchange every 100 steps until three
quarters of the training, 30 % of the alive weights at first, densities by Erdős-Rényi (one for all in "ssvi_uniform"). SNR
one-shot cuts the dense VI fit of the same seed, with no training after. Epochs are few, the tables name them. Parts beside
"density" and "longer": "scale" varies the initial scales, "removal" the six removal scores, both for LeNet-300-100 on
Fashion-MNIST; "tune" chose prior and rate by dense VI with full weight, distribution and width of the start by SSVI, on 10,000
of its training images held back. The test set decided nothing.
"""

import functools
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import flax.linen as nn
import jax
import numpy as np
import optax

import bayesprune as bp
from bayesprune import cells
from bayesprune.model.families import MapFamily, MeanFieldFamily

BATCH, EVERY, COLD = 128, 100, 0.01
DENSITIES = (0.5, 0.2, 0.1, 0.05, 0.02, 0.01)
DATASETS = ("fashion_mnist", "mnist")
SEEDS = (0, 1, 2)
NETS = {"lenet300": lambda: bp.nets.MLP((300, 100), 10, activation=nn.relu), "lenet5": lambda: bp.nets.LeNet5(10)}
EPOCHS = {"lenet300": 5, "lenet5": 3}
DRAWS = {"lenet300": 30, "lenet5": 10}
POINTS = ("map", "rigl", "set")
ORDER = ("map", "vi", "vi_full", "ssvi", "ssvi_full", "ssvi_uniform", "rigl", "set")
SCORES = ("magnitude", "snr", "expected_abs", "expected_abs_over_std", "log_expected_exp", "log_expected_exp_over_std")
FIGURES = ("accuracy", "nll", "ece", "ece_quantile", "calibration_marginal", "brier")
HEAD = ("method", "density", "seeds", *FIGURES)


@dataclass(frozen=True)
class Cell:
    """One training. ``widen``: the start's standard deviation over He's; ``removal``: "" is the method's own."""

    part: str
    dataset: str
    net: str
    method: str
    density: float
    epochs: int
    seed: int
    init_scale: float = 0.01
    removal: str = ""
    prior: float = 1.0
    rate: float = 3e-3
    widen: float = 1.0


def by_density(dataset: str, net: str) -> list[Cell]:
    pairs = [(method, density) for density in DENSITIES for method in ("ssvi", "rigl", "set")]
    pairs += [("vi", 1.0), ("map", 1.0), ("vi_full", 1.0), ("ssvi_full", 0.1), ("ssvi_uniform", 0.1)]
    return [Cell("density", dataset, net, *pair, EPOCHS[net], seed) for seed in SEEDS for pair in pairs]


def longer() -> list[Cell]:
    pairs = {"lenet300": (("vi", 1.0), ("ssvi", 0.1), ("rigl", 0.1))}
    pairs["lenet5"] = (*pairs["lenet300"], ("set", 0.1))
    planned = [("fashion_mnist", net, *pair, 20, seed) for seed in SEEDS for net in NETS for pair in pairs[net]]
    planned += [("mnist", "lenet5", *pair, 20, 0) for pair in pairs["lenet5"]]
    return [Cell("longer", *settings) for settings in planned]


def ablations() -> list[Cell]:
    made = functools.partial(Cell, dataset="fashion_mnist", net="lenet300")
    uniform = [made("density", method="ssvi_uniform", density=d, epochs=5, seed=0) for d in (0.5, 0.2, 0.05)]
    scale = [
        made("scale", method=method, density=density, epochs=5, seed=seed, init_scale=sigma)
        for seed in SEEDS
        for sigma in (0.001, 0.01, 0.03, 0.1)
        for method, density in (("vi", 1.0), ("ssvi", 0.1))
    ]
    removal = [
        made("removal", method="ssvi", density=density, epochs=5, seed=seed, removal=score)
        for seed in SEEDS
        for density in (0.1, 0.01)
        for score in SCORES
    ]
    tune = functools.partial(made, "tune", epochs=3, seed=0)
    dense = [(p, r, 0.01) for p in (0.05, 0.1, 0.3) for r in (1e-3, 3e-3)] + [(0.1, 3e-3, 0.03), (1.0, 3e-3, 0.01)]
    tuned = [tune(method="vi_full", density=1.0, prior=p, rate=r, init_scale=s) for p, r, s in dense]
    tuned += [tune(method=method, density=0.1, widen=w) for method in ("ssvi_uniform", "ssvi") for w in (1.0, 2.0)]
    return [*uniform, *scale, *removal, *tuned]


CELLS = tuple([cell for net in NETS for data in DATASETS for cell in by_density(data, net)] + ablations() + longer())


def build(cell: Cell, shape: tuple[int, ...]) -> bp.BNN:
    """The network under N(0, prior²), its scales starting at ``init_scale`` in the network's units."""
    start = {"init_loc": "he", "unit": cell.prior / cell.widen}
    point = cell.method in POINTS
    return bp.BNN(
        NETS[cell.net](),
        prior=bp.priors.Gaussian(cell.prior),
        likelihood=bp.likelihoods.Categorical(),
        input_shape=shape,
        posterior=MapFamily(**start) if point else MeanFieldFamily(init_scale=cell.init_scale / cell.prior, **start),
        prunable=bp.select.kernels,
    )


def load(cell: Cell) -> tuple[bp.Dataset, bp.Dataset]:
    """What is trained on and what is judged by: the test images, or in "tune" 10,000 of the training images."""
    data, test = bp.data.load(cell.dataset, pad=32 if cell.net == "lenet5" else 0)
    if cell.part != "tune":
        return data, test
    order = np.random.default_rng(0).permutation(len(data.y))
    x, y = np.asarray(data.x), np.asarray(data.y)
    held, kept = (bp.Dataset(x[rows], y[rows]) for rows in (order[:10_000], order[10_000:]))
    return kept, held


def sparsifier(cell: Cell) -> Any:
    changes = {"distribution": "erdos_renyi"}
    if cell.method in POINTS:
        changes["removal"] = "magnitude"
    if cell.method == "set":
        changes["addition"] = "random"
    if cell.method == "ssvi_uniform":
        del changes["distribution"]
    return bp.methods.SSVI(cell.density, **changes, **({"removal": cell.removal} if cell.removal else {}))


def train(cell: Cell, data: bp.Dataset) -> Any:
    """One training; returns (bnn, fit)."""
    bnn = build(cell, data.x.shape[1:])
    num_steps = cell.epochs * -(-len(data.y) // BATCH)
    full = cell.method.endswith("_full") or cell.method in POINTS
    dense = cell.method in ("vi", "vi_full", "map")
    fit = bp.fit_svi(
        jax.random.key(cell.seed),
        bnn,
        data,
        num_steps=num_steps,
        batch_size=BATCH,
        course=bp.courses.Plain(),
        optimizer=optax.adam(optax.cosine_decay_schedule(cell.rate, num_steps)),
        estimator="weight" if cell.method in POINTS else "local",
        kl_weight=bp.schedules.Constant(1.0) if full else bp.schedules.LinearWarmup(0, num_steps / 2, peak=COLD),
        progress=False,
        **({} if dense else {"sparsifier": sparsifier(cell), "every": EVERY}),
    )
    return bnn, fit


def judge(cell: Cell, bnn: bp.BNN, params: Any, mask: Any, data: bp.Dataset) -> dict[str, float]:
    draws = 1 if cell.method in POINTS else DRAWS[cell.net]
    figures = bp.evaluate(jax.random.key(1000 + cell.seed), bnn, params, data, mask=mask, num_samples=draws)
    return {name: float(figures[name]) for name in FIGURES}


def run(cell: Cell, folder: Path) -> cells.Record:
    """Figures of the fit; a dense VI fit also has those of one-shot SNR, under ``snr/density/``."""
    data, test = load(cell)
    begin = time.perf_counter()
    bnn, fit = train(cell, data)
    record: cells.Record = {"training_seconds": time.perf_counter() - begin, **judge(cell, bnn, fit.params, fit.mask, test)}
    if cell.method == "vi" and cell.part in ("density", "longer"):
        for cut in DENSITIES:
            pruned = bp.prune_once(fit.params, bp.methods.SNR(cut), read=bnn.read)
            record |= cells.flat({f"snr/{cut:g}": judge(cell, bnn, pruned.params, pruned.mask, test)})
    if cell.part == "removal":
        record |= beside_snr(cell, fit.mask, folder)
    return record


def beside_snr(cell: Cell, mask: Any, folder: Path) -> cells.Record:
    """Leaves the mask of score 2 behind; for score 4 in how many weights it differs, where score 2 was run before."""
    kept = folder.parent / f"snr-{cell.density:g}-{cell.epochs}-{cell.seed}.npz"
    if cell.removal == "snr":
        kept.parent.mkdir(parents=True, exist_ok=True)
        np.savez_compressed(kept, **{site: np.asarray(alive) for site, alive in mask.items()})
    if cell.removal != "expected_abs_over_std" or not kept.exists():
        return {}
    snr = np.load(kept)
    return {"differs_from_snr_in": int(sum((snr[site] != np.asarray(alive)).sum() for site, alive in mask.items()))}


def figures(found: cells.Found, planned: list[Cell], label: str, density: float, prefix: str = "") -> list[str]:
    """One row: means over seeds, with the range."""
    records = [found[cell] for cell in planned if cell in found]
    values = [[record[prefix + name] for record in records] for name in FIGURES]
    return [label, f"{density:g}", cells.count(records, planned), *(cells.mean_and_range(v) for v in values)]


def grouped(part: str, by: Callable[[Cell], Any], *only: str) -> dict[Any, list[Cell]]:
    """The cells of a part that differ in their seed alone."""
    groups: dict[Any, list[Cell]] = {}
    for cell in cells.select(CELLS, [f"part={part}", *only]):
        groups.setdefault(by(cell), []).append(cell)
    return groups


def rows(found: cells.Found, part: str, dataset: str, net: str) -> str:
    """Methods by density, one-shot SNR last."""
    groups = grouped(part, lambda cell: (cell.method, cell.density), f"dataset={dataset}", f"net={net}")
    order = sorted(groups, key=lambda group: (ORDER.index(group[0]), -group[1]))
    lines = [figures(found, groups[method, density], method, density) for method, density in order]
    lines += [figures(found, groups["vi", 1.0], "snr", cut, f"snr/{cut:g}/") for cut in DENSITIES]
    return cells.table(HEAD, lines, "l" + "r" * 8)


def ablation(found: cells.Found, part: str, name: Callable[[Cell], str]) -> str:
    groups = grouped(part, lambda cell: (name(cell), cell.density))
    lines = [figures(found, groups[label, density], label, density) for label, density in sorted(groups)]
    return cells.table(HEAD, lines, "l" + "r" * 8)


def per_cent(found: cells.Found, planned: list[Cell], name: str) -> str:
    values = [found[cell][name] for cell in planned if cell in found]
    if not values:
        return "missing" if planned else "-"
    return f"{100 * np.mean(values):.1f}" + (f" ({cells.count(values, planned)})" if len(values) < len(planned) else "")


def accuracy(found: cells.Found) -> str:
    """Per cent, means over seeds, of the methods that have every density."""
    lines = []
    for part, dataset, net in SHOWN:
        groups = grouped(part, lambda cell: (cell.method, cell.density), f"dataset={dataset}", f"net={net}")
        dense = groups["vi", 1.0]
        first = [dataset, net, str(dense[0].epochs)]
        for method in ("ssvi", "rigl", "set"):
            planned = [groups.get((method, density), []) for density in DENSITIES]
            if any(planned):
                values = [per_cent(found, same, "accuracy") for same in (dense, *planned)]
                lines.append([*first, method, *values])
        names = ["accuracy", *(f"snr/{density:g}/accuracy" for density in DENSITIES)]
        lines.append([*first, "snr", *(per_cent(found, dense, name) for name in names)])
    head = ["dataset", "net", "epochs", "method", "dense VI", *(f"{density:g}" for density in DENSITIES)]
    return cells.table(head, lines, "llrl" + "r" * 7)


def trials(found: cells.Found) -> str:
    """What was chosen on images held back, one seed."""
    shown = ("method", "prior", "rate", "init_scale", "widen")
    lines = []
    for cell in cells.select(CELLS, ["part=tune"]):
        values = [f"{found[cell][name]:.4f}" if cell in found else "missing" for name in ("accuracy", "nll", "ece")]
        lines.append([cell.method, *(f"{getattr(cell, name):g}" for name in shown[1:]), *values])
    return cells.table([*shown, "accuracy", "nll", "ece"], lines, "l" + "r" * 7)


SHOWN = dict.fromkeys((cell.part, cell.dataset, cell.net) for cell in CELLS if cell.part in ("density", "longer"))
TABLES = {
    "accuracy": accuracy,
    **{"-".join(one): functools.partial(rows, part=one[0], dataset=one[1], net=one[2]) for one in SHOWN},
    "scale": functools.partial(ablation, part="scale", name=lambda cell: f"{cell.method}-{cell.init_scale:g}"),
    "removal": functools.partial(ablation, part="removal", name=lambda cell: f"{cell.removal}-{cell.density:g}"),
    "tune": trials,
}
STUDY = cells.Study("ssvi", CELLS, run, TABLES)

if __name__ == "__main__":
    cells.main(STUDY)
