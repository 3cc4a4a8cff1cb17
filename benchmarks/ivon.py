"""IVON beside the mean field of the standard course and MAP: figures, evidence pruning, and what the training costs.

    python benchmarks/ivon.py run                          # what is not in runs/ivon.jsonl yet
    python benchmarks/ivon.py run --only data=mnist        # one data set
    python benchmarks/ivon.py table                        # from the results kept here

Roads: "map", points by the standard course; "mean_field", the same with a spread; "ivon", `kernels.IVON` by its defaults, noise
of outputs where it is exact, as the course has it; "ivon_weight", with sampled weights, the published estimator. All have the
flat prior, batches of 128 and as many steps; CPU seconds of the training, its compilation included, are beside each. Figures
are of 20 drawn networks, before and after one call of ``bmr_prune(fit.params, program=bnn)``.

With rows=held_out a sixth of the training rows judges: the kernel's rate and h0 were chosen so, one setting for all cases. With
rows=test all training rows are trained on and the test rows judge, once.
"""

import dataclasses
import math
import time
from pathlib import Path
from typing import Any

import jax
import numpy as np
from course import BATCH, NETS, Cell, split

import bayesprune as bp
from bayesprune import cells

DRAWS = 20
ROADS: dict[str, dict[str, Any]] = {
    "map": {},
    "mean_field": {},
    "ivon": {"optimizer": bp.kernels.IVON()},
    "ivon_weight": {"optimizer": bp.kernels.IVON(), "estimator": "weight"},
}
FIGURES = ("accuracy", "nll", "ece")


CASES = (
    ("mnist", "mlp200x2", 3_000),
    ("fashion_mnist", "mlp200x2", 3_000),
    ("fashion_mnist", "lenet5", 1_500),
    ("cifar10", "mlp200x2", 3_000),
    ("digits", "mlp100x2", 1_000),
)
SETTINGS = ("0.1,0.1", "0.25,0.1", "0.5,0.1", "1.0,0.1", "0.5,0.05", "0.25,0.25")  # rate, h0
TRIED = tuple(
    Cell(data, net, "ivon", 0, steps, rows="held_out", knobs=knobs) for data, net, steps in CASES for knobs in SETTINGS
)
JUDGED = tuple(Cell(data, net, road, 0, steps) for data, net, steps in CASES[:2] for road in ROADS)
CELLS = (*TRIED, *JUDGED)


def run(cell: Cell, folder: Path) -> cells.Record:
    """Figures before and after the cut, the density it leaves, and the cost."""
    train, other = split(cell)
    bnn = bp.BNN(
        NETS[cell.net],
        prior=bp.priors.Flat(),
        likelihood=bp.likelihoods.Categorical(),
        input_shape=train.x.shape[1:],
        posterior="map" if cell.road == "map" else "mean_field",
    )
    road = ROADS[cell.road]
    if cell.knobs:
        rate, h0 = map(float, cell.knobs.split(","))
        road = road | {"optimizer": dataclasses.replace(road["optimizer"], learning_rate=rate, h0=h0)}
    cpu, wall = time.process_time(), time.perf_counter()
    fit = bp.fit_svi(jax.random.key(cell.seed), bnn, train, num_steps=cell.steps, batch_size=BATCH, progress=False, **road)
    cost = {"cpu_seconds": time.process_time() - cpu, "training_seconds": time.perf_counter() - wall}
    found = {f"{name}_dense": value for name, value in figures(bnn, fit.params, {}, other).items()}
    if cell.road == "map":
        return found | cost
    pruned = bp.bmr_prune(fit.params, program=bnn)
    size = sum(alive.size for alive in pruned.mask.values())
    found |= {f"{name}_pruned": value for name, value in figures(bnn, pruned.params, pruned.mask, other).items()}
    return found | cost | {"density": sum(int(np.sum(alive)) for alive in pruned.mask.values()) / size}


def figures(bnn: bp.BNN, params: dict[str, Any], mask: dict[str, Any], other: bp.Dataset) -> dict[str, float]:
    """Accuracy, NLL and calibration error of `DRAWS` networks."""
    said = bp.evaluate(jax.random.key(1), bnn, params, other, mask=mask, num_samples=DRAWS)
    return {name: float(said[name]) for name in FIGURES}


def by_road(found: cells.Found) -> str:
    """A row for each case and road."""
    rows = []
    for data, net, steps in dict.fromkeys((cell.data, cell.net, cell.steps) for cell in JUDGED):
        for road in ROADS:
            mine = [cell for cell in JUDGED if (cell.data, cell.net, cell.road) == (data, net, road)]
            have = [found[cell] for cell in mine if cell in found]
            names = [f"{name}_{when}" for when in ("dense", "pruned") for name in FIGURES]
            said = [_mean(have, name, 4) for name in names]
            rows.append(
                [
                    data,
                    net,
                    road,
                    str(steps),
                    cells.count(have, mine),
                    *said,
                    _mean(have, "density", 4),
                    _mean(have, "cpu_seconds", 0),
                ]
            )
    head = ["data", "net", "road", "steps", "seeds", *FIGURES, *(f"{name} cut" for name in FIGURES), "density", "CPU seconds"]
    return cells.table(head, rows, "lllrl" + "l" * 8)


def by_setting(found: cells.Found) -> str:
    """NLL on held-out rows of every setting, whole and after the cut; and how far behind the best one it is in the mean."""
    nats = {cell: (found[cell]["nll_dense"], found[cell]["nll_pruned"]) for cell in TRIED if cell in found}
    rows = []
    for knobs in SETTINGS:
        row, behind = [knobs.replace(",", " / ")], []
        for data, net, steps in CASES:
            cell = Cell(data, net, "ivon", 0, steps, rows="held_out", knobs=knobs)
            best = [min(pair) for pair in zip(*(v for c, v in nats.items() if (c.data, c.net) == (data, net)), strict=True)]
            row.append(" / ".join(f"{one:.3f}" for one in nats[cell]) if cell in nats else cells.MISSING)
            behind += [math.log(one / least) for one, least in zip(nats.get(cell, ()), best, strict=False)]
        rows.append([*row, f"{100 * np.expm1(np.mean(behind)):.0f} %" if behind else cells.MISSING])
    heads = ["rate / h0", *(f"{data}, {net}" for data, net, _ in CASES), "behind the best"]
    return cells.table(heads, rows, "l" + "r" * (len(heads) - 1))


def _mean(have: list[cells.Record], name: str, digits: int) -> str:
    values = [record[name] for record in have if name in record]
    return cells.mean_and_spread(values, digits) if values else cells.MISSING if not have else "-"


STUDY = cells.Study("ivon", CELLS, run, {"by_setting": by_setting, "by_road": by_road})

if __name__ == "__main__":
    cells.main(STUDY)
