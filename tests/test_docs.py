"""The formula sheet, the docstrings and the tests speak of the same equations."""

import ast
import re
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
NUMBER = r"[1-9]\d?\.[1-9]"


def numbered(text: str) -> set[str]:
    """Equation numbers that the formula sheet defines."""
    return set(re.findall(rf"\\tag\{{({NUMBER})\}}", text))


def cited(text: str) -> set[str]:
    """Equation numbers in parentheses, such as (2.5), also where (2.3) to (2.5) or (2.3, 2.5) name several."""
    return {
        number for group in re.findall(rf"(?<!\w)\(({NUMBER}(?:, ?{NUMBER})*)\)", text) for number in re.findall(NUMBER, group)
    }


def docstrings(source: str) -> str:
    documented = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    return "\n".join(ast.get_docstring(node) or "" for node in ast.walk(ast.parse(source)) if isinstance(node, documented))


def read_all(folder: str) -> list[str]:
    return [path.read_text(encoding="utf-8") for path in sorted((ROOT / folder).rglob("*.py")) if path != Path(__file__)]


def on_the_sheet() -> set[str]:
    return numbered((ROOT / "docs" / "methods.md").read_text(encoding="utf-8"))


def in_docstrings() -> set[str]:
    return {number for source in read_all("src") for number in cited(docstrings(source))}


def in_tests() -> set[str]:
    return {number for source in read_all("tests") for number in cited(source)}


def test_the_readers_find_what_is_there() -> None:
    assert numbered(r"x = y \tag{2.5} and \tag{4.1}") == {"2.5", "4.1"}
    assert cited("the ratio (2.5), or (4.5, 14.6); f(2.4), 1.3, (112.5)") == {"2.5", "4.5", "14.6"}
    assert docstrings('"""A."""\ndef f():\n    """B."""\n    return "(9.9)"') == "A.\nB."
    assert len(on_the_sheet()) >= 15


def test_every_cited_equation_is_on_the_sheet() -> None:
    assert in_docstrings() - on_the_sheet() == set()


def test_every_equation_is_computed_somewhere() -> None:
    assert on_the_sheet() - in_docstrings() == set()


def test_every_equation_has_a_test_that_names_it() -> None:
    assert on_the_sheet() - in_tests() == set()
