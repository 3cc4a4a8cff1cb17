"""`bayesprune run`: train and prune, then write everything down; the same command goes on where it was killed."""

import argparse
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

import jax
import optax
import tyro

from bayesprune.cli import build, results, settings, tables
from bayesprune.cli.figures import draw
from bayesprune.infer.checkpoint import Checkpoints
from bayesprune.infer.fit import fit_svi
from bayesprune.infer.result import FitResult

DESCRIPTION = """Train a network, prune it on the way, and write metrics.json, posterior.safetensors, history.npz and figures.

The same command goes on where a run was stopped; a finished one only has its figures drawn again. The flags of the method, the
prior and the net follow the choice: --method snr --help shows those of snr. A schedule is written as in Python:
--snr.density "Cubic(0.05, 0, 20)" is gradual pruning over twenty prunings."""


def main(words: Sequence[str]) -> None:
    """Parse the flags and run."""
    chosen = build.resolve(parse(words))
    folder = cast(Path, chosen.out)  # settled by `resolve`
    if results.finished(folder):
        settings.claim(chosen, folder)
        print(f"{folder} holds this very run, finished; its figures are drawn again. For another run, give another --out.")
    else:
        data = build.load_data(chosen)
        bnn, method = build.make_bnn(chosen, data), build.make_method(chosen)
        settings.claim(chosen, folder)
        fit, seconds = _fit(chosen, folder, bnn, method, data)
        results.write(folder, chosen, bnn, fit, data, seconds)
    figures = draw(folder)
    print(tables.run(results.read(folder), [*results.files(folder), *figures]))


def parse(words: Sequence[str]) -> settings.Settings:
    """Flags to settings. Which flags there are follows from --net, --method and --prior, so these are looked for first."""
    finder = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    for name in ("net", "method", "prior"):
        finder.add_argument(f"--{name}", default=getattr(settings.Settings, name))
    found, _ = finder.parse_known_args(list(words))
    cls = settings.settings_class(found.net, found.method, found.prior)
    return tyro.cli(cls, args=list(words), prog="bayesprune run", description=DESCRIPTION)


def _fit(chosen: settings.Settings, folder: Path, bnn: Any, method: Any, data: build.Data) -> tuple[FitResult, float]:
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
            optimizer=optax.adabelief(chosen.learning_rate),
            sparsifier=method,
            every=chosen.every,
            estimator=chosen.estimator,
            eval_data=data.test,
            eval_every=chosen.eval_every,
            checkpoint=str(checkpoints),
            checkpoint_every=chosen.checkpoint_every,
        )
        jax.block_until_ready(fit.params)
    except KeyboardInterrupt:
        step = Checkpoints(checkpoints).latest()
        how = f"goes on from step {step}" if step else "starts again: there is no checkpoint yet"
        raise KeyboardInterrupt(f"interrupted; the same command {how}.") from None
    return fit, time.perf_counter() - begin
