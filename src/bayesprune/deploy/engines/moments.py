"""Means and variances of a network's outputs without drawing networks: moments, layer after layer."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np
from scipy.sparse import csr_matrix
from scipy.special import expit, ndtr

from bayesprune.core.checks import check_integer
from bayesprune.deploy import reader
from bayesprune.deploy.engines.draws_engine import DrawsEngine, prepare
from bayesprune.deploy.engines.draws_kernels import law_at
from bayesprune.deploy.engines.draws_table import Source, generator
from bayesprune.deploy.program.linear import MOVES
from bayesprune.deploy.program.ops import Op, OpProgram
from bayesprune.deploy.program.packing import checked
from bayesprune.deploy.program.weights import GaussianLaw, Weighted
from bayesprune.deploy.sparse.fusing import Segment, StoredPlace
from bayesprune.deploy.sparse.segments import check_data
from bayesprune.formulas.quadrature import nodes

ROWS = 1024
FUNCTIONS = {"tanh": np.tanh, "logistic": expit, "silu": lambda a: a * expit(a)}


class LayerMoments(NamedTuple):
    """Of numbers that are taken as independent: (rows, ...) both."""

    mean: np.ndarray
    variance: np.ndarray


class MomentLayer:
    """One segment: ``mean`` and ``variance``, matrices of the weights' mu and sigma²; the same of the bias; the shared scales'
    first two moments."""

    def __init__(self, segment: Segment, law: GaussianLaw, sites: Mapping[int, str]) -> None:
        self.segment, pattern = segment, segment.matrix

        def matrix(values: np.ndarray, power: int) -> csr_matrix:
            scale = None if segment.scale is None else segment.scale**power
            entries = replace(segment, scale=scale).values(values).astype(float)
            # Of its own: SciPy sums the entries of one place, as of an input that is repeated, in the arrays that it is given.
            return csr_matrix((entries, pattern.columns.copy(), pattern.ptr.copy()), (pattern.height, pattern.width))

        weights, bias = (law_at(place, law, sites) for place in (segment.weights, segment.bias))
        self.mean, self.variance = matrix(weights.loc, 1), None if weights.scale is None else matrix(weights.scale**2, 2)
        self.bias = None if bias.scale is None else LayerMoments(bias.loc, bias.scale**2)
        self.scale, self.bias_scale = _moments(law, weights.shared), _moments(law, bias.shared)
        self.together = self.bias is not None and self.variance is not None and weights.shared == bias.shared != ""

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


class MomentEngine:
    """Mean and variance of a network's outputs over the posterior, in one pass in place of a hundred networks.

    A sum of independent weights w = s (mu + sigma z) times inputs of mean m and variance v has, given the shared scale s, mean
    s A and variance s² B, A = sum mu m, B = sum sigma² (m² + v) + mu² v; so without it

      mean = E[s] A,   variance = E[s²] B + Var(s) A².

    An activation maps the moments of a Gaussian of that mean and variance to its own: in closed form for a rectifier, by
    quadrature with 32 nodes for tanh, logistic and silu. Exact for dense layers without a hidden one. With one, sums are taken
    as Gaussian, and those of a layer as independent of one another, which they are not, nor are a convolution's at several
    places and a layer's at several tokens, which share weights: `error` measures what that costs.

    Args:
        compact: a `Compact` of ``keep="posterior"`` with Gaussian weights: dense layers, convolutions, sums over windows,
            activations among `fusing.ACTIVATIONS`, and moves.

    Raises:
        ValueError: other weights; weights that several layers share, or that enter one sum several times; operations that
            moments do not go through, named.

    Example:
        >>> import jax, bayesprune as bp
        >>> train, test = bp.data.load("digits")
        >>> bnn = bp.BNN(bp.nets.MLP((32,), 10), prior=bp.priors.Gaussian(), likelihood=bp.likelihoods.Categorical(),
        ...              input_shape=(8, 8, 1))
        >>> fit = bp.fit_svi(jax.random.key(0), bnn, train, num_steps=1, batch_size=64)
        >>> engine = MomentEngine(bp.compact(bnn, fit.params))
        >>> engine.outputs(test.x).variance.shape, engine.predict(jax.random.key(1), test.x).shape
        ((359, 10), (359, 10))

    Source: Wu et al. (2019), Deterministic variational inference for robust Bayesian neural networks; diagonal covariances.
    """

    def __init__(self, compact: Weighted) -> None:
        if not isinstance(compact.law, GaussianLaw):
            raise ValueError(f"moments need independent Gaussian weights, got a law of {compact.law.kind!r}: draw networks.")
        self.compact, self.law = compact, compact.law
        check_data(compact.head)
        ready = prepare(compact, compact.program)
        self.program, self.random, self.known = ready.program, ready.random, ready.known
        segments = [segment for segment in ready.segments() if segment.pattern is not None]
        sites = {number: site for site, number in self.program.weights.items()}
        chosen = {segment.index: MomentLayer(segment, self.law, sites) for segment in segments}
        taken = {index for segment in segments for index in segment.taken}
        self.steps: list[Op | MomentLayer] = [
            chosen.get(index, op)
            for index, op in enumerate(self.program.ops)
            if index in chosen or not (index in taken or op.outputs[0] in self.known or op.outputs[0] in self.random)
        ]
        self._check()

    def outputs(self, x: np.ndarray) -> LayerMoments:
        """Of the network's outputs, before the likelihood's mean: (rows, *outputs) both."""
        x = checked(self.compact.inputs, x, getattr(self.compact, "bounds", ()))
        parts = [self._block(x[i : i + ROWS]) for i in range(0, len(x), ROWS)]
        return LayerMoments(*(np.concatenate(of) for of in zip(*parts, strict=True)))

    def predict(self, rng_key: Source, x: Any, num_samples: int = 100) -> np.ndarray:
        """E[y | x], over ``num_samples`` draws of the outputs; where y's mean is the outputs themselves, without any."""
        check_integer(num_samples, "num_samples")
        rng = generator(rng_key)
        moments, head = self.outputs(x), self.compact.head
        through = lambda outputs: reader.run(head.ops, {**head.constants, head.rows: outputs}, len(outputs))[head.output]  # noqa: E731
        if all(op.name in MOVES for op in head.ops):
            return np.asarray(through(moments.mean))
        total, deviation = 0.0, np.sqrt(moments.variance)
        for _ in range(num_samples):
            drawn = moments.mean + deviation * rng.standard_normal(moments.mean.shape, np.float32)
            total = total + through(drawn)
        return np.asarray(total / num_samples, np.float32)

    def error(self, rng_key: Source, x: Any, num_samples: int = 1000) -> dict[str, float]:
        """How far moments are from those of ``num_samples`` drawn networks, root mean squares over rows and outputs.

        "mean": of differences of means in standard deviations of the draws, of which 1 / sqrt(num_samples) is the draws' own;
        "std": of relative differences of standard deviations, of which about 1 / sqrt(2 num_samples) is. Outputs that are the
        same in all networks are left out.
        """
        rng = generator(rng_key)
        moments, program = self.outputs(x), self.compact.program
        head = OpProgram((), {program.output: program.sizes[program.output]}, {}, {}, program.output, program.output)
        inputs, output_shape = self.compact.inputs, self.compact.output_shape
        bare: Any = SimpleNamespace(program=program, head=head, law=self.law, inputs=inputs, output_shape=output_shape)
        draws = DrawsEngine(bare).predict_draws(rng, x, num_samples).reshape(num_samples, *moments.mean.shape)
        spread, varies = np.maximum(draws.std(0), 1e-12), (moments.variance > 0) | (np.ptp(draws, axis=0) > 0)
        away = (moments.mean - draws.mean(0)) / spread, np.sqrt(moments.variance) / spread - 1
        squares = (np.square(each[varies]).sum() / max(1, varies.sum()) for each in away)
        return {name: float(np.sqrt(square)) for name, square in zip(("mean", "std"), squares, strict=True)}

    # ---- inside
    def _check(self) -> None:
        """Refuse what moments do not go through."""
        bad = [op.name for op in self.steps if isinstance(op, Op) and not self._moves(op)]
        segments = [step.segment for step in self.steps if isinstance(step, MomentLayer)]
        bad += [segment.act for segment in segments if segment.act == "softmax"]
        if bad:
            raise ValueError(
                f"moments do not go through {', '.join(dict.fromkeys(bad))}, only through dense layers, convolutions, sums "
                "over windows and activations: draw networks."
            )

        places = [place for segment in segments for place in (segment.weights, segment.bias)]
        used = Counter(place.number for place in places if isinstance(place, StoredPlace))
        if any(count > 1 for count in used.values()):
            raise ValueError(
                "moments take the sums of one layer as independent of the weights of another, and here two layers have the "
                "same weights: draw networks."
            )
        if any(map(_repeats, segments)):
            raise ValueError(
                "moments take the weights of one sum as independent of one another, and here a weight enters one sum several "
                "times, as by jnp.repeat: draw networks."
            )

    def _moves(self, op: Op) -> bool:
        return op.name in MOVES and op.inputs[0] not in self.random and all(i in self.known for i in op.inputs[1:])

    def _moved(self, op: Op, given: LayerMoments, rows: int) -> LayerMoments:
        """What a pad writes is a mean: it has no variance."""
        filler = [self.known[i] for i in op.inputs[1:]]
        fillers = filler, [np.zeros_like(each) for each in filler]
        pairs = zip(given, fillers, strict=True)
        return LayerMoments(*(np.asarray(reader.step(op.name, op.attributes, rows, a, *rest)) for a, rest in pairs))

    def _block(self, x: np.ndarray) -> LayerMoments:
        values = {number: LayerMoments(value, np.zeros(value.shape)) for number, value in self.known.items()}
        values[self.program.rows] = LayerMoments(x.astype(np.float64), np.zeros(x.shape))
        for step in self.steps:
            if isinstance(step, Op):
                values[step.outputs[0]] = self._moved(step, values[step.inputs[0]], len(x))
            else:
                values[step.segment.output] = step(values[step.segment.source])
        made = values[self.program.output]
        return LayerMoments(*(np.asarray(part, np.float32) for part in made))


def _repeats(segment: Segment) -> bool:
    """Whether one sum has a random weight at two places."""
    pattern, weights = segment.matrix, segment.weights
    if not isinstance(weights, StoredPlace):
        return False
    pairs = pattern.rows * weights.where.size + weights.where.reshape(-1)[pattern.places]
    return len(np.unique(pairs)) < len(pairs)
