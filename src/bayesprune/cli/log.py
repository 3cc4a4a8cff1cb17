"""`--log`: a run's figures while it trains, for TensorBoard or as lines of JSON."""

import contextlib
import functools
import importlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from bayesprune.train.callbacks import to_jsonl, to_logger

KINDS = ("none", "jsonl", "tensorboard")
FILE, FOLDER = "log.jsonl", "tensorboard"
WRITERS = ("torch.utils.tensorboard", "tensorboardX", "flax.metrics.tensorboard")  # the last one needs TensorFlow


def check(kind: str) -> None:
    """Refuse TensorBoard where nothing that is installed writes its files."""
    if kind == "tensorboard":
        _writer()


@contextlib.contextmanager
def writing(kind: str, folder: Path) -> Iterator[list[Callable[[Any], Any]]]:
    """The callbacks that write the figures of a fit into a run's folder."""
    if kind == "jsonl":
        yield [to_jsonl(folder / FILE)]
    elif kind == "tensorboard":
        writer = _EventFile(_writer(), str(folder / FOLDER))
        try:
            yield [to_logger(writer)]
        finally:
            writer.close()
    else:
        yield []


class _EventFile:
    """A writer that is opened at its first figure: a fit that is refused leaves nothing behind."""

    def __init__(self, make: Callable[[str], Any], folder: str) -> None:
        self._make, self._folder = make, folder

    @functools.cached_property
    def _opened(self) -> Any:
        return self._make(self._folder)

    def add_scalar(self, name: str, figure: float, step: int) -> None:
        write = getattr(self._opened, "add_scalar", None) or self._opened.scalar  # the second is Flax's
        write(name, figure, step)

    def close(self) -> None:
        if "_opened" in vars(self):
            self._opened.close()


def _writer() -> Callable[[str], Any]:
    """The first writer of event files that can be imported."""
    for name in WRITERS:
        with contextlib.suppress(ImportError):
            return importlib.import_module(name).SummaryWriter
    raise ImportError(
        "log=tensorboard needs a library that writes TensorBoard's files, and none is installed: pip install tensorboardX, "
        "or take --log jsonl."
    )
