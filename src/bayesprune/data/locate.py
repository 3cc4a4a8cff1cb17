"""Where data files are looked for, and the one error that says what to put where."""

import os
from collections.abc import Iterable, Iterator
from pathlib import Path

from bayesprune.data import catalogue

VARIABLE = "BAYESPRUNE_DATA"


def roots(data_dir: str | os.PathLike[str] | None) -> tuple[Path, ...]:
    """The folders to search, in order: ``data_dir``, then the one that the environment variable BAYESPRUNE_DATA names.

    Raises:
        FileNotFoundError: ``data_dir`` is given and is not a folder.
    """
    given = () if data_dir is None else (Path(data_dir).expanduser(),)
    if given and not given[0].is_dir():
        raise FileNotFoundError(f"data_dir must be an existing folder, got {str(given[0])!r}: create it or correct the path.")
    variable = os.environ.get(VARIABLE, "")
    return given + ((Path(variable).expanduser(),) if variable else ())


def folders(root: Path, names: Iterable[str]) -> Iterator[Path]:
    """The subfolders of ``root`` so named, whatever the case and separators, each before its "raw"; last ``root`` itself."""
    wanted = {catalogue.squash(name) for name in names}
    if not root.is_dir():
        return
    for entry in sorted(root.iterdir()):
        if catalogue.squash(entry.name) in wanted and entry.is_dir():
            yield entry
            if (entry / "raw").is_dir():
                yield entry / "raw"
    yield root


def missing(name: str, wanted: str, searched: Iterable[Path], note: str = "") -> FileNotFoundError:
    """The error for a data set that is nowhere: ``wanted`` says which files belong in which folder below DIR."""
    looked = [f"{root}{'' if root.is_dir() else ' (no such folder)'}" for root in searched]
    return FileNotFoundError(
        f"data set {name!r} not found. Put {wanted}, and pass data_dir=DIR or set the environment variable {VARIABLE}=DIR. "
        f"Looked in: {', '.join(looked) or 'no folder, as neither was given'}.{' ' + note if note else ''}"
    )
