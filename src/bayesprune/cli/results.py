"""What a run leaves in its folder, apart from figures, and how it is read back."""

import importlib.metadata
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import jax
import numpy as np

from bayesprune.cli import build
from bayesprune.cli.settings import FILE as SETTINGS
from bayesprune.cli.settings import Settings, to_json
from bayesprune.core import lock
from bayesprune.core.formats import read_arrays, read_record, write_arrays, write_record
from bayesprune.core.types import Dataset
from bayesprune.infer.evaluate import evaluate
from bayesprune.infer.predict import predict
from bayesprune.model.bnn import BNN
from bayesprune.report import metrics
from bayesprune.report.connected import connected
from bayesprune.report.export import save_fit
from bayesprune.report.sparsity import sparsity_report
from bayesprune.train.result import FitResult

METRICS, POSTERIOR, HISTORY, PREDICTIONS = "metrics.json", "posterior.safetensors", "history.npz", "predictions.npz"
NEEDED = {
    METRICS: ("metrics", "settings", "evaluated_on", "sparsity", "num_steps", "train_seconds"),
    HISTORY: ("losses",),
    PREDICTIONS: ("probs", "y"),
}
REMEDY = f"Delete {METRICS} and give the same bayesprune run command again: it goes on from its checkpoints."
LIBRARIES = ("jax", "jaxlib", "numpyro", "flax", "optax", "numpy")


def finished(folder: Path) -> bool:
    """Whether a run has come to its end: its metrics are written last."""
    return (folder / METRICS).is_file()


def files(folder: Path) -> list[Path]:
    """The files of a run that are there, figures apart."""
    return [folder / name for name in (METRICS, POSTERIOR, HISTORY, PREDICTIONS, SETTINGS) if (folder / name).is_file()]


def write(
    folder: Path, settings: Settings, bnn: BNN, fit: FitResult, data: build.Data, seconds: float, step: dict[str, Any]
) -> None:
    """Evaluate a fit and write its posterior, its history, its predictions and, last, its metrics.

    ``step``: which step the parameters are of, and why.
    """
    # Where nothing was pruned, every prunable weight is alive.
    whole = {str(spec.path): np.ones(spec.shape, bool) for spec in bnn.layout if spec.prunable}
    mask = {name: np.asarray(alive) for name, alive in (fit.mask or whole).items()}
    notes = {"settings": to_json(settings), "input_shape": bnn.input_shape, "versions": versions()}
    save_fit(folder / POSTERIOR, bnn, fit._replace(mask=mask), notes)
    write_arrays(folder / HISTORY, {"losses": fit.losses} | fit.history)
    key, draws = build.keys(settings)[1], settings.num_samples
    scores, probs = judge(key, bnn, fit.params, data.test, mask, draws)
    if probs is not None:
        write_arrays(folder / PREDICTIONS, {"probs": probs.astype(np.float32), "y": np.asarray(data.test.y)})
    dense = {str(spec.path): int(np.prod(spec.shape)) for spec in bnn.layout if not spec.prunable}
    on = {"dataset": settings.dataset, "part": data.part, "rows": len(data.test.y), "num_samples": draws}
    record = {
        "metrics": scores,
        "definitions": definitions(scores),
        "evaluated_on": on | {"target_scale": data.target_scale},
        "chosen_step": step,
        "kl_weight": settings.kl_weight,
        "kl_weight_in_words": kl_in_words(settings.kl_weight),
        "sparsity": sparsity_report(mask, dense, connected(bnn, mask)),
        "flops": flops(bnn, mask),
        "evidence_gained_nats": float(np.sum(fit.history.get("prune/evidence_gained", np.nan))),
        "num_steps": len(fit.losses),
        "train_seconds": seconds,
        "train_rows": len(data.train.y),
        "device": jax.devices()[0].device_kind,
    }
    write_record(folder / METRICS, record | {name: notes[name] for name in ("settings", "versions")})


def judge(
    key: jax.Array, bnn: BNN, params: dict[str, Any], test: Dataset, mask: dict[str, Any], num_samples: int
) -> tuple[dict[str, float], np.ndarray | None]:
    """The figures of `evaluate`, and for class labels the probabilities (rows, classes) that they come from."""
    if build.is_real(test):
        return evaluate(key, bnn, params, test, mask=mask, num_samples=num_samples), None
    probs = predict(key, bnn, params, test.x, mask=mask, num_samples=num_samples)
    return metrics.classification_summary(probs, test.y), probs


def read(folder: Path) -> dict[str, Any]:
    """``metrics.json``. Raises `FileNotFoundError` where no run has finished."""
    path = folder / METRICS
    if not path.is_file():
        raise FileNotFoundError(2, f"no finished run in {folder}: it has no {METRICS}. {lock.told(folder)}")
    return read_record(path, "run's metrics", REMEDY, NEEDED[METRICS])


def arrays(path: Path) -> dict[str, np.ndarray]:
    """The arrays of the history or of the predictions; none where there is no file."""
    return read_arrays(path, "arrays of a run", REMEDY, NEEDED[path.name]) if path.is_file() else {}


def kl_in_words(kl_weight: float) -> str:
    """What the weight of the divergence makes of the posterior.

    >>> kl_in_words(0.01)
    'cold posterior: the divergence from the prior counts 0.01 times'
    """
    if kl_weight == 1.0:
        return "the posterior of Bayes' rule: the divergence from the prior counts once"
    return f"{'cold' if kl_weight < 1.0 else 'warm'} posterior: the divergence from the prior counts {kl_weight:g} times"


def flops(bnn: BNN, mask: dict[str, Any]) -> dict[str, Any] | None:
    """FLOPs of one draw on one row, by name; None for a network that cannot be counted."""
    try:
        counted = metrics.flops(bnn, mask)
    except ValueError:
        return None
    told = "of one draw on one row; theoretical: of alive weights alone, executed: by the dense arrays that hold them"
    return {"theoretical": counted["theoretical"], "executed": counted["executed"], "definition": told}


def definitions(scores: Mapping[str, Any]) -> dict[str, str]:
    """What each metric is, in the first line of its own documentation; of real targets, in the units that were trained on."""
    functions = {name: getattr(metrics, name, None) for name in scores}
    if "rmse" in scores:
        functions["nll"] = metrics.gaussian_nll
    return {name: (thing.__doc__ or "").strip().split("\n")[0] for name, thing in functions.items() if thing}


def versions() -> dict[str, str]:
    """What this was computed with."""
    from bayesprune import __version__

    return {"bayesprune": __version__} | {name: importlib.metadata.version(name) for name in LIBRARIES}
