"""The arguments of `fit_svi` and `fit_sgmcmc`, checked and laid out as the parts of a run, or of chains."""

import dataclasses
import warnings
from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

import jax
import jax.numpy as jnp
from jax.sharding import Mesh
from numpyro.handlers import seed

from bayesprune.core.checks import (
    as_params,
    check_function,
    check_integer,
    check_key,
    check_name,
    check_object,
    got,
)
from bayesprune.core.tracing import by_one_thread
from bayesprune.core.types import Sparsifier
from bayesprune.infer.chains import PARALLEL, check_plain, devices_of_chains
from bayesprune.infer.data import feed_of, held_out
from bayesprune.infer.evaluate import evaluate
from bayesprune.infer.origins import as_origin
from bayesprune.infer.settings import (
    as_callbacks,
    as_schedule,
    check_before,
    check_optimizer,
    check_parts,
    check_sampler,
    check_surroundings,
    planned,
    returns_when_interrupted,
    starting_mask,
)
from bayesprune.model.bnn import BNN
from bayesprune.model.minibatches import check_minibatches
from bayesprune.model.program import Program
from bayesprune.model.samples import current_sample
from bayesprune.posteriors.joint import check_training
from bayesprune.prune.keep_all import KeepAll
from bayesprune.train.kernel import Kernel
from bayesprune.train.recipe import make_recipe
from bayesprune.train.run import Laid
from bayesprune.train.share import automatic
from bayesprune.train.snapshots import steps_of
from bayesprune.train.start import Given, set_up_guide
from bayesprune.train.stopping import NeverStop, Watchers
from bayesprune.train.training import Periods

AFTER_ALL = 1_000_000  # acts, at which every schedule is at its end
SEQUENTIAL = "sequential"
METHODS = (SEQUENTIAL, "vectorized", PARALLEL)


def _begin(a: SimpleNamespace) -> tuple[jax.Array, tuple[Any, ...], bool]:
    """Checks that both fits have in common; the key, the callbacks, and whether Ctrl-C returns what there is."""
    a.sparsifier = KeepAll() if a.sparsifier is None else a.sparsifier
    check_integer(a.num_steps, "num_steps")
    check_surroundings(a.augment, a.checkpoint, a.mesh, progress=a.progress, remat=a.remat)
    return check_key(a.rng_key), as_callbacks(a.callbacks), returns_when_interrupted(a.on_interrupt)


def _periods(a: SimpleNamespace, epoch: int, acts: bool, evaluates: bool) -> Periods:
    return Periods.of(
        a.num_steps,
        epoch=epoch,
        every=(acts, a.every),
        eval_every=(evaluates, a.eval_every),
        checkpoint_every=(a.checkpoint is not None, a.checkpoint_every),
        callback_every=a.callback_every,
    )


def lay_out(arguments: Mapping[str, Any]) -> Laid:
    """The run that arguments of `fit_svi`, all of them by name, ask for; nothing is compiled.

    Raises `ValueError` and `TypeError` as of `fit_svi`, whose caller is the one that warnings name.
    """
    a = SimpleNamespace(**arguments)
    rng_key, callbacks, returns = _begin(a)
    a.early_stop = NeverStop() if a.early_stop is None else a.early_stop
    check_parts(a.program, a.sparsifier, a.early_stop)
    if a.optimizer is not None:
        check_optimizer(a.optimizer)
    check_function(a.evaluator, "evaluator", "bp.evaluate")
    check_integer(a.eval_samples, "eval_samples")
    check_object(a.course, "course", ("begin", "plan"), "bp.courses.Standard()")
    origin = as_origin(a.init, a.init_params)
    mask = starting_mask(a.program, a.mask) if origin is None else a.mask
    given = Given(None if a.init_params is None else as_params(a.init_params, "init_params"), mask, a.storage, origin)
    acts = not isinstance(a.sparsifier, KeepAll)
    check_training(a.program, acts, mask, a.storage == "active", given.params)
    check_before(a.program, a.sparsifier, mask, a.storage, given.params)
    mesh, program = automatic(a.mesh), a.course.begin(a.program)
    plan = a.course.plan(a.num_steps, begun=given.params is not None)
    if origin is not None and a.optimizer is None and plan.laid_out:
        given = given._replace(init=origin._replace(anew=True))
    feed, batch = feed_of(program, a.data, a.num_rows, a.batch_size, mesh)
    eval_data = held_out(program, a.eval_data, a.early_stop)
    periods = _periods(a, -(-feed.example.num_rows // batch), acts, eval_data is not None)
    if a.every is None and periods.every:
        periods = periods._replace(every=plan.every or periods.every, acts=(plan.first, plan.last))
    _warn_of_schedule(a.sparsifier, periods.num_acts)
    if isinstance(program, Program):
        check_minibatches(program.model, feed.shown, batch, feed.example.num_rows)
    set_up_guide(rng_key, program, feed.shown)
    kernel, kl_weight, estimator = planned(
        plan, program, feed.example.num_rows, a.num_steps, a.optimizer, a.kl_weight, a.estimator
    )
    recipe = make_recipe(
        program, feed.example, batch, optimizer=kernel, sparsifier=a.sparsifier, kl_weight=kl_weight, estimator=estimator,
        num_particles=a.num_particles, mesh=mesh, augment=a.augment, remat=a.remat, verified=plan.verified,
    )  # fmt: skip
    watch = Watchers(a.evaluator, eval_data, a.eval_samples, a.early_stop, callbacks)
    return Laid(recipe, rng_key, feed, given, periods, watch, a.checkpoint, a.progress, returns)


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


def lay_out_chains(arguments: Mapping[str, Any]) -> tuple[Laid, Mesh | None]:
    """The run of each chain that arguments of `fit_sgmcmc`, all of them by name, ask for; nothing is compiled.

    Its program is the network with a guide of points; a start of its own each chain is given by `chain_starts`. Also the
    devices over which chains at once are spread.

    Raises `ValueError` and `TypeError` as of `fit_sgmcmc`, whose caller is the one that warnings name.
    """
    a = SimpleNamespace(**arguments)
    rng_key, callbacks, returns = _begin(a)
    for name in ("num_samples", "num_chains"):
        check_integer(getattr(a, name), name)
    if not isinstance(a.bnn, BNN):
        raise TypeError(f"bnn must be a bp.BNN, got {got(a.bnn)}. Sample a NumPyro program of your own by numpyro.infer.MCMC.")
    check_sampler(a.kernel)
    check_name("chain_method", a.chain_method, METHODS)
    mask = starting_mask(a.bnn, a.mask) if a.init is None else a.mask
    if a.chain_method != SEQUENTIAL:
        check_plain(a.chain_method, a.sparsifier, callbacks, mask, a.init, a.init_params, a.eval_data, a.checkpoint)
    check_parts(a.bnn, a.sparsifier, NeverStop())
    devices, mesh = None, automatic(a.mesh)
    if a.chain_method == PARALLEL:
        devices, mesh = devices_of_chains(mesh, a.num_chains), None
    feed, batch = feed_of(a.bnn, a.data, a.num_rows, a.batch_size, mesh)
    num_rows = feed.example.num_rows
    kernel = _completed(a.kernel, "the kernel", num_rows, a.num_steps)
    sparsifier = _completed(a.sparsifier, "the sparsifier", num_rows, a.num_steps)
    moving, epoch = _moving(a.bnn), -(-num_rows // batch)
    periods = _periods(a, epoch, not isinstance(sparsifier, KeepAll), a.eval_data is not None)
    widest = a.num_steps if isinstance(sparsifier, KeepAll) else epoch  # networks of before a cut are denser
    periods = periods._replace(stops=steps_to_keep(kernel, a.num_steps, a.burn_in, a.num_samples, a.sample_every, widest))
    watch = Watchers(evaluate, held_out(a.bnn, a.eval_data, NeverStop()), 1, NeverStop(), callbacks)
    recipe = make_recipe(
        moving, feed.example, batch, optimizer=kernel, sparsifier=sparsifier, kl_weight=as_schedule(1.0, a.num_steps),
        estimator="weight", num_particles=1, mesh=mesh, augment=a.augment, remat=a.remat,
    )  # fmt: skip
    given = Given(None, mask, "masked")
    return Laid(recipe, rng_key, feed, given, periods, watch, a.checkpoint, a.progress, returns), devices


def _completed(part: object, name: str, num_rows: int, num_steps: int) -> Any:
    """The kernel or sparsifier with what it does not know yet: the rows of the data, and the steps of the run.

    `ValueError` where it knows another number of rows: a kernel's temperature and decays are parts of that.
    """
    known = getattr(part, "num_rows", 0)
    if known not in (0, num_rows):
        raise ValueError(
            f"{name}'s num_rows must be the data's {num_rows}, got {known}: leave it out of {name}, fit_sgmcmc says it."
        )
    facts = {"num_rows": num_rows, "num_steps": num_steps}
    if not dataclasses.is_dataclass(part) or isinstance(part, type):
        return part
    unknown = {name: value for name, value in facts.items() if getattr(part, name, None) == 0}
    return dataclasses.replace(part, **unknown) if unknown else part


@by_one_thread
def _moving(bnn: BNN) -> BNN:
    """The network with a guide of points that a sampler can move. `ValueError` for a prior without a density at points."""
    moving = bnn.under(current_sample(bnn.family))
    try:
        jax.eval_shape(lambda: seed(moving.guide, jax.random.key(0))())
    except ValueError as error:
        raise ValueError(
            f"priors.{type(bnn.prior).__name__} cannot be sampled, for a sampler needs a density at every point: take "
            "Gaussian, Cauchy, Flat, Horseshoe, ScaleMixture or GaussianSlab, or fit it by bp.fit_svi."
        ) from error
    return moving


def check_begun(kernel: Kernel, num_steps: int, begun: int) -> None:
    """Refuse to go on in the midst of a cycle: its end would not be where networks are kept. ``begun``: steps taken so far."""
    cycles = getattr(kernel, "num_cycles", 0)
    period = max(num_steps // cycles, 1) if cycles else 1
    if begun % period:
        raise ValueError(
            f"init's chain stands at step {begun}, in the midst of a cycle of {num_steps} // {cycles} = {period} steps: give a "
            f"num_steps whose {cycles} cycles are of a length that divides {begun}, or a kernel with num_cycles=0."
        )


def steps_to_keep(
    kernel: Kernel, num_steps: int, burn_in: int, num_samples: int, every: int | None, widest: int
) -> tuple[int, ...]:
    """The last ``num_samples`` networks, the same number before the end of each cycle; `ValueError` where they do not fit.

    ``every``: steps between two; None: evenly over the last half of a cycle, but at most ``widest``.
    """
    check_integer(burn_in, "burn_in", minimum=0)
    asked = getattr(kernel, "num_cycles", 0)
    cycles = max(asked, 1)
    if asked and (own := getattr(kernel, "num_steps", num_steps)) != num_steps:
        raise ValueError(
            f"the kernel's cycles are parts of its num_steps={own}, and the call takes {num_steps} steps, at the "
            "ends of whose parts networks are kept: leave num_steps out of the kernel, or give both the same."
        )
    period = num_steps // cycles
    if not period:
        raise ValueError(
            f"num_cycles must be at most num_steps={num_steps}, got {cycles}: a cycle has one step at least. Give the kernel "
            "fewer cycles, or the call more steps."
        )
    ends = tuple(period * cycle for cycle in range(1, cycles + 1) if period * cycle > burn_in)
    if not ends:
        raise ValueError(f"burn_in must be below {period * cycles}, where the last cycle ends, got {burn_in}: nothing is kept.")
    if num_samples % len(ends):
        raise ValueError(
            f"num_samples must be a multiple of the {len(ends)} cycles that keep samples, got {num_samples}: all keep as many."
        )
    each, room = num_samples // len(ends), min(period, ends[0] - burn_in)
    if every is None:
        every = max(1, min(widest, room // 2 // each))
    check_integer(every, "sample_every")
    if (each - 1) * every >= room:
        raise ValueError(
            f"{each} samples every {every} steps do not fit into the {room} steps of a cycle after burn_in: give more steps, "
            "fewer samples, or a smaller sample_every."
        )
    return steps_of(ends, each, every)
