"""The pages for a reader: their code runs, the names in it exist, and their links lead somewhere."""

import ast
import importlib.util
import json
import os
import re
import subprocess
import sys
import types
from pathlib import Path

import pytest

import bayesprune as bp

ROOT = Path(__file__).resolve().parent.parent
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]
WHOLE = (
    "adding_a_kernel", "adding_a_method", "adding_a_prior", "arviz", "compaction", "concepts", "data", "faq", "from_a_csv",
    "life_with_a_fit", "likelihoods", "loading_a_run", "microcontroller", "nets_of_others", "scaling", "which_method",
    "why_shrunk",
)  # fmt: skip


def blocks(text: str) -> list[str]:
    return re.findall(r"^```python\n(.*?)^```", text, re.S | re.M)


def missing_names(source: str) -> list[str]:
    """Names below ``bp``, and names imported from ours, in a piece of code that the library does not have."""
    nodes = list(ast.walk(ast.parse(source)))
    dotted = {ast.unparse(node) for node in nodes if isinstance(node, ast.Attribute)}
    ours = [node for node in nodes if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("bayesprune")]
    imported = [(str(node.module), alias.name) for node in ours for alias in node.names]
    missing = [
        f"{module}.{name}"
        for module, name in imported
        if not hasattr(importlib.import_module(module), name) and importlib.util.find_spec(f"{module}.{name}") is None
    ]
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
    assert missing_names("from bayesprune.lab import page, nobody") == ["bayesprune.lab.nobody"]
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


# What a type checker cannot know of a page: a part of a page's code begins in the middle of a story, a name may stand for one
# thing after another, and who opens a file knows what is in it.
FREE = ("name-defined", "used-before-def", "has-type", "union-attr")
OF_SETTINGS = "**dict[str, object]"  # settings kept in one dict, whose values have no common type


def complaints(folder: Path, pages: dict[str, str]) -> list[str]:
    """What mypy says of the code of pages, by name."""
    for name, code in pages.items():
        (folder / f"{name}.py").write_text(code, encoding="utf-8")
    command = [
        sys.executable,
        "-m",
        "mypy",
        "--ignore-missing-imports",
        "--config-file=",
        "--cache-dir=cache",
        "--allow-redefinition",
    ]
    command += [
        "--follow-imports=silent",
        *(f"--disable-error-code={code}" for code in FREE),
        *(f"{name}.py" for name in pages),
    ]
    done = subprocess.run(
        command, cwd=folder, capture_output=True, text=True, check=False, env={**os.environ, "MYPYPATH": str(ROOT / "src")}
    )
    assert done.returncode in (0, 1), done.stdout + done.stderr
    return [line for line in done.stdout.splitlines() if " error: " in line and OF_SETTINGS not in line]


@pytest.mark.slow
def test_a_type_checker_lets_the_code_of_the_pages_pass_and_stops_what_is_wrong(tmp_path: Path) -> None:
    pytest.importorskip("mypy")
    pages = {f"page_{page.stem.lower()}": "\n".join(blocks(page.read_text(encoding="utf-8"))) for page in PAGES}
    wrong = "import bayesprune as bp\nbp.predict(0, bp.BNN, {}, [[1.0]])\nbp.bmr_prune({}, rng_key=3)\n"
    lines = complaints(tmp_path, {name: code for name, code in pages.items() if code} | {"wrong": wrong})
    assert [line.split(":")[:2] for line in lines] == [["wrong.py", "2"], ["wrong.py", "3"]]


@pytest.mark.parametrize(
    "page", [*PAGES, *sorted((ROOT / "docs" / "site").glob("*.md")), *sorted((ROOT / "benchmarks").glob("*.md"))]
)
def test_a_figure_says_what_it_shows_and_has_a_caption(page: Path) -> None:
    """To who does not see it, in five words at least; to who does, in a line of its own in italics, which is another text."""
    text = page.read_text(encoding="utf-8")
    shown = re.findall(r"!\[(.*?)\]\([^)]*\)(.*?)(?=\n!\[|\Z)", text, re.S)
    assert len(shown) == len(re.findall(r"!\[|<img", text)), "an image that is no figure of this form"
    for alternative, after in shown:
        assert len(alternative.split()) >= 5, f"{alternative!r} says too little"
        caption = re.match(r"\n\n\*([^*]+)\*\n", after)
        assert caption and caption[1] != alternative, f"no caption below {alternative!r}"


@pytest.mark.parametrize("book", sorted((ROOT / "notebooks").glob("*.ipynb")), ids=lambda book: book.stem)
def test_a_figure_of_a_notebook_has_a_text_and_a_caption_on_the_site(book: Path) -> None:
    for cell in json.loads(book.read_text(encoding="utf-8"))["cells"]:
        if any("image/png" in output.get("data", {}) for output in cell.get("outputs", [])):
            shown = cell["metadata"].get("mystnb", {})
            alternative, caption = shown.get("image", {}).get("alt"), shown.get("figure", {}).get("caption")
            assert alternative and caption and alternative != caption, "".join(cell["source"])[-80:]
