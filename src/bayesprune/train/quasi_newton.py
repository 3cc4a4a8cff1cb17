"""Optimisers that learn from differences of gradients: they need a loss that is the same function at every step."""

import jax
from jax.interpreters.partial_eval import dce_jaxpr
from optax import ScaleByLBFGSState

from bayesprune.core.keys import abstract_key
from bayesprune.core.trees import of_kind
from bayesprune.core.types import Dataset
from bayesprune.train.loop import Loop
from bayesprune.train.sites import Example, sites_of
from bayesprune.train.state import Carry, Recipe, as_it_is


def check_quasi_newton(recipe: Recipe, example: Example) -> None:
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
