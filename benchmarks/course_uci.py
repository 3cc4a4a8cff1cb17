"""The standard course beside twenty random ones, on UCI regressions: how much is left to who chooses for himself.

    python benchmarks/course_uci.py run                   # what is not in runs/course_uci.jsonl yet
    python benchmarks/course_uci.py run --only data=yacht # one set
    python benchmarks/course_uci.py table                 # from the results kept here

One hidden layer of 50 units, flat prior, learned noise, BMR, 3,000 steps of 128 rows, inputs and targets standardised; the
first published split of every set of at most 12,000 rows. The standard course has nothing else given. A random one gives start,
divergence's weight, optimiser and acts: weights from He's start or U(-2, 2); the weight of the divergence rises over a share
U(0, .8) of the steps; AdaBelief of a rate between 1e-3 and 3e-2, log-uniform, constant or falling by a cosine; an act every 25,
50, 100, 250 or 500 steps, verified or not. The same twenty on every set.

All train on the same five sixths of the training rows. The best random course is chosen by its RMSE on the other sixth; its
RMSE on the test rows stands beside the standard course's. The best by the test rows is there too, and too good: nobody can
choose it. RMSE is in the targets' units, of the mean of 100 drawn networks.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jax
import numpy as np
import optax
from fits_judged import acts_of, judged, loss_of, watched

import bayesprune as bp
from bayesprune import cells
from bayesprune.data.hold_out import hold_out
from bayesprune.model.families import MeanFieldFamily

SETS = ("boston_housing", "concrete", "naval_propulsion_plant", "power_plant", "wine_quality_red", "yacht")
COURSES, SEED, BATCH, STEPS, SHARE = 20, 7, 128, 3_000, 1 / 6
STANDARD = -1
EVERY = (25, 50, 100, 250, 500)


@dataclass(frozen=True)
class Cell:
    """One fit; ``number``: of the random course, -1 for the standard one."""

    data: str
    number: int
    seed: int = 0
    steps: int = STEPS


CELLS = (
    *(Cell(data, STANDARD, seed) for seed in range(3) for data in SETS),
    *(Cell(data, number) for number in range(COURSES) for data in SETS),
)


def drawn(number: int) -> cells.Record:
    """The settings of a random course; of the standard one none."""
    if number == STANDARD:
        return {}
    rng = np.random.default_rng([SEED, number])
    return {
        "start": str(rng.choice(["he", "uniform"])),
        "warm_up": float(rng.uniform(0.0, 0.8)),
        "rate": float(np.exp(rng.uniform(np.log(1e-3), np.log(3e-2)))),
        "cosine": bool(rng.random() < 0.5),
        "every": int(rng.choice(EVERY)),
        "verified": bool(rng.random() < 0.5),
    }


def given(settings: cells.Record, steps: int) -> dict[str, Any]:
    """What `fit_svi` is given of them."""
    if not settings:
        return {}
    rate = optax.cosine_decay_schedule(settings["rate"], steps) if settings["cosine"] else settings["rate"]
    return {
        "optimizer": optax.adabelief(rate),
        "kl_weight": bp.schedules.LinearWarmup(0, settings["warm_up"] * steps),
        "every": settings["every"],
        **({} if settings["verified"] else {"course": bp.courses.Plain()}),
    }


def run(cell: Cell, folder: Path) -> cells.Record:
    """One fit, and its error on held-out and on test rows."""
    train, test = bp.data.load(cell.data, standardise=False)
    train, held = hold_out(train, SHARE)
    scale = float(bp.data.fit_scaling(train.y).scale)
    (rest, held), (_, test) = (bp.data.standardise(train, other, targets=True) for other in (held, test))
    settings = drawn(cell.number)
    bnn = bp.BNN(
        bp.nets.MLP((50,), 1),
        prior=bp.priors.Flat(),
        likelihood=bp.likelihoods.Normal(),
        input_shape=rest.x.shape[1:],
        **({"posterior": MeanFieldFamily(init_loc=settings["start"])} if settings else {}),
    )
    common = {"num_steps": cell.steps, "batch_size": BATCH, "sparsifier": bp.methods.BMR(), "progress": False}
    with watched() as told:
        fit = bp.fit_svi(jax.random.key(cell.seed), bnn, rest, **common, **given(settings, cell.steps))
    found = {name: judged(bnn, fit.params, fit.mask, rows) for name, rows in (("held", held), ("test", test))}
    return {
        **{name: None for name in drawn(0)},
        **settings,
        **{f"{name}_rmse": scale * of["rmse"] for name, of in found.items()},
        **{name: found["test"][name] for name in ("nll", "coverage", "prunable", "alive", "connected", "died")},
        "test_deviation": scale * float(np.std(test.y)),
        "loss": loss_of(fit),
        **acts_of(fit.history),
        **told,
    }


def described(record: cells.Record) -> str:
    """A random course in words."""
    warm, rate = f"warm-up {record['warm_up']:.2f}", f"{record['rate']:.1e}{' cosine' if record['cosine'] else ''}"
    return f"{record['start']}, {warm}, {rate}, every {record['every']}, {'verified' if record['verified'] else 'unverified'}"


def compared(found: cells.Found) -> str:
    """The standard course, three seeds, beside the random ones: RMSE on the test rows."""
    head = ["set", "one answer for all", "standard", "alive %", "random", "chosen", "its settings", "standard / chosen"]
    head += ["best by the test rows", "better than standard", "median", "died"]
    rows, ratios = [], []
    for data in SETS:
        mine = [cell for cell in CELLS if cell.data == data]
        standard = [found[cell] for cell in mine if cell in found and cell.number == STANDARD]
        random = [found[cell] for cell in mine if cell in found and cell.number != STANDARD]
        count = cells.count(random, [cell for cell in mine if cell.number != STANDARD])
        if not standard or not random:
            rows.append([data, cells.MISSING, cells.MISSING, cells.MISSING, count, *[cells.MISSING] * 7])
            continue
        chosen = min(random, key=lambda record: _or_worst(record["held_rmse"]))
        errors = np.array([_or_worst(record["test_rmse"]) for record in random])
        mean = float(np.mean([_or_worst(record["test_rmse"]) for record in standard]))
        ratios.append(mean / chosen["test_rmse"])
        rows.append(
            [
                data,
                f"{standard[0]['test_deviation']:.4g}",
                cells.mean_and_spread([_or_worst(record["test_rmse"]) for record in standard], _digits(mean)),
                cells.mean_and_spread([100 * record["alive"] / record["prunable"] for record in standard], 0),
                count,
                f"{chosen['test_rmse']:.4g}",
                described(chosen),
                f"{ratios[-1]:.3f}",
                f"{errors.min():.4g}",
                f"{int((errors < mean).sum())} of {len(errors)}",
                f"{np.median(errors):.4g}",
                str(sum(record["died"] for record in random)),
            ]
        )
    whole = f"{np.exp(np.mean(np.log(ratios))):.3f}" if len(ratios) == len(SETS) else cells.MISSING
    rows.append(["geometric mean", *["–"] * 6, whole, *["–"] * 4])
    return cells.table(head, rows, "l" + "r" * 5 + "l" + "r" * 5)


def _or_worst(error: float | None) -> float:
    """An error that is no number, None in records, is the worst."""
    return np.inf if error is None else error


def _digits(value: float) -> int:
    """Decimals that show four figures."""
    return max(0, 3 - int(np.floor(np.log10(value)))) if np.isfinite(value) else 4


def by_course(found: cells.Found) -> str:
    """Every random course: its RMSE on the test rows, divided by the standard course's mean."""
    rows = []
    for number in range(COURSES):
        columns = []
        for data in SETS:
            standard = [found[c]["test_rmse"] for c in CELLS if c in found and (c.data, c.number) == (data, STANDARD)]
            record = found.get(Cell(data, number))
            known = record is not None and standard
            columns.append(f"{_or_worst(record['test_rmse']) / np.mean(standard):.2f}" if known else cells.MISSING)
        rows.append([described(drawn(number)), *columns])
    return cells.table(["course", *SETS], rows, "l" + "r" * len(SETS))


STUDY = cells.Study("course_uci", CELLS, run, {"compared": compared, "courses": by_course})

if __name__ == "__main__":
    cells.main(STUDY)
