"""The pages for a reader: their code runs, the names in it exist, and their links lead somewhere."""

import ast
import re
import sys
import types
from pathlib import Path

import pytest

import bayesprune as bp

ROOT = Path(__file__).resolve().parent.parent
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]
WHOLE = (
    "adding_a_kernel", "adding_a_method", "adding_a_prior", "arviz", "compaction", "concepts", "data", "faq", "life_with_a_fit",
    "likelihoods", "loading_a_run", "nets_of_others", "scaling", "which_method",
)  # fmt: skip


def blocks(text: str) -> list[str]:
    return re.findall(r"^```python\n(.*?)^```", text, re.S | re.M)


def missing_names(source: str) -> list[str]:
    """Names below ``bp`` in a piece of code that the library does not have."""
    dotted = {ast.unparse(node) for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Attribute)}
    missing = []
    for name in sorted(name for name in dotted if re.fullmatch(r"bp(\.\w+)+", name)):
        first, *rest = name.split(".")[1:]
        thing = getattr(bp, first, None) if rest else None  # the face's own names are listed: extras need no import
        for part in rest:
            thing = getattr(thing, part, None)
        if first not in bp.__all__ or (rest and thing is None):
            missing.append(name)
    return missing


def dead_links(page: Path, text: str) -> list[str]:
    """Relative links of a page that lead to no file."""
    targets = re.findall(r"\]\(([^)#\s]+)", text)
    return [target for target in targets if "://" not in target and not (page.parent / target).exists()]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_names_and_links_of_a_page_exist(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    assert [name for block in blocks(text) for name in missing_names(block)] == []
    assert dead_links(page, text) == []


def test_a_wrong_name_or_link_would_be_found() -> None:
    assert missing_names("bp.methods.BMR()\nbp.methods.Nobody(bp.fit)") == ["bp.fit", "bp.methods.Nobody"]
    assert dead_links(ROOT / "README.md", "[a](docs/methods.md) [b](docs/nothing.md) [c](https://x.org)") == ["docs/nothing.md"]
    assert blocks("```python\nx = 1\n```\n```\ny\n```\n") == ["x = 1\n"]


@pytest.mark.slow
@pytest.mark.parametrize("name", WHOLE)
def test_the_code_of_a_page_runs(name: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)  # where its files go
    page = ROOT / "docs" / f"{name}.md"
    module = types.ModuleType(f"page_{name}")
    monkeypatch.setitem(sys.modules, module.__name__, module)  # dataclasses look their module up
    code = blocks(page.read_text(encoding="utf-8"))
    assert code
    exec(compile("\n\n".join(code), str(page), "exec"), vars(module))
