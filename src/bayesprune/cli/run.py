"""`bayesprune run`: train and prune, then write everything down; the same command goes on where it was stopped."""

import contextlib
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import cast

import jax

from bayesprune.cli import build, log, results, rows, settings
from bayesprune.cli.flags import parse
from bayesprune.cli.results import draw
from bayesprune.cli.run_settings import RunSettings
from bayesprune.core.files import reading
from bayesprune.core.lock import alone_in
from bayesprune.infer.pricing.price import price
from bayesprune.infer.pricing.record import Price
from bayesprune.infer.svi import fit_svi
from bayesprune.report import runs
from bayesprune.train.checkpoints import latest

DRY_RUN, CHECKPOINTS = "--dry-run", "checkpoints"


def run(words: Sequence[str]) -> None:
    """Parse the flags and run."""
    chosen = build.resolve(parse([word for word in words if word != DRY_RUN]))
    if DRY_RUN in words:
        print(_priced(chosen))
        return
    folder = cast(Path, chosen.out)  # settled by `resolve`
    with alone_in(folder):
        if not complete(chosen, folder):
            print(f"{folder} holds this very run, finished; its figures are drawn again. For another run, give another --out.")
        figures = draw(folder)
        with reading(folder / results.METRICS, "run's metrics", results.REMEDY):
            table = runs.end_of_run(results.read_metrics(folder), [*results.files(folder), *figures])
        print(table)


def _priced(chosen: RunSettings) -> Price:
    """What the run would cost, its results and figures apart; nothing is written."""
    data = rows.load_data(chosen)
    arguments = build.fit_arguments(chosen, data) | {"sparsifier": build.make_method(chosen), "progress": False}
    return price(build.keys(chosen)[0], build.make_bnn(chosen, data), data.train, **arguments)


def complete(chosen: RunSettings, folder: Path, tell: Callable[[str], None] = print, progress: bool | None = None) -> bool:
    """Bring a run to its end, in a folder that no other process uses; whether there was anything to do."""
    settings.check(chosen, folder)
    if results.finished(folder, chosen.steps):
        rows.check_unchanged(chosen.data or "", results.read_metrics(folder))
        return False
    _train(chosen, folder, tell, progress)
    return True


def _train(chosen: RunSettings, folder: Path, tell: Callable[[str], None], progress: bool | None) -> None:
    """Fit, evaluate and write down."""
    data = rows.load_data(chosen)
    if data.schema is not None:
        tell(rows.described(data, chosen))
    bnn, method, arguments = build.make_bnn(chosen, data), build.make_method(chosen), build.fit_arguments(chosen, data)
    begin, since = time.perf_counter(), latest(folder / CHECKPOINTS) or 0
    with _with_checkpoints(chosen, folder, tell) as checkpoints, log.writing(chosen.log, folder) as callbacks:
        # Only now: a fit that is refused leaves nothing behind.
        arguments |= {
            "sparsifier": method,
            "on_interrupt": "raise",
            "checkpoint": str(checkpoints),
            "progress": progress,
            "callbacks": [lambda _: settings.claim(chosen, folder), *callbacks],
        }
        fit = fit_svi(build.keys(chosen)[0], bnn, data.train, **arguments)
        jax.block_until_ready(fit.params)
        seconds = time.perf_counter() - begin
        settings.claim(chosen, folder)
        results.write(folder, chosen, bnn, fit, data, seconds, since)


@contextlib.contextmanager
def _with_checkpoints(chosen: RunSettings, folder: Path, tell: Callable[[str], None]) -> Iterator[Path]:
    """The folder of checkpoints; an interruption says where the same command will go on from."""
    path = folder / CHECKPOINTS
    if step := latest(path):
        tell(f"{folder}: going on from step {step} of {chosen.steps}.")
    try:
        yield path
    except KeyboardInterrupt as stop:
        if step := latest(path):
            settings.claim(chosen, folder)
        how = f"goes on from step {step}" if step else "starts again: there is no checkpoint yet"
        stop.args = (f"interrupted; the same command {how}.",)
        raise
    finally:
        with contextlib.suppress(OSError):  # an empty one, of a fit that was refused; another one stays
            path.rmdir()
