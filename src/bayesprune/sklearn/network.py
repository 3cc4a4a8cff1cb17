"""From an estimator's settings to the network they mean: the same object for the same settings.

`fit_svi` and `predict` compile once for each network object. Built through a cache, a clone of an estimator, or the next
candidate of a grid search, finds what the one before has compiled.
"""

import functools
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np

from bayesprune.core.checks import check_integer, check_name, check_object, check_positive, got
from bayesprune.model import select
from bayesprune.model.bnn import BNN
from bayesprune.model.likelihoods import Likelihood, NegativeBinomial, Normal, Ordinal, StudentT, protocol
from bayesprune.model.likelihoods.counts import starting_at
from bayesprune.model.likelihoods.masked import of_observed
from bayesprune.nets import MLP, WideMLP
from bayesprune.priors import DiracSlab, Flat, GaussianSlab

# Of the rows and the inputs. Everything is standardised here, for which the spike of the paper's tables is too narrow to cut by
# (see `GaussianSlab`).
PRIORS: dict[str, Callable[[int, int], Any]] = {
    "auto": lambda rows, inputs: DiracSlab(log_inclusion=log_inclusion(rows, inputs)),
    "dirac_slab": lambda rows, inputs: DiracSlab(),
    "gaussian_slab": lambda rows, inputs: GaussianSlab(spike_scale=0.135, slab_scale=1.0),
    "flat": lambda rows, inputs: Flat(),
}
ROWS_OF_AN_INPUT = 10
# Targets are standardised here. The (6, 6) of `Normal` keeps the noise of 200 rows above a quarter of their spread, and the
# former (2, .2) that of 30 rows above a ninth: benchmarks/tabular_noise.py.
SHAPE, RATE = 1.0, 1e-3  # of the prior of the noise's precision
LEARNED_NOISE = Normal(noise_shape=SHAPE, noise_rate=RATE)
DEGREES = 3.0  # of freedom: outliers pull little, and the noise still has a variance
HEAVY_NOISE = StudentT(df=DEGREES, noise_shape=SHAPE, noise_rate=RATE)
OF_STANDARDISED = {"auto": LEARNED_NOISE, "normal": LEARNED_NOISE, "student_t": HEAVY_NOISE}
# By the exponential one of 220 new rows was predicted at 597, and had 3: `trips` of benchmarks/tabular_real.md.
COUNTS = NegativeBinomial(link="softplus")
ACTIVATIONS: dict[str, Callable[[Any], Any]] = {
    "elu": jax.nn.elu,
    "gelu": jax.nn.gelu,
    "relu": jax.nn.relu,
    "sigmoid": jax.nn.sigmoid,
    "swish": jax.nn.swish,
    "tanh": jax.numpy.tanh,
}


@dataclass(frozen=True)
class NetworkRecipe:
    """What a network is made of: plain, comparable and picklable, where a `BNN` is none of the three."""

    hidden: tuple[int, ...]
    activation: str | Callable[[Any], Any]
    prior: Any
    likelihood: Likelihood
    num_inputs: int
    num_outputs: int
    wide: bool = False


@functools.lru_cache(maxsize=64)
def build(network: NetworkRecipe) -> BNN:
    """The `BNN` of a description; the same object for the same description."""
    return bnn_around(net_of(network), network, network.num_inputs)


def net_of(network: NetworkRecipe) -> MLP | WideMLP:
    """The Flax module of a description."""
    activation = ACTIVATIONS[network.activation] if isinstance(network.activation, str) else network.activation
    kind = WideMLP if network.wide else MLP
    return kind(network.hidden, network.num_outputs, activation=activation)


def bnn_around(net: object, network: NetworkRecipe, num_inputs: int) -> BNN:
    """A module that has the parameters of a description's, with its prior and its likelihood."""
    return BNN(
        net,
        prior=network.prior,
        likelihood=network.likelihood,
        input_shape=(num_inputs,),
        # Without a hidden layer the last layer is all there is: priors that keep it dense would leave nothing to prune.
        prunable=None if network.hidden else select.everything,
    )


def read_hidden(hidden: Any) -> tuple[int, ...]:
    """Widths as a tuple; a bare number is one layer, an empty sequence a linear model."""
    try:
        widths = tuple(hidden)
    except TypeError:
        widths = (hidden,)
    for width in widths:
        check_integer(width, "hidden")
    return tuple(int(width) for width in widths)


def read_activation(activation: object) -> str | Callable[[Any], Any]:
    """A known name, or a function."""
    if callable(activation):
        return activation
    check_name("activation", name := str(activation), ACTIVATIONS, "Or give a JAX function.")
    return name


def log_inclusion(num_rows: int, num_inputs: int) -> float:
    """log lam of the default prior: one weight in two, or less where an input has less than five rows.

      lam = 2^-k,  k the least whole number >= 1 with  2^-k <= num_rows / (10 num_inputs)

    Ten rows to an input in use are the old rule of thumb of regression (Peduzzi et al. 1996). The rate of (5.3), by which the
    posterior concentrates, leaves small sets with hardly a weight: see benchmarks/tabular.md for both beside one another.

    >>> [round(math.exp(log_inclusion(rows, 50)), 4) for rows in (1000, 250, 240, 100)]
    [0.5, 0.5, 0.25, 0.125]
    """
    halvings = max(1, math.ceil(math.log2(ROWS_OF_AN_INPUT * num_inputs / num_rows)))
    return -halvings * math.log(2.0)


def read_prior(prior: object, num_rows: int, num_inputs: int) -> Any:
    """The prior of a name, for so many rows and inputs; or a prior object."""
    if isinstance(prior, str):
        check_name("prior", prior, PRIORS, "Or give an object of bayesprune.priors.")
        return PRIORS[prior](num_rows, num_inputs)
    if not (hasattr(prior, "model") and hasattr(prior, "guide")) or isinstance(prior, type):
        raise TypeError(f"prior must be one of {', '.join(PRIORS)}, or an object of bayesprune.priors; got {got(prior)}.")
    return prior


def counts_rows(prior: object) -> bool:
    """Whether the prior may be another one for another number of rows; what is not known may."""
    if isinstance(prior, DiracSlab):
        return isinstance(prior.log_inclusion, str)
    return not isinstance(prior, Flat | GaussianSlab)


def read_likelihood(likelihood: str | Likelihood | Any) -> Any:
    """The likelihood of a name; or an object of numbers, with whatever knobs."""
    if isinstance(likelihood, str):
        if likelihood in OF_STANDARDISED:
            return OF_STANDARDISED[likelihood]
        known = {name: found for name, found in protocol.all_named().items() if protocol.CLASSES not in found.kinds}
        check_name("likelihood", likelihood, ("auto", *known), "Or give an object of bayesprune.likelihoods.")
        return known[likelihood].make(1)
    check_object(likelihood, "likelihood", ("observe", "guide", "mean", "check"), "bp.likelihoods.StudentT()")
    observed = of_observed(likelihood)
    if getattr(observed, "known", False) or getattr(observed, "exposure", None) is not None:
        raise ValueError(
            f"likelihood={likelihood!r} takes further columns of y, which scikit-learn would take for targets: use bp.BNN and "
            "bp.fit_svi."
        )
    if getattr(observed, "task", "other") in ("classes", "binary"):
        raise ValueError(f"likelihood={likelihood!r} is of labels: use BayesianSparseClassifier for classes.")
    return likelihood


def started(likelihood: Likelihood, targets: np.ndarray) -> Any:
    """A likelihood of counts whose outputs of zero mean about the mean of the targets, (rows, outputs), where it says nothing.

    To the power of two next to it: then fits of nearly the same rows are of one network, and share what is compiled.
    """
    return starting_at(likelihood, None if (targets < 0).any() else np.nanmean(targets, axis=0))


def read_likelihood_of_labels(likelihood: object, num_classes: int) -> tuple[Any, int]:
    """The likelihood of a name, or an object of labels, and the outputs that it asks of the network."""
    if isinstance(likelihood, str):
        known = protocol.of_kind(protocol.CLASSES)
        check_name("likelihood", likelihood, ("auto", *known), "Or give an object of bayesprune.likelihoods.")
        likelihood = next(iter(known)) if likelihood == "auto" else likelihood
        return known[likelihood].make(num_classes), known[likelihood].outputs(num_classes)
    check_object(likelihood, "likelihood", ("observe", "guide", "mean", "check"), "bp.likelihoods.Categorical()")
    if getattr(likelihood, "task", "other") != "classes":
        raise ValueError(f"likelihood={likelihood!r} is not of classes: use BayesianSparseRegressor for numbers.")
    return likelihood, 1 if isinstance(likelihood, Ordinal) else num_classes


def read_rate(learning_rate: Any) -> float:
    """A positive number."""
    if isinstance(learning_rate, str) or learning_rate is None:
        raise TypeError(f"learning_rate must be a positive number, got {learning_rate!r}.")
    check_positive(learning_rate, "learning_rate")
    return float(learning_rate)
