"""Networks kept on the way of a sampler, in memory and, where the fit has a checkpoint folder, on disk without dead weights."""

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from bayesprune.core.files import make_folder, reading, write_atomically
from bayesprune.core.formats import pack_tensors, read_tensors
from bayesprune.core.send import send
from bayesprune.posteriors.params import stems
from bayesprune.report.saved_fit import pack, unpack
from bayesprune.train.processes import ALONE, Alone, Together
from bayesprune.train.result import Moment

_WHAT, _REMEDY = "sample", "Delete the folder of this fit, and sample again."
_ALIVE = "{}$alive"


def steps_of(ends: tuple[int, ...], each: int, every: int) -> tuple[int, ...]:
    """The steps after which a network is kept: the last ``each`` before each end, ``every`` steps apart.

    >>> steps_of((10, 20), 2, 3)
    (7, 10, 17, 20)
    """
    return tuple(end - every * back for end in ends for back in reversed(range(each)))


@dataclass
class Snapshots:
    """A callback that keeps the networks of ``steps``; ``folder``: where on disk, None in memory alone."""

    steps: tuple[int, ...]
    folder: Path | None
    processes: Alone | Together = ALONE
    kept: dict[int, tuple[dict[str, Any], dict[str, Any]]] = field(default_factory=dict)

    def __call__(self, moment: Moment) -> None:
        if moment.step not in self.steps:
            return
        params, mask = jax.tree.map(np.asarray, (moment.params(), moment.mask()))
        self.kept[moment.step] = params, mask
        if self.folder is not None:
            path = make_folder(self.folder) / _name(moment.step)
            self.processes.once(lambda: write_atomically(path, encode(params, mask)))

    def all(self, until: int) -> list[tuple[dict[str, Any], dict[str, Any]]]:
        """Parameters and masks by step, up to step ``until``; what an earlier part of the fit has kept is read.

        `OSError` where that is gone, `ValueError` where nothing was kept by then.
        """
        steps = [step for step in self.steps if step <= until]
        if not steps:
            raise ValueError(
                f"the sampling was ended at step {until}, before the first network is kept, at step {self.steps[0]}: "
                "let it go on until then."
            )
        return [self.kept[step] if step in self.kept else self._read(step) for step in steps]

    def _read(self, step: int) -> tuple[dict[str, Any], dict[str, Any]]:
        path = Path(self.folder or ".") / _name(step)
        with reading(path, _WHAT, _REMEDY):
            return decode(*read_tensors(path, _WHAT, _REMEDY))


def _name(step: int) -> str:
    return f"sample_{step:010d}.safetensors"


def encode(params: dict[str, Any], mask: dict[str, Any]) -> bytes:
    """One network: of an array with dead weights, the values of the alive ones and a bit for each weight."""
    thin = dict(params)
    for name, site in stems(params, mask).items():
        thin[name] = np.asarray(params[name])[np.asarray(mask[site])]
    plan, tensors = pack(thin, "param/{}", {})
    bits = {_ALIVE.format(site): np.packbits(np.asarray(alive).reshape(-1)) for site, alive in mask.items()}
    header = {"plan": json.dumps(plan), "shapes": json.dumps({site: np.shape(alive) for site, alive in mask.items()})}
    return pack_tensors(tensors | bits, header)


def decode(tensors: dict[str, np.ndarray], header: dict[str, str]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Parameters and mask of what `encode` gave, the dead weights at zero."""
    mask = {}
    for site, shape in json.loads(header["shapes"]).items():
        size = int(np.prod(shape))
        mask[site] = np.unpackbits(tensors[_ALIVE.format(site)], count=size).astype(bool).reshape(shape)
    params = jax.tree.map(np.asarray, unpack(json.loads(header["plan"]), tensors))
    for name, site in stems(params, mask).items():
        whole = np.zeros(mask[site].shape, params[name].dtype)
        whole[mask[site]] = params[name]
        params[name] = whole
    return params, mask


def stacked(networks: list[dict[str, Any]]) -> dict[str, Any]:
    """Trees of one structure as one, along a new first axis."""
    return jax.tree.map(lambda *leaves: jnp.stack([send(leaf) for leaf in leaves]), *networks)
