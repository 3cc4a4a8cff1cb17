"""The arguments of `fit_svi`, checked and laid out as the parts of a run: what trains them, or says what they cost."""

import warnings
from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from bayesprune.core.checks import as_params, check_function, check_integer, check_key, check_object
from bayesprune.core.types import Sparsifier
from bayesprune.infer.data import feed_of, held_out
from bayesprune.infer.origins import as_origin
from bayesprune.infer.settings import (
    as_callbacks,
    as_schedule,
    check_before,
    check_optimizer,
    check_parts,
    check_surroundings,
    returns_when_interrupted,
    standing_mask,
    weight_of,
)
from bayesprune.model.families import is_of_points
from bayesprune.model.minibatches import check_minibatches
from bayesprune.model.program import Program, Trainable
from bayesprune.posteriors.joint import check_training
from bayesprune.prune.keep_all import KeepAll
from bayesprune.train.feed import Stream, WholeFeed
from bayesprune.train.kernel import for_fit
from bayesprune.train.quasi_newton import check_quasi_newton
from bayesprune.train.recipe import make_recipe
from bayesprune.train.share import automatic
from bayesprune.train.start import Given, set_up_guide
from bayesprune.train.state import Recipe
from bayesprune.train.stopping import NeverStop
from bayesprune.train.training import Periods
from bayesprune.train.watch import Watchers

AFTER_ALL = 1_000_000  # acts, at which every schedule is at its end


class Laid(NamedTuple):
    """The parts of one run. ``program``: with its course's start; ``start``: the parameters that it begins with, None for its
    own; ``returns``: whether Ctrl-C ends it with what there is."""

    recipe: Recipe
    rng_key: jax.Array
    feed: WholeFeed | Stream
    given: Given
    periods: Periods
    watch: Watchers
    program: Trainable
    start: dict[str, Any] | None
    returns: bool


def lay_out(arguments: Mapping[str, Any]) -> Laid:
    """The run that arguments of `fit_svi`, all of them by name, ask for; nothing is compiled.

    Raises `ValueError` and `TypeError` as of `fit_svi`, whose caller is the one that warnings name.
    """
    a = SimpleNamespace(**arguments)
    a.sparsifier = KeepAll() if a.sparsifier is None else a.sparsifier
    a.early_stop = NeverStop() if a.early_stop is None else a.early_stop
    rng_key = check_key(a.rng_key)
    check_integer(a.num_steps, "num_steps")
    check_parts(a.program, a.sparsifier, a.early_stop)
    if a.optimizer is not None:
        check_optimizer(a.optimizer)
    check_function(a.evaluator, "evaluator", "bp.evaluate")
    check_integer(a.eval_samples, "eval_samples")
    check_surroundings(a.augment, a.checkpoint, a.mesh, progress=a.progress, remat=a.remat)
    check_object(a.course, "course", ("begin", "plan"), "bp.courses.Standard()")
    callbacks = as_callbacks(a.callbacks)
    returns = returns_when_interrupted(a.on_interrupt)
    origin = as_origin(a.init, a.init_params)
    mask = standing_mask(a.program, a.mask) if origin is None else a.mask
    given = Given(None if a.init_params is None else as_params(a.init_params, "init_params"), mask, a.storage, origin)
    start = origin.params if origin is not None else given.init_params
    acts = not isinstance(a.sparsifier, KeepAll)
    check_training(a.program, acts, mask, a.storage == "active", start)
    check_before(a.program, a.sparsifier, mask, a.storage, start)
    mesh, program = automatic(a.mesh), a.course.begin(a.program)
    plan = a.course.plan(a.num_steps, begun=start is not None)
    if origin is not None and a.optimizer is None and plan.laid_out:
        given = given._replace(init=origin._replace(anew=True))
    feed, batch = feed_of(program, a.data, a.num_rows, a.batch_size, mesh)
    eval_data = held_out(program, a.eval_data, a.early_stop)
    periods = Periods.of(
        a.num_steps,
        epoch=-(-feed.example.num_rows // batch),
        stacklevel=4,
        every=(acts, a.every),
        eval_every=(eval_data is not None, a.eval_every),
        checkpoint_every=(a.checkpoint is not None, a.checkpoint_every),
        callback_every=a.callback_every,
    )
    if a.every is None and periods.every:
        periods = periods._replace(every=plan.every or periods.every, acts=(plan.first, plan.last))
    _warn_of_schedule(a.sparsifier, periods.num_acts)
    if isinstance(program, Program):
        check_minibatches(program.model, feed.shown, batch, feed.example.num_rows)
    set_up_guide(rng_key, program, feed.shown)
    of_course = plan.of_points if plan.of_points is not None and is_of_points(program) else plan.optimizer
    kernel = for_fit(of_course if a.optimizer is None else a.optimizer, program, feed.example.num_rows, a.num_steps)
    kl_weight = as_schedule(weight_of(kernel, plan.kl_weight, a.kl_weight), a.num_steps)
    estimator = plan.estimator if a.estimator is None else a.estimator
    recipe = make_recipe(
        program, feed.example, batch, optimizer=kernel, sparsifier=a.sparsifier, kl_weight=kl_weight, estimator=estimator,
        num_particles=a.num_particles, mesh=mesh, augment=a.augment, remat=a.remat, verified=plan.verified,
    )  # fmt: skip
    check_quasi_newton(recipe, feed.example)
    watch = Watchers(a.evaluator, eval_data, a.eval_samples, a.early_stop, callbacks)
    return Laid(recipe, rng_key, feed, given, periods, watch, program, start, returns)


def _warn_of_schedule(sparsifier: Sparsifier, acts: int) -> None:
    """Warn where a schedule of the density is not at its end after so many acts: it counts them, and not steps."""
    density = getattr(sparsifier, "density", None)
    if not callable(density) or not acts:
        return
    try:
        reached, end = (float(density(jnp.asarray(number))) for number in (acts, AFTER_ALL))
    except Exception:  # of the user's own, which need not know so many
        return
    if end > 0 and reached > 1.02 * end:  # one without a floor has no end
        warnings.warn(
            f"the density is at {reached:.3g} after the last of {acts} acts, and its schedule ends at {end:.3g}: schedules "
            f"count acts, not steps. Let it end within {acts} acts, or have more of them by every=.",
            UserWarning,
            stacklevel=4,
        )
