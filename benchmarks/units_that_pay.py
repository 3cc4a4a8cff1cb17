"""Pruning that pays: LeNet-5 on Fashion-MNIST by whole units beside single weights, its accuracy, FLOPs and measured time.

    python benchmarks/units_that_pay.py run                     # what is not in runs/units_that_pay.jsonl yet
    python benchmarks/units_that_pay.py run --only rule=weights # one rule
    python benchmarks/units_that_pay.py table                   # from the results kept here

Every cell trains alike (flat prior, AdaBelief 5e-3, batches of 128) and is pruned after each epoch. "weights" is Bayesian
model reduction of single weights. "evidence" sums the evidence of keeping a weight over a unit's weights, its bias among them,
and keeps units that the model explains the data better with, by so many nats; "best" keeps a share of the units along a cubic
schedule over the first ten epochs, those of most evidence, or of the largest signal-to-noise ratio (root of the sum of
squares). At a price each FLOP a row that goes with a unit must be worth so many nats more, (2.8); it rises over the first 25 of
40 epochs, and beside it stands the dense network of 40. The network at the posterior mean is then made smaller, and timed
against the dense one by ONNX Runtime: by ONNX Runtime too, and by our kernels; two threads, medians of ratios taken in turns.
Accuracy, NLL and ECE are of 100 drawn networks on the test set, which decides nothing.
"""

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jax
import numpy as np
from compaction_speed import by_onnx, dense, median_ratio, times_of

import bayesprune as bp
from bayesprune import cells
from bayesprune.core.schedules import Cubic, LinearWarmup

EVERY, BATCH, THREADS, REPEATS = 470, 128, 2, 200
ROWS = (1, 128)
LONG = 40  # epochs, of cells with a price and of those beside them


@dataclass(frozen=True)
class Cell:
    """One training. ``share``: of the units that stay, of rule "best", and the ``score`` that they are the best by; ``nats``:
    the least evidence with which a unit stays, of rule "evidence"; ``price``: what each of its FLOPs must be worth, in nats; it
    rises to that in the first ``until`` epochs."""

    rule: str
    share: float = 1.0
    score: str = "evidence"
    nats: float = 0.0
    price: float = 0.0
    until: int = 25
    epochs: int = 20
    seed: int = 0


NAMES = {"none": "none", "weights": "weights", "evidence": "evidence, {0.nats:g} nats"}
CELLS = (
    Cell("none"),
    Cell("weights"),
    *(Cell("evidence", nats=nats) for nats in (0.0, 50.0, 150.0, 400.0)),
    *(Cell("best", share) for share in (0.5, 0.25)),
    *(Cell("best", share, "snr") for share in (0.6, 0.3)),
    *(Cell("none", epochs=LONG, seed=seed) for seed in range(3)),
    *(Cell("evidence", nats=150.0, price=price, epochs=LONG) for price in (0.0, 0.05, 0.07, 0.1)),
    *(Cell("evidence", nats=150.0, price=0.07, epochs=LONG, seed=seed) for seed in (1, 2)),
)


def sparsifier(cell: Cell) -> Any:
    """What prunes, or None."""
    if cell.rule == "best":
        return bp.methods.Cut(cell.score, density=Cubic(cell.share, 0, 10), scope="unit")
    price = LinearWarmup(0, cell.until, cell.price) if cell.price else None
    return {
        "none": None,
        "weights": bp.methods.BMR(),
        "evidence": bp.methods.Cut("evidence", threshold=cell.nats, scope="unit", price=price),
    }[cell.rule]


def run(cell: Cell, folder: Path) -> cells.Record:
    """Train one cell, or go on with it, make it smaller and time it."""
    train, test = bp.data.load("fashion_mnist", pad=32)
    bnn = bp.BNN(
        bp.nets.LeNet5(num_outputs=10),
        prior=bp.priors.Flat(),
        likelihood=bp.likelihoods.Categorical(),
        input_shape=train.x.shape[1:],
        prunable=bp.select.everything,
    )
    fit = bp.fit_svi(
        jax.random.key(cell.seed),
        bnn,
        train,
        num_steps=cell.epochs * EVERY,
        batch_size=BATCH,
        course=bp.courses.Plain(),
        checkpoint=folder / "checkpoints",
        progress=False,
        **({} if cell.rule == "none" else {"sparsifier": sparsifier(cell), "every": EVERY}),
    )
    figures = bp.evaluate(jax.random.key(1), bnn, fit.params, test, mask=fit.mask, num_samples=100)
    small = bp.compact(bnn, fit.params, fit.mask, keep="mean").certified()
    folder.mkdir(parents=True, exist_ok=True)
    small.save(folder / "net.bayesprune")
    units = {site: np.asarray(alive).reshape(-1, alive.shape[-1]).any(0).sum() for site, alive in fit.mask.items()}
    return {
        **{name: figures[name] for name in ("accuracy", "nll", "ece")},
        "pruned": sum(int(np.sum(~np.asarray(a))) for a in fit.mask.values()) / sum(math.prod(s.shape) for s in bnn.layout),
        "units": "-".join(str(int(alive)) for site, alive in units.items() if site.endswith("kernel")) or "all",
        "flops": small.cost.executed,
        "dense_flops": small.cost.dense,
        "bytes": (folder / "net.bayesprune").stat().st_size,
        **speed(small, dense(bnn, small, fit.params, fit.mask), test.x),
    }


def speed(small: Any, whole: Any, x: np.ndarray) -> cells.Record:
    """How many times as fast as the dense network by ONNX Runtime, for each number of rows, by ONNX Runtime and by kernels."""
    dense_by_onnx, found = by_onnx(whole, THREADS), {}
    contestants = {"onnx": by_onnx(small, THREADS), "kernels": lambda rows: small.predict(rows, engine="kernels")}
    for rows in ROWS:
        block = np.ascontiguousarray(x[:rows], np.float32)
        calls = {name: lambda predict=predict: predict(block) for name, predict in contestants.items()}  # noqa: B023
        times = times_of({"dense": lambda: dense_by_onnx(block), **calls}, REPEATS)  # noqa: B023
        found |= {f"{name}_{rows}": median_ratio(times[name], times["dense"]) for name in contestants}
    return found


COLUMNS = {
    "units left": lambda r: r["units"],
    "accuracy": lambda r: f"{r['accuracy']:.4f}",
    "NLL": lambda r: f"{r['nll']:.4f}",
    "ECE": lambda r: f"{r['ece']:.4f}",
    "pruned %": lambda r: f"{100 * r['pruned']:.1f}",
    "FLOPs": lambda r: f"{r['flops'] / r['dense_flops']:.2f}",
    "kB": lambda r: f"{r['bytes'] / 1e3:.1f}",
    "1 row, times as fast by ONNX Runtime, by kernels": lambda r: f"{r['onnx_1']:.1f}, {r['kernels_1']:.1f}",
    "128 rows": lambda r: f"{r['onnx_128']:.1f}, {r['kernels_128']:.1f}",
}


def table(found: cells.Found) -> str:
    """A row for each cell."""
    rows = []
    for cell in CELLS:
        name = NAMES.get(cell.rule, "{0.share:g} by {0.score}").format(cell)
        name += f", {cell.price:g} a FLOP" if cell.price else ""
        record = found.get(cell)
        rows.append(
            [name, str(cell.epochs), str(cell.seed), *("missing" if record is None else of(record) for of in COLUMNS.values())]
        )
    return cells.table(["rule", "epochs", "seed", *COLUMNS], rows, "lll" + "r" * len(COLUMNS))


STUDY = cells.Study("units_that_pay", CELLS, run, {"units": table})

if __name__ == "__main__":
    cells.main(STUDY)
