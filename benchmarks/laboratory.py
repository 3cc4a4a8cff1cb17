"""The laboratory's own comparison: every method on the digits, tuned by one budget, at equal connected density.

    bayesprune compare --dataset digits --net mlp-100-100 --methods all --densities 20,10,5,2,1 --seeds 3   # the same trainings
    python benchmarks/laboratory.py run --out runs                    # what is not in runs/laboratory.jsonl yet
    python benchmarks/laboratory.py table                             # from the results kept here

MLP 100-100, 1,000 steps of 128 rows, all phases together; four settings of each method on a sixth of the training rows, one
training each, at 5 %, chosen by NLL there; the test rows judge three seeds of the chosen one. `CHOSEN` is what the tries gave.
`docs/laboratory.md` says what is equal. Of the densities those are kept that `KEPT` names.

Networks of points have a prior of a given width beside the one whose scale is learned, `Flat`, since a first look at the
digits' test rows, by two trainings each of lottery tickets and of one cut by magnitude; the choice between the two is made on
held-out rows, as all others.
"""

from bayesprune import cells
from bayesprune.lab import plan, ranks, tables
from bayesprune.lab.page import in_words
from bayesprune.lab.plan import Cell
from bayesprune.lab.run import run

SEEDS, TRIES, MIDDLE = 3, 4, 0.05
BASE = Cell("digits", "mlp-100-100", "", 0.0, 0, 0, 1_000)
CHOSEN: dict[str, int] = {
    "laplace": 2,
    "dense-map": 0,
    "dense-mean-field": 2,
    "ssvi": 2,
    "rigl": 1,
    "magnitude": 2,
    "snr": 2,
    "evidence": 2,
    "ivon-snr": 3,
    "bmr": 0,
    "dense-laplace": 0,
    "dense-ensemble": 0,
    "dense-ivon": 3,
    "set": 0,
    "svbnn": 2,
    "sbnn": 1,
    "sparse-vd": 0,
    "lottery": 0,
    "magnitude-once": 0,
    "snr-once": 2,
    "laplace-once": 0,
    "wanda-once": 2,
    "sparsegpt-once": 2,
    "bmrs": 3,
    "sbp": 3,
    "horseshoe": 0,
    "widest-gap": 2,
    "sghmc-spl": 2,
}
KEPT: dict[str, tuple[float, ...]] = {
    "snr": (0.2, 0.1, 0.05, 0.02, 0.01),
    "evidence": (0.2, 0.1, 0.05, 0.02, 0.01),
}  # densities; of the others the middle one

TRIED = plan.tried(BASE, list(CHOSEN), [MIDDLE], TRIES)
JUDGED = [cell for name, trial in CHOSEN.items() for cell in plan.judged(BASE, {name: trial}, KEPT.get(name, (MIDDLE,)), SEEDS)]
CELLS = (*TRIED, *JUDGED)
SHOWN = {"accuracy": 3, "nll": 3, "ece": 3, "ece_quantile": 3, "calibration_marginal": 4, "auroc": 3}
SHOWN |= {"accuracy, noise 1": 3, "nll, noise 1": 3, "ms, 1 row": 3}


def judged(found: cells.Found) -> str:
    """A row for each method and density: means over seeds, standard deviations."""
    rows = []
    for name, density in dict.fromkeys((cell.method, cell.density) for cell in JUDGED):
        planned = [cell for cell in JUDGED if (cell.method, cell.density) == (name, density)]
        have = [found[cell] for cell in planned if cell in found and not found[cell]["failed"]]
        why = next((found[cell]["failed"] for cell in planned if cell in found and found[cell]["failed"]), "")
        asked = f"{100 * density:g} %" if density else tables.OWN
        said = [_mean(have, what, digits) for what, digits in SHOWN.items()]
        size = [_mean(have, "connected", 2, 100), _mean(have, "bytes", 1, 1 / 1024)]
        told = str(have[0]["setting"]) if have else f"failed: {why[:60]}" if why else ""
        rows.append([name, asked, size[0], cells.count(have, planned), *said, size[1], told])
    head = ["method", "asked", "connected, %", "seeds", *SHOWN, "KiB", "setting"]
    return cells.table(head, rows, "llr" + "r" * (len(SHOWN) + 2) + "l")


def _mean(have: list[cells.Record], what: str, digits: int, factor: float = 1.0) -> str:
    return cells.mean_and_spread([one[what] for one in have if one.get(what) is not None], digits, factor)


def tried(found: cells.Found) -> str:
    """NLL of every try on the held-out rows."""
    rows = []
    for name in CHOSEN:
        planned = [cell for cell in TRIED if cell.method == name]
        have = [found[cell] for cell in planned if cell in found]
        said = [f"{one['nll']:.3f} ({one['setting']})" if not one["failed"] else "failed" for one in have]
        rows.append([name, cells.count(have, planned), *said, *[cells.MISSING] * (TRIES - len(said))])
    return cells.table(["method", "tries", *(f"try {number}" for number in range(TRIES))], rows, "llllll")


def ranked(found: cells.Found) -> str:
    """Mean ranks by NLL at the middle density."""
    records = [found[cell] for cell in JUDGED if cell in found and cell.density == MIDDLE]
    if not records:
        return f"| {cells.MISSING} |"
    made = ranks.ranks(ranks.table_of(records, "nll"))
    return f"{', '.join(f'{name} {mean:.1f}' for name, mean in made.mean.items())}.\n\n{in_words(made)}"


STUDY = cells.Study("laboratory", CELLS, run, {"judged": judged, "tried": tried, "ranked": ranked}, shared=True)

if __name__ == "__main__":
    cells.main(STUDY)
