"""Ranks of methods over several comparisons, and which of them the records can tell apart: Friedman, then Wilcoxon and Holm.

scikit-posthocs 0.17 is kept and has these tests and a diagram; it brings pandas, statsmodels and seaborn along for what are
three calls of SciPy.
"""

import itertools
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from bayesprune.cells import Record

LEVEL = 0.05


class Ranks(NamedTuple):
    """Mean rank of each method, best first; ``p``: of Friedman's test that all are alike, NaN below three methods or blocks.

    ``alike``: groups of neighbours of which no pair differs at level .05 after Holm. ``blocks``: over how many comparisons.
    """

    mean: dict[str, float]
    p: float
    alike: list[tuple[str, ...]]
    blocks: int


def table_of(records: Sequence[Record], figure: str) -> dict[str, list[float]]:
    """Method -> a figure in each block, a density and a seed; only methods that have it in every block.

    Blocks are those in which any method that takes a density has it; failed trainings have none.
    """
    given: dict[str, dict[tuple[float, int], float]] = {}
    for record in records:
        if record["density"] and not record["failed"] and record.get(figure) is not None:
            given.setdefault(str(record["method"]), {})[float(record["density"]), int(record["seed"])] = float(record[figure])
    blocks = sorted({block for of in given.values() for block in of})
    return {name: [of[block] for block in blocks] for name, of in given.items() if len(of) == len(blocks)}


def ranks(table: Mapping[str, Sequence[float]], higher_is_better: bool = False) -> Ranks:
    """Mean ranks over blocks, ties shared, and which methods differ.

    ``table``: method -> its figure in each block, as many for all. Blocks that share data or seeds are not independent, and
    p-values then say too much: read them as an order of size. Raises `ValueError` for NaN; infinity is the worst, or the best.

    >>> ranks({"a": [1, 1, 1, 1], "b": [2, 2, 2, 3], "c": [3, 3, 3, 2]}).mean
    {'a': 1.0, 'b': 2.25, 'c': 2.75}

    Source: Demšar (2006); Benavoli, Corani & Mangili (2016) for Wilcoxon in place of Nemenyi; Holm (1979).
    """
    from scipy import stats  # which takes long to import

    names = list(table)
    if not names:
        return Ranks({}, float("nan"), [], 0)
    values = np.asarray([table[name] for name in names], float) * (-1 if higher_is_better else 1)
    if lost := [name for name, row in zip(names, values, strict=True) if np.isnan(row).any()]:
        raise ValueError(f"table has NaN for {lost[0]!r}, which has no rank: leave it out.")
    mean = stats.rankdata(values, axis=0).mean(axis=1)
    order = [names[at] for at in np.argsort(mean, kind="stable")]
    enough = len(names) > 2 and values.shape[1] > 2
    p = float(stats.friedmanchisquare(*values).pvalue) if enough else float("nan")
    differ = _differ({name: values[at] for at, name in enumerate(names)})
    return Ranks({name: float(mean[names.index(name)]) for name in order}, p, _groups(order, differ), values.shape[1])


def _differ(table: Mapping[str, np.ndarray]) -> set[frozenset[str]]:
    """Pairs that differ at `LEVEL` after Holm's correction."""
    from scipy import stats

    found = []
    for first, second in itertools.combinations(table, 2):
        with np.errstate(invalid="ignore"):  # two infinities are alike
            apart = np.where(table[first] == table[second], 0.0, table[first] - table[second])
        p = 1.0 if not apart.any() else float(stats.wilcoxon(apart, zero_method="zsplit").pvalue)
        found.append((p, frozenset((first, second))))
    found.sort(key=lambda one: one[0])
    different: set[frozenset[str]] = set()
    for number, (p, pair) in enumerate(found):
        if p * (len(found) - number) > LEVEL:
            break
        different.add(pair)
    return different


def _groups(order: Sequence[str], differ: set[frozenset[str]]) -> list[tuple[str, ...]]:
    """The longest runs of neighbours by rank in which no pair differs."""
    runs: list[tuple[int, int]] = []
    for first in range(len(order)):
        last = first
        while last + 1 < len(order) and not any(frozenset((one, order[last + 1])) in differ for one in order[first : last + 1]):
            last += 1
        if last > first and not any(begin <= first and last <= end for begin, end in runs):
            runs.append((first, last))
    return [tuple(order[first : last + 1]) for first, last in runs]
