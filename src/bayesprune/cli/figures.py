"""The figures of a run, drawn from its files alone."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal

import numpy as np

from bayesprune.cli import results
from bayesprune.core.files import reading
from bayesprune.core.types import MeanField, SpikeSlab
from bayesprune.report.export import load_posterior

# Close kin of the other calibration errors: metrics.json has them, a panel of their own would say nothing more.
NOT_DRAWN = ("eval/ece_quantile", "eval/calibration_marginal")


def draw(folder: Path) -> list[Path]:
    """Draw what has a meaning for this run, and give the paths: real targets have no reliability, unpruned nets no share.

    A method that exchanges weights and keeps their number shows how many it exchanges; what is pruned would be a flat line.
    """
    from bayesprune.report import plots

    with reading(folder, "folder of a run", results.REMEDY):  # files may be whole and yet not those of one run
        figures = {name: make and make() for name, make in _wanted(folder).items()}
    for name, figure in figures.items():
        path = folder / f"{name}.png"
        path.unlink(missing_ok=True)
        if figure:
            plots.save(figure, path)
    return [folder / f"{name}.png" for name, figure in figures.items() if figure]


def _wanted(folder: Path) -> dict[str, Callable[[], Any] | Literal[False]]:
    """The figures by name, in order, and how each is drawn, where it has a meaning."""
    from bayesprune.report import plots

    history = {name: rows for name, rows in results.arrays(folder / results.HISTORY).items() if name not in NOT_DRAWN}
    predictions = results.arrays(folder / results.PREDICTIONS)
    saved = load_posterior(folder / results.POSTERIOR)
    posterior, mask = saved.posterior, saved.mask
    losses = history.pop("losses", np.zeros(0))
    used = results.read(folder)["sparsity"].get("connected", {}).get("prunable", {}).get("density")
    exchanges = bool(np.any(history.get("prune/num_grown", 0)) and np.ptp(history["prune/num_alive"]) == 0)
    alive = any(bool((np.asarray(node.loc)[mask.get(site, ...)] != 0).any()) for site, node in posterior.items())
    first = next((site for site, node in posterior.items() if np.ndim(node.loc) in (2, 4)), "")
    shape = _image_shape(saved.metadata["input_shape"], posterior[first]) if first else None
    return {
        "training": losses.size > 0 and (lambda: plots.training_curves(losses, history)),
        "pruned": "prune/step" in history and not exchanges and (lambda: plots.pruned_share(history, connected=used)),
        "exchanged": exchanges and (lambda: plots.exchanged_share(history)),
        "loc_cdf": alive and (lambda: plots.loc_cdf(posterior, mask)),
        "first_layer": bool(first) and (lambda: plots.first_layer_heatmap(posterior[first].loc, mask.get(first), shape)),
        "reliability": bool(predictions) and (lambda: plots.reliability_diagram(predictions["probs"], predictions["y"])),
    }


def _image_shape(input_shape: list[int], node: MeanField | SpikeSlab) -> tuple[int, ...] | None:
    """The image that a dense layer's inputs are the pixels of."""
    is_image = len(input_shape) == 3 and np.ndim(node.loc) == 2 and np.prod(input_shape) == np.shape(node.loc)[0]
    return tuple(input_shape) if is_image else None
