"""The recipe of a fit from its settings, equal for settings that compute the same."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import optax
from numpyro.infer import ELBO

from bayesprune.core.keys import abstract_key
from bayesprune.core.types import Sparsifier
from bayesprune.model.inputs import rows_taken
from bayesprune.model.program import Trainable
from bayesprune.train.alike import as_kernel, kernel_key, trace_key
from bayesprune.train.estimators import check_state, make_elbo
from bayesprune.train.kernel import Kernel
from bayesprune.train.sites import Example, sites_of
from bayesprune.train.state import Recipe, as_it_is


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
    """The recipe for data like ``example``; recipes of parts that compute the same are equal."""
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
    return Recipe(
        program, elbo, kernel, sparsifier, kl_weight, batch_size, keywords, mesh, augment,
        remat=remat, verified=verified, computes=computes,
    )  # fmt: skip
