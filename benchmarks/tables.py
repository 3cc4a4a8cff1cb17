"""Writes the tables of the pages here anew, from the results kept in results/.

    python benchmarks/tables.py            # rewrites what stands between the marks
    python benchmarks/tables.py --check    # changes nothing; ends with 1 if a page is behind its results

A mark is ``<!-- table: STUDY/NAME -->``, closed by ``<!-- /table -->``.
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
MODULES = (
    "attempts",
    "births_of_units",
    "bmr_ablation",
    "calibrated_inclusion",
    "claims",
    "course",
    "course_choices",
    "course_idle",
    "course_uci",
    "course_warm_up",
    "equal_cost",
    "foreign",
    "headers",
    "health",
    "no_silent_deaths",
    "reproduce_bmr",
    "reproduce_mnist",
    "reproduce_sbnn",
    "reproduce_sghmc",
    "reproduce_ssvi",
    "reproduce_svbnn",
    "reproduce_uci",
    "reproduce_units",
    "selection",
    "ssvi_memory",
    "streaming",
    "tabular",
    "units_that_pay",
)
BLOCK = re.compile(r"<!-- table: (\S+)/(\S+) -->\n(.*?)<!-- /table -->", re.DOTALL)


@functools.cache
def studies() -> dict[str, cells.Study]:
    """Name -> study."""
    return {study.name: study for study in (importlib.import_module(name).STUDY for name in MODULES)}


def module_of(study: str) -> ModuleType:
    """The script that has a study."""
    return next(module for module in map(importlib.import_module, MODULES) if module.STUDY.name == study)


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
