"""A dense fit, then one cut: what falls of weights at their prior, and what stays of little evidence; by held-out rows.

    python benchmarks/course_idle.py run                     # what is not in runs/course_idle.jsonl yet: ten minutes
    python benchmarks/course_idle.py run --only data=concrete
    python benchmarks/course_idle.py table                   # from the results kept here

Each fit, by the standard course without a sparsifier, is cut once by every rule: "idle=...": `bmr_prune` with that knob, 0 the
paper's rule; "data": verified on the training rows, with the knob at 0; "margin=...": with that knob, and the idle ones fall as
by default. Networks and rows are those of `course.py`. The test rows are not looked at.
"""

from pathlib import Path
from typing import Any

import jax
from course import BATCH, Cell, build, split
from fits_judged import judged, watched

import bayesprune as bp
from bayesprune import cells
from bayesprune.methods.bmr import IDLE

NATS = (0.0, 0.01, 0.02, 0.05, 0.1, 0.2)
MARGINS = (0.1, 0.25, 0.5, 1.0, 3.0)
RULES = (*(f"idle={nats:g}" for nats in NATS), "data", *(f"margin={nats:g}" for nats in MARGINS), "data margin=1")
CASES = (  # data, net, steps, seeds
    ("digits", "mlp100x2", 5_000, 5),
    ("mnist", "mlp200x2", 2_000, 2),
    ("concrete", "mlp50", 3_000, 3),
    ("power_plant", "mlp50", 3_000, 1),
    ("wine_quality_red", "mlp50", 3_000, 3),
    ("yacht", "mlp50", 3_000, 2),
)
CELLS = tuple(
    Cell(data, net, "two_calls", seed, steps, "held_out") for data, net, steps, seeds in CASES for seed in range(seeds)
)
KEPT = ("nll", "accuracy", "rmse", "alive", "connected", "prunable")


def run(cell: Cell, folder: Path) -> cells.Record:
    """Figures of the whole fit, and of what every rule leaves of it."""
    train, other = split(cell)
    bnn = build(cell, train.x.shape[1:])
    with watched() as told:
        fit = bp.fit_svi(jax.random.key(cell.seed), bnn, train, num_steps=cell.steps, batch_size=BATCH, progress=False)
        rules = {"whole": fit} | {rule: _cut(rule, fit.params, bnn, train) for rule in RULES}
        figures = {rule: judged(bnn, left.params, left.mask, other) for rule, left in rules.items()}
    return {f"{rule}/{name}": found.get(name) for rule, found in figures.items() for name in KEPT} | told


def _cut(rule: str, params: Any, bnn: bp.BNN, train: bp.Dataset) -> bp.Pruned:
    knobs = {name: float(value) for name, _, value in (word.partition("=") for word in rule.split()) if value}
    knobs = {"idle": IDLE if "margin" in knobs else 0.0, "margin": 0.0} | knobs  # whatever the defaults are
    looked = {"program": bnn, "data": train, "rng_key": jax.random.key(0)} if rule.startswith("data") else {}
    return bp.bmr_prune(params, **looked, **knobs)


def by_rule(found: cells.Found) -> str:
    """For each case and rule: held-out NLL, accuracy or RMSE, and what is left, means over seeds with their spread."""
    rows = []
    for data, net, steps, _ in CASES:
        mine = [cell for cell in CELLS if (cell.data, cell.net) == (data, net)]
        have = [found[cell] for cell in mine if cell in found]
        for rule in ("whole", *RULES):
            head = [data, net, str(steps), cells.count(have, mine), rule]
            rows.append([*head, *(_figures(rule, have) if have else [cells.MISSING] * 4)])
    head = ["data", "net", "steps", "seeds", "rule", "nll", "accuracy or rmse", "alive %", "connected %"]
    return cells.table(head, rows, "llrllllll")


def _figures(rule: str, have: list[cells.Record]) -> list[str]:
    error = "accuracy" if have[0].get(f"{rule}/accuracy") is not None else "rmse"
    figures = [cells.mean_and_spread([one[f"{rule}/{name}"] for one in have], 4) for name in ("nll", error)]
    share = lambda name: [100 * one[f"{rule}/{name}"] / one[f"{rule}/prunable"] for one in have]  # noqa: E731
    return [*figures, *(cells.mean_and_spread(share(name), 1) for name in ("alive", "connected"))]


STUDY = cells.Study("course_idle", CELLS, run, {"by_rule": by_rule})

if __name__ == "__main__":
    cells.main(STUDY)
