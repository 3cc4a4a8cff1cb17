"""The laws of the house: which way imports run, where a library may be used, what importing costs, what a public name owes.

Every law is a function from sources to a list of violations, so that each can be shown a bad source and has to object.
"""

import ast
import graphlib
import importlib
import inspect
import itertools
import re
import subprocess
import sys
import tomllib
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path

import pytest

from tests import house
from tests.house import FACE, PACKAGE, ROOMS

ROOT = Path(__file__).resolve().parent.parent
NUMPYRO_ROOMS = {"posteriors", "priors", "model", "train", "infer"}
ONE_IDEA_EACH = {"methods", "priors"}  # rooms whose files do not know one another
NAMELESS = {"utils", "util", "helpers", "helper", "misc", "common", "stuff"}
TEXT_SUFFIXES = {".py", ".md", ".toml", ".lock", ".ipynb", ".sh", ".yml", ".yaml", ".txt", ".cfg"}

Sources = dict[str, str]  # dotted module name -> source; a package is named "bayesprune.core.__init__"


def project_sources() -> Sources:
    files = sorted((ROOT / "src" / PACKAGE).rglob("*.py"))
    return {".".join(file.relative_to(ROOT / "src").with_suffix("").parts): file.read_text(encoding="utf-8") for file in files}


def room(module: str) -> str:
    """The room of a dotted name: the part after the package's name, or the face for a name that the face gives."""
    parts = [*module.split("."), ""]
    return "cli" if parts[1] == "__main__" else parts[1] if parts[1] in ROOMS else FACE


@cache
def nodes(source: str) -> list[ast.AST]:
    """All nodes of a source's tree, which every law walks anew."""
    return list(ast.walk(ast.parse(source)))


def imports(module: str, source: str) -> Iterator[str]:
    """Every dotted name that a source imports, wherever it does so; "from a import b" gives "a.b"."""
    for node in nodes(source):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            parent = module.split(".")[: -node.level] if node.level else []
            base = ".".join([*parent, *([node.module] if node.module else [])])
            yield from (f"{base}.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.Call) and getattr(node.func, "attr", "") == "import_module" and node.args:
            # Of a name that is put together, its beginning says the room.
            parts = getattr(node.args[0], "values", node.args[:1])
            if isinstance(parts[0], ast.Constant):
                yield parts[0].value.rstrip(".")


def imports_by_module(sources: Sources, library: str) -> Iterator[tuple[str, str]]:
    for module, source in sources.items():
        yield from ((module, name) for name in imports(module, source) if name.split(".")[0] == library)


def imports_off_the_map(sources: Sources) -> list[str]:
    """A room that imports one which the map does not allow it: a higher one, or a neighbour that it is not to know."""
    known = house.allowed()
    pairs = [(module, name) for module, name in imports_by_module(sources, PACKAGE) if room(name) != room(module)]
    bad = [f"{module} imports {name}" for module, name in pairs if room(name) not in known[room(module)]]
    return [*bad, house.as_text()] if bad else []


def rooms_off_the_map(sources: Sources) -> list[str]:
    """Folders that the map lacks: they would pass for a part of the face."""
    return [f"{module}: no such room on the map" for module in sources if module.count(".") > 1 and room(module) == FACE]


def siblings(sources: Sources) -> list[str]:
    """A method that imports a method, a prior that imports a prior."""
    bad = []
    for module, name in imports_by_module(sources, PACKAGE):
        own = room(module)
        if own in ONE_IDEA_EACH and room(name) == own and not module.endswith(".__init__"):
            bad.append(f"{module} imports {name}")
    return bad


def misplaced_libraries(sources: Sources) -> list[str]:
    """NumPyro outside the rooms that speak it, matplotlib outside the files that draw, scikit-learn outside its own face."""
    numpyro = [(m, n) for m, n in imports_by_module(sources, "numpyro") if room(m) not in NUMPYRO_ROOMS]
    matplotlib = [(m, n) for m, n in imports_by_module(sources, "matplotlib") if not m.startswith(f"{PACKAGE}.report.plots")]
    face = (f"{PACKAGE}.sklearn", f"{PACKAGE}.data.embedded")
    sklearn = [(m, n) for m, n in imports_by_module(sources, "sklearn") if not m.startswith(face)]
    return [f"{module} imports {name}" for module, name in numpyro + matplotlib + sklearn]


def shapeless_files(sources: Sources) -> list[str]:
    """Files too long to be one idea, or with a name that says none. The reader is copied as one file, and may be longer."""
    most = {f"{PACKAGE}.deploy.reader": 390}
    long = [f"{m} has {len(s.splitlines())} lines" for m, s in sources.items() if len(s.splitlines()) > most.get(m, 300)]
    return long + [f"{module}: the name says nothing" for module in sources if module.split(".")[-1] in NAMELESS]


def prints(sources: Sources) -> list[str]:
    """Calls of print outside the command lines."""
    return [
        f"{module}:{node.lineno} prints"
        for module, source in sources.items()
        if module.split(".")[1] != "cli" and module != f"{PACKAGE}.cells.command"
        for node in nodes(source)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "print"
    ]


def flags_of_the_command_line(sources: Sources) -> list[str]:
    """Texts of the library that speak of flags, which only the command lines know. A flag alone is one of another program."""
    return [
        f"{module}:{node.lineno} speaks of a flag"
        for module, source in sources.items()
        if room(module) != "cli" and module != f"{PACKAGE}.cells.command"
        for node in nodes(source)
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
        if re.search(r"(?:^|[\s'\"(`])--[a-z]", node.value) and not re.fullmatch(r"--[\w-]+", node.value)
    ]


def unchecked_shapes(sources: Sources) -> list[str]:
    """Files that say shapes, and are not among those whose shapes the fast tests check."""
    options = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["pytest"]["ini_options"]["addopts"]
    (checked,) = (option.partition("=")[2].split(",") for option in options if option.startswith("--jaxtyping-packages="))
    said = [module for module, _ in imports_by_module(sources, "jaxtyping")]
    return [module for module in said if not any(f"{module}.".startswith(f"{prefix}.") for prefix in checked)]


def undeclared_libraries(sources: Sources) -> list[str]:
    """Libraries that are imported, and stand in no list of what is installed: another one's needs may change."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    listed = [*project["dependencies"], *itertools.chain(*project["optional-dependencies"].values())]
    known = {re.split(r"[^\w-]", line)[0].replace("-", "_") for line in listed} | {"sklearn"} | sys.stdlib_module_names
    return [
        f"{module} imports {name}"
        for module, source in sources.items()
        for name in imports(module, source)
        if name.split(".")[0] not in known | {PACKAGE}
    ]


LAWS_AND_BREACHES: list[tuple[Callable[[Sources], list[str]], Sources]] = [
    (imports_off_the_map, {"bayesprune.core.trees": "from bayesprune.prune.scores import snr"}),
    (imports_off_the_map, {"bayesprune.core.trees": "from ..methods import bmr"}),
    (imports_off_the_map, {"bayesprune.prune.scores": "def f():\n    import bayesprune.infer.svi"}),
    (imports_off_the_map, {"bayesprune.prune.scores": "import bayesprune"}),
    (imports_off_the_map, {"bayesprune.prune.scores": "from bayesprune import BNN"}),
    (imports_off_the_map, {"bayesprune.methods.bmr": "from bayesprune.infer import fit"}),
    (imports_off_the_map, {"bayesprune.infer.svi": "from bayesprune import methods"}),
    (imports_off_the_map, {"bayesprune.features.paths": "from bayesprune.methods.bmr import BMR"}),
    (imports_off_the_map, {"bayesprune.features.paths": "from bayesprune.infer import fit"}),
    (imports_off_the_map, {"bayesprune.methods.bmr": "from bayesprune.features import importance"}),
    (imports_off_the_map, {"bayesprune.prune.scores": "from bayesprune import features"}),
    (imports_off_the_map, {"bayesprune.__init__": "from bayesprune import cli"}),
    (imports_off_the_map, {"bayesprune.cells.study": "from bayesprune.cli import run"}),
    (imports_off_the_map, {"bayesprune.cells.study": "from bayesprune import reproduce"}),
    (imports_off_the_map, {"bayesprune.cells.study": "import bayesprune.core.files\nimport bayesprune.train.loop"}),
    (imports_off_the_map, {"bayesprune.sklearn.base": "from bayesprune.cli.errors import one_line"}),
    (imports_off_the_map, {"bayesprune.deploy.compact": "from bayesprune.methods import BMR"}),
    (imports_off_the_map, {"bayesprune.reproduce.bmr": "from bayesprune.sklearn import base\nfrom bayesprune import cli"}),
    (imports_off_the_map, {"bayesprune.train.loop": "import importlib\nimportlib.import_module('bayesprune.deploy')"}),
    (imports_off_the_map, {"bayesprune.train.loop": "importlib.import_module(f'bayesprune.methods.{name}')"}),
    (rooms_off_the_map, {"bayesprune.attic.trunk": ""}),
    (siblings, {"bayesprune.methods.ssvi": "from .bmr import BMR"}),
    (siblings, {"bayesprune.priors.horseshoe": "from bayesprune.priors import Flat"}),
    (misplaced_libraries, {"bayesprune.methods.bmr": "import numpyro.distributions as dist"}),
    (misplaced_libraries, {"bayesprune.features.paths": "from sklearn.base import clone"}),
    (misplaced_libraries, {"bayesprune.report.metrics": "def f():\n    from matplotlib import pyplot"}),
    (shapeless_files, {"bayesprune.core.trees": "x = 1\n" * 301}),
    (shapeless_files, {"bayesprune.core.utils": ""}),
    (prints, {"bayesprune.infer.svi": "print('step')"}),
    (flags_of_the_command_line, {"bayesprune.data.tables": "raise ValueError(f'leave {name} out with --drop {name}')"}),
    (undeclared_libraries, {"bayesprune.core.trees": "def f():\n    from dm_tree import map_structure"}),
    (unchecked_shapes, {"bayesprune.core.masked": "from jaxtyping import Array, Float"}),
]


@pytest.mark.parametrize("law", {law: None for law, _ in LAWS_AND_BREACHES}, ids=lambda law: law.__name__)
def test_the_law_holds(law: Callable[[Sources], list[str]]) -> None:
    sources = project_sources()
    assert len(sources) > 10, "the sources were not found"
    assert law(sources) == []


@pytest.mark.parametrize(("law", "breach"), LAWS_AND_BREACHES)
def test_the_law_objects_to_a_breach(law: Callable[[Sources], list[str]], breach: Sources) -> None:
    assert law(breach) != []


def test_what_is_allowed_passes() -> None:
    allowed = {
        "bayesprune.methods.bmr": "from bayesprune.core.types import Info\nfrom bayesprune.prune import scores\nimport jax",
        "bayesprune.priors.flat": "from bayesprune.model.layout import Layout\nimport numpyro",
        "bayesprune.methods.__init__": "from bayesprune.methods.bmr import BMR",
        "bayesprune.cli.run": "import bayesprune\nprint('done')",
        "bayesprune.report.plots": "import matplotlib",
        "bayesprune.report.plots_style": "import matplotlib",
        "bayesprune.sklearn.base": "import sklearn.base",
    }
    assert [found for law in {law for law, _ in LAWS_AND_BREACHES} for found in law(allowed)] == []


def test_the_map_has_no_circle_and_lists_no_room_twice() -> None:
    known = house.allowed()
    assert len(known) == sum(map(len, house.FLOORS))
    assert set().union(*known.values()) <= set(known)
    graphlib.TopologicalSorter(known).prepare()  # raises a CycleError


def test_the_picture_of_the_map_is_up_to_date() -> None:
    assert house.PICTURE.read_text(encoding="utf-8") == house.as_svg(), "draw it anew: python -m tests.house"


QUIET_IMPORT = """
import logging, sys
import flax, jax, numpyro, optax
from jax._src import xla_bridge
config, handlers = dict(jax.config.values), list(logging.getLogger().handlers)
{statement}
assert not xla_bridge.backends_are_initialized(), "a device was touched"
assert dict(jax.config.values) == config, "jax.config was changed"
assert logging.getLogger().handlers == handlers, "a log handler was added to the root logger"
assert not logging.getLogger("bayesprune").handlers, "a log handler was added"
assert "matplotlib" not in sys.modules, "matplotlib was imported"
"""


def run_quiet_import(statement: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", QUIET_IMPORT.format(statement=statement)]
    return subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT / "src")


def test_importing_touches_nothing() -> None:
    done = run_quiet_import("import bayesprune")
    assert done.returncode == 0, done.stderr


@pytest.mark.slow
@pytest.mark.parametrize(
    ("statement", "complaint"),
    [
        ("jax.numpy.zeros(1)", "a device was touched"),
        ("jax.config.update('jax_enable_x64', True)", "jax.config was changed"),
        ("logging.basicConfig()", "a log handler was added"),
    ],
)
def test_a_loud_import_would_be_heard(statement: str, complaint: str) -> None:
    assert complaint in run_quiet_import(statement).stderr


def undocumented(module: object) -> list[str]:
    """Public names without a docstring of their own; a dataclass's generated signature is none."""
    missing = []
    for name in getattr(module, "__all__", ()):
        thing = getattr(module, name)
        if not (inspect.ismodule(thing) or inspect.isroutine(thing) or inspect.isclass(thing)):
            continue
        text = vars(thing).get("__doc__") if inspect.isclass(thing) else inspect.getdoc(thing)
        if not text or text.startswith(f"{name}("):
            missing.append(name)
    return missing


@pytest.mark.parametrize("module", ["", *(f".{name}" for name in sorted(ROOMS - {FACE}))])
def test_public_names_have_docstrings(module: str) -> None:
    assert undocumented(importlib.import_module(f"{PACKAGE}{module}")) == []


def test_the_face_names_what_it_shows() -> None:
    face = importlib.import_module(PACKAGE)
    assert {"BNN", "Program", "fit_svi", "bmr_prune", "predict", "metrics", "methods", "priors"} <= set(face.__all__)
    assert [name for name in face.__all__ if not hasattr(face, name)] == []


def foreign_mentions(name: str, text: str, pages: set[str]) -> list[str]:
    """Absolute paths of some machine, package index settings, and pages with a capitalised name that are not here."""
    found = re.findall(r"(?<![\w.:/~{}])/(?:work|farm|home|Users|root|mnt)/\w+", text)
    found += re.findall(r"(?:--(?:extra-)?index-url\b\s+\S|[f]ile:/{2})\S*", text)
    found += [page for page in re.findall(r"\b[A-Z_]{4,}\.md\b", text) if page not in pages]
    return [f"{name}: {what}" for what in found]


def test_the_project_points_at_nothing_outside_itself() -> None:
    listed = subprocess.run(
        ["git", "ls-files", "-co", "--exclude-standard"], capture_output=True, text=True, cwd=ROOT, check=False
    )
    if listed.returncode:
        pytest.skip("not a git checkout")
    files = [ROOT / line for line in listed.stdout.splitlines()]
    readable = [f for f in files if f.is_file() and (f.suffix in TEXT_SUFFIXES or f.name in {"Makefile", "run"})]
    pages = {file.name for file in files}
    assert [hit for file in readable for hit in foreign_mentions(file.name, file.read_text(encoding="utf-8"), pages)] == []


def test_a_foreign_mention_would_be_found() -> None:
    away = "/" + "home"
    for text in (f"see {away}/me/notes", "pip install --index-" + "url host x", "see " + "PLAN" + ".md"):
        assert foreign_mentions("page", text, {"README.md"}) != []
    assert foreign_mentions("page", "docs/methods.md, README.md, ./home/out, a/home/b", {"README.md"}) == []
