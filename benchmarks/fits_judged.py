"""What studies of whole fits write down: cost and warnings, acts, weights in use, and whether the network died."""

import math
import time
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import jax
import numpy as np

import bayesprune as bp
from bayesprune import cells

LAST = 300  # steps that a loss is the mean of
WORDS = 200  # characters of a warning


@contextmanager
def watched() -> Iterator[cells.Record]:
    """A record, filled when the block ends, also by an error: seconds, compilation among them, and each `UserWarning` once."""
    record: cells.Record = {}
    begin, cpu = time.perf_counter(), time.process_time()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            yield record
        finally:
            record |= {"training_seconds": time.perf_counter() - begin, "cpu_seconds": time.process_time() - cpu}
            texts = [str(one.message)[:WORDS] for one in caught if issubclass(one.category, UserWarning)]
            record["warnings"] = list(dict.fromkeys(texts))


def loss_of(fit: Any) -> float:
    """Mean of the last losses."""
    return float(np.mean(fit.losses[-LAST:]))


def acts_of(history: Mapping[str, np.ndarray]) -> cells.Record:
    """How often the sparsifier acted, and sums over its acts; None for what the fit did not write down."""
    proposed, fell = (np.asarray(history.get(f"prune/num_{name}", ()), float) for name in ("proposed", "pruned"))
    known = np.isfinite(proposed).any()
    # What no path needs falls with an act, and was no candidate of it.
    refused = float(np.nansum(np.maximum(proposed - fell, 0.0))) if known else None
    acts = len(history.get("prune/step", ()))
    gained = _sum(history, "bound_gained")
    return {"acts": acts, "proposed": _sum(history, "num_proposed"), "refused": refused, "bound_gained": gained}


def written(cuts: Sequence[bp.Pruned]) -> dict[str, np.ndarray]:
    """What was pruned by hand, as a history."""
    names = ("num_proposed", "num_pruned", "bound_gained")
    rows = {name: [getattr(cut.info, name, None) for cut in cuts] for name in names}
    return {"prune/step": np.arange(len(cuts))} | {f"prune/{name}": np.asarray(row, float) for name, row in rows.items()}


def _sum(history: Mapping[str, np.ndarray], name: str) -> float | None:
    values = np.asarray(history.get(f"prune/{name}", ()), float)
    return float(np.nansum(values)) if np.isfinite(values).any() else None


def sizes(bnn: bp.BNN, mask: Mapping[str, Any]) -> cells.Record:
    """Numbers of weights: prunable, alive of these, and on a living path of these."""
    whole = {str(spec.path): np.ones(spec.shape, bool) for spec in bnn.layout if spec.prunable}
    alive = whole | {site: np.asarray(one) for site, one in mask.items() if site in whole}
    count = lambda of: sum(int(one.sum()) for one in of.values())  # noqa: E731
    return {"prunable": sum(map(math.prod, (one.shape for one in whole.values()))), "alive": count(alive)} | {
        "connected": count(bp.connected(bnn, alive))
    }


def judged(bnn: bp.BNN, params: Any, mask: Mapping[str, Any], rows: bp.Dataset, num_samples: int = 100) -> cells.Record:
    """Figures on rows, `sizes`, and whether the network died: no path, or no better than the best that is said unseen."""
    figures = bp.evaluate(jax.random.key(1), bnn, params, rows, mask=mask or None, num_samples=num_samples)
    found, blind = sizes(bnn, mask), unseen(rows.y)
    worse = figures["accuracy"] <= blind if "accuracy" in figures else figures["rmse"] >= blind
    return {**figures, "unseen": blind, **found, "died": bool(found["connected"] == 0 or worse)}


def unseen(y: Any) -> float:
    """What one answer for all of these rows comes to at best: the largest class's share, or the deviation of the numbers."""
    y = np.asarray(y)
    return float(np.bincount(y).max() / len(y)) if y.dtype.kind in "iu" else float((1 - 1e-6) * np.std(y))
