"""The figures of one fit: those that have a meaning for it."""

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Literal

import numpy as np

from bayesprune.core.types import Node
from bayesprune.report import plots
from bayesprune.report.record import first_kernel

# Close kin of the other calibration errors: a panel of their own would say nothing more.
NOT_DRAWN = ("eval/ece_quantile", "eval/calibration_marginal")
NO_NOTES: Mapping[str, Any] = MappingProxyType({})


def figures(
    posterior: Mapping[str, Node],
    mask: Mapping[str, Any],
    history: Mapping[str, np.ndarray],
    predictions: Mapping[str, np.ndarray],
    input_shape: Sequence[int],
    connected: float | None = None,
    notes: Mapping[str, Any] = NO_NOTES,
) -> dict[str, Any]:
    """A figure by name, in order, or False where it has no meaning for this fit.

    Real targets have no reliability, unpruned nets no share. A method that exchanges weights and keeps their number shows how
    many it exchanges; what is pruned would be a flat line.

    ``history``: that of the fit with its ``losses``, and with ``kl_weight``, of each step, if that is known; ``predictions``:
    ``probs`` (rows, classes) and ``y``, or nothing; ``connected``: the density of the weights in use; ``notes``: what
    `record.for_figures` tells of the fit.
    """
    drawn = {name: rows for name, rows in history.items() if name not in NOT_DRAWN}
    losses, weight = drawn.pop("losses", np.zeros(0)), drawn.pop("kl_weight", None)
    exchanges = bool(np.any(drawn.get("prune/num_grown", 0)) and np.ptp(drawn["prune/num_alive"]) == 0)
    alive = any(bool((np.asarray(node.loc)[mask.get(site, ...)] != 0).any()) for site, node in posterior.items())
    first = first_kernel({site: np.shape(node.loc) for site, node in posterior.items()})
    made: dict[str, Callable[[], Any] | Literal[False]] = {
        "training": losses.size > 0 and (lambda: plots.training_curves(losses, drawn, None, notes.get("watched", ""), weight)),
        "pruned": "prune/step" in drawn
        and not exchanges
        and (lambda: plots.density_and_acts(drawn, losses.size or None, connected)),
        "exchanged": exchanges and (lambda: plots.exchanged_share(drawn)),
        "loc_cdf": alive and (lambda: plots.loc_cdf(posterior, mask)),
        "first_layer": bool(first)
        and (lambda: _first_layer(posterior[first], mask.get(first), input_shape, notes.get("features_in_use"))),
        "reliability": bool(predictions) and (lambda: plots.reliability_diagram(predictions["probs"], predictions["y"])),
    }
    return {name: make and make() for name, make in made.items()}


def _first_layer(node: Node, mask: Any, input_shape: Sequence[int], in_use: Sequence[int] | None) -> Any:
    """``in_use``: numbers of features; None where they are not known."""
    used = None if in_use is None else np.isin(np.arange(np.shape(node.loc)[-1]), np.asarray(in_use, int))
    return plots.first_layer_heatmap(node, mask, _image_shape(input_shape, node), in_use=used)


def _image_shape(input_shape: Sequence[int], node: Node) -> tuple[int, ...] | None:
    """The image that a dense layer's inputs are the pixels of; () of columns of a table, which are none; None: not known."""
    if len(input_shape) == 1 and np.ndim(node.loc) == 2:
        return ()
    is_image = len(input_shape) == 3 and np.ndim(node.loc) == 2 and np.prod(input_shape) == np.shape(node.loc)[0]
    return tuple(input_shape) if is_image else None
