"""`bayesprune report`: finished runs side by side."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import tyro

from bayesprune.cli import results, tables
from bayesprune.cli.figures import draw


@dataclass(frozen=True)
class Flags:
    """Compare finished runs in a Markdown table, and draw their figures again."""

    out: tyro.conf.Positional[tuple[Path, ...]]
    """Folders of runs."""
    figures: bool = True
    """Draw the figures again."""


def main(words: Sequence[str]) -> None:
    """Parse the flags, print the table, and draw."""
    flags = tyro.cli(Flags, args=list(words), prog="bayesprune report", description=Flags.__doc__)
    if not flags.out:
        raise ValueError("report needs at least one folder of a run, got none: bayesprune report runs/first")
    print(tables.runs({str(folder): results.read(folder) for folder in flags.out}))
    for folder in flags.out if flags.figures else ():
        draw(folder)
