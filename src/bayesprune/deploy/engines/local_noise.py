"""Noise on a layer's sums in place of its weights: the local reparameterisation."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from bayesprune.deploy.engines.draws_table import normals, standard
from bayesprune.deploy.program.ops import OpProgram
from bayesprune.deploy.program.weights import GaussianLaw, Law
from bayesprune.deploy.sparse.fusing import Segment, StoredPlace
from bayesprune.deploy.sparse.kernels import Kernel, activate, chain, csr
from bayesprune.deploy.sparse.segments import Step


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


class LawAt(NamedTuple):
    """Of a segment's weights or bias: loc, scale, and the name of the scale that they share; known ones have no scale."""

    loc: Any
    scale: np.ndarray | None
    shared: str


def law_at(numbers: StoredPlace | np.ndarray | None, law: GaussianLaw, sites: Mapping[int, str]) -> LawAt:
    """What the law says of them. ``sites``: by the number of their array."""
    if not isinstance(numbers, StoredPlace):
        return LawAt(numbers, None, "")
    site = sites[numbers.number]
    return LawAt(numbers.of(law.loc[site]), numbers.of(law.scale[site]), law.shared.get(site, ""))


def noisy(
    segment: Segment, law: GaussianLaw, sites: Mapping[int, str], kernel: str
) -> Callable[[Noise, np.ndarray], np.ndarray]:
    """act(s M_loc x + sqrt(s² M_scale² x²) z) with one z for each row and output; the bias joins in both parts.

    Takes x of shape (1, rows, ...), or of each sample, and gives (samples, rows, outputs).
    """
    make = lambda part: chain([part], [part.weights]) if kernel == "numba" else csr(part, part.weights)  # noqa: E731
    bare = replace(segment, act="none", shift=None, bias=None)
    weights, bias = (law_at(numbers, law, sites) for numbers in (segment.weights, segment.bias))
    squared = None if segment.scale is None else segment.scale**2
    mean = make(replace(bare, weights=weights.loc))
    spread = None if weights.scale is None else make(replace(bare, weights=weights.scale**2, scale=squared))

    def call(noise: Noise, a: np.ndarray) -> np.ndarray:
        factor, other = (noise.factors.get(of.shared, np.ones((1, 1, 1), np.float32)) for of in (weights, bias))
        made = factor * _of(mean, a)
        variance = np.zeros((), np.float32) if spread is None else factor**2 * _of(spread, a * a)
        if segment.shift is not None:
            made = made + segment.shift
        if bias.scale is not None:
            made, variance = made + other * bias.loc, variance + (other * bias.scale) ** 2
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
