"""The figures of a run, drawn from its files alone."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from bayesprune.cli import results
from bayesprune.core.types import MeanField
from bayesprune.model.bnn import BNN
from bayesprune.report.export import load_posterior


def draw(folder: Path, bnn: BNN) -> list[Path]:
    """Draw what has a meaning for this run, and give the paths: real targets have no reliability, unpruned nets no share."""
    from bayesprune.report import plots

    history = results.arrays(folder / results.HISTORY)
    predictions = results.arrays(folder / results.PREDICTIONS)
    posterior, mask, _ = load_posterior(folder / results.POSTERIOR)
    losses = history.pop("losses", np.zeros(0))
    first = _first_kernel(bnn)
    wanted: dict[str, tuple[bool, Callable[[], Any]]] = {
        "training": (losses.size > 0, lambda: plots.training_curves(losses, history)),
        "pruned": ("prune/step" in history, lambda: plots.pruned_share(history)),
        "loc_cdf": (_any_alive(posterior, mask), lambda: plots.loc_cdf(posterior, mask)),
        "first_layer": (
            first in posterior,
            lambda: plots.first_layer_heatmap(posterior[first].loc, mask.get(first), _image_shape(bnn, posterior[first])),
        ),
        "reliability": (bool(predictions), lambda: plots.reliability_diagram(predictions["probs"], predictions["y"])),
    }
    paths = []
    for name, (meaningful, make) in wanted.items():
        path = folder / f"{name}.png"
        path.unlink(missing_ok=True)
        if meaningful:
            plots.save(make(), path)
            paths.append(path)
    return paths


def _first_kernel(bnn: BNN) -> str:
    """The site of the first kernel that has a posterior; "" where there is none."""
    return next((str(spec.path) for spec in bnn.layout if spec.bayesian and len(spec.shape) in (2, 4)), "")


def _image_shape(bnn: BNN, node: MeanField) -> tuple[int, ...] | None:
    """The image that a dense layer's inputs are the pixels of."""
    is_image = len(bnn.input_shape) == 3 and np.ndim(node.loc) == 2 and np.prod(bnn.input_shape) == np.shape(node.loc)[0]
    return bnn.input_shape if is_image else None


def _any_alive(posterior: dict[str, Any], mask: dict[str, Any]) -> bool:
    return any(bool((np.asarray(node.loc)[mask.get(site, ...)] != 0).any()) for site, node in posterior.items())
