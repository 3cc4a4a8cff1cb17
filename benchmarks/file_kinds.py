"""Magika's network, a classifier of files by their bytes that its package ships with its weights, as a Flax module; and rows.

A network that others have trained, of 784,214 parameters, whose rows lie on every machine: files. Its package (Apache 2.0)
holds an ONNX file; the module below was written from that file's graph, and `agrees` holds the two beside each other.

    pip install --no-deps magika==1.0.3      # onnx and onnxruntime come with the extra "onnx"

Rows: the files of the Python environment that runs this, at most `MOST` of a kind; the name's ending is the label. What is
there differs from machine to machine, a little, and so do the figures.
"""

import importlib.util
import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np

import bayesprune as bp

MOST, LEAST, SIDE, BLOCK, PADDING = 40, 40, 1024, 4096, 256
KINDS = {  # by ending, those that say what is in the file; of "txt", "md" or "html", often templates, they do not
    "c": "c",
    "cpp": "cpp",
    "css": "css",
    "ipynb": "ipynb",
    "js": "javascript",
    "json": "json",
    "npy": "npy",
    "npz": "npz",
    "pdf": "pdf",
    "png": "png",
    "po": "po",
    "py": "python",
    "pyc": "pythonbytecode",
    "rst": "rst",
    "sh": "shell",
    "so": "elf",
    "svg": "svg",
    "toml": "toml",
    "ttf": "ttf",
    "yaml": "yaml",
    "zip": "zip",
}


class Magika(nn.Module):
    """Bytes, four to a position, a convolution of width five, its maximum; (rows, 2048) numbers to 256 -> (rows, 214)."""

    @nn.compact
    def __call__(self, x: jax.Array) -> jax.Array:
        y = nn.gelu(nn.Dense(64)(jax.nn.one_hot(x, PADDING + 1)))
        y = nn.LayerNorm(reduction_axes=1, feature_axes=1)(y.reshape(len(x), 512, 256))
        y = nn.gelu(nn.Conv(512, (5,), padding="VALID")(y)).max(axis=1)
        return nn.Dense(214)(nn.LayerNorm()(y))


def folder() -> Path:
    """Where the package keeps its model."""
    found = importlib.util.find_spec("magika")
    if found is None or found.origin is None:
        raise ModuleNotFoundError("the network of files comes with its package: pip install --no-deps magika==1.0.3")
    return Path(found.origin).parent / "models" / "standard_v3_3"


def weights() -> dict[str, Any]:
    """The package's weights, as variables of `Magika`."""
    import onnx
    from onnx import numpy_helper

    arrays = {one.name: numpy_helper.to_array(one) for one in onnx.load(folder() / "model.onnx").graph.initializer}
    the = lambda end: next(array for name, array in arrays.items() if name.endswith(end))  # noqa: E731
    dense, last = the("get_logits_/Const:0"), the("Const_24:0")
    norms = [
        {"scale": the(f"LayerNorm_{i}/Reshape_2:0").ravel(), "bias": the(f"LayerNorm_{i}/Reshape_3:0").ravel()} for i in (0, 1)
    ]
    conv = {"kernel": the("Conv_0/transpose_3:0")[..., 0].transpose(2, 1, 0), "bias": the("const_fold_opt__209").ravel()}
    return {
        "params": {
            "Dense_0": {"kernel": dense, "bias": the("Dense_0/Reshape:0").ravel()},
            "LayerNorm_0": norms[0],
            "Conv_0": conv,
            "LayerNorm_1": norms[1],
            "Dense_1": {"kernel": last, "bias": the("Dense_1/Reshape:0").ravel()},
        }
    }


def agrees(variables: dict[str, Any], x: np.ndarray) -> float:
    """The largest difference of probabilities between the module and the package's own file, run by onnxruntime."""
    import onnxruntime

    (theirs,) = onnxruntime.InferenceSession(folder() / "model.onnx").run(None, {"bytes": x.astype(np.int32)})
    return float(np.abs(jax.nn.softmax(Magika().apply(variables, jnp.asarray(x))) - theirs).max())


def features(content: bytes) -> np.ndarray:
    """The first and the last `SIDE` bytes of a file, without white space around it; the gap between is `PADDING`."""
    first, last = content[:BLOCK].lstrip()[:SIDE], content[-BLOCK:].rstrip()[-SIDE:]
    row = np.full(2 * SIDE, PADDING, np.int32)
    row[: len(first)] = list(first)
    row[2 * SIDE - len(last) :] = list(last)
    return row


def files() -> Iterator[tuple[Path, str]]:
    """Files of the environment and their kinds, in the order of their names."""
    for path, folders, names in os.walk(sys.prefix):
        folders.sort()
        for name in sorted(names):
            kind = KINDS.get(name.rpartition(".")[2])
            if kind and (Path(path) / name).stat().st_size >= 64:
                yield Path(path) / name, kind


def load() -> tuple[bp.Dataset, bp.Dataset]:
    """Rows to look at, and rows that judge: halves of each kind by chance, of kinds of which there are `LEAST` files."""
    labels = json.loads((folder() / "config.min.json").read_text(encoding="utf-8"))["target_labels_space"]
    by_kind: dict[str, list[Path]] = {}
    for path, kind in files():
        by_kind.setdefault(kind, []).append(path)
    rng, halves = np.random.default_rng(0), ([], [])
    for kind, paths in sorted(by_kind.items()):
        if len(paths) < LEAST:
            continue
        chosen = [paths[i] for i in rng.permutation(len(paths))[:MOST]]
        for number, path in enumerate(chosen):
            halves[number % 2].append((features(path.read_bytes()), labels.index(kind)))
    first, second = (bp.Dataset(np.stack([x for x, _ in half]), np.array([y for _, y in half], np.int32)) for half in halves)
    return first, second
