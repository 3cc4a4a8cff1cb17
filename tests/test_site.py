"""The site's own code: docstrings as reStructuredText, formulas as MathML. `make docs` builds the site itself."""

import importlib.util
import re
from pathlib import Path
from types import ModuleType

import pytest

SITE = Path(__file__).parents[1] / "docs" / "site"


def load(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"site_{name}", SITE / f"{name}.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_docstrings_keep_their_equations_and_signs() -> None:
    text = ["Sum.", "", "  y = a * |b|", "", "of *all* terms_, not `a_`.", "", "Attributes, after ``fit``:", "    y: x_i * 2."]
    assert load("docstrings").converted(text) == [
        "Sum.", "", "::", "", "  y = a * |b|", "", r"of \*all\* terms\_, not `a_`.", "", "Attributes:", r"    y: x_i \* 2.",
    ]  # fmt: skip


def test_an_example_stays_as_it_is() -> None:
    text = ["It is so.", "", "Example:", "    >>> a = 2 * 3", "    >>> a", "    6"]
    assert load("docstrings").converted(text) == text


def test_every_formula_of_the_sheet_is_understood() -> None:
    pytest.importorskip("latex2mathml")
    mathml = load("mathml").mathml
    sheet = (SITE.parent / "methods.md").read_text(encoding="utf-8")
    found = re.findall(r"```math\n(.*?)```|\$\$(.+?)\$\$", sheet, re.DOTALL)
    assert len(found) > 50
    for one in found:
        made = mathml("".join(one), "block")
        assert made.startswith("<math") and "<mi>\\" not in made
        assert made.endswith("</span>") == (r"\tag{" in "".join(one))
