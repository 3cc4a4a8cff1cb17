"""`bayesprune reproduce`: the comparisons of the papers, cell by cell."""

from pathlib import Path

from tyro.conf import Positional

from bayesprune import cells
from bayesprune.core.checks import check_name
from bayesprune.core.files import reading
from bayesprune.core.lock import alone_in

STUDIES = ("bmr",)


def reproduce(
    study: Positional[str],
    dataset: str = "fashion_mnist",
    nets: tuple[str, ...] = ("mlp", "lenet5"),
    methods: tuple[str, ...] = ("map", "flat", "tiered", "bmr"),
    seeds: tuple[int, ...] = (0,),
    epochs: int = 50,
    evals: int = 5,
    draws: int = 10,
    steps_per_epoch: int = 500,
    final_draws: int = 100,
    out: Path = Path("runs"),
) -> None:
    """Run a comparison of a paper; goes on where it was stopped. Ends with the table and the paper's figures.

    Args:
        study: "bmr": Marković, Friston and Kiebel (2024), figures 1 to 4.
        dataset: fashion_mnist or cifar10.
        nets: Of mlp, lenet5, vit, mixer.
        methods: Of map, flat, tiered, bmr.
        seeds: A fit for each.
        epochs: The paper has 50.
        evals: Epochs between two evaluations on the way.
        draws: Posterior draws of each evaluation on the way; the paper has 100, every epoch.
        steps_per_epoch: The paper has 500; its largest nets take seconds for one on a processor without an accelerator.
        final_draws: Posterior draws of the last evaluation; the paper has 100.
        out: Folder of bmr.jsonl, with a line for each finished fit, and of bmr/, with checkpoints and figures.
    """
    check_name("study", study, STUDIES)
    from bayesprune.reproduce import bmr  # which takes long to import

    planned = bmr.grid(
        nets,
        methods,
        seeds,
        dataset=dataset,
        epochs=epochs,
        evals=evals,
        draws=draws,
        steps_per_epoch=steps_per_epoch,
        final_draws=final_draws,
    )
    with alone_in(out):
        cells.finish_all(bmr.STUDY, planned, out, out)
        found = cells.found(bmr.STUDY, out, planned)
        with reading(out / f"{study}.jsonl", "file of records", cells.REMEDY):
            bmr.draw(found, out / study)
            table = bmr.comparison(found, planned)
    print(f"\n{table}\n\nRecords: {out / study}.jsonl\nFigures: {out / study}")
