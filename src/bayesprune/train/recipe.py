"""The recipe of a fit from its settings, equal for settings that compute the same.

Optimisers that learn from differences of gradients need a loss that is the same function at every step: others are refused.
"""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import optax
from jax.interpreters.partial_eval import dce_jaxpr
from numpyro.infer import ELBO
from optax import ScaleByLBFGSState

from bayesprune.core.keys import abstract_key
from bayesprune.core.trees import of_kind
from bayesprune.core.types import Dataset, Sparsifier
from bayesprune.model.inputs import rows_taken
from bayesprune.model.program import Trainable
from bayesprune.train.alike import as_kernel, kernel_key, trace_key
from bayesprune.train.kernel import Kernel
from bayesprune.train.loop import Loop
from bayesprune.train.objective import check_state, make_elbo
from bayesprune.train.sites import Example, sites_of
from bayesprune.train.state import Carry, Recipe, as_it_is


def make_recipe(
    program: Trainable,
    example: Example,
    batch_size: int,
    *,
    optimizer: optax.GradientTransformation | Kernel,
    sparsifier: Sparsifier,
    kl_weight: Callable[[jax.Array], Any],
    estimator: str | ELBO | Any,
    num_particles: int,
    mesh: jax.sharding.Mesh | None = None,
    augment: Callable[[jax.Array, jax.Array], jax.Array] = as_it_is,
    remat: bool = False,
    verified: int = 0,
) -> Recipe:
    """The recipe for data like ``example``; recipes of parts that compute the same are equal.

    Raises ``ValueError`` for L-BFGS of a loss that is drawn anew at every step.
    """
    keywords = tuple(program.keywords(example.num_rows).items())
    elbo = make_elbo(estimator, num_particles)
    check_state(elbo, sites_of(program, example).mutable)
    kernel = as_kernel(optimizer)
    step, rng_key = jax.ShapeDtypeStruct((), jnp.int32), abstract_key()
    computes = (
        kernel_key(kernel, sites_of(program, example).params),
        trace_key(kl_weight, step),
        trace_key(augment, rng_key, jax.eval_shape(lambda x: rows_taken(program, x), example.abstract(batch_size).x)),
    )
    recipe = Recipe(
        program, elbo, kernel, sparsifier, kl_weight, batch_size, keywords, mesh, augment,
        remat=remat, verified=verified, computes=computes,
    )  # fmt: skip
    _check_quasi_newton(recipe, example)
    return recipe


def _check_quasi_newton(recipe: Recipe, example: Example) -> None:
    """Refuse L-BFGS of a loss that is drawn anew at every step, by its rows or by its noise: ``ValueError``."""
    state = jax.eval_shape(recipe.kernel.init, sites_of(recipe.program, example).params)
    if not of_kind(state, ScaleByLBFGSState):
        return
    if drawn := _drawn(recipe, example):
        raise ValueError(
            f"optimizer is L-BFGS, which learns the curvature from differences of gradients, and those of this loss are of "
            f"{drawn}: take optax.adam(1e-3), or give it a loss without noise, by posterior='map' of the BNN, all rows at "
            "every step (batch_size=None) and no augment=."
        )


def _drawn(recipe: Recipe, example: Example) -> str:
    """What of the loss is drawn anew at every step; nothing of one without noise."""
    if recipe.batch_size < example.num_rows:
        return f"minibatches, {recipe.batch_size} of {example.num_rows} rows"
    if recipe.augment is not as_it_is:
        return "inputs that augment= draws"
    loop, data = Loop(recipe, sites_of(recipe.program, example), example.num_rows), example.abstract()

    def loss(rng_key: jax.Array, carry: Carry, data: Dataset) -> jax.Array:
        return loop.loss(loop.values(carry.params, carry), carry, rng_key, data, {}, {})[0]

    carry = jax.eval_shape(loop.init, abstract_key(), data)
    traced = jax.make_jaxpr(loss)(abstract_key(), carry, data).jaxpr
    uses_key = dce_jaxpr(traced, [True] * len(traced.outvars))[1][0]
    return "weights that are drawn, or of other noise" if uses_key else ""
