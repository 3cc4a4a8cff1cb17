"""Read a fit, a compact network, or a posterior, whichever the file holds."""

import os

from bayesprune.core.checks import check_integer
from bayesprune.core.formats import read_tensors
from bayesprune.deploy.compact import Compact
from bayesprune.deploy.files.read import REMEDY, WHAT, read
from bayesprune.report import saved_fit
from bayesprune.report.export import SavedPosterior, load_posterior
from bayesprune.train.continuation import Kept
from bayesprune.train.result import FitResult


def load(path: str | os.PathLike[str], *, max_bytes: int | None = None) -> FitResult | Compact | SavedPosterior:
    """What a file of ours holds.

    A `FitResult` that ``fit.save`` wrote, its ``state`` now arrays by name; a `Compact` that `Compact.save` wrote; or a
    posterior, as `report.load_posterior` reads it.

    No code is run from a file: it holds numbers and names of known operations. A compact network's is checked once, completely,
    before anything is allocated: shapes, lengths, indices, and every operation, which has to give the sizes that are stated.

    Args:
        path: the file.
        max_bytes: what the arrays of a compact network may take in memory. A few kilobytes of a stranger's may be whole, and
            unpack to a gigabyte of zeros; so None allows 64 MiB, or 256 times what the arrays take in the file, whichever is
            more, and a file that needs more is refused with the number that would do. Other files hold their numbers as they
            are, at most 32 times smaller where these are zeros.

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
    if max_bytes is not None:
        check_integer(max_bytes, "max_bytes")
    if not os.path.isfile(path):
        raise FileNotFoundError(2, f"no file at {path}: check the path.")
    header = read_tensors(path, WHAT, REMEDY, header_only=True)[1]
    if header.get("format") != saved_fit.FORMAT:
        return Compact(**read(path, max_bytes))
    if saved_fit.WHOLE in header:
        fit = saved_fit.read_fit(path)
        state = None if fit.state is None else Kept(**fit.state)
        return FitResult(fit.params, state, fit.losses, fit.mask, fit.history)
    return load_posterior(path)
