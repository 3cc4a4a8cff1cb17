"""IVON for a loop of the user's own: an optax transformation whose state is a posterior that can be drawn and pruned."""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax
from jax.typing import ArrayLike

from bayesprune.core.checks import check_key, check_number, check_positive, check_within, got
from bayesprune.core.given import RandomKey
from bayesprune.core.trees import of_kind
from bayesprune.core.types import PyTree
from bayesprune.formulas import ivon as formula
from bayesprune.model.transforms.noise import normal_like
from bayesprune.posteriors.mean_field import MeanField
from bayesprune.train.keep_zeros import KeepZerosState, where_alive

REFERENCE = "shen2024variational"


class IVONState(NamedTuple):
    """``step``: how many there were. ``momentum``, ``curvature``: gm and h, in the parameters' tree, of float32 at least.

    ``mean``: the posterior's means as wide as those, by the number of the leaf, where a parameter's own type is too short to
    hold small steps, as bfloat16 is; None elsewhere. ``num_rows``, ``decay``: lam and delta, as the last update was given them.
    """

    step: jax.Array
    momentum: Any
    curvature: Any
    mean: tuple[jax.Array | None, ...]
    num_rows: jax.Array
    decay: jax.Array


def ivon(
    learning_rate: float | Callable[[Any], Any] | Any = 0.1,
    *,
    num_rows: float | int,
    weight_decay: float | int,
    h0: float | int = 0.1,
    b1: float = 0.9,
    b2: float = 0.99999,
    clip: float | int | None = None,
    rescale: bool = True,
) -> optax.GradientTransformationExtraArgs:
    """Variational inference at an optimiser's price, for any optax loop; (24.1) to (24.3).

    The parameters are the means m of N(m, 1/(lam (h + delta))) under the prior N(0, 1/(lam delta)). A step draws weights by
    `ivon_draw`, takes the gradient of the mean loss there, without a prior, and hands over both:
    ``update(gradient, state, params, sample=weights)``. Where several draws, micro-batches or devices share a step, average
    their gradients and their `ivon_curvature`, and give that: ``update(gradient, state, params, curvature=curvature)``.

    Give ``curvature=`` too where anything stands before this in a chain, such as ``optax.clip_by_global_norm``, or around it,
    as ``optax.MultiSteps``: what arrives then is no gradient at ``sample``, and the curvature of it would be wrong by a factor.
    ``optax.MultiSteps`` averages gradients only: the curvature is that of the last micro-batch alone, whose expectation is that
    of the average and whose variance is higher. Average both in the loop instead, and call ``update`` once.

    Numbers may change by ``optax.inject_hyperparams``: draws, curvature and posterior have those of the last update, before
    the first one those of ``init``. `kernels.IVON` is the same for `fit_svi`.

    Args:
        learning_rate: a number, or an optax schedule.
        num_rows: lam, the rows of the whole data; divided by a temperature, that of a tempered posterior.
        weight_decay: delta, positive: the prior's standard deviation is 1/sqrt(lam delta).
        h0: the curvature that every weight starts with.
        b1, b2: decay rates of the means of gradient and curvature: for 1/(1 - b2) steps the curvature is that of the start.
        clip: the largest step of Newton, element by element and before the learning rate; None: any.
        rescale: multiply the learning rate by h0 + delta, as the paper's settings mean it.

    Returns:
        An optax transformation; others may follow it in a chain, or stand before it with ``curvature=``. For some parameters
        only, put ``optax.multi_transform`` around it; or ``optax.masked``, chained with a masked optimiser for the others: it
        hands on their gradients as they are. Parameters may be of bfloat16: means and moments are kept in float32.

    Raises:
        ValueError: numbers out of range; parameters that are no real numbers; an update without parameters, or without one of
            ``sample`` and ``curvature``.
        TypeError: arrays in the place of numbers.

    Example:
        >>> import jax, jax.numpy as jnp, bayesprune as bp
        >>> optimizer = bp.ivon(0.1, num_rows=100, weight_decay=1e-3)
        >>> params = {"w": jnp.ones(3)}
        >>> state = optimizer.init(params)
        >>> weights = bp.ivon_draw(jax.random.key(0), params, state)
        >>> gradient = jax.grad(lambda w: jnp.sum(w["w"] ** 2))(weights)
        >>> updates, state = optimizer.update(gradient, state, params, sample=weights)
        >>> pruned = bp.bmr_prune(bp.ivon_posterior(params, state))
        >>> pruned.mask["w"].shape
        (3,)

    Source: Shen et al. (2024), algorithm 1.
    """
    check_settings(learning_rate, h0, clip, b1=b1, b2=b2)
    for name, value in (("num_rows", num_rows), ("weight_decay", weight_decay)):
        check_number(value, name)
        check_positive(value, name)
    factor = h0 + weight_decay if rescale else 1.0

    def numbers() -> tuple[jax.Array, jax.Array]:
        return jnp.asarray(num_rows, float), jnp.asarray(weight_decay, float)

    def init(params: PyTree) -> IVONState:
        for leaf in jax.tree.leaves(params):
            if not jnp.issubdtype(jnp.result_type(leaf), jnp.floating):
                raise ValueError(
                    f"ivon has a normal law for real numbers, and params has an array of {jnp.result_type(leaf)}: put "
                    "optax.masked or optax.multi_transform around it; of complex numbers train the two parts."
                )
        wide = [jnp.asarray(leaf, _wide(leaf)) for leaf in jax.tree.leaves(params)]
        kept = tuple(
            w if w.dtype != jnp.result_type(leaf) else None for w, leaf in zip(wide, jax.tree.leaves(params), strict=True)
        )
        filled = lambda value: jax.tree.map(lambda leaf: jnp.full(jnp.shape(leaf), value, _wide(leaf)), params)  # noqa: E731
        return IVONState(jnp.zeros((), jnp.int32), filled(0.0), filled(h0), kept, *numbers())

    def update(
        updates: PyTree,
        state: IVONState,
        params: PyTree = None,
        *,
        sample: PyTree = None,
        curvature: PyTree = None,
        **_: object,
    ) -> tuple[Any, IVONState]:
        if params is None or (sample is None) == (curvature is None):
            raise ValueError(
                "ivon needs the parameters, and the weights at which the gradient was taken or what they say of the curvature: "
                "call update(gradient, state, params, sample=weights), weights = bp.ivon_draw(rng_key, params, state); in "
                "bp.fit_svi give optimizer=bp.kernels.IVON()."
            )
        estimate = ivon_curvature(updates, sample, params, state) if curvature is None else _own(curvature, state, "curvature")
        count = state.step + 1
        correction = 1.0 - jnp.asarray(b1, float) ** count.astype(float)
        rate = factor * (learning_rate(state.step) if callable(learning_rate) else learning_rate)
        means = means_of(params, state)
        mixed = lambda old, g: b1 * old + (1.0 - b1) * g.astype(old.dtype)  # noqa: E731
        momentum = jax.tree.map(mixed, state.momentum, updates)
        after = jax.tree.map(lambda h, hh: formula.curvature_after(h, hh, weight_decay, b2), state.curvature, estimate)

        def moved(m: jax.Array, gm: jax.Array, h: jax.Array) -> Any:
            move = formula.newton_step(m, gm, h, weight_decay, correction)
            return (m - rate * (move if clip is None else jnp.clip(move, -clip, clip))).astype(m.dtype)

        new = jax.tree.map(moved, means, momentum, after)
        # To the nearest number of the parameters' own type, so that short steps add up in the means and not in the rounding.
        change = jax.tree.map(lambda m, leaf: m.astype(leaf.dtype).astype(m.dtype) - leaf.astype(m.dtype), new, params)
        kept = tuple(None if old is None else leaf for old, leaf in zip(state.mean, jax.tree.leaves(new), strict=True))
        # Those of this call, which `optax.inject_hyperparams` may change; the old state's belong to the draw that came in.
        return change, IVONState(count, momentum, after, kept, *numbers())

    return optax.GradientTransformationExtraArgs(init, update)


def check_settings(learning_rate: Any, h0: ArrayLike, clip: ArrayLike | None, **shares: float) -> None:
    """Refuse what is out of range, of `ivon` and of `kernels.IVON`. ``shares``: decay rates by name."""
    if not callable(learning_rate):
        check_number(learning_rate, "learning_rate")
        check_positive(learning_rate, "learning_rate")
    check_number(h0, "h0")
    check_positive(h0, "h0")
    for name, share in shares.items():
        check_within(share, name, "[0, 1)", "it is the share of the old mean")
    if clip is not None:
        check_number(clip, "clip")
        check_positive(clip, "clip")


def ivon_draw(rng_key: RandomKey, params: PyTree, state: PyTree) -> Any:
    """Weights drawn from the posterior that the parameters and the state of `ivon` hold, in the parameters' tree and types.

      w = m + e / sqrt(lam (h + delta)),  e ~ N(0, 1)

    ``state``: that of `ivon`, or of a chain with it; under `keep_zeros` dead weights are 0 in every draw. Parameters that are
    not `ivon`'s, as under ``optax.masked`` and ``optax.multi_transform``, are drawn as they are. Pure; to be jitted with the
    step.

    Raises `ValueError` for a state without one of `ivon`'s or with several, and for parameters of another tree, as the one
    array that ``optax.flatten`` makes of them.
    """
    rng_key, found = check_key(rng_key), ivon_state(state)
    means = means_of(params, found)
    noise = normal_like(rng_key, means)
    draw = lambda m, h, e, leaf: (m + e * _scale(h, found)).astype(jnp.result_type(leaf))  # noqa: E731
    own = jax.tree.map(draw, means, found.curvature, noise, _own(params, found, "params"))
    return _with_rest(_cut(own, state), params, found)


def ivon_curvature(gradient: PyTree, sample: PyTree, params: PyTree, state: PyTree) -> Any:
    """What a gradient at drawn weights says of the curvature, (24.1), in the parameters' tree; averaged as gradients are.

    Of parameters that are not `ivon`'s there are no arrays in it.
    """
    found = ivon_state(state)
    own = (_own(tree, found, name) for name, tree in (("gradient", gradient), ("sample", sample)))

    def of_leaf(g: jax.Array, w: jax.Array, m: jax.Array, h: jax.Array) -> jax.Array:
        return formula.curvature_of_draw(g.astype(h.dtype), w.astype(h.dtype) - m, h, found.num_rows, found.decay)

    return jax.tree.map(of_leaf, *own, means_of(params, found), found.curvature)


def ivon_posterior(params: PyTree, state: PyTree) -> Any:
    """The posterior as a tree of `MeanField`, with its prior: what `bmr_prune` and `prune_once` take.

    A curvature below zero, which noise may leave, counts as none; (24.4). Under `keep_zeros` dead weights are at mean and
    scale 0. Parameters that are not `ivon`'s are in the tree as they are, and none of them is pruned.
    """
    found = ivon_state(state)
    prior = (found.num_rows * found.decay) ** -0.5
    means = _cut(means_of(params, found), state)
    scales = _cut(jax.tree.map(lambda h: _scale(jnp.maximum(h, 0.0), found), found.curvature), state)
    return _with_rest(jax.tree.map(lambda mean, scale: MeanField(mean, scale, prior), means, scales), params, found)


def ivon_state(state: PyTree) -> IVONState:
    """The state of `ivon` in that of an optimiser around it."""
    found = of_kind(state, IVONState)
    if len(found) != 1:
        remedy = "their parts one after the other, as state.inner_states['a']" if found else "optimizer.init(params)"
        raise ValueError(f"state must hold the state of one bp.ivon, got {len(found)} in {got(state)}: give {remedy}.")
    return found[0]


def _cut(values: PyTree, state: PyTree) -> Any:
    """The values, 0 where a `keep_zeros` around `ivon` has dead weights: their mean stays at 0, and no noise may move them."""
    for node in of_kind(state, KeepZerosState):
        if of_kind(node.inner, IVONState):
            values = where_alive(_own(node.alive, ivon_state(node.inner), "the mask"), values)
    return values


def means_of(params: PyTree, state: IVONState) -> Any:
    """The means, in the parameters' tree, as wide as they are kept; of parameters that others have moved since, those."""
    leaves, structure = jax.tree.flatten(_own(params, state, "params"))
    wide = [jnp.asarray(leaf) if kept is None else _kept(kept, leaf) for leaf, kept in zip(leaves, state.mean, strict=True)]
    return jax.tree.unflatten(structure, wide)


def _kept(mean: jax.Array, leaf: ArrayLike) -> jax.Array:
    """The mean where the parameter is its rounding; not by a cast there and back, which XLA may leave out."""
    kind, wide = jnp.finfo(jnp.result_type(leaf)), jnp.asarray(leaf, mean.dtype)
    half = 0.51 * float(kind.eps) * jnp.abs(wide) + float(kind.smallest_subnormal)
    return jnp.where(jnp.abs(mean - wide) <= half, mean, wide)


def _own(tree: PyTree, state: IVONState, name: str) -> Any:
    """What is `ivon`'s of a tree, and in place of the rest the nodes without arrays that `optax.masked` puts there."""
    kept = lambda node, branch: node if _is_masked(node) else branch  # noqa: E731
    try:
        own = jax.tree.map(kept, state.curvature, tree, is_leaf=_is_masked)
        return jax.tree.map(lambda leaf, _: leaf, own, state.curvature)  # refuses a branch in the place of an array
    except ValueError as error:
        raise ValueError(
            f"{name} must have the tree that the state was made of, got {len(jax.tree.leaves(tree))} arrays for "
            f"{len(state.mean)}: give the parameters of optimizer.init(params) and what is in their tree, and leave out "
            "optax.flatten, which makes one array of all."
        ) from error


def _with_rest(own: PyTree, params: PyTree, state: IVONState) -> Any:
    """``own``, and the parameters themselves where they are not `ivon`'s."""
    rest = lambda node, mine, theirs: theirs if _is_masked(node) else mine  # noqa: E731
    return jax.tree.map(rest, state.curvature, own, params, is_leaf=_is_masked)


def _is_masked(node: object) -> bool:
    return isinstance(node, optax.MaskedNode)


def _wide(leaf: ArrayLike) -> Any:
    return jnp.promote_types(jnp.result_type(leaf), jnp.float32)


def _scale(curvature: jax.Array, state: IVONState) -> jax.Array:
    return jax.lax.rsqrt((state.num_rows * (curvature + state.decay)).astype(curvature.dtype))
