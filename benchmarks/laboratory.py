"""The laboratory's own comparisons: every method on digits, Fashion-MNIST and MNIST, tuned by one budget, at equal density.

    bayesprune compare --dataset digits --net mlp-100-100 --methods all --densities 20,10,5,2,1 --seeds 3   # the same trainings
    bayesprune compare --dataset fashion_mnist --net mlp-100-100 --methods all --densities 20,10,5,2,1 --seeds 3
    bayesprune compare --dataset mnist --net mlp-100-100 --methods all --densities 20,10,5,2,1 --seeds 3
    bayesprune compare --dataset fashion_mnist --net lenet5 --methods all --densities 20,10,5,2,1 --seeds 3
    bayesprune compare --dataset mnist --net lenet5 --methods all --densities 20,10,5,2,1 --seeds 3
    python benchmarks/laboratory.py run --out runs                    # what is not in runs/laboratory.jsonl yet
    python benchmarks/laboratory.py table                             # from the results kept here

MLP 100-100, and LeNet-5; 1,000 steps of 128 rows, all phases together; four settings of each method on a sixth of the training
rows, one training each, at 5 %, chosen by NLL there; the test rows judge three seeds of the chosen one. ``chosen`` of a task is
what the tries gave. `docs/laboratory.md` says what is equal. Densities are connected ones.

Networks of points have a prior of a given width beside the one whose scale is learned, `Flat`, since a first look at the
digits' test rows, by two trainings each of lottery tickets and of one cut by magnitude; the choice between the two is made on
held-out rows, as all others.
"""

import functools
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from bayesprune import cells
from bayesprune.lab import plan, ranks, tables
from bayesprune.lab.page import in_words
from bayesprune.lab.plan import Cell
from bayesprune.lab.run import run

SEEDS, TRIES, MIDDLE = 3, 4, 0.05
ALL = (0.2, 0.1, 0.05, 0.02, 0.01)


@dataclass(frozen=True)
class Task:
    """``chosen``: the try of each method that its held-out rows speak for; ``kept``: densities, of others the middle one."""

    base: Cell
    chosen: dict[str, int]
    kept: dict[str, tuple[float, ...]]

    @functools.cached_property
    def tried(self) -> list[Cell]:
        return plan.tried(self.base, list(self.chosen), [MIDDLE], TRIES)

    @functools.cached_property
    def judged(self) -> list[Cell]:
        of = lambda name, trial: plan.judged(self.base, {name: trial}, self.kept.get(name, (MIDDLE,)), SEEDS)  # noqa: E731
        return [cell for name, trial in self.chosen.items() for cell in of(name, trial)]


CHOSEN = {  # of the tasks below, in their order
    "laplace": (2, 3, 3, 1, 3),
    "dense-map": (0, 1, 2, 2, 2),
    "dense-mean-field": (2, 0, 0, 0, 0),
    "ssvi": (2, 2, 2, 0, 0),
    "rigl": (1, 2, 2, 0, 0),
    "magnitude": (2, 2, 2, 2, 2),
    "snr": (2, 0, 2, 0, 0),
    "evidence": (2, 0, 0, 0, 0),
    "ivon-snr": (3, 1, 1, 1, 1),
    "bmr": (0, 0, 0, 0, 0),
    "dense-laplace": (0, 1, 2, 1, 1),
    "dense-ensemble": (0, 1, 2, 1, 2),
    "dense-ivon": (3, 0, 2, 2, 2),
    "dense-swag": (3, 0, 1, 2, 0),
    "set": (0, 0, 2, 0, 0),
    "svbnn": (2, 1, 3, 3, 3),
    "sbnn": (1, 3, 3, 3, 3),
    "sparse-vd": (0, 3, 3, 3, 3),
    "lottery": (0, 2, 2, 0, 2),
    "magnitude-once": (0, 2, 2, 3, 2),
    "snr-once": (2, 2, 2, 2, 2),
    "laplace-once": (0, 2, 2, 0, 3),
    "wanda-once": (2, 0, 0, 0, 3),
    "sparsegpt-once": (2, 0, 0, 1, 1),
    "bmrs": (3, 1, 1, 1, 3),
    "sbp": (3, 1, 1, 1, 3),
    "horseshoe": (0, 1, 1, 0, 0),
    "widest-gap": (2, 0, 1, 1, 1),
    "sghmc-spl": (2, 0, 0, 0, 0),
}


def _task(place: int, data: str, net: str, kept: tuple[str, ...] = tuple(CHOSEN)) -> Task:
    """``kept``: methods that are judged at all densities."""
    chosen = {name: tries[place] for name, tries in CHOSEN.items()}
    return Task(Cell(data, net, "", 0.0, 0, 0, 1_000), chosen, dict.fromkeys(kept, ALL))


DIGITS = _task(0, "digits", "mlp-100-100", ("snr", "evidence"))
FASHION = _task(1, "fashion_mnist", "mlp-100-100")
MNIST = _task(2, "mnist", "mlp-100-100")
LENET = _task(3, "fashion_mnist", "lenet5")
MNIST_LENET = _task(4, "mnist", "lenet5")
TASKS = (DIGITS, FASHION, MNIST, LENET, MNIST_LENET)
CELLS = tuple(cell for task in TASKS for cell in (*task.tried, *task.judged))
SHOWN = {"accuracy": 3, "nll": 3, "ece": 3, "ece_quantile": 3, "calibration_marginal": 4, "auroc": 3}
SHOWN |= {"accuracy, noise 1": 3, "nll, noise 1": 3, "ms, 1 row": 3}


def judged(task: Task, found: cells.Found, wanted: tuple[float, ...] = (0.0, *ALL)) -> str:
    """A row for each method and density: means over seeds, standard deviations."""
    rows = []
    for name, density in dict.fromkeys((cell.method, cell.density) for cell in task.judged if cell.density in wanted):
        planned = [cell for cell in task.judged if (cell.method, cell.density) == (name, density)]
        have = [found[cell] for cell in planned if cell in found and not found[cell]["failed"]]
        why = next((found[cell]["failed"] for cell in planned if cell in found and found[cell]["failed"]), "")
        asked = f"{100 * density:g} %" if density else tables.OWN
        said = [_mean(have, what, digits) for what, digits in SHOWN.items()]
        size = [_mean(have, "connected", 2, 100), _mean(have, "bytes", 1, 1 / 1024)]
        told = str(have[0]["setting"]) if have else f"failed: {why[:60]}" if why else ""
        rows.append([name, asked, size[0], cells.count(have, planned), *said, size[1], told])
    head = ["method", "asked", "connected, %", "seeds", *SHOWN, "KiB", "setting"]
    return cells.table(head, rows, "llr" + "r" * (len(SHOWN) + 2) + "l")


def by_density(task: Task, found: cells.Found, densities: tuple[float, ...] = ALL) -> str:
    """Accuracy and NLL of every method that takes a density and has all seeds of all of them, by density: means over seeds."""
    rows = []
    for name in task.chosen:
        mine = [cell for cell in task.judged if cell.method == name and cell in found and not found[cell]["failed"]]
        have = {density: [found[cell] for cell in mine if cell.density == density] for density in densities}
        if all(len(records) == SEEDS for records in have.values()):
            mean = lambda records: " / ".join(f"{np.mean([r[what] for r in records]):.3f}" for what in ("accuracy", "nll"))  # noqa: E731
            rows.append([name, *map(mean, have.values())])
    return cells.table(["accuracy / NLL", *(f"{100 * density:g} %" for density in densities)], rows, "l" + "r" * len(densities))


def _mean(have: list[cells.Record], what: str, digits: int, factor: float = 1.0) -> str:
    return cells.mean_and_spread([one[what] for one in have if one.get(what) is not None], digits, factor)


def tried(task: Task, found: cells.Found) -> str:
    """NLL of every try on the held-out rows."""
    rows = []
    for name in task.chosen:
        planned = [cell for cell in task.tried if cell.method == name]
        have = [found[cell] for cell in planned if cell in found]
        said = [f"{one['nll']:.3f} ({one['setting']})" if not one["failed"] else "failed" for one in have]
        rows.append([name, cells.count(have, planned), *said, *[cells.MISSING] * (TRIES - len(said))])
    return cells.table(["method", "tries", *(f"try {number}" for number in range(TRIES))], rows, "llllll")


def ranked(task: Task, found: cells.Found, densities: tuple[float, ...] = (MIDDLE,)) -> str:
    """Mean ranks by NLL over densities and seeds."""
    records = [found[cell] for cell in task.judged if cell in found and cell.density in densities]
    if not records:
        return f"| {cells.MISSING} |"
    made = ranks.ranks(ranks.table_of(records, "nll"))
    return f"{', '.join(f'{name} {mean:.1f}' for name, mean in made.mean.items())}.\n\n{in_words(made)}"


TABLES: dict[str, Callable[[cells.Found], str]] = {
    "judged": functools.partial(judged, DIGITS),
    "tried": functools.partial(tried, DIGITS),
    "ranked": functools.partial(ranked, DIGITS),
    "fashion": functools.partial(judged, FASHION, wanted=(0.0, MIDDLE)),
    "fashion_by_density": functools.partial(by_density, FASHION),
    "fashion_tried": functools.partial(tried, FASHION),
    "fashion_ranked": functools.partial(ranked, FASHION, densities=ALL),
    "mnist": functools.partial(judged, MNIST, wanted=(0.0, MIDDLE)),
    "mnist_by_density": functools.partial(by_density, MNIST),
    "mnist_tried": functools.partial(tried, MNIST),
    "mnist_ranked": functools.partial(ranked, MNIST, densities=ALL),
    "lenet": functools.partial(judged, LENET, wanted=(0.0, MIDDLE)),
    "lenet_by_density": functools.partial(by_density, LENET),
    "lenet_tried": functools.partial(tried, LENET),
    "lenet_ranked": functools.partial(ranked, LENET, densities=ALL),
    "mnist_lenet": functools.partial(judged, MNIST_LENET, wanted=(0.0, MIDDLE)),
    "mnist_lenet_by_density": functools.partial(by_density, MNIST_LENET),
    "mnist_lenet_tried": functools.partial(tried, MNIST_LENET),
    "mnist_lenet_ranked": functools.partial(ranked, MNIST_LENET, densities=ALL),
}
STUDY = cells.Study("laboratory", CELLS, run, TABLES, shared=True)

if __name__ == "__main__":
    cells.main(STUDY)
