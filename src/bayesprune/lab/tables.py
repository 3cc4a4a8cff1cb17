"""The records of a comparison as one table: markdown, with means and spreads over seeds, and CSV, a line each."""

import csv as of_text
import io
from collections.abc import Sequence
from typing import Any

import numpy as np

from bayesprune import cells
from bayesprune.cells import Record
from bayesprune.lab.plan import columns

FIGURES = {  # what a column is called, the record's name, and digits
    "accuracy": ("accuracy", 3),
    "NLL": ("nll", 3),
    "ECE (top label)": ("ece", 3),
    "ECE (equal mass)": ("ece_quantile", 3),
    "marginal calibration": ("calibration_marginal", 4),
    "OOD AUROC": ("auroc", 3),
}
COSTS = {"KiB": ("bytes", 1 / 1024, 1), "ms, 1 row": ("ms, 1 row", 1, 3), "ms, 128 rows": ("ms, 128 rows", 1, 2)}
COSTS |= {"s training": ("training_seconds", 1, 0)}
OWN = "own"


def rows(records: Sequence[Record]) -> dict[tuple[str, float], list[Record]]:
    """Method and asked density -> the records of all seeds, in the records' order."""
    made: dict[tuple[str, float], list[Record]] = {}
    for record in records:
        made.setdefault((str(record["method"]), float(record["density"])), []).append(record)
    return made


def markdown(records: Sequence[Record], budget: int) -> str:
    """The table, what it says, and every failure with its reason."""
    if not records:
        return "No cell is finished."
    noisy = list(columns(str(records[0]["noise"])))
    head = ["method", "density asked", "connected", "alive", "seeds", *FIGURES, *noisy, *COSTS, "setting"]
    body = [_row(name, density, of, noisy) for (name, density), of in rows(records).items()]
    table = cells.table(head, body, "lrrrr" + "r" * (len(FIGURES) + len(noisy) + len(COSTS)) + "l")
    first = records[0]
    about = (
        f"{first['data']}, {first['net']}, {first['steps']:,} steps of {first['batch_size']} rows; each method tried with "
        f"{budget} setting{'s' * (budget > 1)} on held-out rows. Mean ± standard deviation over seeds; density {OWN!r}: what "
        f"the method finds or leaves. OOD: {first['ood']}; noise in standard deviations of the inputs."
    )
    return f"{about}\n\n{table}{_failures(records)}"


def _row(name: str, density: float, of: Sequence[Record], noisy: Sequence[str]) -> list[str]:
    have = [record for record in of if not record["failed"]]
    asked = f"{100 * density:g} %" if density else OWN
    if not have:
        empty = [""] * (len(FIGURES) + len(noisy) + len(COSTS))
        return [name, asked, "failed", "", cells.count(have, of), *empty, ""]

    def mean(what: str, digits: int, factor: float = 1.0) -> str:
        values = [record[what] for record in have if record.get(what) is not None]
        return cells.mean_and_spread(np.asarray(values), digits, factor)

    shares = [f"{mean(what, 2, 100.0)} %" for what in ("connected", "alive")]
    said = [mean(what, digits) for what, digits in FIGURES.values()] + [mean(what, 3) for what in noisy]
    costs = [mean(what, digits, factor) for what, factor, digits in COSTS.values()]
    return [name, asked, *shares, cells.count(have, of), *said, *costs, str(have[0]["setting"])]


def _failures(records: Sequence[Record]) -> str:
    failed = [record for record in records if record["failed"]]
    lines = [f"- {record['cell']}: {record['failed']}" for record in failed]
    return f"\n\nFailed, {len(failed)} of {len(records)} trainings:\n\n" + "\n".join(lines) if failed else ""


def csv(records: Sequence[Record]) -> str:
    """A line for each record; columns in the order in which they first come."""
    names = list(dict.fromkeys(name for record in records for name in record))
    text = io.StringIO()
    writer = of_text.DictWriter(text, names, restval="", lineterminator="\n")
    writer.writeheader()
    made: list[dict[str, Any]] = [dict(record) for record in records]
    writer.writerows(made)
    return text.getvalue()
