"""Optimisers by name; rate and decay of SGD are meant for the network's own weights, whatever the posterior is written in."""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import optax

from bayesprune.core.checks import check_name, check_not_negative, check_positive
from bayesprune.core.types import PyTree
from bayesprune.posteriors.params import kind_of
from bayesprune.train.kernels.sghmc_spl import SGHMCSPL

__all__ = ["make_optimizer", "sghmc_spl"]
__dir__ = __all__.copy  # what completion offers


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
    check_name("optimizer", name, NAMES)
    check_not_negative(weight_decay, "weight_decay")
    if not callable(rate):
        check_positive(rate, "learning_rate")
    step = optax.scale_by_learning_rate(rate)
    if name in ADAPTIVE:
        return optax.chain(ADAPTIVE[name](), _decay(weight_decay, weight_decay), step)
    moved = _by_kind(optax.scale(unit**-2), optax.identity())
    return optax.chain(_decay(weight_decay * unit**2, weight_decay), optax.trace(MOMENTUM), step, moved)


def _decay(loc: float, plain: float) -> optax.GradientTransformation:
    if not plain:
        return optax.identity()
    return _by_kind(optax.add_decayed_weights(loc), optax.add_decayed_weights(plain))


def _by_kind(loc: optax.GradientTransformation, plain: optax.GradientTransformation) -> optax.GradientTransformation:
    """One for locs and one for weights without a posterior; spreads stay as they are."""
    kinds = lambda params: {name: kind_of(name) for name in params}  # noqa: E731
    return optax.partition({"loc": loc, "spread": optax.identity(), "plain": plain}, kinds)


class SPLMoves(NamedTuple):
    """``rng_key``: of all noise; step k has the k-th key that is folded in. ``inner``: the kernel's state."""

    rng_key: jax.Array
    inner: Any


def sghmc_spl(rng_key: jax.Array, **knobs: Any) -> optax.GradientTransformation:
    """`kernels.SGHMCSPL` for any optax loop: the updates tau m of (7.1) to (7.3), with the noise's key in the state.

    ``knobs``: those of the kernel, num_rows among them, and num_steps where there are cycles. Gradients are of the loss per
    row. Its decay is one number and nothing is masked: groups under a spike and slab, with decays of their own and a mask, are
    of `fit_sgmcmc` with `methods.SGHMCSPL`. `ValueError` for an update without parameters.

    >>> import jax.numpy as jnp
    >>> moves = sghmc_spl(jax.random.key(0), num_rows=100, num_cycles=0)
    >>> updates, state = moves.update({"w": jnp.ones(2)}, moves.init({"w": jnp.zeros(2)}), {"w": jnp.zeros(2)})
    >>> updates["w"].shape
    (2,)
    """
    kernel = SGHMCSPL(**knobs)

    def update(gradient: PyTree, state: SPLMoves, params: PyTree = None) -> tuple[Any, SPLMoves]:
        if params is None:
            raise ValueError("sghmc_spl needs the parameters: call update(gradient, state, params).")
        key = jax.random.fold_in(state.rng_key, state.inner.step)
        before = _by_number(params)
        after, inner = kernel.step(key, _by_number(gradient), before, state.inner)
        changes = [after[name] - leaf for name, leaf in before.items()]
        return jax.tree.unflatten(jax.tree.structure(params), changes), SPLMoves(state.rng_key, inner)

    return optax.GradientTransformation(lambda params: SPLMoves(rng_key, kernel.init(_by_number(params))), update)


def _by_number(tree: PyTree) -> dict[str, Any]:
    """The leaves as the flat dict that kernels take."""
    return {f"{number:06d}": leaf for number, leaf in enumerate(jax.tree.leaves(tree))}
