"""Dropout whose rate each layer learns: concrete dropout."""

import math
from dataclasses import dataclass
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpyro
import numpyro.distributions as dist
from jax.typing import ArrayLike
from numpyro.distributions import constraints
from numpyro.distributions.kl import kl_divergence

from bayesprune.core.checks import check_not_negative, check_number, check_positive, check_within
from bayesprune.formulas import concrete
from bayesprune.model import select
from bayesprune.model.families import Family
from bayesprune.model.layout import Layout, ParamSpec, Predicate, of_inputs, with_posterior
from bayesprune.model.prior import Improper, Moments, noisy_weights
from bayesprune.posteriors.mean_field import MeanField, Scaled
from bayesprune.posteriors.points import NoisyPoints, check_noisy_points

REFERENCE = "gal2017concrete"


@dataclass(frozen=True)
class ConcreteDropout:
    """Weights are points, and each layer drops its inputs with a probability that it learns.

      w_ij = z_i w_hat_ij/(1 - p),  z_i = 1 - sigma((log p/(1 - p) + log u/(1 - u))/t),  u uniform
      loss = -log p(D | w) + sum over layers of  l²/2 |w_hat|²/(1 - p) - K H(p),  K inputs of the layer          (14.2)

    Args:
        length_scale: l, which holds the weights to zero.
        temperature: of the gates, which are 0 or 1 as it goes to 0.
        start: p of every layer at first.

    A reference for uncertainty beside `mc_dropout`, which needs a rate; not for sparsity. Every kernel has gates, one for each
    input of a dense layer and each input channel of a convolution; biases have none. One gate is drawn for all rows of a step,
    and of a network that predicts. The term is no divergence to a prior that could be drawn from (Hron et al. 2018): losses
    compare with one another and with no others, there is no evidence (`bmr_prune` refuses), and nothing can be drawn from it.
    ``estimator="local"`` has nothing to do; ``posterior="map"`` and other families than `NoisyPoints` are refused.
    `bayesprune.predict` averages over gates; ``rates`` reads p.

    Sites: one per weight array (w_hat), and ``"<kernel>.gate"``, z/(1 - p). By default hidden kernels may be pruned, by
    magnitude say, and nothing else.

    Raises:
        ValueError: a length scale that is negative or not finite, a temperature that is not positive, a start outside (0, 1).

    Example:
        >>> import jax, bayesprune as bp
        >>> train, _ = bp.data.load("digits")
        >>> bnn = bp.BNN(bp.nets.MLP((16,), 10), prior=ConcreteDropout(), likelihood=bp.likelihoods.Categorical(),
        ...              input_shape=(8, 8, 1))
        >>> fit = bp.fit_svi(jax.random.key(0), bnn, train, num_steps=5, batch_size=64)
        >>> sorted(bnn.prior.rates(fit.params))
        ['Dense_0.kernel', 'Dense_1.kernel']

    Source: Gal, Hron & Kendall (2017), equations 3 to 5; the settings are their code's, whose squared error without its 1/2
    doubles both terms.
    """

    length_scale: float = 1e-4
    temperature: float = 0.1
    start: float = 0.1

    unit: ClassVar[float] = 1.0  # of every site in the network, but for gates whose mean is one
    improper: ClassVar[bool] = True
    prunable: ClassVar[Predicate] = staticmethod(select.hidden_kernels)

    def __post_init__(self) -> None:
        check_number(self.length_scale, "length_scale")
        check_not_negative(self.length_scale, "length_scale")
        check_positive(self.temperature, "temperature")
        check_within(self.start, "start", "(0, 1)", "it is the rate at which inputs are dropped at first")

    @property
    def family(self) -> NoisyPoints:
        """Points, from N(0, 2/fan-in)."""
        return NoisyPoints()

    def model(self, layout: Layout) -> dict[str, Any]:
        """Sample every Bayesian weight; returns path -> w."""
        gate = lambda spec: numpyro.sample(f"{spec.path}.gate", Penalised().expand(of_inputs(spec)))  # noqa: E731
        return noisy_weights(layout, lambda spec: gate(spec) if _has_gates(spec) else 1.0)

    def guide(self, layout: Layout, family: Family) -> None:
        """Approximate every site of `model`: weights by points, gates by relaxed Bernoulli variables."""
        check_noisy_points(family, "ConcreteDropout")
        for spec in with_posterior(layout):
            weight = family.weight(spec)
            if _has_gates(spec):
                odds = numpyro.param(f"{spec.path}.gate_log_odds", jnp.asarray(math.log(self.start / (1.0 - self.start))))
                shape = of_inputs(spec)
                axes = tuple(axis for axis in range(len(shape)) if axis not in spec.inputs)
                squares = jnp.sum(jnp.square(weight), axis=axes, keepdims=True)
                gates = InputGates(jnp.broadcast_to(odds, shape), squares, self.temperature, self.length_scale)
                numpyro.sample(f"{spec.path}.gate", gates)

    def node(self, node: MeanField, spec: ParamSpec, moment: Moments) -> MeanField:
        """No prior scale, unit E z/(1 - p), and the law of the gates."""
        if not _has_gates(spec):
            return node
        law = ConcreteGate(moment.value(f"{spec.path}.gate_log_odds"), self.temperature)
        return Scaled(node.loc, node.scale, None, law.mean(), law)

    def rates(self, params: dict[str, Any]) -> dict[str, float]:
        """p of every layer, by the name of its kernel; ``params``: of a fit."""
        ends = ".gate_log_odds"
        return {name[: -len(ends)]: float(jax.nn.sigmoid(odds)) for name, odds in params.items() if name.endswith(ends)}


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class ConcreteGate:
    """The law of z/(1 - p): relaxed Bernoulli gates, one rate for all inputs of a layer.

    >>> print(ConcreteGate(jnp.array(-2.0), 0.01).mean().round(2))
    1.0
    """

    log_odds: Any
    temperature: Any

    priors: ClassVar[str] = "priors.ConcreteDropout"  # whose fits have this law

    def mean(self) -> Any:
        """E z/(1 - p), all but 1."""
        return concrete.moment(1, self.log_odds, self.temperature)

    def variance(self) -> Any:
        """Var z/(1 - p), all but p/(1 - p)."""
        return concrete.moment(2, self.log_odds, self.temperature) - jnp.square(self.mean())


class Penalised(Improper):
    """What the gates are measured against: no density, a penalty that `InputGates` knows."""

    def log_prob(self, value: ArrayLike, intermediates: object = None) -> jax.Array:
        raise ValueError("the gates of ConcreteDropout have a penalty and no density: leave estimator= as it is.")


class InputGates(dist.Distribution):
    """z/(1 - p) of each input of a layer; ``squares``: of the weights that read it, summed."""

    arg_constraints: ClassVar[dict[str, Any]] = {"log_odds": constraints.real, "squares": constraints.real}
    support = constraints.positive
    reparametrized_params: ClassVar[list[str]] = ["log_odds"]
    pytree_data_fields = ("log_odds", "squares")
    pytree_aux_fields = ("temperature", "length_scale")

    def __init__(self, log_odds: ArrayLike, squares: ArrayLike, temperature: float, length_scale: float) -> None:
        self.log_odds, self.squares = jnp.broadcast_arrays(jnp.asarray(log_odds), jnp.asarray(squares))
        self.temperature, self.length_scale = temperature, length_scale
        super().__init__(batch_shape=jnp.shape(self.log_odds))

    def sample(self, key: jax.Array, sample_shape: tuple[int, ...] = ()) -> jax.Array:
        u = jax.random.uniform(key, self.shape(sample_shape), self.log_odds.dtype, minval=jnp.finfo(self.log_odds.dtype).tiny)
        return concrete.gate(self.log_odds, u, self.temperature) / concrete.keep_share(self.log_odds)

    log_prob = Penalised.log_prob


@kl_divergence.register(InputGates, Penalised)
def _penalty(gates: InputGates, nothing: Penalised) -> jax.Array:
    return concrete.penalty(gates.squares, gates.log_odds, gates.length_scale)


def _has_gates(spec: ParamSpec) -> bool:
    """Whether the array is the kernel of a layer."""
    return bool(spec.inputs and spec.outputs)
