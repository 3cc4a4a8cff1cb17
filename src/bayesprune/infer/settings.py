"""Settings of a fit, checked once and before anything is compiled: what is no method, no optimizer, no schedule, no device."""

import inspect
import os
import sys
import warnings
from collections.abc import Callable, Iterable
from typing import Any, SupportsFloat, cast

import jax
import jax.numpy as jnp
import numpy as np
from numpyro.handlers import seed, trace

from bayesprune.core.checks import check_function, check_mask, check_name, check_object, got
from bayesprune.core.given import GivenMask
from bayesprune.core.keys import abstract_key
from bayesprune.core.schedules import Checked, Constant
from bayesprune.core.send import send
from bayesprune.core.tracing import by_one_thread
from bayesprune.core.types import Params, Sparsifier
from bayesprune.courses.course import Plan
from bayesprune.model.bnn import BNN
from bayesprune.model.families import check_cut
from bayesprune.model.program import Trainable
from bayesprune.prune.keep_all import KeepAll
from bayesprune.prune.needs import check_needs, needs_of, no_spread, nothing_to_prune, warm_up_of
from bayesprune.train.kernel import Kernel, for_fit
from bayesprune.train.kernels.ivon import IVON
from bayesprune.train.kernels.optimizer import Optax
from bayesprune.train.stopping import EarlyStop, NeverStop
from bayesprune.train.storage import STORAGES
from bayesprune.train.training import Periods

ON_INTERRUPT = ("return", "raise")
_LOOKED_AT = 33  # steps of a schedule


def check_parts(program: object, sparsifier: object, early_stop: object) -> None:
    """Refuse classes, names and numbers where objects belong."""
    missing = [
        name for name in ("model", "guide", "keywords", "read", "describe") if not callable(getattr(program, name, None))
    ]
    if isinstance(program, type) or missing:
        got = f"the class {program.__name__}: call it" if isinstance(program, type) else type(program).__name__
        raise TypeError(f"program must be a bp.BNN or a bp.Program(model, guide), got {got}.")
    check_object(sparsifier, "sparsifier", ("init", "step"), "bp.methods.BMR()")
    if isinstance(early_stop, type) or not (callable(early_stop) and hasattr(early_stop, "keeps")):
        got = f"the class {early_stop.__name__}" if isinstance(early_stop, type) else repr(early_stop)
        raise TypeError(
            f"early_stop must be an object, got {got}: write bp.EarlyStop('nll', patience=5) to stop after five evaluations "
            "without a new best."
        )


def as_schedule(kl_weight: Callable[[jax.Array], Any] | SupportsFloat, num_steps: int) -> Callable[[jax.Array], Any]:
    """The divergence's weight as a function of the step; a number is a constant one. A function is checked at some steps."""
    if isinstance(kl_weight, Checked):
        return kl_weight
    if callable(kl_weight) and not isinstance(kl_weight, type):
        _check_weights(kl_weight, np.unique(np.linspace(0, num_steps - 1, _LOOKED_AT).astype(np.int32)))
        return kl_weight
    number = np.asarray(kl_weight).ndim == 0 and jnp.issubdtype(np.asarray(kl_weight).dtype, np.number)
    if not number or not 0 <= float(cast(SupportsFloat, kl_weight)) < np.inf:
        raise TypeError(
            f"kl_weight must be a function of the step, or one number that is not negative, got {kl_weight!r}: give "
            "bp.schedules.LinearWarmup(0, 1000), or 1.0."
        )
    return Constant(float(cast(SupportsFloat, kl_weight)))


def weight_of(optimizer: object, planned: Any, given: object) -> Any:
    """The divergence's weight: as given, else as the course has it, or 1 for a kernel that is of the whole bound."""
    if not getattr(optimizer, "whole_bound", False):
        return planned if given is None else given
    whole = given is None or (isinstance(given, Constant) and given.value == 1) or (not callable(given) and given == 1)
    if not whole:
        raise ValueError(
            f"kl_weight={given!r} weighs the divergence, by whose weight 1 {type(optimizer).__name__} writes the posterior: "
            "leave kl_weight out."
        )
    return Constant(1.0)


def planned(
    plan: Plan, program: Trainable, num_rows: int, num_steps: int, optimizer: Any, kl_weight: Any, estimator: Any
) -> tuple[Any, Callable[[jax.Array], Any], Any]:
    """The kernel, the divergence's weight and the bound of a fit: as given, else as its course has them."""
    if optimizer is None:
        optimizer = plan.optimizer if plan.optimizer_for is None else plan.optimizer_for(program)
    kernel = for_fit(optimizer, program, num_rows, num_steps)
    weight = as_schedule(weight_of(kernel, plan.kl_weight, kl_weight), num_steps)
    return kernel, weight, plan.estimator if estimator is None else estimator


def _check_weights(kl_weight: Callable[[jax.Array], Any], steps: np.ndarray) -> None:
    """Refuse a schedule that is below zero, or no number, at one of these steps."""
    try:
        # A schedule's own numbers may be sent: compiled, which would spare that, each would be a program of its own.
        with jax.transfer_guard_host_to_device("allow"):
            weights = np.asarray(jax.vmap(lambda step: jnp.asarray(kl_weight(step), float))(send(steps)))
    except (TypeError, ValueError) as error:
        raise TypeError(f"kl_weight must give one number for each step: {error}") from error
    if weights.shape != steps.shape:
        raise ValueError(f"kl_weight must give one number for each step, got shape {weights.shape[1:]}.")
    wrong = ~(np.isfinite(weights) & (weights >= 0))
    if wrong.any():
        raise ValueError(
            f"kl_weight must be finite and not negative at every step, got {weights[wrong][0]} at step {steps[wrong][0]}: "
            "give bp.schedules.LinearWarmup(0, 1000), or 1.0."
        )


def check_optimizer(optimizer: object) -> None:
    """Refuse what is neither an optax transformation nor a kernel; say what to write where that is plain."""
    kind = type(optimizer)
    if isinstance(optimizer, type):
        got = f"the class {optimizer.__name__}: call it with its settings"
    elif isinstance(optimizer, int | float | np.number):
        got = f"{optimizer!r}: write optax.adam({optimizer!r})"
    elif isinstance(optimizer, str):
        got = f"{optimizer!r}: write optax.{optimizer}(1e-3)"
    elif kind.__module__.startswith("numpyro."):
        got = f"NumPyro's {kind.__name__}: write optax.{kind.__name__.lower()}(1e-3)"
    elif inspect.isfunction(optimizer):
        got = f"the function {optimizer.__name__}: call it, {optimizer.__name__}(1e-3)"
    elif not all(callable(getattr(optimizer, name, None)) for name in ("init", "update")) and not isinstance(optimizer, Kernel):
        got = f"{kind.__name__}: give one such as optax.adam(1e-3)"
    elif is_sampler(optimizer):
        got = f"the sampler {kind.__name__}: sample by bp.fit_sgmcmc(..., kernel=...)"
    else:
        return
    raise TypeError(f"optimizer must be an optax transformation or a kernel of bp.kernels, got {got}.")


def is_sampler(kernel: object) -> bool:
    """Whether a kernel draws from a posterior, in cycles or without: a fit would take its noise for an optimum.

    >>> from bayesprune.train.kernels import sghmc
    >>> is_sampler(sghmc.SGHMC())
    True
    """
    return hasattr(kernel, "num_cycles")


def check_sampler(kernel: object) -> None:
    """Refuse what is no kernel, or one that descends: an optax transformation, bare or wrapped."""
    if isinstance(kernel, type) or not isinstance(kernel, Kernel) or isinstance(kernel, Optax | IVON):
        raise TypeError(
            f"kernel must be a sampler such as bp.kernels.SGHMC(), got {got(kernel)}; an optimizer belongs to "
            "bp.fit_svi(..., optimizer=...)."
        )


def starting_mask(program: Trainable, mask: GivenMask) -> Any:
    """The mask given; None becomes that of a prior which knows of dead weights, `priors.Posterior`."""
    dead = getattr(getattr(program, "prior", None), "mask", None)
    if mask is not None or not dead:
        return mask
    prunable = {str(spec.path) for spec in getattr(program, "layout", ()) if spec.prunable}
    if lost := [site for site in dead if site not in prunable]:
        raise ValueError(
            f"prior has pruned weights at {lost[0]!r}, which may not be pruned in this network: give prunable= of the BNN as "
            "it was for that fit, or mask={} to train them again."
        )
    return dict(dead)


def check_acts(sparsifier: Sparsifier, periods: Periods) -> None:
    """Warn of a sparsifier whose first pruning comes too late."""
    every, num_steps = periods.every, periods.num_steps
    if not every or num_steps == 1:
        return
    acts, warm_up = periods.num_acts, warm_up_of(sparsifier)
    if acts > warm_up:
        return
    period = f"every={every} (one epoch, if not given)"
    message = f"{period} in num_steps={num_steps}. Give every= of less than num_steps"
    if not acts and periods.acts is not None and every < num_steps:
        message = f"{period} has no multiple from step {periods.acts[0]} to {periods.acts[1]}, where the course has the acts"
        message += ". Give a smaller every=, or more steps"
    if acts:
        message = (
            f"{period} calls it {acts}x in num_steps={num_steps}, and at the first warm_up={warm_up} calls it does nothing"
        )
        message += f". Give it a warm_up= of less than {acts}, a smaller every="
    warnings.warn(f"the sparsifier never acts: {message}, or call bp.prune_once on the fit.", UserWarning, stacklevel=3)


def check_stop(early_stop: EarlyStop | NeverStop, periods: Periods) -> None:
    """Warn of an early stop that has nothing to look at: no evaluation comes before the last step."""
    if isinstance(early_stop, NeverStop) or periods.eval_every <= periods.num_steps:
        return
    warnings.warn(
        f"early_stop never looks at an evaluation: eval_every={periods.eval_every} (one epoch, if not given) in "
        f"num_steps={periods.num_steps}, and the last state is returned. Give a smaller eval_every=, or more steps.",
        UserWarning,
        stacklevel=3,
    )


def as_callbacks(callbacks: Callable[[Any], Any] | Iterable[Callable[[Any], Any]]) -> tuple[Callable[[Any], Any], ...]:
    """Functions of a `Moment`; one alone needs no list."""
    alone = callable(callbacks) or not isinstance(callbacks, Iterable)
    several: tuple[Any, ...] = (callbacks,) if alone else tuple(cast(Iterable[Any], callbacks))
    for callback in several:
        if not callable(callback) or isinstance(callback, type):
            raise TypeError(
                f"callbacks must be functions of a bp.Moment, one or a list of them, got {got(callback)}: write "
                "lambda moment: print(moment.step, moment.loss), or leave callbacks out."
            )
    return several


def returns_when_interrupted(on_interrupt: str | None) -> bool:
    """Whether Ctrl-C makes a fit return what there is: as it says, and for None at a prompt or in a notebook."""
    if on_interrupt is None:
        return hasattr(sys, "ps1")  # of Python's prompt, IPython's and a notebook's; a script has none
    check_name("on_interrupt", on_interrupt, ON_INTERRUPT)
    return on_interrupt == "return"


def check_surroundings(augment: object, checkpoint: object, mesh: object, **switches: object) -> None:
    """Refuse what is no function, no path, no mesh; ``switches``: name -> True, False, or None where that is allowed."""
    check_function(augment, "augment", "bp.data.CropFlip()")
    if not isinstance(checkpoint, str | os.PathLike | None):
        raise TypeError(
            f"checkpoint must be the path of a folder, got {got(checkpoint)}: give one such as 'runs/first'; how often is said "
            "by checkpoint_every."
        )
    check_mesh(mesh)
    for name, value in switches.items():
        if not isinstance(value, bool | np.bool_ | None) or (value is None and name != "progress"):
            raise TypeError(f"{name} must be True or False, got {got(value)}.")


def check_mesh(mesh: object) -> None:
    """Refuse what is neither a mesh of devices nor None."""
    if not isinstance(mesh, jax.sharding.Mesh | None):
        raise TypeError(
            f"mesh must be a jax.sharding.Mesh, got {got(mesh)}: make one of your devices, as by "
            f"jax.make_mesh(({jax.device_count()},), ('data',))."
        )


def check_before(
    program: Trainable, sparsifier: Sparsifier, mask: GivenMask, storage: str, start: Params | None = None
) -> None:
    """Refuse an unknown storage; and of a `BNN` what sparsifier and mask ask and it cannot have, by its guide's abstract trace.

    Values, of the parameters to ``start`` from say, are looked at later.
    """
    check_name("storage", storage, STORAGES)
    acts = not isinstance(sparsifier, KeepAll)
    if storage in ("active", "compact") and mask is None and not acts and start is None:
        keeps = "keeps alive weights only" if storage == "active" else "trains on what is connected"
        raise ValueError(f"storage={storage!r} {keeps}, and nothing is dead: give sparsifier= or mask=.")
    if not isinstance(program, BNN):
        return
    masked = mask is not None and (not isinstance(mask, dict) or bool(mask))
    if masked or acts:
        check_cut(program, training=True)
    if masked:
        check_mask(mask, {str(spec.path): spec.shape for spec in program.layout if spec.prunable})
    if acts:
        _check_sparsifier(program, sparsifier)


def _check_sparsifier(bnn: BNN, sparsifier: Sparsifier) -> None:
    if not any(spec.prunable for spec in bnn.layout):
        raise nothing_to_prune("sparsifier has", bnn)
    needs = needs_of(sparsifier)
    if needs.spread and not bnn.family.spread:
        raise no_spread(sparsifier)
    if needs.groups:
        bnn.groups(needs.groups)

    def guide(rng_key: jax.Array) -> None:
        sites = trace(seed(bnn.guide, rng_key)).get_trace()
        check_needs(sparsifier, bnn.read({n: site["value"] for n, site in sites.items() if site["type"] == "param"}), bnn)

    jax.eval_shape(by_one_thread(guide), abstract_key())


def warn_of_frozen(program: Trainable, given: object) -> None:
    """Warn where parameters are frozen at a random start; ``given``: parameters that the fit starts from, None for none.

    An nnx or Equinox module brings its own, a linen module has none.
    """
    still = [str(spec.path) for spec in getattr(program, "layout", ()) if spec.frozen]
    if still and given is None and isinstance(program, BNN) and program.starts_at_random:
        warnings.warn(
            f"{still[0]!r}{' and others' if len(still) > 1 else ''} are frozen where a linen module starts, at random: give "
            "what was trained, init_params=bp.from_trained(bnn, trained).",
            UserWarning,
            stacklevel=3,
        )
