"""A folder's files are found by what they define, a new one without any list of them."""

import pytest

from bayesprune.core.folder import Folder, files

SOURCE = """
from dataclasses import dataclass
from bayesprune.priors.flat import Flat

@dataclass(frozen=True)
class Own:
    loud = True

@dataclass(frozen=True)
class Other:
    pass

class Plain:
    loud = True
"""


@pytest.fixture
def package(tmp_path, monkeypatch) -> str:
    folder = tmp_path / "choir_of_a_test"
    folder.mkdir()
    for name, source in (("__init__", ""), ("alto", SOURCE), ("bass", SOURCE.replace("Own", "Low"))):
        (folder / f"{name}.py").write_text(source)
    monkeypatch.syspath_prepend(tmp_path)
    return folder.name


def test_a_folder_has_the_dataclasses_that_its_own_files_define_and_that_belong(package) -> None:
    folder = Folder(package, "voice", lambda value: hasattr(value, "loud"))
    assert [file.__name__ for file in files(package)] == [f"{package}.alto", f"{package}.bass"]
    assert folder.names() == ["Low", "Own"] and folder.get("oWn") is folder.attribute("Own") is folder.find()["Own"]
    assert "Flat" in Folder("bayesprune.priors", "prior", lambda value: True).names()


def test_an_unknown_name_is_told_its_neighbours(package) -> None:
    folder = Folder(package, "voice", lambda value: hasattr(value, "loud"))
    with pytest.raises(ValueError, match=r"unknown voice 'owl'\. Did you mean 'own' or 'low'"):
        folder.get("owl")
    for name in ("own", "__wrapped__"):
        with pytest.raises(AttributeError, match=rf"'{package}' has no voice '{name}'\. Known: Own, Low"):
            folder.attribute(name)
