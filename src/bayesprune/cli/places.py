"""Where commands write inside a run's folder, which may be anybody's."""

from pathlib import Path


def inside(folder: Path, name: str, flag: str) -> Path:
    """The path of a file in ``folder``. ``flag``: by which the user names another path.

    Raises `ValueError` for a link that leads out of the folder: who made the folder would decide what is overwritten.
    """
    path = folder / name
    if path.is_symlink() and not path.resolve().is_relative_to(folder.resolve()):
        raise ValueError(f"{path} is a link that leads to {path.resolve()}, out of the folder: delete it, or give {flag} FILE.")
    return path
