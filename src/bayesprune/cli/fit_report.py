"""What `bayesprune fit` says: on the terminal, in inputs.csv and in report.html."""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from bayesprune.cli import fitted
from bayesprune.core.given import GivenFrame
from bayesprune.data.tables.reading import listed
from bayesprune.data.tables.target import Target
from bayesprune.report.page import page, picture, said, table
from bayesprune.report.tables import aligned, number, percent

if TYPE_CHECKING:  # scikit-learn is imported where a model is read
    from bayesprune.sklearn.reasons import Reasons

EXPLAINED, SHOWN = 50, 8  # rows that are explained; inputs on the terminal
WORDS = {
    "r2": "R², 1 is right, 0 the mean",
    "rmse": "root of the mean squared error, in units of the target",
    "crps": "continuous ranked probability score, in units of the target",
    "nll": "negative log-likelihood of a row, nats",
    "accuracy": "share of rows whose likeliest class is right",
    "ece": "expected calibration error of the likeliest class",
    "coverage_90": "share of rows within their interval, or set, of 90 %",
    "width_90": "mean width of those intervals, in units of the target",
    "set_size_90": "mean number of classes in those sets",
}


def begin(data: Path, target: Target, inputs: int, rows: tuple[int, int]) -> str:
    """What is fitted."""
    of = f"classes {listed(target.classes)}" if target.classes else "numbers"
    others = [kind for kind in target.others if kind in ("classes", "numbers")]
    may_be = f" ({others[0]} by --likelihood {'categorical' if others[0] == 'classes' else 'normal'})" if others else ""
    return f"{data.name}: {rows[0]:,} rows to fit, {rows[1]:,} to judge by, {inputs} columns; {target.name}: {of}{may_be}"


def inputs(of: fitted.FinishedFit, x: GivenFrame) -> tuple[list[dict[str, Any]], Any]:
    """What each column moves predictions by, the most first, and the reasons of the rows; of some of the rows held back.

    Of numbers the mean of |Shapley value|, in units of the target; of classes of half its sum over them, probability moved.
    """
    reasons = of.model.explain(x.iloc[:EXPLAINED])
    size = np.abs(reasons.values)
    moves = (0.5 * size.sum(axis=-1) if of.classes else size).mean(axis=0)
    read = np.asarray(of.model.used_features_)
    found = [
        {"input": of.columns[place], "read": bool(read[place]), "moves": float(moves[place])}
        for place in sorted(range(len(moves)), key=lambda place: (-moves[place], not read[place], place))
    ]
    return found, reasons


def end(record: Mapping[str, Any], folder: Path) -> str:
    """What is printed when all is done."""
    read = [one for one in record["inputs"] if one["read"]]
    parts = [
        f"\n{_scored(record)}",
        aligned([(name, number(value)) for name, value in record["scores"].items()]),
        _beside(record),
        *_left_out(record),
        f"\n{_read(record)} Each moves predictions by, in {_unit(record)} (mean absolute Shapley value):",
        aligned([(one["input"], number(one["moves"])) for one in read[:SHOWN]]) if read else "  (nothing)",
        *[f"  and {len(read) - SHOWN} more, in {fitted.INPUTS}"] * (len(read) > SHOWN),
        "\nwritten:",
        *(f"  {folder / name}" for name in (fitted.PAGE, fitted.RECORD, fitted.INPUTS, fitted.MODEL, fitted.COMPACT)
          if (folder / name).is_file()),
        f"new rows: bayesprune predict {folder} new.csv",
    ]  # fmt: skip
    return "\n".join(parts)


def html(
    record: Mapping[str, Any], of: fitted.FinishedFit, held: tuple[Any, np.ndarray], predicted: np.ndarray, reasons: "Reasons"
) -> str:
    """report.html: one file with the figures in it; ``held``: the rows held back, ``predicted``: their predictions."""
    x, y = held
    scores = [(name, number(value), WORDS[name]) for name, value in record["scores"].items()]
    moved = [(one["input"], "yes" if one["read"] else "no", number(one["moves"])) for one in record["inputs"]]
    forms = ", ".join(f"{name} {percent(weight)}" for name, weight in record["network"]["forms"].items())
    small = record["compact"]
    shipped = (
        f"No small file: {small['refused']}"
        if "refused" in small
        else f"{fitted.COMPACT}: one network at its mean, {small['bytes'] / 1e3:,.1f} kB, which needs NumPy alone. It reads "
        f"the {len(small['inputs'])} numbers that the estimator makes of the columns: {listed(small['inputs'])}."
    )
    parts = [
        said(_scored(record)),
        table(("score", "value", "what it is"), scores),
        said(_beside(record).strip()),
        *map(said, _left_out(record)),
        "<h2>Calibration</h2>",
        picture(_calibration(of, y, predicted), "how often predictions hold, over how sure they are"),
        said(_of_figure(of)),
        "<h2>Inputs</h2>",
        said(f"{_read(record)} What an input moves predictions by: its mean absolute Shapley value over "
             f"{min(EXPLAINED, len(x))} rows, in {_unit(record)}. Inputs that are not read could have any value."),
        picture(_reasons(of, x, predicted, reasons), "what each input adds to the predictions of single rows"),
        table(("input", "read", "moves predictions by"), moved),
        "<h2>Network</h2>",
        said(f"Forms and their weights: {forms}. {percent(record['network']['density'])} of the weights are left. Fitted in "
             f"{record['seconds']:.0f} s."),
        said(shipped),
    ]  # fmt: skip
    return page(f"{record['target']['name']} of {record['file']}", parts)


def _scored(record: Mapping[str, Any]) -> str:
    rows = record["rows"]
    return f"Judged by {rows['judged']:,} rows that the fit to {rows['fit']:,} rows has not seen:"


def _beside(record: Mapping[str, Any]) -> str:
    (name, value), *_ = record["without_inputs"].items()
    what = "the most frequent class" if name == "accuracy" else "the mean of the rows that were fitted"
    return f"  Without inputs, by {what}: {name} {number(value)}"


def _left_out(record: Mapping[str, Any]) -> list[str]:
    """What the time limit had no time for, in a sentence; none where it cut nothing."""
    left = record["network"]["left_out"]
    if not left:
        return []
    listed_or_number = lambda what: ", ".join(map(str, what)) if isinstance(what, list | tuple) else f"{what:g}"  # noqa: E731
    words = "; ".join(f"{name} {listed_or_number(what)}" for name, what in left.items())
    held = " No rows were held out: intervals are the posterior's own." if "held_out" in left else ""
    return [f"--time-limit left no time for {words}.{held}"]


def _read(record: Mapping[str, Any]) -> str:
    read = sum(one["read"] for one in record["inputs"])
    return f"{read} of {len(record['inputs'])} inputs are read."


def _unit(record: Mapping[str, Any]) -> str:
    return "probability" if record["target"]["classes"] else f"the units of {record['target']['name']}"


def _of_figure(of: fitted.FinishedFit) -> str:
    if of.classes:
        return "Bars above the diagonal: right more often than predicted."
    return (
        "The figure is of the posterior's own intervals. Those of the scores and of predictions are as wide as rows that the "
        "fit held out ask for, where it held some out."
    )


def _calibration(of: fitted.FinishedFit, y: np.ndarray, predicted: np.ndarray) -> Any:
    from bayesprune.report import plots

    if not of.classes:
        return plots.coverage_diagram(predicted, y)
    known, labels = of.placed(y)
    return plots.reliability_diagram(predicted[known], labels)


def _reasons(of: fitted.FinishedFit, x: GivenFrame, predicted: np.ndarray, reasons: "Reasons") -> Any:
    """Of classes, of the one that is predicted most often."""
    import pandas as pd

    from bayesprune.report import plots

    rows = x.iloc[:EXPLAINED]
    values, unit = reasons.values, of.target.name
    if of.classes:
        place = int(np.bincount(predicted.argmax(axis=1)).argmax())
        values, unit = values[..., place], f"probability of {of.target.name} {of.classes[place]}"
    # A missing date is made the least whole number there is, and would be drawn as the earliest.
    columns = [pd.to_numeric(rows[name], errors="coerce").where(rows[name].notna()) for name in of.columns]
    numbers = np.column_stack([column.to_numpy(np.float64, na_value=np.nan) for column in columns])
    return plots.reasons(reasons._replace(values=values), of.columns, numbers, unit=unit)
