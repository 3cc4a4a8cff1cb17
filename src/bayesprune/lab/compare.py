"""The door of the laboratory: every method on one task, tuned by one budget, judged at equal connected density."""

import functools
import os
import time
import warnings
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bayesprune import cells
from bayesprune.cells.study import finish
from bayesprune.core.checks import check_density, check_integer, check_name, check_not_negative
from bayesprune.data.catalogue import image_set
from bayesprune.data.loading import load_test
from bayesprune.data.tables.reading import needed
from bayesprune.lab import entry, page, plan, tables
from bayesprune.lab.entry import rivals
from bayesprune.lab.plan import Cell
from bayesprune.lab.ranks import Ranks
from bayesprune.lab.run import rows_of, run
from bayesprune.lab.task import net_of

NAME = "compare"


@dataclass(frozen=True, eq=False)
class Comparison:
    """The finished cells of a comparison, the planned ones, and how many settings each method was tried with."""

    found: cells.Found
    planned: tuple[Cell, ...]
    tries: int

    @property
    def records(self) -> list[cells.Record]:
        """The records of the trainings that the test rows judge, failures among them, in the plan's order."""
        return [self.found[cell] for cell in self.planned if cell in self.found]

    def table(self) -> str:
        """Every method and density in markdown: means over seeds, their standard deviations, and what failed, why."""
        return tables.markdown(self.records, self.tries)

    def csv(self) -> str:
        """A line for each training, with everything its record holds."""
        return tables.csv(self.records)

    def figure(self) -> Any:
        """Accuracy and NLL against connected density, with error bars. Needs the extra "plots"."""
        return page.curves_of(self.records)

    def ranks(self) -> Ranks:
        """Mean ranks by NLL over densities and seeds, and which methods do not differ significantly."""
        return page.ranks_of(self.records)

    def diagram(self) -> Any:
        """The ranks as a critical-difference diagram. Needs the extra "plots"."""
        return page.diagram_of(self.ranks())

    def html(self) -> str:
        """The report, one file with its figures in it. Needs the extra "plots"."""
        return page.html(self.records, self.tries)


def compare(
    out: str | os.PathLike[str],
    *,
    dataset: str = "digits",
    net: str = "mlp-100-100",
    methods: str | Sequence[str] = "all",
    densities: Sequence[float] = (0.2, 0.1, 0.05, 0.02, 0.01),
    seeds: int = 3,
    steps: int = 1000,
    batch_size: int = 128,
    rows: int = 0,
    tries: int = 4,
    ood: str = "permuted",
    noise: Sequence[float] = (0.5, 1.0),
    jobs: int | None = None,
    data_dir: str | None = None,
    tell: Callable[[str], Any] = lambda line: None,
) -> Comparison:
    """Train every method at every density, and say how good, how calibrated, how small and how quick the networks are.

    Each method is tried with ``tries`` settings of its own on a sixth of the training rows, held out; the one of lowest NLL
    there is trained anew on all of them, once for each seed, and judged by the test rows. All trainings have as many steps, all
    phases together. Densities are of connected weights: alive, and on a living path. Methods that find a density of their own
    have one row, at that.

    Records go to ``out/compare.jsonl``, a line as soon as a training is finished: the same call goes on where it was stopped,
    and several machines may share the folder. What fails is a record with its reason, a try besides a warning. Trainings go
    through joblib: ``with joblib.parallel_config("dask"): bp.compare(...)`` takes them to a cluster that sees the folder.

    Args:
        out: folder of the records.
        dataset: a set of classes, see `data.load`.
        net: "mlp-100-100", say, or "lenet5".
        methods: names of `lab.rivals()`; "all".
        densities: connected shares of the prunable weights, in (0, 1].
        seeds: trainings of each row, of the keys 0, 1, ...
        steps: optimiser steps of a training.
        batch_size: rows of a minibatch.
        rows: of the training set, drawn once; 0: all.
        tries: settings that each method is tried with.
        ood: "permuted", test rows with their inputs out of order, or an image set of foreign classes.
        noise: sizes of Gaussian noise on the inputs, in units of their standard deviation.
        jobs: trainings at once, -1: one for each core; None: as joblib is set, 1 by itself.
        data_dir: folder of the data sets; $BAYESPRUNE_DATA if left out.
        tell: called with a line of text for each finished cell.

    Returns:
        A `Comparison`.

    Raises:
        ValueError: an unknown name, a density outside (0, 1], a number out of range.
        ImportError: joblib is not installed.
        DamagedFileError: the file of records is none.

    Example:
        >>> import tempfile, bayesprune as bp
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     found = bp.compare(folder, net="mlp-8", methods=["magnitude"], densities=[0.5], seeds=1, steps=4, tries=1)
        >>> [(record["method"], round(record["alive"], 2)) for record in found.records]
        [('magnitude', 0.5)]
    """
    known = rivals()
    names = _checked_names(methods, known)
    if not len(densities):
        raise ValueError("densities is empty: give at least one, such as (0.1, 0.05).")
    for value in densities:
        check_density(value)
    shares = sorted(set(map(float, densities)))
    for name, number in (("seeds", seeds), ("steps", steps), ("batch_size", batch_size)):
        check_integer(number, name)
    check_integer(rows, "rows", minimum=0)
    for size in noise:
        check_not_negative(size, "noise")
    check_integer(tries, "tries")
    for name in names:
        entry.tries(known[name], tries)
    dataset, architecture = image_set(dataset, "dataset"), net_of(net)
    sizes = ",".join(f"{float(size)}" for size in noise)
    ood = ood if ood == "permuted" else image_set(ood, "ood")
    if ood != "permuted":  # to find after hours of training that it cannot be read, or has rows of another shape, is too late
        load_test(ood, data_dir, like=dataset, pad=architecture.pad(dataset))
    base = Cell(dataset, net, "", 0.0, 0, 0, steps, batch_size=batch_size, rows=rows, ood=ood, noise=sizes)
    if rows:  # it says how many there are
        rows_of(base, data_dir)
    folder = Path(out)
    work = functools.partial(_finished, folder=folder, data_dir=data_dir, jobs=jobs, tell=tell)
    trials = plan.tried(base, names, shares, tries) if tries > 1 else []
    found = work(trials)
    chosen = {name: plan.best_try(found, trials, name) for name in names}
    for name in names:
        if why := [found[cell]["failed"] for cell in trials if cell.method == name and found[cell]["failed"]]:
            warnings.warn(
                f"of {tries} tries of {name!r} {len(why)} failed and chose nothing, the first by {why[0]}", stacklevel=2
            )
    judged = plan.judged(base, chosen, shares, seeds)
    return Comparison(work(judged), tuple(judged), tries)


def _finished(
    planned: Sequence[Cell], folder: Path, data_dir: str | None, jobs: int | None, tell: Callable[[str], Any]
) -> cells.Found:
    """Bring cells to their end, side by side, and read them all."""
    joblib = needed("joblib", "comparisons", "pip install 'bayesprune[cli]'")
    study = cells.Study(NAME, tuple(planned), functools.partial(run, data_dir=data_dir), {}, shared=True)
    here = os.getcwd()
    done = joblib.Parallel(n_jobs=jobs, return_as="generator_unordered")(
        joblib.delayed(_one)(study, cell, folder.resolve(), here) for cell in planned
    )
    for number, line in enumerate(done, start=1):
        tell(f"{number} of {len(planned)}: {line}")
    return cells.found(study, folder, tuple(planned)) if planned else {}


def _one(study: cells.Study, cell: Cell, out: Path, here: str) -> str:
    """Bring one cell to its end, in whatever process."""
    if os.getcwd() != here:  # a process that is used again keeps its folder
        os.chdir(here)
    begin = time.perf_counter()
    new = finish(study, cell, out, out)
    return f"{cells.key(cell)}: {f'{time.perf_counter() - begin:.0f} s' if new else 'there already'}"


def _checked_names(methods: str | Sequence[str], known: Collection[str]) -> list[str]:
    if methods == "all":
        return list(known)
    names = list(dict.fromkeys(methods.split(",") if isinstance(methods, str) else methods))
    for name in names:
        check_name("method", name, known)
    if not names:
        raise ValueError(f'methods is empty: give "all", or some of {", ".join(known)}.')
    return names
