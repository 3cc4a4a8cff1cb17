"""What editors and type checkers see of the names that are found when they are asked for: the classes themselves."""

import ast
import importlib
import os
import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

import bayesprune as bp
from tests.test_house import ROOT, project_sources

FACES = {
    source.removesuffix(".__init__"): ast.parse(text).body
    for source, text in project_sources().items()
    if "def __getattr__(name" in text
}

# No checker may let these pass; each line has one mistake.
MISTAKES = """import bayesprune as bp
bp.methods.BMR(densty=0.1)
bp.methods.Cut(density="few")
bp.kernels.SGHMC(1e-4).stepp
bp.methods.BRM()
bp.kernels.SGHCM(1e-4)
bp.priors.Gaussian(scale="wide")
bp.likelihoods.Categorical().taks
bp.plots.no_such_figure
bp.BayesianSparseRegressor(hiden=(4,))
"""


def typed(body: list[ast.stmt]) -> dict[str, str]:
    """Name -> module: what a face's ``if TYPE_CHECKING:`` imports."""
    blocks = [node for node in body if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"]
    imports = [node for block in blocks for node in block.body if isinstance(node, ast.ImportFrom)]
    return {alias.asname or alias.name: str(node.module) for node in imports for alias in node.names}


def found(face: ModuleType, body: list[ast.stmt]) -> dict[str, str]:
    """Name -> module: what the face finds when asked for."""
    if hasattr(face, "find"):
        return {name: cls.__module__ for name, cls in face.find().items()}
    at_once = {alias.asname or alias.name for node in body if isinstance(node, ast.ImportFrom) for alias in node.names}
    modules = {name: getattr(face, name) for name in face.__all__ if name not in at_once}
    return {name: (thing.__name__ if isinstance(thing, ModuleType) else thing.__module__) for name, thing in modules.items()}


def gives(module: str, name: str) -> str:
    """Where a thing imported from a module is at home."""
    thing = getattr(importlib.import_module(module), name, None) or importlib.import_module(f"{module}.{name}")
    return thing.__name__ if isinstance(thing, ModuleType) else thing.__module__


def test_there_are_faces_that_find() -> None:
    assert {"bayesprune", "bayesprune.methods", "bayesprune.train.kernels"} <= set(FACES)


@pytest.mark.parametrize("name", FACES)
def test_a_face_shows_checkers_what_it_finds(name: str) -> None:
    wanted = found(importlib.import_module(name), FACES[name])
    assert wanted
    missing = [f"from {module} import {each} as {each}" for each, module in wanted.items() if each not in typed(FACES[name])]
    assert not missing, f"add to `if TYPE_CHECKING:` in {name}: {'; '.join(missing)}"
    assert {each: gives(module, each) for each, module in typed(FACES[name]).items()} == wanted


def mypy(folder: Path, source: str) -> list[str]:
    """What mypy says of a file of a user's, line by line, with nothing of this project's own settings."""
    (folder / "user.py").write_text(source)
    command = [sys.executable, "-m", "mypy", "--strict", "--ignore-missing-imports", "--config-file=", "--cache-dir=cache"]
    done = subprocess.run(
        # What this project's own files would have to change to be strict is no matter here.
        [*command, "--follow-imports=silent", "user.py"],
        cwd=folder, capture_output=True, text=True, check=False, env={**os.environ, "MYPYPATH": str(ROOT / "src")},
    )  # fmt: skip
    assert "user.py:" in done.stdout, done.stdout + done.stderr
    return done.stdout.splitlines()


@pytest.mark.slow
def test_mypy_sees_real_types_and_finds_mistakes(tmp_path: Path) -> None:
    pytest.importorskip("mypy")
    names = [f"bp.{name}" for name in bp.__all__]
    names += [f"bp.{face}.{name}" for face in ("methods", "kernels") for name in getattr(bp, face).names()]
    listed = ("priors", "likelihoods", "nets", "courses", "features", "report")
    names += [f"bp.{face}.{name}" for face in listed for name in getattr(bp, face).__all__]
    names += ["bp.plots.training_curves", "bp.methods.names", "bp.kernels.get"]
    lines = mypy(tmp_path, MISTAKES + "".join(f"reveal_type({name})\n" for name in names))
    first = MISTAKES.count("\n") + 1
    types = {int(n): kind for n, kind in re.findall(r'user\.py:(\d+): note: Revealed type is "(.*)"', "\n".join(lines))}
    assert [name for line, name in enumerate(names, first) if types.get(line, "Any") == "Any"] == []
    assert "bayesprune.methods.bmr.BMR" in types[first + names.index("bp.methods.BMR")]
    wrong = {int(number) for number in re.findall(r"user\.py:(\d+): error", "\n".join(lines))}
    assert wrong == set(range(2, first))
