"""How a run's training goes: what its settings say of rate, divergence and acts; what they leave out is the course's."""

from collections.abc import Callable
from typing import Any

import numpy as np
import optax

from bayesprune.cli.run_settings import RunSettings, make
from bayesprune.core.schedules import LinearWarmup
from bayesprune.courses import Course, Plan, Standard
from bayesprune.infer.settings import as_schedule
from bayesprune.train.optimizers import make_optimizer

COURSE = "course"  # the word for: as the course has it


def of(settings: RunSettings) -> Any:
    """The course of the settings, with its knobs."""
    return make(settings, "course")


def plan(settings: RunSettings) -> Plan:
    """The course over the run's steps."""
    course: Course = of(settings)
    return course.plan(settings.steps)


def optimizer(settings: RunSettings, program: Callable[[], Any], unit: float) -> optax.GradientTransformation | None:
    """What the settings say of it, the rest as in the course; None where they say nothing.

    ``program``: makes the run's network. ``unit``: see `make_optimizer`.
    """
    named, decay = settings.optimizer, settings.weight_decay
    if named == COURSE and settings.schedule == COURSE and not settings.learning_rate and not decay:
        return None
    course = of(settings)
    rate: Any = settings.learning_rate
    if not rate:
        rate = course.rate_for(program()) if isinstance(course, Standard) else course.rate
    if _falls(settings):
        rate = optax.cosine_decay_schedule(rate, settings.steps)
    return make_optimizer("adabelief" if named == COURSE else named, rate, decay, unit)


def kl_weight(settings: RunSettings) -> LinearWarmup | float | None:
    """The weight of the divergence by the settings; None for the course's."""
    if settings.kl_weight == 1.0 and settings.kl_warmup < 0:
        return None
    share = _warm_up(settings)
    return LinearWarmup(0, share * settings.steps, settings.kl_weight) if share else settings.kl_weight


def weights_by_step(settings: RunSettings, num_steps: int) -> np.ndarray:
    """The divergence's weight at each of the first ``num_steps``."""
    given = kl_weight(settings)
    weight: Callable[[Any], Any] = as_schedule(plan(settings).kl_weight if given is None else given, num_steps)
    return np.asarray(weight(np.arange(num_steps)), np.float32)


def check_acts(settings: RunSettings) -> None:
    """Refuse a method that never comes to act, where that shows without the data. An epoch, say, is not known here."""
    made = plan(settings)
    every, end = settings.every or made.every, settings.steps - 1
    if settings.method == "none" or every is None or not end:
        return
    first, last = (1, end) if settings.every else (max(1, made.first), min(made.last, end))
    if last // every * every < first:
        within = f" ({first} to {last} of them)" if (first, last) != (1, end) else ""
        raise ValueError(f"every={every} never prunes in {settings.steps} steps{within}: choose less, or method none.")


def laid_out(settings: RunSettings) -> str:
    """The setting by which the run is laid out over its steps, so that more of them would be another run; "" for none."""
    if settings.schedule == "cosine":
        return "schedule=cosine"
    if settings.kl_warmup > 0:
        return f"kl_warmup={settings.kl_warmup}"
    acts = settings.method != "none" and not settings.every
    standard = isinstance(of(settings), Standard)
    return f"course={settings.course}" if standard and (_falls(settings) or _warm_up(settings) or acts) else ""


def _falls(settings: RunSettings) -> bool:
    """Whether the learning rate is a cosine."""
    return settings.schedule == "cosine" or (settings.schedule == COURSE and isinstance(of(settings), Standard))


def _warm_up(settings: RunSettings) -> float:
    """The share of the steps over which the divergence's weight rises."""
    return float(getattr(of(settings), "warm_up", 0.0)) if settings.kl_warmup < 0 else settings.kl_warmup
