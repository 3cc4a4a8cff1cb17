"""The compiled training loop: many steps in one program, one compilation for warm-up, pruning and regrowth alike."""

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax
from numpyro.distributions import biject_to
from numpyro.distributions.constraints import real
from numpyro.handlers import seed, substitute, trace
from numpyro.infer import ELBO

from bayesprune.core.types import Dataset, Evidence, Info, MeanField, Sparsifier, SparseState
from bayesprune.infer import batches as batching
from bayesprune.model.handlers import masked, probed, scaled


# The longest run of steps inside one call: the size of the buffer of losses.
CHUNK = 500


class Carry(NamedTuple):
    """All that changes from step to step. ``params`` are unconstrained; ``rng_key`` never changes, steps fold themselves in."""

    params: dict[str, Any]
    opt_state: Any
    mutable: dict[str, Any]
    step: jax.Array
    rng_key: jax.Array
    batches: batching.Batches


class Loop(NamedTuple):
    """The jitted functions of one fit.

    ``init(rng_key, data) -> Carry``; ``run(carry, data, mask, num_steps) -> (carry, losses, done)``, at most `CHUNK` steps,
    fewer where a loss is not finite; ``prune(carry, data, sparse_state) -> (sparse_state, Info)``; ``constrain(params)``.
    """

    init: Callable[..., Carry]
    run: Callable[..., tuple[Carry, jax.Array, jax.Array]]
    prune: Callable[..., tuple[SparseState, Info]]
    constrain: Callable[[dict[str, Any]], dict[str, Any]]
    unconstrain: Callable[[dict[str, Any]], dict[str, Any]]
    loss: Callable[..., jax.Array]


class Example(NamedTuple):
    """Shapes and types of a data set, as something that hashes."""

    x: tuple[tuple[int, ...], Any]
    y: tuple[tuple[int, ...], Any]

    @classmethod
    def of(cls, data: Dataset) -> "Example":
        return cls((tuple(data.x.shape), data.x.dtype), (tuple(data.y.shape), data.y.dtype))

    def abstract(self) -> Dataset:
        return Dataset(jax.ShapeDtypeStruct(*self.x), jax.ShapeDtypeStruct(*self.y))


class Sites(NamedTuple):
    """Parameter sites of a program: transforms to their supports, and the functions that make initial values."""

    transforms: dict[str, Any]
    initial: Callable[[jax.Array, Dataset], tuple[dict[str, Any], dict[str, Any]]]


def find_sites(program: Any, data: Dataset, keywords: dict[str, Any]) -> Sites:
    """Trace guide and model once, abstractly, for their parameters; values come from a function that can be jitted."""
    transforms: dict[str, Any] = {}

    def initial(rng_key: jax.Array, data: Dataset) -> tuple[dict[str, Any], dict[str, Any]]:
        guide_key, model_key = jax.random.split(rng_key)
        guide = trace(seed(program.guide, guide_key)).get_trace(data.x, data.y, **keywords)
        values = {n: s["value"] for n, s in guide.items() if s["type"] in ("sample", "param") and not s.get("is_observed")}
        model = trace(substitute(seed(program.model, model_key), data=values)).get_trace(data.x, data.y, **keywords)
        params, mutable = {}, {}
        for name, site in (model | guide).items():
            if site["type"] == "param":
                transforms[name] = biject_to(site["kwargs"].pop("constraint", real))
                params[name] = transforms[name].inv(site["value"]) if not isinstance(site["value"], dict) else site["value"]
            elif site["type"] == "mutable":
                mutable[name] = site["value"]
        # A weakly typed value would compile the second step again.
        strong = lambda tree: jax.tree.map(lambda v: jnp.asarray(v, jnp.asarray(v).dtype), tree)  # noqa: E731
        return strong(params), strong(mutable)

    jax.eval_shape(initial, jax.random.key(0), data)
    return Sites(transforms, initial)


@functools.lru_cache(maxsize=16)
def compile_loop(
    program: Any,
    elbo: ELBO,
    optimizer: optax.GradientTransformation,
    sparsifier: Sparsifier,
    kl_weight: Callable[[jax.Array], jax.Array],
    read: Callable[[dict[str, Any]], dict[str, MeanField]],
    batch_size: int,
    example: "Example",
    keywords: tuple[tuple[str, Any], ...],
) -> Loop:
    """Build the jitted functions once for each distinct fit; a second fit of the same kind compiles nothing."""
    static = dict(keywords)
    sites = find_sites(program, example.abstract(), static)

    def constrain(params: dict[str, Any]) -> dict[str, Any]:
        return {n: v if isinstance(v, dict) else sites.transforms[n](v) for n, v in params.items()}

    def unconstrain(params: dict[str, Any]) -> dict[str, Any]:
        return {n: v if isinstance(v, dict) else sites.transforms[n].inv(v) for n, v in params.items()}

    def init(rng_key: jax.Array, data: Dataset) -> Carry:
        init_key, run_key, data_key = jax.random.split(rng_key, 3)
        params, mutable = sites.initial(init_key, data)
        reading = batching.start(data_key, data.x.shape[0])
        return Carry(params, optimizer.init(params), mutable, jnp.zeros((), jnp.int32), run_key, reading)

    def loss_of(params, mutable, step_key, step, batch, num_rows, mask, probe):  # type: ignore[no-untyped-def]
        ratio = num_rows / batch.x.shape[0]
        weight = kl_weight(step)
        model = scaled(probed(masked(program.model, mask), probe), observed=ratio, latent=weight)
        guide = scaled(masked(program.guide, mask), latent=weight)
        values = constrain(params) | mutable
        result = elbo.loss_with_mutable_state(step_key, values, model, guide, batch.x, batch.y, **static)
        return result["loss"] / num_rows, result["mutable_state"] or {}

    def draw(carry: Carry, data: Dataset) -> tuple[batching.Batches, Dataset]:
        if batch_size == data.x.shape[0]:
            return carry.batches, data
        reading, rows = batching.take(carry.batches, batch_size)
        return reading, Dataset(data.x[rows], data.y[rows])

    def step(carry: Carry, data: Dataset, mask: dict[str, Any]) -> tuple[Carry, jax.Array]:
        num_rows = data.x.shape[0]
        reading, batch = draw(carry, data)
        key = jax.random.fold_in(carry.rng_key, carry.step)
        value_and_grad = jax.value_and_grad(loss_of, has_aux=True)
        (loss, new), grads = value_and_grad(
            carry.params, jax.lax.stop_gradient(carry.mutable), key, carry.step, batch, num_rows, mask, {}
        )
        mutable = carry.mutable | {name: new[name] for name in carry.mutable if name in new}
        updates, opt_state = optimizer.update(grads, carry.opt_state, carry.params)
        params = optax.apply_updates(carry.params, updates)
        return Carry(params, opt_state, mutable, carry.step + 1, carry.rng_key, reading), loss * num_rows

    def run(carry: Carry, data: Dataset, mask: dict[str, Any], num_steps: jax.Array) -> tuple[Carry, jax.Array, jax.Array]:
        def body(state):  # type: ignore[no-untyped-def]
            carry, losses, done, _ = state
            carry, loss = step(carry, data, mask)
            return carry, losses.at[done].set(loss), done + 1, jnp.isfinite(loss)

        def go_on(state):  # type: ignore[no-untyped-def]
            _, _, done, finite = state
            return (done < num_steps) & finite

        start = (carry, jnp.zeros((CHUNK,)), jnp.zeros((), jnp.int32), jnp.array(True))
        carry, losses, done, _ = jax.lax.while_loop(go_on, body, start)
        return carry, losses, done

    def prune(carry: Carry, data: Dataset, state: SparseState) -> tuple[SparseState, Info]:
        posterior = read(constrain(carry.params))
        key, step_key = jax.random.split(jax.random.fold_in(jax.random.fold_in(carry.rng_key, carry.step), 1))
        _, batch = draw(carry, data)
        probe = {name: jnp.zeros_like(node.loc) for name, node in posterior.items()}
        gradient = jax.grad(
            lambda p: loss_of(carry.params, carry.mutable, key, carry.step, batch, data.x.shape[0], state.mask, p)[0]
        )(probe)
        return sparsifier.step(step_key, Evidence(posterior, gradient), state)

    def loss(carry: Carry, data: Dataset, mask: dict[str, Any]) -> jax.Array:
        key = jax.random.fold_in(carry.rng_key, carry.step)
        return loss_of(carry.params, carry.mutable, key, carry.step, data, data.x.shape[0], mask, {})[0] * data.x.shape[0]

    return Loop(
        jax.jit(init), jax.jit(run, donate_argnums=0), jax.jit(prune), jax.jit(constrain), jax.jit(unconstrain), jax.jit(loss)
    )
