"""Layers of networks of tokens, written again in NumPy: the oracle of the modules."""

import jax
import numpy as np
from flax.traverse_util import flatten_dict

Params = dict[str, np.ndarray]


def drawn(net, shape: tuple[int, ...]) -> tuple[dict, Params]:
    """Parameters of a net at random, none of them 0 or 1: as the net takes them, and by dotted path."""
    rng = np.random.default_rng(1)
    abstract = jax.eval_shape(net.init, jax.random.key(0), jax.ShapeDtypeStruct((1, *shape), np.float32))
    params = jax.tree.map(lambda leaf: rng.normal(scale=0.7, size=leaf.shape).astype(np.float32), abstract)["params"]
    return {"params": params}, {".".join(path): value.astype(np.float64) for path, value in flatten_dict(params).items()}


def count(net, shape: tuple[int, ...]) -> int:
    variables = jax.eval_shape(net.init, jax.random.key(0), jax.ShapeDtypeStruct((1, *shape), np.float32))
    return sum(leaf.size for leaf in jax.tree.leaves(variables))


def dense(p: Params, name: str, x: np.ndarray) -> np.ndarray:
    return x @ p[f"{name}.kernel"] + p[f"{name}.bias"]


def norm(p: Params, name: str, x: np.ndarray) -> np.ndarray:
    centred = x - x.mean(-1, keepdims=True)
    normal = centred / np.sqrt((centred**2).mean(-1, keepdims=True) + 1e-6)
    return normal * p[f"{name}.scale"] + p[f"{name}.bias"]


def feed_forward(p: Params, name: str, x: np.ndarray) -> np.ndarray:
    h = dense(p, f"{name}.Dense_0", x)
    return dense(p, f"{name}.Dense_1", h / 2 * (1 + np.tanh(np.sqrt(2 / np.pi) * (h + 0.044715 * h**3))))


def cut(images: jax.Array, size: int) -> np.ndarray:
    """Patches, one vector each, row by row."""
    images = np.asarray(images, np.float64)
    rows, height, width, _ = images.shape
    squares = [
        images[:, top : top + size, left : left + size].reshape(rows, -1)
        for top in range(0, height, size)
        for left in range(0, width, size)
    ]
    return np.stack(squares, axis=1)
