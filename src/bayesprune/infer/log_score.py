"""How probable held-out targets are, row by row or token by token, under any likelihood that samples "obs"."""

import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
from jax.typing import ArrayLike
from numpyro.handlers import trace

from bayesprune.core.compiling import soundly
from bayesprune.core.given import GivenRows, RandomKey
from bayesprune.core.numbers import real_numbers, rows_in
from bayesprune.core.send import send
from bayesprune.core.tracing import as_written, by_one_thread
from bayesprune.core.types import Mask, PyTree
from bayesprune.infer.data import takes_nan
from bayesprune.infer.predict import blocks_of, check_inputs, draw, networks, rows_of
from bayesprune.model.bnn import BNN
from bayesprune.model.likelihoods.targets import elements


def log_density(
    rng_key: RandomKey, bnn: BNN, params: PyTree, data: GivenRows, mask: Mask | None, num_samples: int, each: bool = False
) -> np.ndarray | None:
    """log p(y_i | x_i, data), the log of the mean density over ``num_samples`` networks drawn, nats, (rows,).

    Of outputs for every token, and targets for each: (rows, tokens). None where the likelihood has no density of each row: it
    samples no "obs", or one for all rows together. ``each``: log p(y_i | x_i, w) of every network, (num_samples, rows, ...),
    those of `predict_draws` and of `draws_of_targets` under the same key.
    """
    rng_key, x, mask = check_inputs(rng_key, bnn, params, data.x, mask, num_samples)
    params, num_samples = networks(params, num_samples)
    y = np.asarray(real_numbers(data.y, "data.y", takes_nan(bnn)))
    parts: list[np.ndarray] = []
    for block, targets in zip(blocks_of(x), blocks_of(y, beside=x), strict=True):
        given = (params, mask, block, targets)
        if not parts and jax.eval_shape(functools.partial(_draw, bnn), rng_key, 0, *given).shape[:2] != targets.shape[:2]:
            return None
        parts.append(np.asarray((_each if each else _mean)(bnn)(rng_key, *given, num_samples)))
    found = rows_of(parts, rows_in(x))
    return np.moveaxis(found, -1, 0) if each else found


@by_one_thread
def _draw(bnn: BNN, rng_key: jax.Array, index: ArrayLike, params: PyTree, mask: Mask, x: PyTree, y: jax.Array) -> jax.Array:
    """log p(y | x, w) of network number ``index``, chunk by chunk: (chunks, rows), or (chunks, rows, tokens)."""
    network, observe = draw(bnn, rng_key, index, params, mask, bnn.network, bnn.likelihood.observe)

    def chunk(pair: tuple[Any, jax.Array]) -> jax.Array:
        site = trace(observe).get_trace(network(pair[0]), pair[1]).get("obs")
        if site is None or site["type"] != "sample":
            return jnp.zeros(())
        fn = site["fn"]
        kept = (len(pair[1]), *bnn.tokens)
        if isinstance(fn, dist.Independent) and elements(fn).batch_shape[: len(kept)] == kept:
            fn = elements(fn)
        else:
            kept = kept[:1]
        with as_written():  # of NumPyro's own arithmetic: labels times logits
            nats = fn.log_prob(site["value"])
        return nats.reshape((*kept, -1)).sum(-1) if nats.ndim else nats  # several outputs of a row, or of a token

    return jax.lax.map(chunk, (x, y))


@functools.lru_cache(maxsize=32)
def _mean(bnn: BNN) -> Callable[..., jax.Array]:
    def mean(rng_key, params, mask, x, y, num_samples):  # type: ignore[no-untyped-def]
        of = lambda index: _draw(bnn, rng_key, index, params, mask, x, y)  # noqa: E731
        add = lambda index, total: jnp.logaddexp(total, of(index))  # noqa: E731
        like = jax.eval_shape(of, 0)
        none = jnp.full(like.shape, -jnp.inf, like.dtype)  # to which the first is added: one copy of the network is compiled
        return jax.lax.fori_loop(0, num_samples, add, none) - jnp.log(num_samples)

    compiled = jax.jit(mean, compiler_options=soundly())
    return lambda *args: compiled(*args[:-1], send(args[-1]))


@functools.lru_cache(maxsize=32)
def _each(bnn: BNN) -> Callable[..., jax.Array]:
    def each(rng_key, params, mask, x, y, num_samples):  # type: ignore[no-untyped-def]
        found = jax.lax.map(lambda index: _draw(bnn, rng_key, index, params, mask, x, y), jnp.arange(num_samples))
        return jnp.moveaxis(found, 0, -1)

    return jax.jit(each, static_argnames="num_samples", compiler_options=soundly())
