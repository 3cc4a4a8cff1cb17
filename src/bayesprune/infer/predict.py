"""Prediction by draws from the posterior, streamed over rows and draws: memory grows with neither."""

import functools
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike
from numpyro.handlers import substitute, trace

from bayesprune.core.checks import check_integer, check_key, check_mask, check_params
from bayesprune.core.compiling import soundly
from bayesprune.core.given import GivenMask, RandomKey
from bayesprune.core.numbers import joined, rows_in
from bayesprune.core.send import send, send_all
from bayesprune.core.tracing import by_one_thread
from bayesprune.core.types import Mask, PyTree, Standalone
from bayesprune.model.bnn import BNN
from bayesprune.model.handlers import masked, masked_part, seeded
from bayesprune.model.linearised import check_linearised, tangent
from bayesprune.model.prior import check_fixed_units
from bayesprune.model.prior import rows_of as rows_of_prior
from bayesprune.posteriors import samples
from bayesprune.posteriors.joint import check_conditioned
from bayesprune.train.sources.in_order import InOrder

# A chunk of rows goes through the network at once; a block of chunks, so many or so many bytes, is on the device.
# Larger chunks leave the cache: for LeNet-5 on a CPU, 1,000 rows at once take more than twice the time of eight times 125.
_ROWS, _CHUNKS, _BYTES = 125, 400, 2**28


def predict(
    rng_key: RandomKey,
    bnn: BNN | Any,
    params: dict[str, Any] | Any,
    x: PyTree,
    *,
    mask: dict[str, Any] | Any = None,
    num_samples: int = 100,
    linearised: bool = False,
) -> np.ndarray:
    """The predictive mean, E_q[ E[y | x, w] ], averaged over ``num_samples`` networks drawn from the posterior.

    Args:
        rng_key: a JAX random key.
        bnn: the network that was fitted; or a `Compact`, which holds its own weights: ``params`` is None then.
        params: NumPyro parameters, as in ``fit.params`` or ``pruned.params``.
        x: inputs, shape (rows, *input_shape).
        mask: site -> booleans, True = alive; None prunes nothing beyond what ``params`` hold.
        num_samples: networks drawn. Of stored samples (`fit_sgmcmc`): how many are used, evenly over the chains; never more
            than there are.
        linearised: of each drawn network the outputs f(x, w) + J(x) (v - w), linear in its weights v about their mean w,
            (25.8): what the posterior of `laplace` is exact for; far from w a network bends, and draws of it predict worse.

    Returns:
        Class probabilities (rows, classes); or the mean of y, (rows,) or (rows, targets), in the units of y. Of a network with
        outputs for every token: (rows, tokens, classes), (rows, tokens) or (rows, tokens, targets).

    Raises:
        ValueError: ``x`` has rows of another shape than the network's inputs, or holds NaN or infinities; ``params`` or
            ``mask`` are not this network's.
        TypeError: ``bnn`` is no `BNN`; ``x`` holds objects, text, complex numbers, or booleans in place of integers.

    Example:
        >>> import jax, bayesprune as bp
        >>> train, test = bp.data.load("digits")
        >>> bnn = bp.BNN(bp.nets.MLP((16,), 10), prior=bp.priors.Flat(), likelihood=bp.likelihoods.Categorical(),
        ...              input_shape=(8, 8, 1))
        >>> fit = bp.fit_svi(jax.random.key(0), bnn, train, num_steps=2, batch_size=64)
        >>> bp.predict(jax.random.key(1), bnn, fit.params, test.x, num_samples=3).shape == (len(test.x), 10)
        True
    """
    if isinstance(bnn, Standalone):
        return standalone(bnn, params, mask, linearised).predict(x, rng_key=check_key(rng_key), num_samples=num_samples)
    rng_key, x, mask = check_inputs(rng_key, bnn, params, x, mask, num_samples)
    if linearised:
        check_linearised(bnn, params, linearised)
    params, num_samples = networks(params, num_samples)
    blocks = [np.asarray(mean_over(bnn, linearised)(rng_key, params, mask, block, send(num_samples))) for block in blocks_of(x)]
    return rows_of(blocks, rows_in(x))


def predict_draws(
    rng_key: RandomKey,
    bnn: BNN | Any,
    params: dict[str, Any] | Any,
    x: PyTree,
    *,
    mask: dict[str, Any] | Any = None,
    num_samples: int = 100,
    linearised: bool = False,
) -> np.ndarray:
    """E[y | x, w] for each of ``num_samples`` networks, one network for all rows: (num_samples, rows, outputs).

    Arguments and errors are those of `predict`; of stored samples there may be fewer. One output per row keeps its axis:
    (num_samples, rows, 1). Of outputs for every token: (num_samples, rows, tokens, outputs).
    """
    if isinstance(bnn, Standalone):
        return standalone(bnn, params, mask, linearised).predict_draws(rng_key, x, num_samples)
    return joined(list(draws_by_block(rng_key, bnn, params, x, mask, num_samples, linearised)))


def draws_by_block(
    rng_key: RandomKey, bnn: BNN, params: PyTree, x: PyTree, mask: GivenMask, num_samples: int, linearised: bool = False
) -> Iterator[np.ndarray]:
    """`predict_draws` of some rows after the others, (num_samples, some, ...): one block at a time is in memory."""
    rng_key, x, mask = check_inputs(rng_key, bnn, params, x, mask, num_samples)
    if linearised:
        check_linearised(bnn, params, linearised)
    params, num_samples = networks(params, num_samples)
    left = rows_in(x)
    for block in blocks_of(x):
        drawn = [_draw(bnn, linearised)(rng_key, params, mask, block, send(index)) for index in range(num_samples)]
        draws = np.stack([rows_of([one], left) for one in drawn])
        left -= draws.shape[1]
        yield draws[..., None] if draws.ndim == 2 + len(bnn.tokens) else draws  # of one output


def standalone(network: Standalone, params: object, mask: object, linearised: bool = False) -> Standalone:
    """The network, or an error: it holds its own weights, and no others are taken."""
    if linearised:
        raise ValueError("linearised=True needs the BNN and its params: a compact network has no derivatives.")
    if params is not None or mask:
        raise ValueError(f"{type(network).__name__} holds its own weights: give None for params, and no mask.")
    return network


def check_bnn(bnn: object) -> None:
    """Refuse what is no `BNN`: a NumPyro program does not say which of its sites are predictions."""
    if not isinstance(bnn, BNN):
        raise TypeError(
            f"bnn must be a bp.BNN, got {type(bnn).__name__}: for a NumPyro program use "
            "numpyro.infer.Predictive(program.model, guide=program.guide, params=params, num_samples=...)."
        )


def check_sites(bnn: BNN, params: PyTree, mask: GivenMask) -> dict[str, Any]:
    """Missing parameters would be initialised at random, and a mask's unknown sites ignored: refuse both. The mask, checked."""
    check_params(params)
    try:
        nodes = bnn.posterior(params)
    except KeyError as missing:
        raise ValueError(
            f"params have no {missing}: they are not of this network, or were fitted with another posterior=; got "
            f"{', '.join(list(params)[:6])}."
        ) from None
    shapes = {str(spec.path): spec.shape for spec in bnn.layout if spec.bayesian}
    for path, node in nodes.items():
        if jnp.shape(node.loc) != shapes[path]:
            raise ValueError(
                f"params have shape {jnp.shape(node.loc)} at site {path!r}, the network has {shapes[path]}: give the BNN that "
                "they were fitted with."
            )
    check_fixed_units(bnn.prior, bnn.layout, nodes, params)
    mask = check_mask(mask, shapes)
    check_conditioned(nodes, mask)
    return mask


def check_inputs(
    rng_key: RandomKey, bnn: BNN, params: PyTree, x: PyTree, mask: GivenMask, num_samples: int
) -> tuple[jax.Array, Any, dict[str, Any]]:
    """Key, rows and mask of a prediction, each checked."""
    rng_key = check_key(rng_key)
    check_integer(num_samples, "num_samples")
    check_bnn(bnn)
    mask = check_sites(bnn, params, {} if mask is None else mask)
    if isinstance(x, InOrder):
        return rng_key, x, mask
    x = bnn.inputs.numbers(x, "x")
    sizes = [len(leaf) for leaf in jax.tree.leaves(x)]
    if len(set(sizes)) > 1:
        raise ValueError(f"x must have as many rows in each of its arrays, got {sizes}.")
    _check_not_empty(sizes[0])
    return rng_key, x, mask


def check_rows(x: np.ndarray, input_shape: tuple[int, ...]) -> None:
    """Refuse rows of another shape than a network's inputs, and none at all."""
    if x.shape[1:] != tuple(input_shape):
        raise ValueError(f"x must have shape (rows, {', '.join(map(str, input_shape))}), got {x.shape}: reshape it.")
    _check_not_empty(len(x))


def _check_not_empty(num_rows: int) -> None:
    if num_rows == 0:
        raise ValueError("x is empty: there are no rows to predict.")


def blocks_of(x: PyTree, beside: PyTree = None) -> Iterator[Any]:
    """Cut x into blocks of (chunks, rows, ...), the last rows repeated to fill a chunk.

    ``x``: an array, a tree of them, or what is read in order; ``beside``: of which the blocks have as many rows.
    """
    rows = min(_ROWS, rows_in(x))
    chunks = min(_CHUNKS, max(1, _BYTES // (rows * _row_bytes(x if beside is None else beside))))
    for first in range(0, rows_in(x), rows * chunks):
        yield jax.tree.map(lambda leaf: send(_chunks(leaf, rows)), part_of(x, slice(first, first + rows * chunks)))


def part_of(x: PyTree, part: slice) -> Any:
    """Some rows of an array, of a tree of them, or of what is read in order."""
    return x[part] if isinstance(x, InOrder) else jax.tree.map(lambda leaf: np.asarray(leaf)[part], x)


def _row_bytes(x: PyTree) -> int:
    return x.row_bytes if isinstance(x, InOrder) else max(1, sum(a.nbytes for a in jax.tree.leaves(x)) // rows_in(x))


def _chunks(block: np.ndarray, rows: int) -> np.ndarray:
    if missing := -len(block) % rows:
        block = np.concatenate([block, np.repeat(block[-1:], missing, axis=0)])
    return block.reshape((-1, rows, *block.shape[1:]))


def rows_of(blocks: list[Any], num_rows: int) -> np.ndarray:
    """The inverse of `blocks_of`, for outputs."""
    flat = [np.asarray(block).reshape((-1, *block.shape[2:])) for block in blocks]
    return np.concatenate(flat)[:num_rows]


class Networks(NamedTuple):
    """Stored networks, name -> values along the first axis, in place of parameters that networks are drawn from."""

    values: dict[str, Any]


def networks(params: dict[str, Any], num_samples: int) -> tuple[Any, int]:
    """What is drawn from, and how often: of stored samples, ``num_samples`` of them, each once, and no more than there are."""
    if not samples.draws_of(params):
        return send_all(params), num_samples
    chosen = samples.spread_out(params, num_samples)
    return Networks(send_all(chosen)), int(jax.tree.leaves(chosen)[0].shape[0])


def draw(
    bnn: BNN, rng_key: jax.Array, index: ArrayLike, params: PyTree, mask: dict[str, Any], *parts: Callable[..., Any]
) -> list[Callable[..., Any]]:
    """Parts of the model (`BNN.network`, its likelihood) with draw number ``index``, and all of ``params``, filled in."""
    model_key = jax.random.split(jax.random.fold_in(rng_key, index))[1]
    values = draw_sites(bnn, rng_key, index, params, mask)
    values = values if isinstance(params, Networks) else params | values
    return [substitute(seeded(masked_part(part, mask), model_key), data=values) for part in parts]


def draw_sites(bnn: BNN, rng_key: jax.Array, index: ArrayLike, params: PyTree, mask: dict[str, Any]) -> dict[str, Any]:
    """Draw number ``index`` of the guide's sites; of stored networks all that each of them holds."""
    if isinstance(params, Networks):
        return jax.tree.map(lambda leaf: leaf[index], params.values)  # type: ignore[no-any-return]
    guide_key = jax.random.split(jax.random.fold_in(rng_key, index))[0]
    sites = trace(substitute(seeded(masked(bnn.of(params).guide, mask), guide_key), data=params)).get_trace()
    return {name: site["value"] for name, site in sites.items() if site["type"] == "sample"}


def draw_outputs(
    bnn: BNN, rng_key: jax.Array, index: ArrayLike, params: PyTree, mask: Mask, block: PyTree, linearised: bool = False
) -> jax.Array:
    """E[y | x, w] for network number ``index``, chunk by chunk: (chunks, rows, ...)."""
    # A likelihood's mean may ask for what was drawn with the network, such as cut points between classes.
    network, mean = draw(bnn, rng_key, index, params, mask, bnn.network, bnn.likelihood.mean)
    if linearised:
        (weights,) = draw(bnn, rng_key, index, params, mask, lambda: bnn.prior.model(bnn.layout, **rows_of_prior(bnn.prior, 1)))
        network = tangent(bnn, params, mask, weights())
    return jax.lax.map(lambda x: mean(network(x)), block)


@functools.lru_cache(maxsize=32)
def mean_over(bnn: BNN, linearised: bool) -> jax.stages.Wrapped:
    """The compiled mean over networks of one block of rows."""

    def mean(rng_key, params, mask, block, num_samples):  # type: ignore[no-untyped-def]
        def add(index, total):  # type: ignore[no-untyped-def]
            return total + draw_outputs(bnn, rng_key, index, params, mask, block, linearised)

        shape = jax.eval_shape(lambda: draw_outputs(bnn, rng_key, 0, params, mask, block))
        return jax.lax.fori_loop(0, num_samples, add, jnp.zeros(shape.shape, shape.dtype)) / num_samples.astype(shape.dtype)

    return jax.jit(by_one_thread(mean), compiler_options=soundly())


@functools.lru_cache(maxsize=32)
def _draw(bnn: BNN, linearised: bool) -> Callable[..., jax.Array]:
    def draw(rng_key, params, mask, block, index):  # type: ignore[no-untyped-def]
        return draw_outputs(bnn, rng_key, index, params, mask, block, linearised)

    return jax.jit(by_one_thread(draw), compiler_options=soundly())
