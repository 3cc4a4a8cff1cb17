"""Arrays of a compact network as streams: values where they are not zero, and the places of those, whichever way is smaller.

At the posterior's own precision a scale is kept in steps of 1/8 of its logarithm and a loc in steps of half its scale: what is
lost is a small part of what the posterior does not know itself.
"""

import zlib
from typing import Any

import jax.numpy as jnp
import numpy as np

VALUES = ("float32", "bfloat16", "posterior")
Streams = dict[str, np.ndarray]


class Coder:
    """Gathers streams, and the plan by which `reader.decode` reads them."""

    def __init__(self) -> None:
        self.streams: Streams = {}
        self.arrays: dict[str, Any] = {}
        self.places: dict[str, Any] = {}
        self.marked: dict[str, np.ndarray] = {"": np.zeros(0, bool)}

    def mark(self, name: str, alive: np.ndarray) -> str:
        """Keep the places of an array's values, unless every place has one. Returns their name, or ""."""
        flat = np.asarray(alive, bool).reshape(-1)
        if flat.all():
            return ""
        index = np.flatnonzero(flat)
        ways = {"bits": np.packbits(flat).tobytes(), "gaps": np.diff(index, prepend=-1).astype("<u4").tobytes()}
        packed = {way: _packed(content) for way, content in ways.items()}
        coding = min(packed, key=lambda way: len(packed[way]))
        self.streams[name], self.marked[name] = packed[coding], flat
        self.places[name] = {"coding": coding, "count": len(index)}
        return name

    def plain(self, name: str, array: np.ndarray, values: str, places: str = "") -> None:
        """An array by its numbers; ``values``: "float32", or "bfloat16" for half of the bytes."""
        flat, coding = self._placed(array, places), "plain"
        if values == "bfloat16" and flat.dtype == np.float32:
            flat, coding = np.asarray(jnp.asarray(flat, jnp.bfloat16)).view(np.uint16), "bfloat16"
        self._add(name, array, flat, coding, places)

    def logarithms(self, name: str, array: np.ndarray, places: str) -> np.ndarray:
        """An array above zero, in steps of 1/8 of its logarithm. Returns it as it will be read."""
        whole = _shortest(8 * np.log(self._placed(array, places).astype(np.float64)))
        self._add(name, array, _packed(whole.tobytes()), {"of": "log", "type": whole.dtype.str}, places)
        return np.exp(whole / np.float32(8)).astype(np.float32)

    def steps(self, name: str, array: np.ndarray, step: np.ndarray, of: str, places: str) -> np.ndarray:
        """An array in steps of half of ``step``, the values of the array called ``of``. Returns it as it will be read."""
        whole = _shortest(2 * self._placed(array, places).astype(np.float64) / step)
        self._add(name, array, _packed(whole.tobytes()), {"of": "scale", "type": whole.dtype.str}, places, of)
        return (whole * step / 2).astype(np.float32)

    def _placed(self, array: np.ndarray, places: str) -> np.ndarray:
        flat = np.asarray(array).reshape(-1)
        return flat[self.marked[places]] if places else flat

    def _add(
        self, name: str, array: np.ndarray, stream: np.ndarray, coding: str | dict[str, Any], places: str, step: str = ""
    ) -> None:
        self.arrays[name] = {"shape": list(np.shape(array)), "places": places, "values": coding, "step": step}
        self.streams[f"{name}.values"] = stream


def _packed(content: bytes) -> np.ndarray:
    return np.frombuffer(zlib.compress(content, 9), np.uint8)


def _shortest(numbers: np.ndarray) -> np.ndarray:
    """The nearest whole numbers, of the smallest kind of integer that holds them."""
    numbers = np.round(numbers)
    largest = float(np.abs(numbers).max(initial=0))
    for kind in (np.int8, np.int16, np.int32):
        if largest <= np.iinfo(kind).max:
            return numbers.astype(kind)
    raise ValueError(f"a loc is {largest / 2:.3g} times its scale: keep the values as values='float32'.")


def divergence(loc: np.ndarray, scale: np.ndarray, kept_loc: np.ndarray, kept_scale: np.ndarray) -> float:
    """KL of the Gaussians that are kept from the true ones, summed, in nats.

    >>> round(divergence(np.zeros(1), np.ones(1), np.full(1, 0.25), np.ones(1)), 5)
    0.03125
    """
    mean, std, new, width = (np.asarray(array, np.float64) for array in (loc, scale, kept_loc, kept_scale))
    return float(np.sum(np.log(std / width) + (width**2 + (new - mean) ** 2) / (2 * std**2) - 0.5))
