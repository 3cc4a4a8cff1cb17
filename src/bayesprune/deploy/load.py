"""Read a fit, a compact network, or a posterior, whichever the file holds."""

import os

from bayesprune.core.formats import read_tensors
from bayesprune.deploy.compact import Compact
from bayesprune.deploy.files import artefact
from bayesprune.report import saved_fit
from bayesprune.report.export import SavedPosterior, load_posterior
from bayesprune.train.continuation import Kept
from bayesprune.train.result import FitResult


def load(path: str | os.PathLike[str]) -> FitResult | Compact | SavedPosterior:
    """What a file of ours holds.

    A `FitResult` that ``fit.save`` wrote, its ``state`` now arrays by name; a `Compact` that `Compact.save` wrote; or a
    posterior, as `report.load_posterior` reads it.

    No code is run from a file: it holds numbers and names of known operations. A compact network's is checked once, completely,
    before anything is allocated: shapes, lengths, indices, and every operation, which has to give the sizes that are stated.

    Raises:
        FileNotFoundError: there is no file.
        ValueError: it is none of these; `DamagedFileError`, a ``ValueError`` too: it has changed since, or is cut short.

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
    if header.get("format") != saved_fit.FORMAT:
        return Compact(**artefact.read(path))
    if saved_fit.WHOLE in header:
        fit = saved_fit.read_fit(path)
        state = None if fit.state is None else Kept(**fit.state)
        return FitResult(fit.params, state, fit.losses, fit.mask, fit.history)
    return load_posterior(path)
