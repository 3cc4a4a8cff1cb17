"""Parameters to start a fit from: a network that someone trained, with a spread around it."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike
from numpyro.handlers import seed, trace

from bayesprune.core.send import send
from bayesprune.core.tracing import by_one_thread
from bayesprune.core.types import PyTree
from bayesprune.infer.predict import check_bnn
from bayesprune.model.bnn import BNN
from bayesprune.posteriors.params import PRIORS, is_meaning

Scale = float | Callable[[str, np.ndarray], Any]


def from_trained(bnn: BNN | Any, trained: PyTree, scale: Scale | Any = 0.01) -> dict[str, Any]:
    """Parameters by which the network's posterior stands around weights that someone trained: ``fit_svi(init_params=...)``.

    Every Bayesian weight has its mean there, loc = w / unit, and the standard deviation ``scale`` / unit, where ``unit`` is
    what the prior makes of one unit of loc; scales of the prior start at about 1, which sets that unit. Weights without a
    posterior and batch statistics are taken as they are, and ``bnn.net_params(...)`` gives the trained network back, to
    rounding. Under a spike and slab, w is the weight where its gate is open. What is no weight, as a likelihood's noise,
    starts as always.

    Args:
        bnn: a `BNN` of the module that was trained.
        trained: variables of Flax linen or their ``"params"``, an nnx module or its state, an Equinox module; or one of these
            as nested dicts, as Orbax and Flax give checkpoints back.
        scale: standard deviation of every weight, in the network's own units: a number, or a function of path and weights, such
            as ``lambda path, w: 0.1 * abs(w) + 1e-3``. With ``posterior="map"`` there is none.

    Returns:
        Parameters, as those of a fit. A weight at exactly 0 is alive in them: give ``mask=`` for weights that were pruned.

    Raises:
        ValueError: ``trained`` is not of this network, with the list of differences; ``scale`` is not positive; the posterior
            is neither "mean_field" nor "map", or the prior does not say its unit.

    Example:
        >>> import jax, bayesprune as bp
        >>> net = bp.nets.MLP((4,), 2)
        >>> bnn = bp.BNN(net, prior=bp.priors.Gaussian(0.5), likelihood=bp.likelihoods.Categorical(), input_shape=(3,))
        >>> trained = net.init(jax.random.key(0), jax.numpy.ones((1, 3)))
        >>> params = bp.from_trained(bnn, trained)
        >>> bool((bnn.net_params(params)["params"]["Dense_0"]["kernel"] == trained["params"]["Dense_0"]["kernel"]).all())
        True
    """
    check_bnn(bnn)
    if not bnn.family.centred or not hasattr(bnn.prior, "node"):
        raise ValueError(
            "from_trained needs posterior='mean_field' or 'map' and a prior that says its unit, got "
            f"{type(bnn.family).__name__} and {type(bnn.prior).__name__}: build the BNN with those."
        )
    weights, state = bnn.take(trained)
    params = neutral(bnn)
    nodes, specs = bnn.posterior(params), {str(spec.path): spec for spec in bnn.layout}
    for site, node in nodes.items():
        unit = np.broadcast_to(np.asarray(node.unit, jnp.result_type(float)), weights[site].shape)
        if not np.all(np.isfinite(unit) & (unit > 0)):
            raise ValueError(f"{type(bnn.prior).__name__} gives {site!r} no unit, so that w / unit has no value: take another.")
        spread = send(_spread(scale, site, weights[site]) / unit) if bnn.family.spread else None
        params |= bnn.family.around(send(np.asarray(weights[site]) / unit), spread, specs[site])
    params |= {name: value for name, value in weights.items() if name not in nodes} | state
    return params | bnn.describe(params)


def neutral(bnn: BNN) -> dict[str, Any]:
    """What the guide starts from, with every positive scale of the prior about 1."""

    def first() -> dict[str, Any]:
        sites = trace(seed(bnn.guide, jax.random.key(0))).get_trace()
        return {name: site["value"] for name, site in sites.items() if site["type"] == "param" and name != PRIORS}

    params: dict[str, Any] = jax.jit(by_one_thread(first))()
    params = {name: value for name, value in params.items() if not is_meaning(name)}
    return {name: send(np.zeros_like(value)) if name.endswith("_log_loc") else value for name, value in params.items()}


def _spread(scale: float | Callable[[str, np.ndarray], ArrayLike], site: str, weights: jax.Array) -> np.ndarray:
    """The standard deviation of each weight in the network's units."""
    given = np.asarray(scale(site, np.asarray(weights)) if callable(scale) else scale, dtype=jnp.result_type(float))
    if given.shape not in ((), weights.shape) or not (np.isfinite(given).all() and (given > 0).all()):
        raise ValueError(
            f"scale of {site!r} must be positive and finite, one number or one for each weight, got shape {given.shape}, least "
            f"{given.min() if given.size else 'none'}: add something to what may be 0, as in 0.1 * abs(w) + 1e-3."
        )
    return np.broadcast_to(given, weights.shape)
