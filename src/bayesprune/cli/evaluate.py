"""`bayesprune evaluate`: a finished run on its test set, on another one, or against foreign data."""

import json
from pathlib import Path
from typing import Annotated

from tyro.conf import FlagCreatePairsOff, Positional, arg

from bayesprune import data as data_sets
from bayesprune.cli import build, settings
from bayesprune.cli.results import POSTERIOR
from bayesprune.core.types import Dataset
from bayesprune.data import catalogue
from bayesprune.infer.evaluate import scored
from bayesprune.infer.predict import predict
from bayesprune.report import metrics, runs
from bayesprune.report.export import load_posterior


def evaluate(
    out: Positional[Path],
    dataset: str | None = None,
    num_samples: int = 100,
    ood: str | None = None,
    data_dir: Path | None = None,
    as_json: Annotated[bool, arg(name="json"), FlagCreatePairsOff] = False,
) -> None:
    """Evaluate the posterior of a finished run on its test set.

    Args:
        out: Folder of the run.
        dataset: Another data set with the same classes, or targets; the run's own if left out.
        num_samples: Networks drawn from the posterior.
        ood: An image set of foreign classes: the predictive entropy's AUROC in telling it from the test set.
        data_dir: Folder of the data sets; $BAYESPRUNE_DATA if left out.
        as_json: Print JSON.
    """
    chosen = settings.load(out, data_dir=data_dir)
    saved = load_posterior(out / POSTERIOR)
    data = build.load_data(chosen)
    bnn, test, part, key = build.make_bnn(chosen, data), data.test, data.part, build.keys(chosen)[1]
    if dataset and catalogue.canonical(dataset) != chosen.dataset:
        test, part = _foreign(dataset, chosen), f"{catalogue.canonical(dataset)} test"
    scores, probs = scored(key, bnn, saved.params, test, mask=saved.mask, num_samples=num_samples)
    if ood is not None:
        if probs is None:
            raise ValueError(f"ood={ood!r} needs class probabilities, and {chosen.dataset!r} has real targets: leave it out.")
        outside = predict(key, bnn, saved.params, _foreign(ood, chosen).x, mask=saved.mask, num_samples=num_samples)
        scores[f"auroc_{catalogue.canonical(ood)}"] = metrics.ood_auroc(probs, outside)
    if as_json:
        print(json.dumps(scores, indent=2))
    else:
        print(f"{out}: {part} set, {len(test.y):,} rows, {num_samples} draws\n{runs.scores(scores)}")


def _foreign(name: str, chosen: settings.Settings) -> Dataset:
    """Another set's test part, images scaled as the run's own were."""
    if chosen.dataset in (*catalogue.IMAGES, "digits"):
        return data_sets.load_test(name, chosen.data_dir, like=chosen.dataset, pad=chosen.pad)
    return data_sets.load(name, chosen.data_dir)[1]
