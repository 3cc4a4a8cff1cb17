"""Whether networks die in silence: random ones, by six methods in turn, in fits as they come, of 300 to 10,000 steps.

    python benchmarks/no_silent_deaths.py run                   # what is not in runs/no_silent_deaths.jsonl yet: half an hour
    python benchmarks/no_silent_deaths.py run --only number=0 --set number=27 turn=1  # another network, by another method
    python benchmarks/no_silent_deaths.py table                 # from the results kept here

Networks, data and steps are drawn by a fixed seed (`nets_at_random`): perceptrons of one to eight layers, LeNet-5, residual
nets with group norms, mixers, transformers, recurrent cells over the rows of an image; steps log-uniformly, but no more than
about 40 seconds of one core. Batches of 128 rows, flat prior (of "horseshoe": the tiered one), and nothing else given but the
method. "evidence" cuts weights by themselves at 0 nats, "snr" leaves a twentieth at every act, "two_calls" is a fit without a
method, then `bmr_prune`.

A network died if no prunable weight is on a living path, or if it is no better on the test rows than the best single answer for
all of them. It died in silence if no `UserWarning` was raised. A method that cuts at a threshold refused to prune if after
1,000 steps or more nothing was cut of a network that did not die. What raised an error, such as `DivergedError`, is no silence.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jax
import numpy as np
from fits_judged import acts_of, judged, loss_of, watched, written
from nets_at_random import BATCH, SEED, build, draw, load, step_seconds

import bayesprune as bp
from bayesprune import cells

NETS, TURNS = 40, 1
FEWEST, MOST, SECONDS, ENOUGH = 300, 10_000, 40.0, 1_000
METHODS: dict[str, dict[str, Any]] = {
    "bmr": {"sparsifier": bp.methods.BMR()},
    "evidence": {"sparsifier": bp.methods.Cut("evidence", threshold=0.0)},
    "snr": {"sparsifier": bp.methods.Cut("snr", density=0.05)},
    "ssvi": {"sparsifier": bp.methods.SSVI(0.05)},
    "horseshoe": {"sparsifier": bp.methods.BMR()},
    "two_calls": {},
}
AT_A_THRESHOLD = ("bmr", "evidence", "horseshoe", "two_calls")


@dataclass(frozen=True)
class Cell:
    """One fit. ``turn``: the method's, of a network; ``number``: the network's, which is the seed of the fit."""

    turn: int
    number: int
    data: str
    net: str
    method: str
    steps: int


def planned(turn: int, number: int) -> Cell:
    """The cell in which a network has its turn with a method."""
    data, net = draw(number)
    steps = np.exp(np.random.default_rng([SEED, number, turn]).uniform(np.log(FEWEST), np.log(MOST)))
    most = max(FEWEST, SECONDS / step_seconds(data, net))
    return Cell(turn, number, data, net, list(METHODS)[(number + turn) % len(METHODS)], round(min(steps, most)))


CELLS = tuple(planned(turn, number) for turn in range(TURNS) for number in range(NETS))


def run(cell: Cell, folder: Path) -> cells.Record:
    """One fit, judged on the test rows; or the error that it ended with."""
    train, test = load(cell.data)
    bnn = bp.BNN(
        build(cell.net),
        prior=bp.priors.Horseshoe() if cell.method == "horseshoe" else bp.priors.Flat(),
        likelihood=bp.likelihoods.Categorical(),
        input_shape=train.x.shape[1:],
    )
    key, given = jax.random.key(cell.number), METHODS[cell.method]
    try:
        with watched() as told:
            fit = bp.fit_svi(key, bnn, train, num_steps=cell.steps, batch_size=BATCH, progress=False, **given)
            cuts = [bp.bmr_prune(fit.params)] if cell.method == "two_calls" else []
    except (bp.DivergedError, ValueError, TypeError, RuntimeError) as error:
        return {"raised": f"{type(error).__name__}: {error}", "died": False, **told}
    left, history = (cuts[-1], written(cuts)) if cuts else (fit, fit.history)
    found = judged(bnn, left.params, left.mask, test, num_samples=20)
    return {"raised": "", "loss": loss_of(fit), **found, **acts_of(history), **told}


def silent(record: cells.Record) -> bool:
    """Whether a network died and nothing was said."""
    return record["died"] and not record["warnings"]


def refused(cell: Cell, record: cells.Record) -> bool:
    """Whether a threshold was given, and nothing cut of what had learnt."""
    able = cell.method in AT_A_THRESHOLD and cell.steps >= ENOUGH and not record["died"] and not record["raised"]
    return able and record["alive"] == record["prunable"]


def counts(found: cells.Found) -> str:
    """By method: what died, in silence or not, what refused to prune, and how the others are."""
    rows = []
    for method in (*METHODS, "all"):
        mine = [cell for cell in CELLS if method in (cell.method, "all")]
        have = {cell: found[cell] for cell in mine if cell in found}
        well = [record for record in have.values() if not record["died"] and not record["raised"]]
        numbers = [
            sum(bool(record["raised"]) for record in have.values()),
            sum(record["died"] for record in have.values()),
            sum(silent(record) for record in have.values()),
            sum(refused(cell, record) for cell, record in have.items()),
            sum(bool(record["warnings"]) for record in well),
        ]
        shares = (
            cells.mean_and_spread([record[name] / record["prunable"] for record in well], 3) for name in ("alive", "connected")
        )
        accuracy = cells.mean_and_spread([record["accuracy"] for record in well], 3)
        rows.append([method, cells.count(list(have), mine), *map(str, numbers), accuracy, *shares])
    names = ["raised an error", "died", "silent deaths", "refused to prune", "warned, of the others"]
    return cells.table(["method", "fits", *names, "accuracy of the others", "alive", "connected"], rows, "ll" + "r" * 5 + "lll")


def cases(found: cells.Found) -> str:
    """Every fit that died, refused to prune, or raised an error, with the first words that it said."""
    rows = []
    for cell, record in found.items():
        outcome = {
            "raised": bool(record["raised"]),
            "died in silence": silent(record),
            "died, and said so": record["died"] and not silent(record),
            "refused to prune": refused(cell, record),
        }
        for name in (name for name, so in outcome.items() if so):
            figures = [f"{record[one]:.3f}" if one in record else "–" for one in ("accuracy", "unseen")]
            left = [str(record.get(one, "–")) for one in ("prunable", "alive", "connected")]
            said = (record["raised"] or next(iter(record["warnings"]), "–")).replace("|", "/").replace("\n", " ")
            rows.append([name, cell.method, cell.data, cell.net, str(cell.steps), *figures, *left, said])
    head = [
        "outcome",
        "method",
        "data",
        "net",
        "steps",
        "accuracy",
        "one answer for all",
        "prunable",
        "alive",
        "connected",
        "said",
    ]
    return cells.table(head, rows, "llll" + "r" * 6 + "l")


STUDY = cells.Study("no_silent_deaths", CELLS, run, {"counts": counts, "cases": cases})

if __name__ == "__main__":
    cells.main(STUDY)
