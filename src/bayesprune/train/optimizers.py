"""Optimisers by name; rate and decay of SGD are meant for the network's own weights, whatever the posterior is written in."""

from collections.abc import Callable
from typing import Any

import optax

from bayesprune.core.checks import check_not_negative, check_positive, unknown_name

MOMENTUM = 0.9
ADAPTIVE = {"adabelief": optax.scale_by_belief, "adam": optax.scale_by_adam}
NAMES = (*ADAPTIVE, "sgd")
Rate = float | Callable[[Any], Any]


def make_optimizer(name: str, rate: Rate, weight_decay: float = 0.0, unit: float = 1.0) -> optax.GradientTransformation:
    """The optimiser of a name for a posterior of w_hat = w / unit; its spreads, and scales of scales, are never decayed.

    "sgd": heavy-ball momentum 0.9 and decay added to the gradient. A step of w by ``rate`` is one of w_hat by rate / unit²:
    the gradient in w_hat is unit times that in w, and its step counts unit times as much. Decay shrinks both alike, so that it
    is weight_decay unit² beside the gradient in w_hat. The raw scales rho keep ``rate`` as it is: softplus(rho) = exp(rho) to
    first order where scales are small, there rho_hat = rho - log(unit), and a shift changes no gradient.

    "adam", "adabelief": steps of w_hat itself, decay beside them and not in them, as in AdamW.

    ``rate``: a number or an optax schedule. Raises `ValueError` for an unknown name, a rate that is not positive, and a decay
    below zero.

    >>> import jax.numpy as jnp
    >>> params, grads = {"w_auto_loc": jnp.array(2.0)}, {"w_auto_loc": jnp.array(0.5)}
    >>> sgd = make_optimizer("sgd", 0.1, unit=0.5)
    >>> print(optax.apply_updates(params, sgd.update(grads, sgd.init(params), params)[0])["w_auto_loc"])
    1.8
    """
    if name not in NAMES:
        raise unknown_name("optimizer", name, NAMES)
    check_not_negative(weight_decay, "weight_decay")
    if not callable(rate):
        check_positive(rate, "learning_rate")
    step = optax.scale_by_learning_rate(rate)
    if name in ADAPTIVE:
        return optax.chain(ADAPTIVE[name](), _decay(weight_decay, weight_decay), step)
    moved = _by_kind(optax.scale(unit**-2), optax.identity(), optax.identity())
    return optax.chain(_decay(weight_decay * unit**2, weight_decay), optax.trace(MOMENTUM), step, moved)


def _decay(loc: float, plain: float) -> optax.GradientTransformation:
    if not plain:
        return optax.identity()
    return _by_kind(optax.add_decayed_weights(loc), optax.identity(), optax.add_decayed_weights(plain))


def _by_kind(
    loc: optax.GradientTransformation, spread: optax.GradientTransformation, plain: optax.GradientTransformation
) -> optax.GradientTransformation:
    return optax.partition({"loc": loc, "spread": spread, "plain": plain}, _kinds)


def _kinds(params: dict[str, Any]) -> dict[str, str]:
    """Parameter -> "loc" of a weight with a posterior, "spread" of anything, or "plain", a weight without a posterior."""
    return {name: _kind(name) for name in params}


def _kind(name: str) -> str:
    if name.endswith(("_auto_loc", "_dense_loc", "_map_loc")):
        return "loc"
    return "spread" if name.endswith(("_scale", "_log_loc", "_logit")) else "plain"
