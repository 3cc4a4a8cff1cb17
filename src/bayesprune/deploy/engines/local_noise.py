"""Noise on a layer's sums in place of its weights: the local reparameterisation."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from bayesprune.deploy.engines.draws_table import normals, standard
from bayesprune.deploy.program.ops import OpProgram
from bayesprune.deploy.program.weights import GaussianLaw, Law
from bayesprune.deploy.sparse.fusing import Segment, StoredPlace
from bayesprune.deploy.sparse.kernels import Kernel, activate, chain, csr
from bayesprune.deploy.sparse.steps import Step


@dataclass(frozen=True, eq=False)
class Noise:
    """What is drawn for ``size`` samples: ``factors``, of each shared scale (size, 1, 1); the rest as it is needed."""

    size: int
    rng: np.random.Generator
    compiled: bool
    factors: Mapping[str, np.ndarray]

    def normals(self, shape: tuple[int, ...]) -> np.ndarray:
        """Standard normal numbers."""
        return standard(normals(self.rng, self.compiled), shape)


def check_local(law: Law, program: OpProgram, steps: Sequence[Step], random: Mapping[int, StoredPlace]) -> None:
    """Refuse networks whose sums over weights are not independent Gaussians, given a row's inputs and the shared scales."""
    if not isinstance(law, GaussianLaw):
        raise ValueError(f"noise='local' needs independent Gaussian weights, got {law.kind}: use noise='weights'.")
    used: Counter[int] = Counter()
    fine = True
    for step in steps:
        segment = step.segment
        if segment is None:
            fine &= not set(step.inputs) & set(random)
            continue
        places = [p for p in (segment.weights, segment.bias) if isinstance(p, StoredPlace)]
        used.update(place.number for place in places)
        row_by_row = program.sizes[segment.op.inputs[0]][:-1] == (-1,)
        fine &= not places or (segment.op.name == "dot" and row_by_row and all(map(_once, places)))
    if not fine or any(count > 1 for count in used.values()):
        raise ValueError(
            "noise='local' needs every random weight to enter one sum of a row, once, as in dense layers on rows of features; "
            "here some are shared, as by a convolution or between tokens, or enter otherwise: use noise='weights'."
        )


def _once(place: StoredPlace) -> bool:
    where = place.where[place.where >= 0]
    return bool(len(np.unique(where)) == where.size)


def noisy(
    segment: Segment, law: GaussianLaw, sites: Mapping[int, str], kernel: str
) -> Callable[[Noise, np.ndarray], np.ndarray]:
    """act(s M_loc x + sqrt(s² M_scale² x²) z) with one z for each row and output; the bias joins in both parts.

    Takes x of shape (1, rows, ...), or of each sample, and gives (samples, rows, outputs).
    """
    make = lambda part: chain([part], [part.weights]) if kernel == "numba" else csr(part, part.weights)  # noqa: E731
    bare = replace(segment, act="none", shift=None, bias=None)
    if not isinstance(segment.weights, StoredPlace):
        mean, spread, shared = make(bare), None, ""
    else:
        site = sites[segment.weights.number]
        loc, scale = (segment.weights.of(arrays[site]) for arrays in (law.loc, law.scale))
        squared = None if segment.scale is None else segment.scale**2
        mean, spread = make(replace(bare, weights=loc)), make(replace(bare, weights=scale**2, scale=squared))
        shared = law.shared.get(site, "")
    begin, add, add_spread, add_shared = segment.shift, None, None, ""
    if segment.bias is not None:
        site = sites[segment.bias.number]
        add, add_spread = (segment.bias.of(arrays[site]) for arrays in (law.loc, law.scale))
        add_shared = law.shared.get(site, "")

    def call(noise: Noise, a: np.ndarray) -> np.ndarray:
        one = np.ones((1, 1, 1), np.float32)
        factor, other = noise.factors.get(shared, one), noise.factors.get(add_shared, one)
        made = factor * _of(mean, a)
        variance = np.zeros((), np.float32) if spread is None else factor**2 * _of(spread, a * a)
        if begin is not None:
            made = made + begin
        if add is not None and add_spread is not None:
            made, variance = made + other * add, variance + (other * add_spread) ** 2
        if variance.ndim:
            made = made + np.sqrt(variance) * noise.normals((noise.size, *made.shape[1:]))
        return activate(
            np.broadcast_to(made, (noise.size, *made.shape[1:])).copy() if len(made) == 1 else made, segment.act, -1
        )

    return call


def _of(kernel: Kernel, a: np.ndarray) -> np.ndarray:
    flat = a.reshape(-1, *a.shape[2:])
    made = kernel(flat)
    return made.reshape(len(a), -1, *made.shape[1:])
