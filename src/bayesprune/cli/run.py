"""`bayesprune run`: train and prune, then write everything down; the same command goes on where it was killed."""

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

import jax

from bayesprune.cli import build, results, settings, tables
from bayesprune.cli.best import LAST, Best
from bayesprune.cli.figures import draw
from bayesprune.cli.flags import parse
from bayesprune.infer.checkpoint import Checkpoints
from bayesprune.infer.fit import fit_svi
from bayesprune.infer.result import FitResult


def main(words: Sequence[str]) -> None:
    """Parse the flags and run."""
    chosen = build.resolve(parse(words))
    folder = cast(Path, chosen.out)  # settled by `resolve`
    if results.finished(folder):
        settings.claim(chosen, folder)
        print(f"{folder} holds this very run, finished; its figures are drawn again. For another run, give another --out.")
    else:
        data = build.load_data(chosen)
        bnn, method, arguments = build.make_bnn(chosen, data), build.make_method(chosen), build.fit_arguments(chosen, data)
        settings.claim(chosen, folder)
        best = Best(folder / "best", chosen.choose_on, len(data.watched.y))
        if chosen.choose == "best":
            arguments["callbacks"] = [best]
            if not Checkpoints(folder / "checkpoints").latest():
                best.forget()
        fit, seconds = _fit(chosen, folder, bnn, method, data, arguments)
        fit, step = best.taken(fit) if chosen.choose == "best" else (fit, LAST | {"step": len(fit.losses)})
        results.write(folder, chosen, bnn, fit, data, seconds, step)
    figures = draw(folder)
    print(tables.run(results.read(folder), [*results.files(folder), *figures]))


def _fit(
    chosen: settings.Settings, folder: Path, bnn: Any, method: Any, data: build.Data, arguments: dict[str, Any]
) -> tuple[FitResult, float]:
    """The fit, and the seconds that it took from here."""
    checkpoints = folder / "checkpoints"
    step = Checkpoints(checkpoints).latest()
    if step:
        print(f"{folder}: going on from step {step} of {chosen.steps}.")
    begin = time.perf_counter()
    try:
        fit = fit_svi(
            build.keys(chosen)[0],
            bnn,
            data.train,
            num_steps=chosen.steps,
            batch_size=min(chosen.batch_size, len(data.train.y)),
            sparsifier=method,
            every=chosen.every,
            estimator=chosen.estimator,
            eval_data=data.watched,
            eval_every=chosen.eval_every,
            checkpoint=str(checkpoints),
            checkpoint_every=chosen.checkpoint_every,
            **arguments,
        )
        jax.block_until_ready(fit.params)
    except KeyboardInterrupt:
        step = Checkpoints(checkpoints).latest()
        how = f"goes on from step {step}" if step else "starts again: there is no checkpoint yet"
        raise KeyboardInterrupt(f"interrupted; the same command {how}.") from None
    return fit, time.perf_counter() - begin
