"""What a run leaves in its folder, apart from figures, and how it is read back."""

import importlib.metadata
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from bayesprune.cli import build
from bayesprune.cli.settings import FILE as SETTINGS
from bayesprune.cli.settings import Settings, to_json
from bayesprune.core.formats import read_arrays, read_record, write_arrays, write_record
from bayesprune.infer.evaluate import evaluate
from bayesprune.infer.predict import predict
from bayesprune.infer.result import FitResult
from bayesprune.model.bnn import BNN
from bayesprune.model.likelihoods import Categorical
from bayesprune.report import metrics
from bayesprune.report.export import SavedPosterior, load_posterior, save_posterior
from bayesprune.report.sparsity import sparsity_report

METRICS, POSTERIOR, HISTORY, PREDICTIONS = "metrics.json", "posterior.safetensors", "history.npz", "predictions.npz"
NEEDED = {
    METRICS: ("metrics", "settings", "evaluated_on", "sparsity", "num_steps", "train_seconds"),
    HISTORY: ("losses",),
    PREDICTIONS: ("probs", "y"),
}
REMEDY = f"Delete {METRICS} and give the same bayesprune run command again: it goes on from its checkpoints."
LIBRARIES = ("bayesprune", "jax", "jaxlib", "numpyro", "flax", "optax", "numpy")


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
    mask = {name: np.asarray(alive) for name, alive in (fit.mask or full_mask(bnn)).items()}
    posterior = bnn.posterior(fit.params)
    names = _parameter_names(fit.params, posterior)
    others = {name: value for name, value in fit.params.items() if name not in names}
    metadata = {
        "settings": to_json(settings),
        "input_shape": bnn.input_shape,
        "parameters": names,
        "other_parameters": others,
        "versions": versions(),
    }
    save_posterior(folder / POSTERIOR, posterior, mask, metadata)
    write_arrays(folder / HISTORY, {"losses": fit.losses} | fit.history)
    scores, probs = score(settings, bnn, fit.params, mask, data, settings.num_samples)
    if probs is not None:
        write_arrays(folder / PREDICTIONS, {"probs": probs.astype(np.float32), "y": np.asarray(data.test.y)})
    gained = np.asarray(fit.history.get("prune/evidence_gained", [np.nan]))
    write_record(
        folder / METRICS,
        {
            "metrics": scores,
            "definitions": definitions(scores),
            "evaluated_on": {
                "dataset": settings.dataset,
                "part": data.part,
                "rows": len(data.test.y),
                "num_samples": settings.num_samples,
                "target_scale": data.target_scale,
            },
            "chosen_step": step,
            "kl_weight": settings.kl_weight,
            "kl_weight_in_words": kl_in_words(settings.kl_weight),
            "sparsity": sparsity_report(mask, _dense_sizes(bnn)),
            "flops": flops(bnn, mask),
            "evidence_gained_nats": float(gained.sum()),
            "num_steps": len(fit.losses),
            "train_seconds": seconds,
            "train_rows": len(data.train.y),
            "device": jax.devices()[0].device_kind,
            "settings": to_json(settings),
            "versions": versions(),
        },
    )


def read(folder: Path) -> dict[str, Any]:
    """``metrics.json``. Raises `FileNotFoundError` where no run has finished."""
    path = folder / METRICS
    if not path.is_file():
        raise FileNotFoundError(2, f"no finished run in {folder}: it has no {METRICS}. Run or resume it with bayesprune run")
    return read_record(path, "run's metrics", REMEDY, NEEDED[METRICS])


def arrays(path: Path) -> dict[str, np.ndarray]:
    """The arrays of the history or of the predictions; none where there is no file."""
    return read_arrays(path, "arrays of a run", REMEDY, NEEDED[path.name]) if path.is_file() else {}


def read_params(folder: Path) -> tuple[dict[str, Any], SavedPosterior]:
    """NumPyro parameters, as in ``fit.params``, from the saved posterior, and that posterior."""
    saved = load_posterior(folder / POSTERIOR)
    named = {name: getattr(saved.posterior[site], field) for name, (site, field) in saved.metadata["parameters"].items()}
    others = jax.tree.map(jnp.asarray, saved.metadata["other_parameters"], is_leaf=lambda leaf: isinstance(leaf, list))
    return {name: jnp.asarray(value) for name, value in named.items()} | others, saved


def score(
    settings: Settings, bnn: BNN, params: dict[str, Any], mask: dict[str, Any], data: build.Data, num_samples: int
) -> tuple[dict[str, float], np.ndarray | None]:
    """The figures of `evaluate`, and for class labels the probabilities (rows, classes) that they come from."""
    key = build.keys(settings)[1]
    if isinstance(bnn.likelihood, Categorical):
        y = np.asarray(data.test.y)
        probs = predict(key, bnn, params, data.test.x, mask=mask, num_samples=num_samples)
        more = {"ece_quantile": metrics.ece_quantile(probs, y), "calibration_marginal": metrics.calibration_marginal(probs, y)}
        return metrics.summary(probs, y) | more, probs
    return evaluate(key, bnn, params, data.test, mask=mask, num_samples=num_samples), None


def full_mask(bnn: BNN) -> dict[str, np.ndarray]:
    """Every prunable weight alive."""
    return {str(spec.path): np.ones(spec.shape, bool) for spec in bnn.layout if spec.prunable}


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

    found = {"bayesprune": __version__}
    return found | {name: importlib.metadata.version(name) for name in LIBRARIES if name not in found}


def _parameter_names(params: Mapping[str, Any], posterior: Mapping[str, Any]) -> dict[str, tuple[str, str]]:
    """Which parameters the posterior holds, and as what: parameter -> (site, "loc", "scale" or "logit")."""
    fields = ("loc", "scale", "logit")
    held = {id(getattr(node, field, None)): (site, field) for site, node in posterior.items() for field in fields}
    return {name: held[id(value)] for name, value in params.items() if id(value) in held}


def _dense_sizes(bnn: BNN) -> dict[str, int]:
    return {str(spec.path): int(np.prod(spec.shape)) for spec in bnn.layout if not spec.prunable}
