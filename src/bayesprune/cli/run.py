"""`bayesprune run`: train and prune, then write everything down; the same command goes on where it was stopped."""

import contextlib
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, cast

import jax

from bayesprune.cli import build, results, settings, tables
from bayesprune.cli.figures import draw
from bayesprune.cli.flags import parse
from bayesprune.core.files import reading
from bayesprune.core.lock import alone_in
from bayesprune.infer.svi import fit_svi
from bayesprune.train.checkpoints import Checkpoints
from bayesprune.train.result import FitResult


def run(words: Sequence[str]) -> None:
    """Parse the flags and run."""
    chosen = build.resolve(parse(words))
    folder = cast(Path, chosen.out)  # settled by `resolve`
    with alone_in(folder):
        if results.finished(folder):
            settings.claim(chosen, folder)
            print(f"{folder} holds this very run, finished; its figures are drawn again. For another run, give another --out.")
        else:
            _train(chosen, folder)
        figures = draw(folder)
        with reading(folder / results.METRICS, "run's metrics", results.REMEDY):
            table = tables.run(results.read(folder), [*results.files(folder), *figures])
        print(table)


def _train(chosen: settings.Settings, folder: Path) -> None:
    """Fit, evaluate and write down."""
    data = build.load_data(chosen)
    bnn, method, arguments = build.make_bnn(chosen, data), build.make_method(chosen), build.fit_arguments(chosen, data)
    if (folder / settings.FILE).is_file():
        settings.claim(chosen, folder)
    begin = time.perf_counter()
    with _told_how_to_go_on(chosen, folder) as checkpoints:
        fit = fit_svi(
            build.keys(chosen)[0],
            bnn,
            data.train,
            sparsifier=method,
            checkpoint=str(checkpoints),
            callbacks=[lambda _: settings.claim(chosen, folder)],  # only now: a fit that is refused leaves nothing behind
            **arguments,
        )
        jax.block_until_ready(fit.params)
        seconds = time.perf_counter() - begin
        settings.claim(chosen, folder)
        results.write(folder, chosen, bnn, fit, data, seconds, _step(chosen, fit, data))


def _step(chosen: settings.Settings, fit: FitResult, data: build.Data) -> dict[str, Any]:
    """Which step the parameters are of, and why. Raises `FloatingPointError` where no evaluation gave a number."""
    step = int(fit.history["returned/step"][0])
    if chosen.choose == "last":
        return {"choose": "last", "step": step}
    name = build.chosen_by(data)
    value = float(fit.history[f"eval/{name}"][fit.history["eval/step"] == step][0])
    if value != value:
        raise FloatingPointError(f"no evaluation on the {chosen.choose_on} set gave a number, so that none is best.")
    made = {"choose": "best", "step": step, "metric": name, "value": value, "on": chosen.choose_on, "rows": len(data.watched.y)}
    optimistic = {"note": "optimistic: the test set chose the step that it judges"}
    return made | (optimistic if chosen.choose_on == "test" else {})


@contextlib.contextmanager
def _told_how_to_go_on(chosen: settings.Settings, folder: Path) -> Iterator[Path]:
    """The folder of checkpoints; an interruption says where the same command will go on from."""
    path = folder / "checkpoints"
    if step := _latest(path):
        print(f"{folder}: going on from step {step} of {chosen.steps}.")
    try:
        yield path
    except KeyboardInterrupt as stop:
        if step := _latest(path):
            settings.claim(chosen, folder)
        how = f"goes on from step {step}" if step else "starts again: there is no checkpoint yet"
        stop.args = (f"interrupted; the same command {how}.",)
        raise
    finally:
        with contextlib.suppress(OSError):  # an empty one, of a fit that was refused; another one stays
            path.rmdir()


def _latest(path: Path) -> int | None:
    return Checkpoints(path).latest() if path.is_dir() else None
