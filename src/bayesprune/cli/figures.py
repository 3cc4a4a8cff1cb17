"""The figures of a run, drawn from its files alone."""

from pathlib import Path

from bayesprune.cli import results
from bayesprune.core.files import reading
from bayesprune.report.export import load_posterior


def draw(folder: Path) -> list[Path]:
    """Draw what has a meaning for this run, and give the paths; older figures that have none go."""
    from bayesprune.report import plots
    from bayesprune.report.plots_of_a_fit import figures

    with reading(folder, "folder of a run", results.REMEDY):  # files may be whole and yet not those of one run
        history, predictions = (results.arrays(folder / name) for name in (results.HISTORY, results.PREDICTIONS))
        saved = load_posterior(folder / results.POSTERIOR)
        used = results.read_metrics(folder)["sparsity"].get("connected", {}).get("prunable", {}).get("density")
        notes = saved.metadata
        made = figures(saved.posterior, saved.mask, history, predictions, notes["input_shape"], used, notes["figures"])
    for name, figure in made.items():
        path = folder / f"{name}.png"
        path.unlink(missing_ok=True)
        if figure:
            plots.save(figure, path)
    return [folder / f"{name}.png" for name, figure in made.items() if figure]
