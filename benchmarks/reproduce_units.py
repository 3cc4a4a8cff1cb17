"""Whole units by the scales of Bayesian compression and by the noise of SBP and BMRS: LeNet-5 on MNIST and Fashion-MNIST, VGG.

    python benchmarks/reproduce_units.py run                      # what is not in runs/units.jsonl yet
    python benchmarks/reproduce_units.py run --only method=gnj    # one method
    python benchmarks/reproduce_units.py run --only net=vgg --set steps=0 epochs=300 test_rows=10000   # VGG, with a GPU
    python benchmarks/reproduce_units.py table                    # from the results kept here

BC-GNJ and BC-GHS (Adam 1e-3, the whole divergence from the first step) are trained, cut once at the widest gap of each
array and not trained again; of GNJ, cuts at one log alpha stand beside it, of GHS those that leave each array the half and
the quarter of its groups with the largest scales. Their VGG on CIFAR-10, without a GPU, is of 50 steps and 200 test rows,
to show that it runs. SBP starts from a MAP fit of 5 epochs; Adam 1e-3
with beta1 .95, falling to 0 over the second half; cut once at SNR < 1. The net of these three is LeNet-5-Caffe, and what
describes scales has ten times that rate: at the weights' own it would need as many times the epochs. BMRS, and SNR < 1 in
its place, train LeNet-5 with ReLU and max pooling from scratch, cut after every epoch, and then train for a quarter as many
epochs on what is left; Adam, 1.4e-3 at batches of 128, Fashion-MNIST's of 32. Their loss weighs a unit's divergence by
n/(layers * units), here by one number, n over all units; with weight 1 ("bayes") beside it. "dense" is their net by MAP,
without noise and uncut. Settings are the papers' but
for the epochs, which the table names. Weights are sampled ("weight"), 30 draws predict, all training images are used, and
the test set decides nothing.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import flax.linen as nn
import jax
import numpy as np
import optax
from reproduce_mnist import CaffeLeNet5

import bayesprune as bp
from bayesprune import cells
from bayesprune.model.families import MapFamily

POINT_EPOCHS, FASTER = 5, 10.0
THRESHOLDS = (0.0, -2.0, -2.8)  # of log alpha: noise above signal; the last is the first of the authors' example
OF_SCALES = (".z_", ".s_", ".log_theta")  # in the names of their parameters


class MaxLeNet5(nn.Module):
    """LeNet-5 with ReLU and max pooling: 6, 16 and 120 channels and 84 units, the noisy units of BMRS."""

    @nn.compact
    def __call__(self, x: jax.Array) -> jax.Array:
        for channels in (6, 16):
            x = nn.max_pool(nn.relu(nn.Conv(channels, (5, 5), padding="VALID")(x)), (2, 2), strides=(2, 2))
        x = nn.relu(nn.Conv(120, (5, 5), padding="VALID")(x)).reshape((x.shape[0], -1))
        x = nn.relu(nn.Dense(84)(x))
        return nn.Dense(10)(x)


UNITS = 6 + 16 + 120 + 84


@dataclass(frozen=True)
class Cell:
    """One training. ``weight``: of the divergence, "bayes" (1) or "paper"; ``steps``: in place of epochs, if not 0."""

    method: str
    dataset: str = "mnist"
    epochs: int = 20
    weight: str = "bayes"
    seed: int = 0
    net: str = "lenet5"
    steps: int = 0
    test_rows: int = 10_000


class Rule(NamedTuple):
    """How units are cut, and what the paper has: (architecture or share, error %)."""

    method: Any
    published: dict[str, str]


RULES = {
    "gnj": Rule(bp.methods.WidestGap(), {"mnist": "8-13-88-13, 1.0 %, 108x", "cifar10": "8.6 %, 14x"}),
    "ghs": Rule(bp.methods.WidestGap(), {"mnist": "5-10-76-16, 1.0 %, 156x", "cifar10": "9.0 %, 18x"}),
    "sbp": Rule(bp.methods.SBP(), {"mnist": "3-18-284-283, .86 %"}),
    "bmrs_n": Rule(bp.methods.BMRS(), {"mnist": "86.9 % cut, 4.41 %", "fashion_mnist": "88.0 % cut, 22.10 %"}),
    "bmrs_n_released": Rule(
        bp.methods.BMRS(two_pi=False), {"mnist": "86.9 % cut, 4.41 %", "fashion_mnist": "88.0 % cut, 22.10 %"}
    ),
    "bmrs_u4": Rule(bp.methods.BMRS("uniform", p1=4), {"mnist": "87.6 % cut, 3.34 %", "fashion_mnist": "88.7 % cut, 18.90 %"}),
    "dense": Rule(None, {"mnist": "0 % cut, 0.93 %", "fashion_mnist": "0 % cut, 10.84 %"}),
    "snr": Rule(bp.methods.SBP(), {"mnist": "92.7 % cut, 37.3 %", "fashion_mnist": "98.5 % cut, 83.0 %"}),
}
PRIORS = {"gnj": bp.priors.GroupNormalJeffreys, "ghs": bp.priors.GroupHorseshoe}
ONCE = ("gnj", "ghs", "sbp")
ON_THE_WAY = ("bmrs_n", "bmrs_n_released", "bmrs_u4", "snr")
CELLS = (
    *(Cell(method) for method in ONCE),
    *(Cell(method, "cifar10", epochs=0, net="vgg", steps=50, test_rows=200) for method in PRIORS),
    *(Cell(method, epochs=50, weight="paper") for method in ON_THE_WAY),
    *(Cell(method, epochs=epochs) for epochs in (20, 50) for method in ON_THE_WAY),
    *(Cell(method, "fashion_mnist", epochs=10, weight="paper") for method in ON_THE_WAY),
    *(Cell(method, "fashion_mnist", epochs=10) for method in ON_THE_WAY),
    Cell("dense"),
    Cell("dense", "fashion_mnist", epochs=10),
)


def run(cell: Cell, folder: Path) -> cells.Record:
    """Train one cell, or go on with it, and cut it."""
    train, test = bp.data.load(cell.dataset, pad=0 if cell.method in ONCE else 32)
    test = bp.Dataset(test.x[: cell.test_rows], test.y[: cell.test_rows])
    bnn = build(cell, train.x.shape[1:], "map" if cell.method == "dense" else "mean_field")
    params, mask = TRAINED.get(cell.method, _cut_on_the_way)(cell, bnn, train, folder)
    beside: cells.Record = {}
    if cell.method in ONCE:
        beside = {"uncut_error": _error(bnn, params, None, test), **_other_cuts(cell, bnn, params, test)}
        params, mask, _ = bp.prune_once(params, RULES[cell.method].method, program=bnn)
    figures = bp.evaluate(jax.random.key(1), bnn, params, test, mask=mask, num_samples=30)
    return {
        "error": 100 * (1 - figures["accuracy"]),
        "nll": figures["nll"],
        "ece": figures["ece"],
        **sizes(bnn, mask),
        **beside,
        **_bits(bnn, params, mask),
    }


def build(cell: Cell, input_shape: tuple[int, ...], posterior: str = "mean_field") -> bp.BNN:
    """The network and its prior; ``posterior="map"`` is the net that SBP starts from."""
    prior = bp.priors.Gaussian(1.0) if posterior == "map" else PRIORS.get(cell.method, bp.priors.UnitNoise)()
    lenet = CaffeLeNet5() if cell.method in ONCE else MaxLeNet5()
    return bp.BNN(
        bp.nets.VGG(num_outputs=10) if cell.net == "vgg" else lenet,
        prior=prior,
        likelihood=bp.likelihoods.Categorical(),
        input_shape=input_shape,
        posterior=MapFamily(init_loc="he") if posterior == "map" else posterior,
        **({"prunable": bp.select.hidden_kernels} if posterior == "map" else {}),
    )


def _cut_once(cell: Cell, bnn: bp.BNN, train: bp.Dataset, folder: Path) -> tuple[Any, Any]:
    """Parameters of a fit that is yet to be cut."""
    steps = _epoch(128, train)
    if cell.method != "sbp":
        fit = _fit(cell, bnn, train, folder / "checkpoints", cell.steps or cell.epochs * steps, _adam(1e-3))
        return fit.params, None
    points = build(cell, train.x.shape[1:], "map")
    start = _fit(cell, points, train, folder / "points", POINT_EPOCHS * steps, optax.adam(1e-3)).params
    half = cell.epochs * steps // 2
    rate = optax.linear_schedule(1e-3, 0.0, half, transition_begin=half)
    fit = _fit(cell, bnn, train, folder / "checkpoints", cell.epochs * steps, _adam(rate, b1=0.95), init_params=start)
    return fit.params, None


def _cut_on_the_way(cell: Cell, bnn: bp.BNN, train: bp.Dataset, folder: Path) -> tuple[Any, Any]:
    """Parameters and mask of a fit that was cut after every epoch, and trained on."""
    batch = 128 if cell.dataset == "mnist" else 32
    steps, adam = _epoch(batch, train), optax.adam(1.4e-3)
    settings = {"batch_size": batch, "kl_weight": len(train.y) / UNITS if cell.weight == "paper" else 1.0}
    fit = _fit(
        cell, bnn, train, folder / "checkpoints", cell.epochs * steps + 1, adam,
        sparsifier=RULES[cell.method].method, every=steps, **settings,
    )  # fmt: skip
    tuned = _fit(
        cell, bnn, train, folder / "tuned", cell.epochs // 4 * steps, adam, init_params=fit.params, mask=fit.mask, **settings
    )
    return tuned.params, tuned.mask


def _dense(cell: Cell, bnn: bp.BNN, train: bp.Dataset, folder: Path) -> tuple[Any, Any]:
    """Parameters and mask of a fit without noise, with the batches, the rate and as many epochs as those that are cut."""
    batch = 128 if cell.dataset == "mnist" else 32
    steps = (cell.epochs + cell.epochs // 4) * _epoch(batch, train)
    fit = _fit(cell, bnn, train, folder / "checkpoints", steps, optax.adam(1.4e-3), batch_size=batch)
    return fit.params, {str(spec.path): np.ones(spec.shape, bool) for spec in bnn.layout if spec.prunable}


TRAINED = {"dense": _dense} | dict.fromkeys(ONCE, _cut_once)


def _fit(cell: Cell, bnn: bp.BNN, train: bp.Dataset, checkpoint: Path, num_steps: int, optimizer: Any, **settings: Any) -> Any:
    def say(moment: Any) -> None:
        print(f"{cells.key(cell)} {checkpoint.name} step {moment.step} of {num_steps}, loss {moment.loss:.0f}", flush=True)

    return bp.fit_svi(
        jax.random.key(cell.seed),
        bnn,
        train,
        num_steps=num_steps,
        course=bp.courses.Plain(),
        optimizer=optimizer,
        checkpoint=checkpoint,
        callbacks=[say],
        progress=False,
        **({"batch_size": 128} | settings),
    )


def _adam(rate: Any, b1: float = 0.9) -> Any:
    """Adam, ten times as fast for all that describes scales: at the weights' rate they would need as many times the epochs."""
    fast = optax.chain(optax.adam(rate, b1=b1), optax.scale(FASTER))
    kinds = lambda params: {name: "scale" if any(mark in name for mark in OF_SCALES) else "weight" for name in params}  # noqa: E731
    return optax.partition({"weight": optax.adam(rate, b1=b1), "scale": fast}, kinds)


def _epoch(batch: int, train: bp.Dataset) -> int:
    return math.ceil(len(train.y) / batch)


def _error(bnn: bp.BNN, params: Any, mask: Any, test: bp.Dataset) -> float:
    figures = bp.evaluate(jax.random.key(1), bnn, params, test, mask=mask, num_samples=30)
    return 100 * (1 - figures["accuracy"])


def _other_cuts(cell: Cell, bnn: bp.BNN, params: Any, test: bp.Dataset) -> cells.Record:
    """Where the widest gap of each array lies, and the figures of cuts beside it, by their names."""
    if cell.method == "sbp":
        return {}
    posterior = bnn.read(params)
    found = {site: round(float(limit), 3) for site, limit in bp.methods.WidestGap().thresholds(posterior).items()}
    cuts: dict[str, Any] = {f"log alpha > {at:g}": at for at in THRESHOLDS}
    if cell.method == "ghs":
        redundancy = {site: node.law.redundancy() for site, node in posterior.items()}
        cuts = {
            name: {site: float(np.quantile(values, share)) for site, values in redundancy.items()}
            for name, share in (("half left", 0.5), ("quarter left", 0.25))
        }
    figures = {name: _cut_at(threshold, bnn, params, test) for name, threshold in cuts.items()}
    return cells.flat({"threshold": found, "at": figures})


def _cut_at(threshold: Any, bnn: bp.BNN, params: Any, test: bp.Dataset) -> cells.Record:
    """Figures of a cut at given thresholds: one for all arrays, or one for each."""
    cut = bp.prune_once(params, bp.methods.WidestGap(threshold=threshold), program=bnn)
    return {"error": _error(bnn, cut.params, cut.mask, test), **sizes(bnn, cut.mask)}


def sizes(bnn: bp.BNN, mask: Any) -> cells.Record:
    """Groups with a living weight in each array, the share cut, and how often the living weights in use go into all."""
    groups, flat = {}, {}
    for site, alive in mask.items():
        alive = np.asarray(alive)
        groups[site] = int(alive.any(axis=(0, 1, 2)).sum() if alive.ndim == 4 else alive.any(axis=1).sum())
        flat[site] = int(alive.any(axis=tuple(range(alive.ndim - 1))).sum())
    used = {site: int(np.sum(alive)) for site, alive in bp.connected(bnn, mask).items()}
    layout = {str(spec.path): math.prod(spec.shape) for spec in bnn.layout}
    total, left = sum(layout.values()), sum(used.get(site, size) for site, size in layout.items())
    alive, prunable = sum(int(m.sum()) for m in mask.values()), sum(m.size for m in mask.values())
    return {
        "groups": "-".join(map(str, groups.values())),
        "outputs": "-".join(map(str, flat.values())),
        "pruned": 1 - alive / prunable,
        "units_cut": 1 - sum(flat.values()) / sum(m.shape[-1] for m in mask.values()),
        "compression": total / left,
    }


def _bits(bnn: bp.BNN, params: Any, mask: Any) -> cells.Record:
    """Compression with the bits that the posterior leaves to the living weights, by the paper's count and by ours."""
    nodes = bnn.posterior(params)
    if not all(site in nodes for site in mask) or any(float(np.max(nodes[site].scale)) == 0 for site in mask):
        return {}
    found = bp.report.bits_per_weight({site: nodes[site] for site in mask}, mask)
    return {"bits_paper": found["paper"], "bits_ours": found["ours"]}


def _table(kind: Callable[[Cell], bool], columns: dict[str, Callable[[Any], str]]) -> Callable[[cells.Found], str]:
    def made(found: cells.Found) -> str:
        rows = []
        for cell in filter(kind, CELLS):
            record = found.get(cell)
            values = ["missing" if record is None else of(record) for of in columns.values()]
            length = f"{cell.steps} steps" if cell.steps else str(cell.epochs)
            about = [cell.method, cell.dataset, "-" if cell.method == "dense" else cell.weight, length]
            rows.append([*about, *values, RULES[cell.method].published[cell.dataset]])
            rows += [[f"{cell.method}, {name}", *about[1:], *at_one, "-"] for name, at_one in _others(record or {}, columns)]
        head = ["method", "data", "KL weight", "epochs", *columns, "published"]
        return cells.table(head, rows, "lllr" + "r" * len(columns) + "l")

    return made


def _others(record: Any, columns: dict[str, Callable[[Any], str]]) -> list[tuple[str, list[str]]]:
    """Rows of the other cuts of a fit, by their names."""
    chosen: dict[str, dict[str, Any]] = {}
    for key, value in record.items():
        if key.startswith("at/"):
            _, name, column = key.split("/")
            chosen.setdefault(name, {})[column] = value
    own = {key: value for key, value in record.items() if not key.startswith("threshold/")}
    return [(name, [of(own | part) for of in columns.values()]) for name, part in chosen.items()]


def _gaps(record: Any) -> str:
    found = [f"{value:.1f}" for key, value in record.items() if key.startswith("threshold/")]
    return ", ".join(found) or "-"


once = _table(
    lambda cell: cell.method in ONCE,
    {
        "groups": lambda r: r["groups"],
        "outputs": lambda r: r["outputs"],
        "thresholds": _gaps,
        "error %": lambda r: f"{r['error']:.2f}",
        "uncut error %": lambda r: f"{r['uncut_error']:.2f}",
        "weights cut %": lambda r: f"{100 * r['pruned']:.1f}",
        "compression": lambda r: f"{r['compression']:.0f}x",
        "bits, paper's and ours": lambda r: f"{r['bits_paper']:.1f}, {r['bits_ours']:.1f}" if "bits_paper" in r else "-",
    },
)
on_the_way = _table(
    lambda cell: cell.method not in ONCE,
    {
        "outputs": lambda r: r["outputs"],
        "units cut %": lambda r: f"{100 * r['units_cut']:.1f}",
        "error %": lambda r: f"{r['error']:.2f}",
        "NLL": lambda r: f"{r['nll']:.3f}",
        "compression": lambda r: f"{r['compression']:.1f}x",
    },
)

STUDY = cells.Study("units", CELLS, run, {"once": once, "on_the_way": on_the_way})

if __name__ == "__main__":
    cells.main(STUDY)
