"""Moments through a layer: of sums of random weights times random inputs, and of activations of Gaussians."""

from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from scipy.sparse import csr_matrix
from scipy.special import expit, ndtr

from bayesprune.deploy.program.ops import OpProgram
from bayesprune.deploy.program.weights import GaussianLaw
from bayesprune.deploy.sparse.fusing import Segment, StoredPlace
from bayesprune.formulas.quadrature import nodes

FUNCTIONS = {"tanh": np.tanh, "logistic": expit, "silu": lambda a: a * expit(a)}


class LayerMoments(NamedTuple):
    """Of numbers that are taken as independent: (rows, ...) both."""

    mean: np.ndarray
    variance: np.ndarray


@dataclass(frozen=True, eq=False)
class MomentLayer:
    """One segment: ``mean`` and ``variance``, matrices of the weights' mu and sigma²; the same of the bias; the shared scales'
    first two moments."""

    segment: Segment
    mean: csr_matrix
    variance: csr_matrix | None
    scale: tuple[float, float]
    bias: LayerMoments | None
    bias_scale: tuple[float, float]
    together: bool

    @classmethod
    def of(cls, segment: Segment, law: GaussianLaw, program: OpProgram) -> "MomentLayer":
        sites = {number: site for site, number in program.weights.items()}
        pattern, shared, bias_shared, variance, bias = segment.matrix, "", "", None, None

        def matrix(values: np.ndarray, power: int) -> csr_matrix:
            scale = None if segment.scale is None else segment.scale**power
            entries = replace(segment, scale=scale).values(values).astype(float)
            # Of its own: SciPy sums the entries of one place, as of an input that is repeated, in the arrays that it is given.
            return csr_matrix((entries, pattern.columns.copy(), pattern.ptr.copy()), (pattern.height, pattern.width))

        if isinstance(segment.weights, StoredPlace):
            site = sites[segment.weights.number]
            loc, spread = (segment.weights.of(arrays[site]) for arrays in (law.loc, law.scale))
            mean, variance, shared = matrix(loc, 1), matrix(spread**2, 2), law.shared.get(site, "")
        else:
            mean = matrix(segment.weights, 1)
        if segment.bias is not None:
            site = sites[segment.bias.number]
            bias = LayerMoments(*(segment.bias.of(arrays[site]) for arrays in (law.loc, law.scale)))
            bias, bias_shared = bias._replace(variance=bias.variance**2), law.shared.get(site, "")
        together = bias is not None and variance is not None and shared == bias_shared != ""
        return cls(segment, mean, variance, _moments(law, shared), bias, _moments(law, bias_shared), together)

    def __call__(self, given: LayerMoments) -> LayerMoments:
        lead = given.mean.shape[: self.segment.lead]
        m, v = (part.reshape(-1, self.mean.shape[1]).T for part in given)
        a, b = self.mean @ m, self.mean.power(2) @ v
        if self.variance is not None:
            b = b + self.variance @ (m * m + v)
        if self.together and self.bias is not None:
            a, b = a + self.bias.mean[:, None], b + self.bias.variance[:, None]
        mean, variance = _scaled(a, b, self.scale)
        if self.bias is not None and not self.together:
            added = _scaled(self.bias.mean, self.bias.variance, self.bias_scale)
            mean, variance = mean + added.mean[:, None], variance + added.variance[:, None]
        if self.segment.shift is not None:
            mean = mean + self.segment.shift[:, None]
        made = activated(LayerMoments(mean, variance), self.segment.act)
        return LayerMoments(*(part.T.reshape(*lead, *self.segment.shape) for part in made))


def activated(given: LayerMoments, act: str) -> LayerMoments:
    """Moments of f(a) for a Gaussian a.

    >>> made = activated(LayerMoments(np.zeros(1), np.ones(1)), "relu")
    >>> round(float(made.mean[0]), 6), round(float(made.variance[0]), 6)  # 1 / sqrt(2 pi), 1/2 - 1 / (2 pi)
    (0.398942, 0.340845)
    """
    mean, deviation = given.mean, np.sqrt(given.variance)
    if act == "none":
        return given
    if act == "relu":
        ratio = np.divide(mean, deviation, out=np.where(mean > 0, 40.0, -40.0), where=deviation > 0)
        density, below = np.exp(-0.5 * ratio**2) / np.sqrt(2 * np.pi), ndtr(ratio)
        first = mean * below + deviation * density
        second = (mean**2 + given.variance) * below + mean * deviation * density
        return LayerMoments(first, np.maximum(second - first**2, 0.0))
    first, second = np.zeros_like(mean), np.zeros_like(mean)
    for node, weight in zip(*nodes(), strict=True):
        value = FUNCTIONS[act](mean + deviation * node)
        first += weight * value
        second += weight * value**2
    return LayerMoments(first, np.maximum(second - first**2, 0.0))


def _scaled(a: np.ndarray, b: np.ndarray, scale: tuple[float, float]) -> LayerMoments:
    first, second = scale
    return LayerMoments(first * a, second * b + (second - first**2) * a**2)


def _moments(law: GaussianLaw, name: str) -> tuple[float, float]:
    """E[s] and E[s²] of a shared scale; 1 and 1 of none."""
    mean, std = law.log.get(name, (0.0, 0.0))
    return float(np.exp(mean + 0.5 * std**2)), float(np.exp(2 * mean + 2 * std**2))
