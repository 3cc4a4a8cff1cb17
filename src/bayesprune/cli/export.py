"""`bayesprune export`: a compact network in another format."""

from pathlib import Path
from typing import Literal

from tyro.conf import Positional

from bayesprune.cli import shipping
from bayesprune.deploy.compact import Compact
from bayesprune.deploy.files.read import load
from bayesprune.deploy.files.to_onnx import export_onnx


def export(out: Positional[Path], to: Literal["onnx"] = "onnx", file: Path | None = None) -> None:
    """Write a compact network for another runtime; its one output is the predictive mean at the posterior mean.

    Args:
        out: A file that `bayesprune compact` wrote, or the folder of a run that has one.
        to: The format.
        file: File to write; beside the network, with the format's ending, if left out.
    """
    source = out / shipping.FILE if out.is_dir() else out
    target = file or shipping.inside(source.parent, f"{source.stem}.{to}", "--file")
    export_onnx(network(source), target)
    print(f"written:\n  {target}")


def network(path: Path) -> Compact:
    """The compact network of a file, or an error that names the remedy."""
    if not path.is_file():
        raise FileNotFoundError(2, f"no compact network at {path}: make one with `bayesprune compact RUN`.")
    found = load(path)
    if not isinstance(found, Compact):
        raise ValueError(f"{path} holds a posterior, no compact network: make one with `bayesprune compact RUN`.")
    return found
