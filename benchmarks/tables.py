"""Writes the tables of the pages here anew, from the results kept in results/.

    python benchmarks/tables.py            # rewrites what stands between the marks
    python benchmarks/tables.py --check    # changes nothing; ends with 1 if a page is behind its results

Studies are found: scripts here that have one, whose records are in results/. A mark is ``<!-- table: STUDY/NAME -->``, closed
by ``<!-- /table -->``.
"""

import argparse
import functools
import importlib
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType

from bayesprune import cells

FOLDER = Path(__file__).resolve().parent
PAGES = (FOLDER, FOLDER.parent / "docs")
HAS_A_STUDY = re.compile(r"^STUDY = |import STUDY$", re.MULTILINE)
BLOCK = re.compile(r"<!-- table: (\S+)/(\S+) -->\n(.*?)<!-- /table -->", re.DOTALL)


@functools.cache
def modules() -> dict[str, ModuleType]:
    """Name of a study -> the script that has it, where its records are kept or it reads those of others."""
    scripts = [path.stem for path in sorted(FOLDER.glob("*.py")) if HAS_A_STUDY.search(path.read_text(encoding="utf-8"))]
    found = {module.STUDY.name: module for module in map(importlib.import_module, scripts)}
    kept = {path.stem for path in (FOLDER / "results").glob("*.jsonl")}
    return {name: module for name, module in sorted(found.items()) if name in kept or not module.STUDY.cells}


def studies() -> dict[str, cells.Study]:
    """Name -> study."""
    return {name: module.STUDY for name, module in modules().items()}


def made(study: str, name: str) -> str:
    """One table from the results kept here."""
    known = studies()
    if study not in known or name not in known[study].tables:
        have = ", ".join(f"{one}/{table}" for one, of in known.items() for table in of.tables)
        raise ValueError(f"there is no table {study}/{name}. There are: {have}.")
    return known[study].tables[name](cells.found(known[study], FOLDER / "results"))


def filled(page: str, make: Callable[[str, str], str] = made) -> str:
    """The page with every block made anew."""
    return BLOCK.sub(lambda found: f"<!-- table: {found[1]}/{found[2]} -->\n{make(found[1], found[2])}\n<!-- /table -->", page)


def behind() -> Iterator[tuple[Path, str]]:
    """Pages whose tables are not what the results give, and what they should be."""
    for path in sorted(path for folder in PAGES for path in folder.glob("*.md")):
        page = path.read_text(encoding="utf-8")
        if (new := filled(page)) != page:
            yield path, new


def main() -> None:
    """Rewrite, or check."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true")
    check = parser.parse_args().check
    pages = list(behind())
    for path, new in pages:
        print(f"{path.name} is behind its results" if check else f"{path.name} rewritten")
        if not check:
            path.write_text(new, encoding="utf-8")
    raise SystemExit(1 if check and pages else 0)


if __name__ == "__main__":
    main()
