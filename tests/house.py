"""The map of the house: which rooms of bayesprune may import which.

`python -m tests.house` draws it anew for CONTRIBUTING.md.
"""

import itertools
from collections.abc import Iterator, Mapping
from html import escape
from pathlib import Path

PACKAGE = "bayesprune"
FACE = PACKAGE  # what a user imports; a room of its own here
PICTURE = Path(__file__).resolve().parent.parent / "docs" / "figures" / "house.svg"
# From the top down: a room may import every room of the floors below, and of its own floor the rooms named here.
FLOORS: list[dict[str, set[str]]] = [
    {"cli": {"reproduce"}, "reproduce": set()},
    {FACE: {"sklearn", "lab"}, "sklearn": set(), "lab": set()},
    {"methods": set(), "infer": set(), "features": set(), "deploy": {"infer"}},
    {"train": set(), "courses": set()},
    {
        "priors": {"model"}, "prune": {"model"}, "model": {"report"}, "nets": set(), "report": set(), "data": set(),
        "cells": set(),
    },
    {"posteriors": {"core", "formulas"}, "structure": {"core"}, "formulas": {"core"}, "core": set()},
]  # fmt: skip
ROOMS = {name for floor in FLOORS for name in floor}


def allowed() -> dict[str, set[str]]:
    """Every room, and the rooms that it may import."""
    below: set[str] = set()
    found: dict[str, set[str]] = {}
    for floor in reversed(FLOORS):
        found |= {name: below | beside for name, beside in floor.items()}
        below = below | set(floor)
    return found


def as_text() -> str:
    """The map as lines of text: a floor each, the rooms beside that a room may import after an arrow."""
    words = [
        "  ".join(name + (f" (-> {', '.join(sorted(beside))})" if beside else "") for name, beside in floor.items())
        for floor in FLOORS
    ]
    head = "A room may import every room of the floors below its own, and beside it those after the arrow:"
    return "\n".join([head, *(f"  {len(FLOORS) - place}  {line}" for place, line in enumerate(words))])


WIDTH, HEIGHT, BOX, LETTER = 900, 92, 40, 8.6
COLOURS = ("#E9DDF2", "#DDF0E4", "#FCE8CF", "#FCE8CF", "#DCEAF6", "#DCEAF6")


def _places(floor: Mapping[str, object], top: float) -> Iterator[tuple[str, float, float, float]]:
    """Name, left, top and width of the floor's boxes, spread over the picture."""
    widths = [max(76.0, LETTER * len(name) + 24) for name in floor]
    gap = (WIDTH - 80 - sum(widths)) / (len(widths) + 1)
    for name, width, left in zip(floor, widths, itertools.accumulate(widths, initial=0.0), strict=False):
        number = list(floor).index(name) + 1
        yield name, 70 + left + gap * number, top + (HEIGHT - BOX) / 2, width


def as_svg() -> str:
    """The map as a picture: floors as bands, an arrow for each import within a floor."""
    bands, boxes, arrows = [], [], []
    for number, (floor, colour) in enumerate(zip(FLOORS, COLOURS, strict=True)):
        top = 10 + number * HEIGHT
        fill = "#FFFFFF" if number % 2 else "#F7F7F7"
        bands.append(f'<rect x="0" y="{top}" width="{WIDTH}" height="{HEIGHT}" fill="{fill}"/>')
        bands.append(f'<text x="24" y="{top + HEIGHT / 2 + 5}" class="floor">{len(FLOORS) - number}</text>')
        at = {name: place for name, *place in _places(floor, top)}
        for name, (left, up, width) in at.items():
            boxes.append(
                f'<rect x="{left:.1f}" y="{up:.1f}" width="{width:.1f}" height="{BOX}" rx="7" fill="{colour}" stroke="#666"/>'
            )
            boxes.append(f'<text x="{left + width / 2:.1f}" y="{up + BOX / 2 + 5:.1f}" class="room">{escape(name)}</text>')
        arrows += [_arrow(at[name], at[other]) for name, beside in floor.items() for other in sorted(beside)]
    height = 10 + HEIGHT * len(FLOORS) + 40
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" font-family="sans-serif">',
            "<title>The rooms of bayesprune and what each may import</title>",
            "<style>.room {font-size: 15px; text-anchor: middle} .floor {font-size: 18px; fill: #888} "
            ".note {font-size: 13px; fill: #444} path {fill: none; stroke: #444; stroke-width: 1.4}</style>",
            '<defs><marker id="tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto">'
            '<path d="M0 0 L8 4 L0 8 z" style="fill: #444; stroke: none"/></marker></defs>',
            f'<rect width="{WIDTH}" height="{height}" fill="#FFFFFF"/>',
            *bands,
            *boxes,
            *arrows,
            f'<text x="24" y="{height - 14}" class="note">A room may import every room of the floors below its own, and of its '
            "own floor those that its arrows lead to.</text>",
            "</svg>\n",
        ]
    )


def _arrow(start: list[float], end: list[float]) -> str:
    """Over the boxes to the right, under them to the left, so that what lies between is passed by."""
    (left, up, width), (other, _, breadth) = start, end
    forward = other > left
    x, y = left + width / 2, up if forward else up + BOX
    to = other + breadth / 2 - 12 if forward else other + breadth / 2 + 12
    bend = y - 24 if forward else y + 24
    return f'<path d="M{x:.1f} {y:.1f} C{x:.1f} {bend:.1f} {to:.1f} {bend:.1f} {to:.1f} {y:.1f}" marker-end="url(#tip)"/>'


if __name__ == "__main__":
    PICTURE.write_text(as_svg(), encoding="utf-8")
