"""A compact network as a file, of the kind that its name says."""

import os
from collections.abc import Mapping
from typing import Any

from bayesprune.deploy.files import artefact
from bayesprune.deploy.files.to_c import export_c
from bayesprune.deploy.files.to_onnx import export_onnx

FOREIGN = (".npz", ".npy", ".pt", ".pth", ".pkl", ".pickle", ".h5", ".tflite", ".c")  # whose readers would not read ours


def save(compact: Any, path: str | os.PathLike[str], values: str, metadata: Mapping[str, Any] | None) -> None:
    """Write a `Compact` whose certificate, if it has one or can have one, holds; see `Compact.save`."""
    kind = os.path.splitext(path)[1].lower()
    if kind in FOREIGN:
        raise ValueError(f"{os.fspath(path)!r} has the name of another format: net.bayesprune, net.h and net.onnx are written.")
    if kind in (".h", ".onnx") and metadata is not None:
        raise ValueError(f"metadata go with a .bayesprune file, and {os.fspath(path)!r} has no room for them: leave them out.")
    if kind == ".onnx" and values != "float32":
        raise ValueError(f"values={values!r} goes with a .bayesprune file: an ONNX model holds float32.")
    other = kind in (".h", ".onnx") and compact.origin is None  # which asks for no certificate
    ready = compact if compact.certificate is not None or other else compact.certified()
    if ready.certificate is not None and not ready.certificate.holds:
        raise ValueError(ready.certificate.why_not())
    if kind == ".h":
        export_c(ready, path, values)
    elif kind == ".onnx":
        export_onnx(ready, path)
    else:
        artefact.write(path, ready, values, compact.metadata if metadata is None else metadata)
