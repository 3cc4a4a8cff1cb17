"""The BMR paper's figures 1 to 4, from finished cells."""

from collections.abc import Iterable
from pathlib import Path

import numpy as np

from bayesprune import cells
from bayesprune.report import plots, plots_compared
from bayesprune.reproduce.bmr import EPOCH, FIRST_LAYER, PaperCell

MEASURES = {"accuracy": "accuracy", "ece_quantile": "ECE, 20 equal-mass bins", "nll": "NLL (nats)"}


def draw_all(found: cells.Found, folder: Path) -> None:
    """One file for each data set and figure, in ``folder``: curves, pruned and connected shares, cdf by layer, heat maps.

    Fits of another length have files of their own: side by side a short one would look like a seed of a long one.
    """
    folder.mkdir(parents=True, exist_ok=True)
    lengths = dict.fromkeys((cell.dataset, cell.epochs, cell.steps_per_epoch) for cell in found)
    for length in lengths:
        here = {c: record for c, record in found.items() if (c.dataset, c.epochs, c.steps_per_epoch) == length}
        alone = sum(other[0] == length[0] for other in lengths) == 1
        dataset = length[0] if alone else "{}_{}x{}".format(*length)
        plots.save(curves(here), folder / f"{dataset}_1_curves.png")
        if any(cell.method == "bmr" for cell in here):
            plots.save(shares(here), folder / f"{dataset}_2_pruned.png")
        if any(_cdf(record) for record in here.values()):
            plots.save(distributions(here), folder / f"{dataset}_3_cdf.png")
        for net in _nets(here):
            first = min(cell.seed for cell in here if cell.net == net)
            kernels = {c.method: _kernel(c, folder) for c in here if (c.net, c.seed) == (net, first)}
            if known := {method: kernel for method, kernel in kernels.items() if kernel is not None}:
                plots.save(plots_compared.heat_maps(known), folder / f"{dataset}_4_first_layer_{net}.png")


def curves(found: cells.Found) -> plots_compared.Figure:
    """Figure 1: accuracy, calibration error and NLL on the test rows while training; thin lines are seeds."""
    panels = {
        (title, net): {
            method: [_course(record, f"eval/{name}") for record in _of(found, net, method, with_="eval")]
            for method in _methods(found, net)
        }
        for name, title in MEASURES.items()
        for net in _nets(found)
    }
    return plots_compared.courses(panels, "epoch")


def shares(found: cells.Found) -> plots_compared.Figure:
    """Figure 2: the share of prunable weights that BMR has cut, every seed; a dot at the end: those that nothing uses."""
    cut = {net: _of(found, net, "bmr", with_="prune") for net in _nets(found)}
    pruned = {net: [_pruned(record) for record in records] for net, records in cut.items()}
    unused = {net: [1 - record["connected"] for record in records if "connected" in record] for net, records in cut.items()}
    return plots_compared.shares(pruned, unused)


def distributions(found: cells.Found) -> plots_compared.Figure:
    """Figure 3: for each kernel, the share of weights whose absolute posterior mean is at most x; the first seed.

    Records from before there were quantiles in them have no panel.
    """
    firsts = {
        (net, method): next((_cdf(record) for record in _of(found, net, method)), {})
        for net in _nets(found)
        for method in _methods(found, net)
    }
    return plots_compared.distributions({pair: sites for pair, sites in firsts.items() if sites})


def _nets(found: Iterable[PaperCell]) -> list[str]:
    return list(dict.fromkeys(cell.net for cell in found))


def _methods(found: Iterable[PaperCell], net: str) -> list[str]:
    return list(dict.fromkeys(cell.method for cell in found if cell.net == net))


def _of(found: cells.Found, net: str, method: str, with_: str = "") -> list[cells.Record]:
    """The seeds' records; only those that have a history of that kind: a short run may have been judged at its end alone."""
    records = [record for cell, record in found.items() if (cell.net, cell.method) == (net, method)]
    return [record for record in records if not with_ or f"history/{with_}/step" in record]


def _epochs(record: cells.Record, of: str) -> np.ndarray:
    """Where on the way each row of that history is. Records from before epochs had a length have the paper's."""
    return np.asarray(record[f"history/{of}/step"]) / record.get("steps_per_epoch", EPOCH)


def _course(record: cells.Record, name: str) -> tuple[np.ndarray, np.ndarray]:
    """Epochs and values of a measure."""
    return _epochs(record, "eval"), np.asarray(record[f"history/{name}"])


def _pruned(record: cells.Record) -> tuple[np.ndarray, np.ndarray]:
    return _epochs(record, "prune"), 1 - np.asarray(record["history/prune/density"])


def _cdf(record: cells.Record) -> dict[str, np.ndarray]:
    return {name.removeprefix("cdf/"): np.asarray(value) for name, value in record.items() if name.startswith("cdf/")}


def _kernel(cell: PaperCell, folder: Path) -> np.ndarray | None:
    path = folder / cells.key(cell).replace(" ", ",") / FIRST_LAYER
    return np.load(path, allow_pickle=False) if path.exists() else None
