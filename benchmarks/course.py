"""What a fit gives as it comes: the standard course, beside pruning by hand, and beside the default that it replaced.

    python benchmarks/course.py run                             # what is not in runs/course.jsonl yet
    python benchmarks/course.py run --only road=standard seed=0 # one road, one seed
    python benchmarks/course.py table                                       # from the results kept here

Roads: "standard" has BMR and nothing else given; in "rising" the divergence's weight rises until the last step. "two_calls"
fits without a sparsifier and calls `bmr_prune` once, "two_calls_data" has it look at the training rows; "rounds" does so
after each of four fits of a quarter of the steps, each going on from the last. "old" is the default before: AdaBelief 5e-3,
weights from U(-2, 2), divergence of weight 1 throughout, cuts that nothing verifies, every 500 steps; "old_two_calls" ends
with one such cut, "old_he" starts from He's and cuts every 100 steps. The loss is that of the last 300 steps, before what is
cut by hand after them. Flat prior, batches of 128, figures of 100 drawn networks.

With rows=test all training rows are trained on and the test rows judge, once. With rows=held_out, for the choice of settings in
`course_choices.py`, a sixth of the training rows, the same for all, is kept back and judges; RMSE is in deviations of the
targets.
"""

import ast
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jax
import optax
from fits_judged import acts_of, judged, loss_of, watched, written

import bayesprune as bp
from bayesprune import cells
from bayesprune.data.hold_out import hold_out
from bayesprune.model.families import MeanFieldFamily

BESIDE = ("start", "dead")  # of a knob's names those that belong to the posterior, and to BMR

BATCH, ROUNDS, SHARE, SPLIT = 128, 4, 1 / 6, 0
NUMBERS = (
    "boston_housing",
    "concrete",
    "naval_propulsion_plant",
    "power_plant",
    "wine_quality_red",
    "yacht",
)
NETS = {
    "mlp100x2": bp.nets.MLP((100, 100), 10),
    "lenet5": bp.nets.LeNet5(num_outputs=10),
    "mlp400x5": bp.nets.MLP((400,) * 5, 10),
    "mlp200x2": bp.nets.MLP((200, 200), 10),
    "mlp50": bp.nets.MLP((50,), 1),
    "resnet": bp.nets.ResNet(10, stage_sizes=(1, 1), features=8, norm="group"),
    "vit": bp.nets.ViT(10, patch=8, features=32, num_blocks=2, num_heads=4, hidden=64),
}
OLD = {"optimizer": optax.adabelief(5e-3), "kl_weight": 1.0}
BMR = {"sparsifier": bp.methods.BMR()}
ROADS: dict[str, dict[str, Any]] = {  # what the fit is given
    "standard": BMR,
    "rising": BMR | {"course": bp.courses.Standard(warm_up=1.0)},
    "two_calls": {},
    "two_calls_data": {},
    "rounds": {},
    "old": OLD | BMR | {"every": 500},
    "old_two_calls": OLD,
    "old_he": OLD | BMR | {"every": 100},
}
BY_HAND = ("two_calls", "two_calls_data", "rounds", "old_two_calls")
STARTS = {"old": "uniform", "old_two_calls": "uniform", "old_he": "he"}
FIGURES = ("accuracy", "rmse", "nll", "ece", "ece_quantile", "coverage")


@dataclass(frozen=True)
class Cell:
    """One road of one network; ``knobs``: of the standard course, "" for its own."""

    data: str
    net: str
    road: str
    seed: int
    steps: int
    rows: str = "test"
    knobs: str = ""


TESTED = (  # data, net, steps, and seeds of each road
    ("digits", "mlp100x2", 5_000, dict.fromkeys(ROADS, 5)),
    ("fashion_mnist", "lenet5", 10_000, {"standard": 5, "old": 1}),
    ("fashion_mnist", "mlp400x5", 8_000, {"standard": 5, "rising": 5, "old": 1}),
    ("cifar10", "mlp400x5", 10_000, {"standard": 3}),
)


CELLS = tuple(
    Cell(data, net, road, seed, steps)
    for seed in range(5)
    for data, net, steps, roads in TESTED
    for road, seeds in roads.items()
    if seed < seeds
)


def read_knobs(text: str) -> dict[str, Any]:
    """``"start=he;warm_up=0.3"`` as ``{"start": "he", "warm_up": 0.3}``."""
    return {name: _value(value) for name, _, value in (pair.partition("=") for pair in text.split(";") if pair)}


def _value(text: str) -> Any:
    try:
        return ast.literal_eval(text)
    except (SyntaxError, ValueError):
        return text


def course(cell: Cell) -> dict[str, Any]:
    """The argument ``course`` of a cell; none for the standard one as it comes."""
    if cell.road.startswith("old"):
        return {"course": bp.courses.Plain()}
    knobs = {name: value for name, value in read_knobs(cell.knobs).items() if name not in BESIDE}
    return {"course": bp.courses.Standard(**knobs)} if knobs else {}


def split(cell: Cell) -> tuple[bp.Dataset, bp.Dataset]:
    """Rows to train on, and rows that judge."""
    numbers = cell.data in NUMBERS
    train, other = bp.data.load(cell.data, pad=32 if cell.net == "lenet5" else 0, standardise=not numbers)
    if cell.rows not in ("test", "held_out"):
        raise ValueError(f"rows must be 'test' or 'held_out', got {cell.rows!r}.")
    if cell.rows == "held_out":
        train, other = hold_out(train, SHARE, SPLIT)
    return bp.data.standardise(train, other, targets=True) if numbers else (train, other)


def build(cell: Cell, shape: tuple[int, ...]) -> bp.BNN:
    """The network under the flat prior."""
    return bp.BNN(
        NETS[cell.net],
        prior=bp.priors.Flat(),
        likelihood=bp.likelihoods.Normal() if cell.data in NUMBERS else bp.likelihoods.Categorical(),
        input_shape=shape,
        **({"posterior": MeanFieldFamily(init_loc=start)} if (start := start_of(cell)) else {}),
    )


def start_of(cell: Cell) -> str:
    """Where the weights start, "" for where a `BNN` lets them."""
    return str(read_knobs(cell.knobs).get("start", STARTS.get(cell.road, "")))


def travel(cell: Cell, bnn: bp.BNN, rows: bp.Dataset) -> tuple[Any, list[bp.Pruned]]:
    """The last fit, and what was pruned by hand, the last of it after that fit."""
    key = jax.random.key(cell.seed)
    given = {"batch_size": BATCH, "progress": False} | ROADS[cell.road] | course(cell)
    if dead := read_knobs(cell.knobs).get("dead"):
        given["sparsifier"] = bp.methods.BMR(dead=dead)
    parts, cuts = (ROUNDS, []) if cell.road == "rounds" else (1, [])
    looks = {"program": bnn, "data": rows, "rng_key": jax.random.key(0)} if cell.road == "two_calls_data" else {}
    looks |= {"idle": 0.0} if cell.road.startswith("old") else {}
    looks |= {"margin": 0.0} if parts > 1 else {}  # going on mends what a harder cut costs
    for part in range(parts):
        init = {"init": cuts[-1]} if cuts else {}
        own = jax.random.fold_in(key, part) if part else key
        fit = bp.fit_svi(own, bnn, rows, num_steps=cell.steps // parts, **given, **init)
        cuts += [bp.bmr_prune(fit.params, **looks)] if cell.road in BY_HAND else []
    return fit, cuts


def run(cell: Cell, folder: Path) -> cells.Record:
    """Figures on the rows that judge, what is left, and what the fit did and said."""
    train, other = split(cell)
    bnn = build(cell, train.x.shape[1:])
    with watched() as told:
        fit, cuts = travel(cell, bnn, train)
    left = cuts[-1] if cuts else fit
    acts = acts_of(written(cuts) if cuts else fit.history)
    return {"loss": loss_of(fit), **judged(bnn, left.params, left.mask, other), **acts, **told}


def summed(have: list[cells.Record]) -> list[str]:
    """Columns of several seeds: figures, shares of the prunable weights in per cent, acts, and how many died and warned."""
    known = lambda name: [record[name] for record in have if record.get(name) is not None]  # noqa: E731
    shares = lambda name: [100 * record[name] / record["prunable"] for record in have]  # noqa: E731
    of = lambda values, digits: cells.mean_and_spread(values, digits) if values or not have else "–"  # noqa: E731
    return [
        of(known("loss"), 0),
        *(of(known(name), 4) for name in FIGURES),
        *(of(shares(name), 1) for name in ("alive", "connected")),
        *(of(known(name), 0) for name in ("acts", "refused")),
        *(str(sum(map(bool, known(name)))) for name in ("died", "warnings")),
        of(known("cpu_seconds"), 0),
    ]


HEAD = ["seeds", "loss", *FIGURES, "alive %", "connected %", "acts", "refused", "died", "warned", "CPU s"]


def by_road(found: cells.Found) -> str:
    """Means over seeds with their spread, on the test rows."""
    rows = []
    for data, net, steps, roads in TESTED:
        for road in roads:
            mine = [cell for cell in CELLS if (cell.data, cell.net, cell.road, cell.rows) == (data, net, road, "test")]
            have = [found[cell] for cell in mine if cell in found]
            rows.append([data, net, road, str(steps), cells.count(have, mine), *summed(have)])
    return cells.table(["data", "net", "road", "steps", *HEAD], rows, "lllr" + "l" * len(HEAD))


STUDY = cells.Study("course", CELLS, run, {"by_road": by_road})

if __name__ == "__main__":
    cells.main(STUDY)
