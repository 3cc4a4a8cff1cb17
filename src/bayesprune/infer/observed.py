"""What a likelihood observes under networks drawn from the posterior: targets drawn of it, and how probable given ones are."""

import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
from jax.typing import ArrayLike
from numpyro.distributions import Distribution
from numpyro.handlers import substitute, trace

from bayesprune.core.compiling import soundly
from bayesprune.core.given import GivenRows, RandomKey
from bayesprune.core.numbers import real_numbers, rows_in
from bayesprune.core.send import send
from bayesprune.core.streams import OfANetwork, stream
from bayesprune.core.tracing import as_written, by_one_thread
from bayesprune.core.types import Mask, PyTree, Standalone
from bayesprune.infer.data import takes_nan
from bayesprune.infer.predict import blocks_of, check_inputs, draw, networks, rows_of
from bayesprune.model.bnn import BNN
from bayesprune.model.likelihoods.custom import CLASSES
from bayesprune.model.likelihoods.masked import of_observed
from bayesprune.model.likelihoods.targets import elements


def sample_targets(
    rng_key: RandomKey,
    bnn: BNN | Any,
    params: dict[str, Any] | Any,
    x: PyTree,
    *,
    mask: dict[str, Any] | None = None,
    num_samples: int = 100,
) -> np.ndarray:
    """Targets drawn from the predictive distribution, noise included: (num_samples, rows, ...), one network for each.

    Their quantiles over the first axis are predictive bands under any likelihood; labels are drawn as whole numbers.

    Arguments and errors are those of `predict`; and ``TypeError`` for a `Compact`, which holds no distribution of y, and for a
    likelihood that samples no "obs".

    Example:
        >>> import jax, numpy as np, bayesprune as bp
        >>> bnn = bp.BNN(bp.nets.MLP((4,), 1), prior=bp.priors.Gaussian(), likelihood=bp.likelihoods.Poisson(),
        ...              input_shape=(2,))
        >>> data = bp.Dataset(np.ones((20, 2), np.float32), np.arange(20))
        >>> fit = bp.fit_svi(jax.random.key(0), bnn, data, num_steps=2, progress=False)
        >>> y = bp.sample_targets(jax.random.key(1), bnn, fit.params, data.x, num_samples=3)
        >>> y.shape, y.dtype.kind, bool((y >= 0).all())
        ((3, 20), 'i', True)
    """
    if isinstance(bnn, Standalone):
        raise TypeError(f"{type(bnn).__name__} holds the mean of y, not its distribution: give the BNN with its parameters.")
    rng_key, x, mask = check_inputs(rng_key, bnn, params, x, mask, num_samples)
    if kind_of(bnn, params) is None:
        if getattr(of_observed(bnn.likelihood), "known", False):
            why = "knows the noise of each row, which new rows do not say: add yours to the means of predict_draws"
        else:
            why = "samples no 'obs' row by row: there are no targets to draw; predict_draws has the means"
        raise TypeError(f"{type(bnn.likelihood).__name__} {why}.")
    return draws_of_targets(rng_key, bnn, params, x, mask, num_samples)["y"]


def draws_of_targets(
    rng_key: RandomKey,
    bnn: BNN,
    params: dict[str, Any],
    x: PyTree,
    mask: dict[str, Any] | None,
    num_samples: int,
    each: int = 1,
    read: tuple[str, ...] = (),
) -> dict[str, np.ndarray]:
    """``each`` targets of every network and row, "y" (num_samples each, rows, ...); or with ``read``, such as ("loc", "scale"),
    what each network's distribution of targets says of itself, (num_samples, rows, ...)."""
    rng_key, x, mask = check_inputs(rng_key, bnn, params, x, mask, num_samples)
    params, num_samples = networks(params, num_samples)
    of_block, found = functools.partial(_draw(bnn, each, read), rng_key, params, mask), []
    indices = [send(index, np.int32) for index in range(num_samples)]
    for number, block in enumerate(blocks_of(x)):
        one_block = functools.partial(of_block, block, number=send(number, np.int32))
        found.append([jax.tree.map(np.asarray, one_block(index)) for index in indices])
    networks_of = list(zip(*found, strict=True))
    stacked = {
        name: np.stack([rows_of([part[name] for part in parts], rows_in(x)) for parts in networks_of]) for name in found[0][0]
    }
    if "y" not in stacked:
        return stacked
    of_networks = np.moveaxis(stacked["y"], 2, 1)  # (networks, each, rows, ...)
    return {"y": of_networks.reshape((-1, *of_networks.shape[2:]))}


def kind_of(bnn: BNN, params: dict[str, Any]) -> str | None:
    """What is observed: "gaussian", "bits", "classes", or other "values"; None where nothing is, or not row by row."""
    found: list[str | None] = []
    row = bnn.inputs.zeros(2)

    def of_two_rows(params: dict[str, Any]) -> Any:
        fn = _observed(bnn, jax.random.key(0), 0, networks(params, 1)[0], {}, row)
        found.append(None if fn is None else _kind(elements(fn)))
        return jnp.zeros(())

    jax.eval_shape(of_two_rows, params)
    return found[0]


def _kind(fn: Distribution) -> str | None:
    if fn.batch_shape[:1] != (2,):
        return None
    if type(fn) is dist.Normal:
        return "gaussian"
    if isinstance(fn, CLASSES):
        return "classes"
    return "bits" if fn.support == dist.constraints.boolean else "values"


@by_one_thread
def _observed(bnn: BNN, rng_key: jax.Array, index: ArrayLike, params: PyTree, mask: Mask, x: PyTree) -> Any:
    """The distribution of "obs" for the rows of ``x`` under network number ``index``; None where there is none."""
    network, observe = draw(bnn, rng_key, index, params, mask, bnn.network, bnn.likelihood.observe)
    # A value is given so that none is drawn: only the distribution is wanted, and NumPyro's draws may promote types unasked.
    observe = substitute(observe, substitute_fn=lambda site: jnp.zeros(()) if site["name"] == "obs" else None)
    site = trace(observe).get_trace(network(x), None).get("obs")
    return site["fn"] if site is not None and site["type"] == "sample" else None


@functools.lru_cache(maxsize=32)
def _draw(bnn: BNN, each: int, read: tuple[str, ...]) -> Callable[..., dict[str, jax.Array]]:
    def one(rng_key, params, mask, block, index, number):  # type: ignore[no-untyped-def]
        # Other noise for every chunk of rows: the network's own key is one for all of them.
        of_targets = stream(jax.random.fold_in(rng_key, index), OfANetwork.TARGETS)
        keys = jax.random.split(jax.random.fold_in(of_targets, number), rows_in(block))

        def chunk(pair: tuple[Any, jax.Array]) -> dict[str, jax.Array]:
            fn = elements(_observed(bnn, rng_key, index, params, mask, pair[0]))
            if read:
                return {name: jnp.broadcast_to(getattr(fn, name), fn.shape()) for name in read}
            with as_written():  # of NumPyro's own arithmetic: bits times whole numbers
                return {"y": jnp.moveaxis(fn.sample(pair[1], (each,)), 0, 1)}

        return jax.lax.map(chunk, (block, keys))

    return jax.jit(by_one_thread(one), compiler_options=soundly())


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
        if not parts and jax.eval_shape(functools.partial(_nats, bnn), rng_key, 0, *given).shape[:2] != targets.shape[:2]:
            return None
        parts.append(np.asarray((_nats_of_each if each else _nats_of_mean)(bnn)(rng_key, *given, num_samples)))
    found = rows_of(parts, rows_in(x))
    return np.moveaxis(found, -1, 0) if each else found


@by_one_thread
def _nats(bnn: BNN, rng_key: jax.Array, index: ArrayLike, params: PyTree, mask: Mask, x: PyTree, y: jax.Array) -> jax.Array:
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
def _nats_of_mean(bnn: BNN) -> Callable[..., jax.Array]:
    def mean(rng_key, params, mask, x, y, num_samples):  # type: ignore[no-untyped-def]
        of = lambda index: _nats(bnn, rng_key, index, params, mask, x, y)  # noqa: E731
        add = lambda index, total: jnp.logaddexp(total, of(index))  # noqa: E731
        like = jax.eval_shape(of, 0)
        none = jnp.full(like.shape, -jnp.inf, like.dtype)  # to which the first is added: one copy of the network is compiled
        return jax.lax.fori_loop(0, num_samples, add, none) - jnp.log(num_samples)

    compiled = jax.jit(mean, compiler_options=soundly())
    return lambda *args: compiled(*args[:-1], send(args[-1]))


@functools.lru_cache(maxsize=32)
def _nats_of_each(bnn: BNN) -> Callable[..., jax.Array]:
    def each(rng_key, params, mask, x, y, num_samples):  # type: ignore[no-untyped-def]
        found = jax.lax.map(lambda index: _nats(bnn, rng_key, index, params, mask, x, y), jnp.arange(num_samples))
        return jnp.moveaxis(found, 0, -1)

    return jax.jit(each, static_argnames="num_samples", compiler_options=soundly())
