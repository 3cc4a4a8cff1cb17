"""`bayesprune fit`: a table of one's own by the scikit-learn face as it comes, and a report of what came of it."""

import dataclasses
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
from tyro.conf import Positional, arg

from bayesprune import __version__
from bayesprune.cli import fit_report, fitted, likelihood
from bayesprune.cli.settings import FILE as RUN_SETTINGS
from bayesprune.core.files import write_atomically
from bayesprune.core.formats import write_record
from bayesprune.core.lock import alone_in
from bayesprune.data.tables.columns import check_whole, choose
from bayesprune.data.tables.own import digest_of, no_target, parts
from bayesprune.data.tables.reading import ARRAYS, check_kind, is_declared, read_frame, values_of
from bayesprune.data.tables.target import infer_target, may_be
from bayesprune.model.likelihoods import protocol
from bayesprune.report.tables import csv_text


def fit(
    data: Positional[Path],
    target: str,
    features: tuple[str, ...] = (),
    drop: tuple[str, ...] = (),
    likelihood: Annotated[str, arg(metavar="NAME")] = likelihood.AUTO,
    presets: Literal["fast", "default", "best"] = "default",
    time_limit: float | None = None,
    test_share: float = 0.2,
    split: int = 0,
    seed: int = 0,
    out: Path | None = None,
) -> None:
    """Fit a table: numbers, texts, dates and gaps as they come; report held-out scores, and keep what predicts new rows.

    By BayesianSparseRegressor or BayesianSparseClassifier at their defaults. Writes report.html, fit.json with the scores,
    inputs.csv with what each input moves, model.skops for bayesprune predict and evaluate, and net.bayesprune, one network of
    numbers.

    Args:
        data: A .csv, .tsv or .parquet file with names in its first line.
        target: The column to predict.
        features: Columns to take as inputs; all but the target if left out.
        drop: Columns to leave out.
        likelihood: categorical, normal, student-t, poisson and others; auto: classes or numbers as the target looks, and of
            numbers as their errors look.
        presets: fast fits one network and holds no rows out; best chooses by five folds.
        time_limit: Seconds that the fit may take.
        test_share: Share of the rows that the report judges by, and the fit does not see.
        split: Draws those rows.
        seed: Of the fit.
        out: Folder to write to; runs/ and the file's name if left out.
    """
    settings = {
        "target": target, "features": list(features), "drop": list(drop), "likelihood": likelihood, "presets": presets,
        "time_limit": time_limit, "test_share": test_share, "split": split, "seed": seed,
    }  # fmt: skip
    folder = Path("runs") / data.stem if out is None else out
    check_kind(data)
    if data.suffix.lower() in ARRAYS:
        raise ValueError(f"{data} holds arrays without names: bayesprune run --data {data} fits these.")
    with alone_in(folder):
        if not _is_finished(folder, settings, data):
            _complete(folder, settings, data)
        print(fit_report.end(fitted.record_of(folder), folder))


def _is_finished(folder: Path, settings: Mapping[str, Any], data: Path) -> bool:
    """Whether this very fit is there; another one's folder is refused."""
    if (folder / RUN_SETTINGS).is_file():
        raise ValueError(f"{folder} holds a run of bayesprune run: give another --out.")
    if not fitted.is_whole(folder):
        return False
    found = fitted.record_of(folder)
    if found["settings"] != settings or found["digest"] != digest_of(data):
        what = "settings" if found["settings"] != settings else f"rows, of {found['file']} as it was then"
        raise ValueError(f"{folder} holds a fit of other {what}: give another --out.")
    print(f"{folder} holds this very fit, finished.")
    return True


def _complete(folder: Path, settings: Mapping[str, Any], data: Path) -> None:
    """Fit, judge, and write down; the record is written last, and an older one goes first."""
    from bayesprune.sklearn import saving

    of, (x, held), (y, true), digest = _read(data, settings)
    target = of.target
    print(fit_report.begin(data, target, len(of.columns), (len(y), len(true))), flush=True)
    begin = time.perf_counter()
    model = _estimator(settings, target.classes != ()).fit(x, y)
    seconds = time.perf_counter() - begin
    of = dataclasses.replace(of, model=model)
    predicted, (moved, reasons) = of.predict(held), fit_report.inputs(of, held)
    (folder / fitted.RECORD).unlink(missing_ok=True)
    saving.save(model, folder / fitted.MODEL)
    record = {
        "settings": dict(settings),
        "file": data.name,
        "digest": digest,
        "target": dataclasses.asdict(target),
        "columns": of.columns,
        "texts": of.texts,
        "rows": {"fit": len(y), "judged": len(true)},
        "scores": fitted.judged(of, held, true, predicted),
        "without_inputs": fitted.of_nothing(target, y, true),
        "network": {"forms": model.weights_, "density": model.density_, "left_out": model.left_out_},
        "inputs": moved,
        "model": digest_of(folder / fitted.MODEL),
        "compact": _small(model, folder),
        "seconds": seconds,
        "version": __version__,
    }
    write_atomically(folder / fitted.INPUTS, csv_text(moved[0], (one.values() for one in moved)).encode())
    write_atomically(folder / fitted.PAGE, fit_report.html(record, of, (held, true), predicted, reasons).encode())
    write_record(folder / fitted.RECORD, record)


def _read(
    data: Path, settings: Mapping[str, Any]
) -> tuple[fitted.FinishedFit, tuple[Any, Any], tuple[np.ndarray, np.ndarray], str]:
    """What the file was found to be, as its columns look and the settings ask, without a model yet; its inputs and targets,
    each of the rows to fit and of those to judge by; and its digest. Raises `ValueError` for what cannot be fitted or judged.
    """
    digest, frame = digest_of(data), read_frame(data)  # the file may change while the fit runs
    name, kind = settings["target"], settings["likelihood"]
    if name not in frame.columns:
        raise no_target(data, name, list(frame.columns))
    columns = choose(list(frame.columns), name, settings["features"], settings["drop"])
    check_whole(frame, [name])
    train, test = parts(len(frame), settings["test_share"], settings["split"])
    values = values_of(frame, name)
    target = infer_target(name, values, train, _asked(kind, name, values, is_declared(frame[name])))
    if kind == "ordinal" and not target.ordered:
        raise ValueError(
            f"likelihood=ordinal needs classes whose order is that of numbers, and {name!r} holds texts: number them."
        )
    y = fitted.targets(target, values, str(data))
    if target.classes and not np.isin(y[test], y[train]).any():
        raise ValueError("no row that was held back is of a class of the others: give another --split, or unite rare classes.")
    x = frame[columns]
    texts = tuple(fitted.text_columns(frame, columns))
    found = fitted.FinishedFit(None, target, tuple(columns), texts, data.name)
    return found, (x.iloc[train], x.iloc[test]), (y[train], y[test]), digest


def _asked(kind: str, name: str, values: np.ndarray, declared: bool) -> str | None:
    """The kind of target that a likelihood, or the file itself, says there is; None: as its values look."""
    likelihood.check(kind)
    asked = likelihood.kind_of(kind) or (protocol.CLASSES if declared else None)
    if asked and asked not in (may := may_be(values)):
        others = " or ".join(likelihood.names(one)[0] for one in may)
        raise ValueError(f"likelihood={kind} is for {asked}, which {name!r} cannot be: choose {others}.")
    return asked


def _estimator(settings: Mapping[str, Any], of_labels: bool) -> Any:
    from bayesprune.sklearn import BayesianSparseClassifier, BayesianSparseRegressor

    kind = BayesianSparseClassifier if of_labels else BayesianSparseRegressor
    name = likelihood.undashed(settings["likelihood"])
    return kind(likelihood=name, presets=settings["presets"], time_limit=settings["time_limit"], random_state=settings["seed"])


def _small(model: Any, folder: Path) -> dict[str, Any]:
    """One network for where there is NumPy alone, or why there is none."""
    try:
        model.compact(keep="mean").save(folder / fitted.COMPACT)
    except ValueError as refused:
        (folder / fitted.COMPACT).unlink(missing_ok=True)  # that of an earlier try
        return {"refused": str(refused)}
    return {"bytes": (folder / fitted.COMPACT).stat().st_size, "inputs": list(model.number_names_)}
