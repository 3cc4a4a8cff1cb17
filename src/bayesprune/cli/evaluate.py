"""`bayesprune evaluate`: a finished run on its test set, on another one, or against foreign data."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro

from bayesprune import data as data_sets
from bayesprune.cli import build, results, settings, tables
from bayesprune.core.types import Dataset
from bayesprune.data import catalogue
from bayesprune.infer.predict import predict
from bayesprune.report import metrics


@dataclass(frozen=True)
class Flags:
    """Evaluate the posterior of a finished run on its test set."""

    out: tyro.conf.Positional[Path]
    """Folder of the run."""
    dataset: str | None = None
    """Another data set with the same classes, or targets; the run's own if left out."""
    num_samples: int = 100
    """Networks drawn from the posterior."""
    ood: str | None = None
    """An image set of foreign classes: the predictive entropy's AUROC in telling it from the test set."""
    data_dir: Path | None = None
    """Folder of the data sets; $BAYESPRUNE_DATA if left out."""
    as_json: Annotated[bool, tyro.conf.arg(name="json"), tyro.conf.FlagCreatePairsOff] = False
    """Print JSON."""


def main(words: Sequence[str]) -> None:
    """Parse the flags and print the figures."""
    flags = tyro.cli(Flags, args=list(words), prog="bayesprune evaluate", description=Flags.__doc__)
    chosen = settings.load(flags.out, data_dir=flags.data_dir)
    params, saved = results.read_params(flags.out)
    data = build.load_data(chosen)
    bnn = build.make_bnn(chosen, data)
    name = catalogue.canonical(flags.dataset or chosen.dataset)
    if name != chosen.dataset:
        data = data._replace(test=_foreign(name, chosen), part=f"{name} test")
    scores, probs = results.score(chosen, bnn, params, saved.mask, data, flags.num_samples)
    if flags.ood is not None:
        if probs is None:
            raise ValueError(
                f"ood={flags.ood!r} needs class probabilities, and {chosen.dataset!r} has real targets: leave it out."
            )
        foreign = _foreign(flags.ood, chosen)
        key = build.keys(chosen)[1]
        outside = predict(key, bnn, params, foreign.x, mask=saved.mask, num_samples=flags.num_samples)
        scores[f"auroc_{catalogue.canonical(flags.ood)}"] = metrics.ood_auroc(probs, outside)
    if flags.as_json:
        print(json.dumps(scores, indent=2))
    else:
        print(f"{flags.out}: {data.part} set, {len(data.test.y):,} rows, {flags.num_samples} draws")
        print(tables.scores(scores))


def _foreign(name: str, chosen: settings.Settings) -> Dataset:
    """Another set's test part, images scaled as the run's own were."""
    images = (*catalogue.IMAGES, "digits")
    if chosen.dataset in images:
        return data_sets.load_test(name, chosen.data_dir, like=chosen.dataset, pad=chosen.pad)
    return data_sets.load(name, chosen.data_dir)[1]
