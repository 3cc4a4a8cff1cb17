"""`bayesprune compare`: every method on one task, tuned by one budget, at equal connected density; table, figures, report."""

from pathlib import Path
from typing import Annotated

from tyro.conf import arg

from bayesprune.core.files import write_atomically
from bayesprune.lab import Comparison
from bayesprune.lab import compare as run_comparison
from bayesprune.lab.plan import numbers


def compare(
    dataset: str = "digits",
    net: Annotated[str, arg(metavar="mlp-100-100|lenet5")] = "mlp-100-100",
    methods: str = "all",
    densities: str = "20,10,5,2,1",
    seeds: int = 3,
    steps: int = 1000,
    batch_size: int = 128,
    rows: int = 0,
    tries: int = 4,
    ood: str = "permuted",
    noise: str = "0.5,1.0",
    jobs: int | None = None,
    data_dir: Path | None = None,
    out: Path = Path("runs/compare"),
) -> None:
    """Compare methods at equal connected density, each tuned by the same number of tries; goes on where it was stopped.

    Args:
        dataset: A set of classes.
        net: An MLP with the units of its hidden layers, or LeNet-5.
        methods: "all", or names with commas between them.
        densities: Connected weights that are left, in percent, with commas between them.
        seeds: Trainings of each method and density.
        steps: Optimiser steps of a training, all its phases together.
        batch_size: Rows of a minibatch.
        rows: Rows of the training set that are used; 0: all.
        tries: Settings that each method is tried with on held-out rows.
        ood: "permuted", test rows with their inputs out of order, or an image set of foreign classes.
        noise: Sizes of the noise on corrupted rows, in standard deviations of the inputs, with commas between them.
        jobs: Trainings at once, -1: one for each core; if left out, as joblib is set, 1 by itself.
        data_dir: Folder of the data sets; $BAYESPRUNE_DATA if left out.
        out: Folder of compare.jsonl, to which several machines may add, of the tables, the figures and the report.
    """
    found = run_comparison(
        out,
        dataset=dataset,
        net=net,
        methods=methods,
        densities=[share / 100 for share in numbers(densities, "densities")],
        seeds=seeds,
        steps=steps,
        batch_size=batch_size,
        rows=rows,
        tries=tries,
        ood=ood,
        noise=numbers(noise, "noise"),
        jobs=jobs,
        data_dir=None if data_dir is None else str(data_dir),
        tell=lambda line: print(line, flush=True),
    )
    table = found.table()
    texts = {"compare.md": f"{table}\n", "compare.csv": found.csv(), "compare.html": found.html()}
    for name, text in texts.items():
        write_atomically(out / name, text.encode())
    print(f"\n{table}\n\nwritten:")
    for name in ("compare.jsonl", *texts, *_drawn(found, out)):
        print(f"  {out / name}")


def _drawn(found: Comparison, out: Path) -> list[str]:
    """Draw what there is to draw; the files' names."""
    from bayesprune.report.plots import save

    finished = [record for record in found.records if not record["failed"]]
    made = {"curves.png": found.figure} if finished else {}
    made |= {"ranks.png": found.diagram} if len(found.ranks().mean) > 1 else {}
    for name, draw in made.items():
        save(draw(), out / name)
    return list(made)
