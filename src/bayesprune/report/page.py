"""One file of HTML with everything in it: text, tables, pictures."""

import base64
from collections.abc import Sequence
from html import escape
from io import BytesIO
from typing import Any

STYLE = """body {font: 15px sans-serif; margin: 2em; color: #222} table {border-collapse: collapse; font-size: 13px}
td, th {padding: 3px 8px; border-bottom: 1px solid #ddd; text-align: right; white-space: nowrap}
td:first-child, th:first-child, td:last-child, th:last-child {text-align: left} img {max-width: 100%}
.wide {overflow-x: auto} p {max-width: 60em; line-height: 1.4}"""


def page(title: str, parts: Sequence[str]) -> str:
    """The whole file; ``parts``: HTML, such as the functions here make."""
    top = f"<!doctype html><html lang='en'><head><meta charset='utf-8'><title>{escape(title)}</title>"
    look = f"<meta name='viewport' content='width=device-width'><style>{STYLE}</style>"
    return f"{top}{look}</head><body><h1>{escape(title)}</h1>{''.join(parts)}</body></html>\n"


def said(text: str) -> str:
    """A paragraph.

    >>> said("a < b")
    '<p>a &lt; b</p>'
    """
    return f"<p>{escape(text)}</p>"


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table that scrolls by itself where it is wider than the screen.

    >>> table(["a"], [["<1"]])
    "<div class='wide'><table><tr><th>a</th></tr><tr><td>&lt;1</td></tr></table></div>"
    """
    lines = ["".join(f"<th>{escape(name)}</th>" for name in head)]
    lines += ["".join(f"<td>{escape(value)}</td>" for value in row) for row in rows]
    return f"<div class='wide'><table>{''.join(f'<tr>{line}</tr>' for line in lines)}</table></div>"


def picture(figure: Any, what: str) -> str:
    """A matplotlib figure; ``what``: a description of it, for readers who cannot see it."""
    buffer = BytesIO()
    figure.savefig(buffer, format="png", dpi=130)
    content = base64.b64encode(buffer.getvalue()).decode()
    return f"<p><img alt='{escape(what)}' src='data:image/png;base64,{content}'></p>"
