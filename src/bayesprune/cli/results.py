"""What a run leaves in its folder, its figures too, and how it is read back."""

from pathlib import Path
from typing import Any

import jax
import numpy as np

from bayesprune import __version__
from bayesprune.cli import build, course, fitted, rows, shipping
from bayesprune.cli.run_settings import RunSettings
from bayesprune.cli.settings import FILE as SETTINGS
from bayesprune.cli.settings import to_json
from bayesprune.core import lock
from bayesprune.core.files import reading
from bayesprune.core.formats import read_arrays, read_record, write_arrays, write_record
from bayesprune.infer.diagnose import without_predictions
from bayesprune.infer.evaluate import scored
from bayesprune.model.bnn import BNN
from bayesprune.report import record
from bayesprune.report.connected import connected
from bayesprune.report.export import SavedPosterior, load_posterior, save_fit
from bayesprune.report.health import of_labels
from bayesprune.train.result import FitResult

METRICS, POSTERIOR, HISTORY, PREDICTIONS = "metrics.json", "posterior.safetensors", "history.npz", "predictions.npz"
NEEDED = {
    METRICS: ("metrics", "settings", "evaluated_on", "sparsity", "num_steps", "train_seconds"),
    HISTORY: ("losses",),
    PREDICTIONS: ("probs", "y"),
}
REMEDY = f"Delete {METRICS} and give the same bayesprune run command again: it goes on from its checkpoints."


def finished(folder: Path, steps: int) -> bool:
    """Whether a run has come to its end, at so many steps: its metrics are written last."""
    return (folder / METRICS).is_file() and read_metrics(folder)["settings"]["steps"] >= steps


def files(folder: Path) -> list[Path]:
    """The files of a run that are there, figures apart."""
    names = (METRICS, POSTERIOR, shipping.FILE, HISTORY, PREDICTIONS, SETTINGS)
    return [folder / name for name in names if (folder / name).is_file()]


def write(folder: Path, settings: RunSettings, bnn: BNN, fit: FitResult, data: rows.Data, seconds: float, since: int) -> None:
    """Evaluate a fit and write its posterior, its history, its predictions and, last, its metrics.

    ``seconds``: of training, from the step ``since`` on, which is 0 where the run never stopped.
    """
    best, on = (rows.chosen_by(data), settings.choose_on) if settings.choose == "best" else ("", "")
    step = record.chosen_step(fit.history, best, on, len(data.watched.y))
    # Where nothing was pruned, every prunable weight is alive.
    whole = {str(spec.path): np.ones(spec.shape, bool) for spec in bnn.layout if spec.prunable}
    mask = {name: np.asarray(alive) for name, alive in (fit.mask or whole).items()}
    by = made_by(settings, data)
    used = connected(bnn, mask)
    notes = {"input_shape": bnn.input_shape, "figures": record.for_figures(bnn, used, rows.watched(data))}
    save_fit(folder / POSTERIOR, bnn, fit._replace(mask=mask), by | notes)
    weights = course.weights_by_step(settings, len(fit.losses))
    write_arrays(folder / HISTORY, {"losses": fit.losses, "kl_weight": weights} | fit.history)
    key, asked = build.keys(settings)[1], {"num_samples": settings.num_samples}
    scores, probs = scored(key, bnn, fit.params, data.test, mask=mask, **asked)
    if probs is not None:
        write_arrays(folder / PREDICTIONS, {"probs": probs.astype(np.float32), "y": np.asarray(data.test.y)})
    of = {"dataset": settings.dataset, "part": data.part, "rows": len(data.test.y)} | asked
    done = {
        "metrics": scores,
        "definitions": record.definitions(scores),
        "evaluated_on": of | {"target_scale": data.target_scale},
        "chosen_step": step,
        "course": repr(course.of(settings)),
        **record.of_fit(bnn, fit, mask, used, settings.kl_weight),
        "health": _health(bnn, fit, data, probs),
        "train_seconds": seconds,
        "resumed_at_step": since,
        "train_rows": len(data.train.y),
        "device": jax.devices()[0].device_kind,
    }
    path = folder / shipping.FILE
    try:
        small = shipping.make(bnn, fit.params, mask, "posterior", key, None)
        small.save(path, metadata=by)
    except ValueError as refused:  # a network that mixes rows, or that no file can hold, is a finished run all the same
        shipped = {"refused": str(refused)}
    else:
        shipped = shipping.report(bnn, fit.params, mask, small, data.test.x, path, folder / POSTERIOR)
    write_record(folder / METRICS, done | {"compact": shipped} | by)


def made_by(settings: RunSettings, data: rows.Data) -> dict[str, Any]:
    """What the files of a run say of how it was made."""
    return {"settings": to_json(settings), "versions": {"bayesprune": __version__} | record.versions()} | rows.notes(data)


def note_compact(folder: Path, shipped: dict[str, Any]) -> None:
    """Write into a run's metrics that its compact network is another one now."""
    write_record(folder / METRICS, read_metrics(folder) | {"compact": shipped})


def _health(bnn: BNN, fit: FitResult, data: rows.Data, probs: np.ndarray | None) -> dict[str, Any]:
    """What `bayesprune.diagnose` says, as far as it can without predicting once more."""
    found = without_predictions(bnn, fit, data.train)
    if probs is not None and probs.ndim == 2 and np.ndim(data.test.y) == 1:
        found += of_labels(np.asarray(probs, np.float64), np.asarray(data.test.y), True)
    return {"checks": found.checks, "findings": {one.name: one.says for one in found.findings}}


def read_metrics(folder: Path) -> dict[str, Any]:
    """``metrics.json``. Raises `FileNotFoundError` where no run has finished."""
    path = folder / METRICS
    fitted.refuse(folder)
    if not path.is_file():
        begun = "Give the command that began it once more: it goes on." if (folder / SETTINGS).is_file() else ""
        what = lock.who_is_at_work(folder) or begun
        raise FileNotFoundError(2, f"no finished run in {folder}: it has no {METRICS}. {what}")
    return read_record(path, "run's metrics", REMEDY, NEEDED[METRICS])


def read_posterior(folder: Path) -> SavedPosterior:
    """The posterior of a run. Raises `FileNotFoundError` where none has finished."""
    if not (folder / POSTERIOR).is_file():
        read_metrics(folder)
    return load_posterior(folder / POSTERIOR)


def arrays(path: Path) -> dict[str, np.ndarray]:
    """The arrays of the history or of the predictions; none where there is no file."""
    return read_arrays(path, "arrays of a run", REMEDY, NEEDED[path.name]) if path.is_file() else {}


def draw(folder: Path) -> list[Path]:
    """Draw what has a meaning for this run, and give the paths; older figures that have none go."""
    from bayesprune.report import plots
    from bayesprune.report.plots_of_a_fit import figures

    with reading(folder, "folder of a run", REMEDY):  # files may be whole and yet not those of one run
        history, predictions = (arrays(folder / name) for name in (HISTORY, PREDICTIONS))
        saved = load_posterior(folder / POSTERIOR)
        used = read_metrics(folder)["sparsity"].get("connected", {}).get("prunable", {}).get("density")
        notes = saved.metadata
        made = figures(saved.posterior, saved.mask, history, predictions, notes["input_shape"], used, notes["figures"])
    for name, figure in made.items():
        path = folder / f"{name}.png"
        path.unlink(missing_ok=True)
        if figure:
            plots.save(figure, path)
    return [folder / f"{name}.png" for name, figure in made.items() if figure]
