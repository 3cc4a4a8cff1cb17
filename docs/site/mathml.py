"""Formulas as MathML, which browsers draw by themselves: no script, no network."""

import re
from typing import Any

from docutils.nodes import SkipNode
from latex2mathml.converter import convert
from sphinx.application import Sphinx

TAG = re.compile(r"\\tag\{([^}]*)\}")
# What the converter does not know, in its own words.
OTHER_WORDS = {r"\operatorname*": r"\operatorname", r"\tfrac": r"\frac", r"\bigl": "", r"\bigr": ""}


def setup(app: Sphinx) -> dict[str, Any]:
    """Sphinx's hook."""
    app.add_html_math_renderer("mathml", (inline, None), (display, None))
    return {"parallel_read_safe": True}


def mathml(latex: str, how: str) -> str:
    """One formula; its number, ``\\tag{...}``, stands at the right."""
    number = TAG.search(latex)
    body = TAG.sub("", latex)
    for word, other in OTHER_WORDS.items():
        body = body.replace(word, other)
    made = convert(body, display=how).replace("<math ", '<math style="flex: 1" ', 1)
    return made if number is None else f"{made}<span>({number[1]})</span>"


def inline(self: Any, node: Any) -> None:
    """A formula within a line."""
    self.body.append(mathml(node.astext(), "inline"))
    raise SkipNode


def display(self: Any, node: Any) -> None:
    """A formula of its own."""
    # Side by side, so that a wide formula keeps clear of its number.
    style = "display: flex; align-items: center; overflow-x: auto; margin: 0.6em 0"
    self.body.append(f'<div class="math" style="{style}">{mathml(node.astext(), "block")}</div>')
    raise SkipNode
