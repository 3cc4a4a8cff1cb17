"""A sparse ensemble of samples beside BMR, SNR, SSVI and a dense ensemble, all of as many steps: LeNet-5 on two data sets.

    python benchmarks/equal_cost.py run                                     # what is not in runs/equal_cost.jsonl yet
    python benchmarks/equal_cost.py run --only data=mnist method=bmr        # one method
    python benchmarks/equal_cost.py table                                   # from the results kept here

All: LeNet-5 (tanh, the BMR paper's), 5,000 steps of 128 rows of all training images, weights from He's start, hidden
kernels prunable, 20 networks predict (the dense ensemble: its five). "sghmc_spl": the chain of `reproduce_sghmc.py` with
three warm-up acts of ten; "sghmc_spl_channels": the same with both thresholds on whole units and channels, the hard one on
the range of their weights, as the authors have it for channels, and .2; "ensemble": its five MAP fits, of a thousand steps
each. "bmr": flat mean field, AdaBelief 1e-2, an act every 500 steps, as in its paper. "snr": the same network, AdaBelief
5e-3, cut to a tenth by Zhu & Gupta's cubic schedule over six acts of nine. "ssvi": density .1, an exchange every 100 steps
until three quarters of the training, Adam with a cosine from 3e-3, prior N(0, 1), local reparameterisation, and its paper's
divergence of weight .01: a COLD POSTERIOR. All settings are those of the papers or of this folder's other studies; none was
chosen for these cells, and the test set decides nothing.
"""

import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jax
import numpy as np
import optax
import reproduce_sghmc

import bayesprune as bp
from bayesprune import cells
from bayesprune.model.families import MeanFieldFamily

STEPS, BATCH, EVERY, NETWORKS, DENSITY = 5_000, 128, 500, 20, 0.1
METHODS = ("sghmc_spl", "sghmc_spl_channels", "bmr", "snr", "ssvi", "ensemble")
DATASETS = ("mnist", "fashion_mnist")
FIGURES = ("accuracy", "nll", "ece", "ece_quantile", "calibration_marginal")


@dataclass(frozen=True)
class Cell:
    data: str
    method: str
    seed: int
    steps: int = STEPS


CELLS = tuple(Cell(data, method, seed) for seed in range(3) for data in DATASETS for method in METHODS)


def run(cell: Cell, folder: Path) -> cells.Record:
    """Figures on the test images, what was cut, and the cost of the training."""
    train, test = bp.data.load(cell.data, pad=32)
    begin, cpu = time.perf_counter(), time.process_time()
    if cell.method == "ensemble":
        probs = reproduce_sghmc.ensemble(_chain(cell), folder, train, test)
        found = bp.metrics.classification_summary(probs, np.asarray(test.y)) | {"pruned": 0.0, "units_cut": 0.0, "in_use": 1.0}
        cost = _cost(begin, cpu)  # with five predictions, of seconds
    else:
        bnn, fit = _fit(cell, folder, train)
        cost = _cost(begin, cpu)
        found = bp.evaluate(jax.random.key(1), bnn, fit.params, test, mask=fit.mask, num_samples=NETWORKS) | cut(bnn, fit.mask)
    return found | cost


def _cost(begin: float, cpu: float) -> cells.Record:
    return {"training_seconds": time.perf_counter() - begin, "cpu_seconds": time.process_time() - cpu}


def _chain(cell: Cell) -> reproduce_sghmc.Cell:
    """The cell of the other study with as many steps."""
    rule = "early_channels" if cell.method == "sghmc_spl_channels" else "early"
    return reproduce_sghmc.Cell(cell.data, rule, cell.seed, share=cell.steps / reproduce_sghmc.STEPS)


def _fit(cell: Cell, folder: Path, train: bp.Dataset) -> tuple[bp.BNN, Any]:
    if cell.method.startswith("sghmc_spl"):
        return reproduce_sghmc.chain(_chain(cell), folder, train)
    adam = optax.adam(optax.cosine_decay_schedule(3e-3, cell.steps))
    cold = bp.schedules.LinearWarmup(0, cell.steps / 2, peak=0.01)
    acts = max(cell.steps // EVERY, 2)
    exchange = bp.methods.SSVI(DENSITY, distribution="erdos_renyi")
    settings = {
        "bmr": {"course": bp.courses.paper("bmr"), "sparsifier": bp.methods.BMR()},
        "snr": {"sparsifier": bp.methods.SNR(bp.schedules.Cubic(DENSITY, 0, 0.6 * acts))},
        "ssvi": {"optimizer": adam, "kl_weight": cold, "estimator": "local", "every": 100, "sparsifier": exchange},
    }[cell.method]
    bnn = _lenet(cell.method, train.x.shape[1:])
    common = {"course": bp.courses.Plain(), "num_steps": cell.steps, "batch_size": BATCH, "every": EVERY, "progress": False}
    fit = bp.fit_svi(jax.random.key(cell.seed), bnn, train, checkpoint=folder / "checkpoints", **common | settings)
    return bnn, fit


def _lenet(method: str, shape: tuple[int, ...]) -> bp.BNN:
    cold = method == "ssvi"
    return bp.BNN(
        bp.nets.LeNet5(num_outputs=10),
        prior=bp.priors.Gaussian(1.0) if cold else bp.priors.Flat(),
        likelihood=bp.likelihoods.Categorical(),
        input_shape=shape,
        posterior=MeanFieldFamily(init_loc="he", **({"init_scale": 0.01} if cold else {})),
        prunable=bp.select.hidden_kernels,
    )


def cut(bnn: bp.BNN, mask: Any) -> cells.Record:
    """Shares: of the prunable weights that are zero, of their units and channels out of use, of the prunable weights in use."""
    used = {site: np.asarray(alive) for site, alive in bp.connected(bnn, mask).items()}
    units = [alive.any(axis=tuple(range(alive.ndim - 1))) for alive in used.values()]
    size = sum(alive.size for alive in used.values())
    return {
        "pruned": 1 - sum(int(alive.sum()) for alive in mask.values()) / size,
        "units_cut": 1 - sum(int(alive.sum()) for alive in units) / sum(alive.size for alive in units),
        "in_use": sum(int(alive.sum()) for alive in used.values()) / size,
    }


def by_method(found: cells.Found) -> str:
    """Means over seeds with their spread; shares of every seed."""
    rows = []
    for data in DATASETS:
        for method in METHODS:
            planned = [cell for cell in CELLS if (cell.data, cell.method) == (data, method)]
            have = [found[cell] for cell in planned if cell in found]
            shares = [", ".join(f"{record[name]:.3f}" for record in have) or "-" for name in ("pruned", "units_cut")]
            spread = [cells.mean_and_spread([record[name] for record in have]) for name in FIGURES]
            minutes = cells.mean_and_spread([record["cpu_seconds"] / 60 for record in have])
            rows.append([data, method, cells.count(have, planned), *spread, *shares, minutes])
    head = ["data", "method", "seeds", *FIGURES, "pruned, by seed", "units cut, by seed", "CPU minutes"]
    return cells.table(head, rows, "llr" + "l" * 8)


STUDY = cells.Study("equal_cost", CELLS, run, {"by_method": by_method})

if __name__ == "__main__":
    cells.main(STUDY)
