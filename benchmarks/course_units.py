"""Methods that read the scales or the noise of units, as they come: their acts verified, weights that are points by their rate.

    python benchmarks/course_units.py run                  # into runs/course_units.jsonl, what is not there
    python benchmarks/tables.py                            # from the results kept here, into the page

`fit_svi` over 3,000 steps of at most 128 rows; an MLP of 100-100 on images and of 50 on tables, whose parts are those of
`around_trained`. "former": acts that nothing verified, and .04 for all parameters under `GroupNormalJeffreys`, `UnitNoise` and
`ConcreteDropout`; "default": nothing given. That acts are verified was chosen on Fashion-MNIST, the rates there and on digits,
concrete, red wine and breast cancer; on the other sets nothing was.
"""

import itertools
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import course_rates
from course_rates import IMAGES

import bayesprune as bp
from bayesprune import cells

STEPS = 3000
TABLES_OF = (
    "breast_cancer", "iris", "diabetes", "uci/boston_housing", "uci/wine_quality_red", "uci/concrete", "uci/yacht",
    "uci/power_plant",
)  # fmt: skip
CHOSEN_ON = ("fashion_mnist", "digits", "uci/concrete", "uci/wine_quality_red", "breast_cancer")
P, M, S = bp.priors, bp.methods, bp.courses.Standard
# Prior, what the fit is given besides, and the course as it was.
FITS: dict[str, tuple[Any, dict[str, Any], bp.courses.Standard]] = {
    "Shrinkage, GroupHorseshoe": (P.GroupHorseshoe, {"sparsifier": M.Shrinkage()}, S(verified=0)),
    "Shrinkage, Horseshoe": (P.Horseshoe, {"sparsifier": M.Shrinkage()}, S(verified=0)),
    "WidestGap, GroupHorseshoe": (P.GroupHorseshoe, {"sparsifier": M.WidestGap()}, S(verified=0)),
    "WidestGap, GroupNormalJeffreys": (P.GroupNormalJeffreys, {"sparsifier": M.WidestGap()}, S(rate=0.04, verified=0)),
    "SBP, UnitNoise": (P.UnitNoise, {"sparsifier": M.SBP()}, S(rate=0.04, verified=0)),
    "ConcreteDropout": (P.ConcreteDropout, {}, S(rate=0.04)),
}
WAYS = ("former", "default")


@dataclass(frozen=True)
class Cell:
    data: str
    fit: str
    way: str


CELLS = tuple(Cell(*of) for of in itertools.product((*IMAGES, *TABLES_OF), FITS, WAYS))


def run(cell: Cell, folder: Path) -> cells.Record:
    """A fit, as it was or as it comes."""
    prior, given, former = FITS[cell.fit]
    return course_rates.fitted(cell.data, prior(), STEPS, **given, **({"course": former} if cell.way == "former" else {}))


def _table(names: tuple[str, ...]) -> Callable[[cells.Found], str]:
    """NLL, accuracy or RMSE, and percent of the weights left; a row for each fit, a column for each way."""

    def table(found: cells.Found) -> str:
        rows = []
        for fit, data in itertools.product(FITS, names):
            shown = [course_rates.shown(found.get(Cell(data, fit, way))) for way in WAYS]
            rows.append([fit, data.removeprefix("uci/") + (" (seen)" if data in CHOSEN_ON else ""), *shown])
        return cells.table(["fit", "data", *WAYS], rows, "ll" + "r" * len(WAYS))

    return table


TABLES = {"images": _table(IMAGES), "tables": _table(TABLES_OF)}
STUDY = cells.Study("course_units", CELLS, run, TABLES)

if __name__ == "__main__":
    cells.main(STUDY)
