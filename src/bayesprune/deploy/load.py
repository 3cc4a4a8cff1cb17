"""Read a compact network, or a posterior, whichever the file holds."""

import os

from bayesprune.core.formats import read_tensors
from bayesprune.deploy import artefact
from bayesprune.deploy.compact import Compact
from bayesprune.report.export import FORMAT, SavedPosterior, load_posterior


def load(path: str | os.PathLike[str]) -> Compact | SavedPosterior:
    """A `Compact` that `Compact.save` wrote, or a posterior, as `report.load_posterior` reads it.

    No code is run from a file: it holds numbers and names of known operations, and every length and index is checked before
    anything is allocated.

    Raises:
        FileNotFoundError: there is no file.
        ValueError: it is neither; `DamagedFileError`, a ``ValueError`` too: it has changed since, or is cut short.

    Example:
        >>> load("/nowhere/net.bayesprune")
        Traceback (most recent call last):
        ...
        FileNotFoundError: [Errno 2] no file at /nowhere/net.bayesprune: check the path.
    """
    path = os.fspath(path)
    if not os.path.isfile(path):
        raise FileNotFoundError(2, f"no file at {path}: check the path.")
    header = read_tensors(path, artefact.WHAT, artefact.REMEDY, header_only=True)[1]
    return load_posterior(path) if header.get("format") == FORMAT else Compact(**artefact.read(path))
