"""The records of a comparison as one table: markdown, with means and spreads over seeds, and CSV, a line each."""

import csv as of_text
import io
from collections.abc import Sequence

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
    """Method and wanted density -> the records of all seeds, in the records' order."""
    made: dict[tuple[str, float], list[Record]] = {}
    for record in records:
        made.setdefault((str(record["method"]), float(record["density"])), []).append(record)
    return made


def markdown(records: Sequence[Record], budget: int) -> str:
    """The table, what it says, and every failure with its reason."""
    if not records:
        return "No cell is finished."
    head, body = head_and_rows(records)
    table = cells.table(head, body, "lrrrr" + "r" * (len(head) - 6) + "l")
    listed = "\n".join(f"- {line}" for line in failures(records))
    return f"{about(records, budget)}\n\n{table}" + (f"\n\nFailed:\n\n{listed}" if listed else "")


def about(records: Sequence[Record], budget: int) -> str:
    """What was compared, and how."""
    first = records[0]
    task = ", ".join([first["data"], first["net"], *([f"{first['rows']:,} training rows"] if first["rows"] else [])])
    tuned = f"tried with {budget} settings on held-out rows" if budget > 1 else "with its first setting"
    return (
        f"{task}, {first['steps']:,} steps of {first['batch_size']} rows; each method {tuned}. "
        f"Mean ± standard deviation over seeds; density {OWN!r}: what the method finds or leaves. OOD: {first['ood']}; noise "
        "in standard deviations of the inputs."
    )


def head_and_rows(records: Sequence[Record]) -> tuple[list[str], list[list[str]]]:
    """The columns' names, and a row for each method and density."""
    noisy = list(columns(str(records[0]["noise"])))
    head = ["method", "density asked", "connected", "alive", "seeds", *FIGURES, *noisy, *COSTS, "setting"]
    return head, [_row(name, density, of, noisy) for (name, density), of in rows(records).items()]


def failures(records: Sequence[Record]) -> list[str]:
    """Failed trainings with their reasons."""
    return [f"{record['cell']}: {record['failed']}" for record in records if record["failed"]]


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


def csv(records: Sequence[Record]) -> str:
    """A line for each record; columns in the order in which they first come."""
    names = list(dict.fromkeys(name for record in records for name in record))
    text = io.StringIO()
    writer = of_text.DictWriter(text, names, restval="", lineterminator="\n")
    writer.writeheader()
    writer.writerows(records)
    return text.getvalue()
