"""The report of a comparison: its figures, and one file of HTML with everything in it."""

import math
from collections.abc import Sequence
from html import escape
from typing import Any

import numpy as np

from bayesprune.cells import Record
from bayesprune.lab import tables
from bayesprune.lab.ranks import LEVEL, Ranks, ranks, table_of
from bayesprune.report.page import page, picture, said, table

PANELS = {"accuracy": "accuracy", "NLL": "nll"}


def curves_of(records: Sequence[Record]) -> Any:
    """Accuracy and NLL against connected density, means and standard deviations over seeds. Needs the extra "plots"."""
    from bayesprune.report.plots_compared import curves

    panels: dict[str, dict[str, list[tuple[float, float, float]]]] = {panel: {} for panel in PANELS}
    for (name, _), of in tables.rows(records).items():
        have = [record for record in of if not record["failed"]]
        for panel, figure in PANELS.items() if have else ():
            values = [record[figure] for record in have]
            spread = float(np.std(values, ddof=1)) if len(values) > 1 else 0.0
            at = float(np.mean([record["connected"] for record in have]))
            panels[panel].setdefault(name, []).append((at, float(np.mean(values)), spread))
    return curves(panels)


def ranks_of(records: Sequence[Record]) -> Ranks:
    """Ranks by NLL over densities and seeds."""
    return ranks(table_of(records, "nll"))


def diagram_of(found: Ranks) -> Any:
    """The critical-difference diagram. Needs the extra "plots"."""
    if not found.mean:
        raise ValueError(
            "no method has a figure in every block of density and seed, so that none is ranked: those that find a density of "
            "their own are not, nor those of which a training failed."
        )
    from bayesprune.report.plots_compared import rank_lines

    return rank_lines(found.mean, found.alike, f"NLL, {found.blocks} blocks of density and seed")


def html(records: Sequence[Record], budget: int) -> str:
    """One file: what was compared, the figures, the table, the failures."""
    if not records:
        return page("Methods compared", [said("No cell is finished.")])
    found, parts = ranks_of(records), [said(tables.about(records, budget)), picture(curves_of(records), "figures by density")]
    if len(found.mean) > 1:
        parts += ["<h2>Ranks</h2>", said(in_words(found)), picture(diagram_of(found), "mean ranks")]
    parts += ["<h2>Every method and density</h2>", table(*tables.head_and_rows(records))]
    if why := tables.failures(records):
        parts.append(f"<h2>Failed</h2><ul>{''.join(f'<li>{escape(line)}</li>' for line in why)}</ul>")
    return page(f"Methods compared: {records[0]['data']}, {records[0]['net']}", parts)


def in_words(found: Ranks) -> str:
    """What the diagram shows."""
    groups = "; ".join(", ".join(group) for group in found.alike) or "none"
    p = "not asked, of so few" if np.isnan(found.p) else f"p = {found.p:.2g}"
    return (
        f"Mean ranks by NLL over {found.blocks} blocks of density and seed; Friedman's test that all methods are alike: {p}. "
        f"Not told apart at .05 (Wilcoxon, Holm): {groups}. {_too_few(found)}"
        "Blocks share their data, so that p-values are an order of size. "
        "Methods that lack a block, or find a density of their own, are not ranked."
    )


def _too_few(found: Ranks) -> str:
    """What so few blocks cannot show: the least p of Wilcoxon's test is 2 / 2^blocks, and Holm multiplies it by the pairs.

    >>> _too_few(Ranks({"a": 1.0, "b": 2.0}, 0.1, [], 9)), _too_few(Ranks({"a": 1.0, "b": 2.0}, 0.1, [], 4))[:27]
    ('', 'Of 4 blocks no pair of 2 me')
    """
    pairs = len(found.mean) * (len(found.mean) - 1) // 2
    if not pairs or 2.0 ** (1 - found.blocks) * pairs <= LEVEL:
        return ""
    needed = math.ceil(1 + math.log2(pairs / LEVEL))
    return (
        f"Of {found.blocks} blocks no pair of {len(found.mean)} methods can be told apart, however clear: it takes {needed}, "
        "more densities or seeds, or fewer methods. "
    )
