"""`bayesprune report`: finished runs side by side."""

from pathlib import Path

from tyro.conf import Positional

from bayesprune.cli import results
from bayesprune.core.files import reading
from bayesprune.core.lock import alone_in
from bayesprune.report import runs


def report(out: Positional[tuple[Path, ...]], figures: bool = True) -> None:
    """Compare finished runs in a Markdown table, and draw their figures again.

    Args:
        out: Folders of runs.
        figures: Draw the figures again.
    """
    if not out:
        raise ValueError("report needs at least one folder of a run, got none: bayesprune report runs/first")
    done = {str(folder): results.read_metrics(folder) for folder in out}
    with reading(", ".join(str(folder / results.METRICS) for folder in out), "run's metrics", results.REMEDY):
        table = runs.runs(done)
    print(table)
    for folder in out if figures else ():
        with alone_in(folder):
            results.draw(folder)
