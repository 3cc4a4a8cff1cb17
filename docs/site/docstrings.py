"""Docstrings as reStructuredText: they are written to be read in a terminal, with indented equations and bare signs."""

import re
from typing import Any

SECTION = re.compile(r"(Args|Arguments|Returns|Raises|Example|Examples|Source|Sites|Yields|Note|Attributes)\b.*:$")
SIGNS = re.compile(r"([*|\\])|_(?=\W|$)")
CODE = re.compile(r"(``.+?``|`[^`]+?`)")


def process(app: Any, what: str, name: str, obj: Any, options: Any, lines: list[str]) -> None:
    """Change the lines in place: Sphinx's hook."""
    lines[:] = converted(lines)


def foreign(app: Any, what: str, name: str, obj: Any, skip: bool, options: Any) -> bool | None:
    """Leave out what a class has from scikit-learn: its own pages say it."""
    return True if str(getattr(obj, "__module__", "")).startswith("sklearn.") else None


def converted(lines: list[str]) -> list[str]:
    """Equations, indented after an empty line, become literal blocks; signs that are markup elsewhere stand for themselves.

    >>> converted(["Sum.", "", "  y = a * |b|", "", "of *all* terms_."])
    ['Sum.', '', '::', '', '  y = a * |b|', '', 'of \\\\*all\\\\* terms\\\\_.']
    """
    made: list[str] = []
    base, literal, empty, doctest = 0, False, True, False
    for line in lines:
        indent = len(line) - len(line.lstrip())
        if not line.strip():
            doctest = False
            made.append("")
            empty = True
            continue
        if literal and indent > base:
            made.append(line)
            empty = False
            continue
        literal = False
        if line.lstrip().startswith(">>>"):
            doctest = True
        if doctest:
            made.append(line)
        elif (section := SECTION.match(line)) is not None:
            made.append(f"{section[1]}:")  # "Attributes, after ``fit``:" is a section of attributes
            base = 4
        elif empty and indent > base:
            made += [" " * base + "::", "", line]
            literal = True
        else:
            if indent == 0:
                base = 0
            made.append(_plain(line))
        empty = False
    return made


def _plain(line: str) -> str:
    """Signs of markup escaped, but within code."""
    parts = CODE.split(line)
    return "".join(part if index % 2 else SIGNS.sub(lambda found: "\\" + found[0], part) for index, part in enumerate(parts))
