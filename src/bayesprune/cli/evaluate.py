"""`bayesprune evaluate`: a finished run on its test set, on another one, or against foreign data."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

from tyro.conf import FlagCreatePairsOff, Positional, arg

from bayesprune import data as data_sets
from bayesprune.cli import build, fitted, rows, settings
from bayesprune.cli.results import read_posterior
from bayesprune.cli.run_settings import RunSettings
from bayesprune.core.types import Dataset
from bayesprune.data import catalogue
from bayesprune.infer.evaluate import scored
from bayesprune.infer.predict import predict
from bayesprune.report import metrics, runs

DRAWS = 100


def evaluate(
    out: Positional[Path],
    dataset: str | None = None,
    data: Path | None = None,
    num_samples: int | None = None,
    ood: str | None = None,
    data_dir: Path | None = None,
    net: Annotated[str | None, arg(metavar="MODULE:FUNCTION")] = None,
    as_json: Annotated[bool, arg(name="json"), FlagCreatePairsOff] = False,
) -> None:
    """Evaluate the posterior of a finished run on its test set.

    Args:
        out: Folder of the run, or of a fit of a table, which is judged by --data or gives the scores of its held-back rows.
        dataset: Another image set with the same classes; the run's own if left out.
        data: A file with the columns of the one that the run was made of; that one's held-back rows if left out.
        num_samples: Networks drawn from the posterior, 100 if left out. A fit has its own.
        ood: An image set of foreign classes: the predictive entropy's AUROC in telling it from the test set.
        data_dir: Folder of the data sets; $BAYESPRUNE_DATA if left out.
        net: Of a run with a network of your own, its MODULE:FUNCTION once more: a folder may be anybody's, and to import the
            module runs its code. Naming it says that you trust it.
        as_json: Print JSON.
    """
    if fitted.is_one(out):
        if dataset or ood or net:
            raise ValueError(f"{out} is of bayesprune fit, and data sets by name have other columns: give --data FILE.")
        if num_samples is not None:
            raise ValueError(f"{out} is of bayesprune fit, whose networks are its own: leave num_samples out.")
        scores, on = _of_fit(out, data)
    else:
        chosen = settings.load(out, net, data_dir=data_dir)
        scores, on = _of_run(out, chosen, DRAWS if num_samples is None else num_samples, dataset, data, ood)
    print(json.dumps(scores, indent=2) if as_json else f"{out}: {on}\n{runs.scores(scores)}")


def _of_fit(out: Path, data: Path | None) -> tuple[dict[str, float], str]:
    """Scores, and which rows they are of."""
    if data is None:
        found = fitted.record_of(out)
        return found["scores"], f"rows of {found['file']} that the fit has not seen, {found['rows']['judged']:,} rows"
    of = fitted.load(out)
    x, y = of.labelled(data)
    return fitted.judged(of, x, y, of.predict(x)), f"{data}, {len(y):,} rows"


def _of_run(
    out: Path, chosen: RunSettings, num_samples: int, dataset: str | None, data: Path | None, ood: str | None
) -> tuple[dict[str, float], str]:
    """Scores, and which rows they are of."""
    saved = read_posterior(out)
    test, task, part = _judged(chosen, saved.metadata, dataset, data, ood)
    bnn, key = build.bnn_for(chosen, task), build.keys(chosen)[1]
    scores, probs = scored(key, bnn, saved.params, test, mask=saved.mask, num_samples=num_samples)
    if ood is not None:
        if probs is None:
            raise ValueError(f"ood={ood!r} needs class probabilities, and {chosen.dataset!r} has real targets: leave it out.")
        outside = predict(key, bnn, saved.params, _foreign(ood, chosen).x, mask=saved.mask, num_samples=num_samples)
        scores[f"auroc_{catalogue.canonical(ood)}"] = metrics.ood_auroc(probs, outside)
    return scores, f"{part}, {len(test.y):,} rows, {num_samples} draws"


def _judged(
    chosen: RunSettings, notes: Mapping[str, Any], dataset: str | None, data: Path | None, ood: str | None
) -> tuple[Dataset, rows.RowsTask, str]:
    """The rows to judge on, the network's task, and what the rows are called."""
    schema = rows.schema_in(notes)
    if schema is None and data is not None:
        raise ValueError(f"data={data}: the run is of the data set {chosen.dataset!r}, not of a file: leave it out.")
    if schema is not None and (dataset or ood):
        raise ValueError(f"the run is of a file, {schema.file}, and data sets by name have other columns: give --data FILE.")
    if schema is not None and data is not None:
        return schema.dataset(data), rows.task_of(schema), str(data)
    rows.check_unchanged(chosen.data or "", notes)
    held = rows.load_data(chosen)
    if dataset and catalogue.canonical(dataset) != chosen.dataset:
        return _foreign(dataset, chosen), held.task, f"{catalogue.canonical(dataset)} test set"
    return held.test, held.task, f"{held.part} set"


def _foreign(name: str, chosen: RunSettings) -> Dataset:
    """Another image set's test part, scaled as the run's own was."""
    if chosen.dataset not in catalogue.IMAGE_SETS:
        raise ValueError(
            f"the run is of {chosen.dataset!r}, a table, and {name!r} has columns and scales of its own: leave dataset and ood "
            "out."
        )
    return data_sets.load_test(name, chosen.data_dir, like=chosen.dataset, pad=chosen.pad)
