"""From settings to what they stand for: data, network, method."""

import dataclasses
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from bayesprune import data as data_sets
from bayesprune.cli import knobs
from bayesprune.cli.find import choose
from bayesprune.cli.settings import Settings, own_knobs
from bayesprune.core.checks import check_integer, check_positive, unknown_name
from bayesprune.core.types import Dataset, Evidence, MeanField, SpikeSlab
from bayesprune.data import catalogue
from bayesprune.model import likelihoods, select
from bayesprune.model.bnn import BNN

PRUNABLE = ("prior", "not_last", "everything", "kernels")
VALIDATION_SEED = 0


class Data(NamedTuple):
    """What is trained on, what is evaluated on and which part that is; ``target_scale``: one unit of a real y, in raw units."""

    train: Dataset
    test: Dataset
    part: str
    target_scale: float


def resolve(settings: Settings) -> Settings:
    """Names in their one spelling, numbers checked, and what was left out filled in."""
    names = {kind: choose(kind, getattr(settings, kind)).name for kind in ("net", "method", "prior")}
    dataset = catalogue.canonical(settings.dataset)
    for name in ("steps", "batch_size", "num_samples"):
        check_integer(getattr(settings, name), name)
    check_positive(settings.learning_rate, "learning_rate")
    for name in ("seed", "every", "eval_every", "checkpoint_every"):
        check_integer(getattr(settings, name), name, minimum=0)
    if not 0.0 <= settings.validation < 1.0:
        raise ValueError(f"validation must lie in [0, 1), got {settings.validation}: it is a share of the training rows.")
    if settings.prunable not in PRUNABLE:
        raise unknown_name("choice of prunable", settings.prunable, PRUNABLE)
    parts = {"every": 30, "eval_every": 20, "checkpoint_every": 10}
    periods = {name: getattr(settings, name) or -(-settings.steps // part) for name, part in parts.items()}
    if names["method"] != "none" and periods["every"] >= settings.steps > 1:
        raise ValueError(
            f"every={periods['every']} never prunes in {settings.steps} steps: choose a smaller one, or method none."
        )
    pad = settings.pad if settings.pad >= 0 else 32 * (names["net"] == "lenet5" and dataset in (*catalogue.IMAGES, "digits"))
    out = settings.out or Path("runs") / f"{dataset.replace('/', '-')}-{names['net']}-{names['method']}"
    known: dict[str, Any] = {**names, **periods, "dataset": dataset, "pad": pad, "out": out}
    return dataclasses.replace(settings, **known)


def load_data(settings: Settings) -> Data:
    """The data set, cut where part of the training rows is kept back."""
    simulated = settings.dataset in catalogue.SIMULATIONS
    options: dict[str, Any] = {"split": settings.split, "pad": settings.pad, "seed": settings.seed if simulated else 0}
    train, test = data_sets.load(settings.dataset, settings.data_dir, **options)
    unit = 1.0
    if is_real(train):
        raw, _ = data_sets.load(settings.dataset, settings.data_dir, standardise=False, **options)
        unit = float(np.std(raw.y) / np.std(train.y))
    if not settings.validation:
        return Data(train, test, "test", unit)
    order = np.random.RandomState(VALIDATION_SEED).permutation(len(train.y))
    cut = len(order) - max(1, round(settings.validation * len(order)))
    fitted, held = (Dataset(train.x[rows], train.y[rows]) for rows in (order[:cut], order[cut:]))
    return Data(fitted, held, "validation", unit)


def is_real(data: Dataset) -> bool:
    """Whether the targets are real numbers rather than class labels."""
    return np.issubdtype(np.asarray(data.y).dtype, np.floating)


def make_bnn(settings: Settings, data: Data) -> BNN:
    """The network with its prior, its likelihood (`Normal` for real targets, `Categorical` for labels) and its family."""
    y = data.train.y
    real = is_real(data.train)
    outputs = (1 if y.ndim == 1 else y.shape[1]) if real else int(max(y.max(), data.test.y.max())) + 1
    if settings.net == "lenet5" and data.train.x.ndim != 4:
        raise ValueError(
            f"net lenet5 needs images, and {settings.dataset!r} has rows of shape {data.train.x.shape[1:]}: use mlp."
        )
    return BNN(
        knobs.build(choose("net", settings.net).cls, own_knobs(settings, "net"), num_outputs=outputs),
        prior=knobs.build(choose("prior", settings.prior).cls, own_knobs(settings, "prior")),
        likelihood=likelihoods.Normal() if real else likelihoods.Categorical(),
        input_shape=data.train.x.shape[1:],
        posterior=settings.posterior.replace("-", "_"),
        prunable=None if settings.prunable == "prior" else getattr(select, settings.prunable),
    )


def make_method(settings: Settings) -> Any:
    """The sparsifier. Raises `ValueError` for one that reads the posterior's spread where there is none."""
    method = knobs.build(choose("method", settings.method).cls, own_knobs(settings, "method"))
    if settings.posterior == "map" and settings.method != "none" and _reads_scale(method):
        raise ValueError(f"method {settings.method} reads the posterior's scales, and posterior map has none: use mean_field.")
    return method


def keys(settings: Settings) -> tuple[jax.Array, jax.Array]:
    """Of the fit, and of the evaluation."""
    fit, evaluation = jax.random.split(jax.random.key(settings.seed))
    return fit, evaluation


def _reads_scale(method: Any) -> bool:
    """Whether a method, shown the same means with other scales, chooses differently: asking it spares a list of names."""
    loc = jnp.linspace(-0.3, 0.29, 24).reshape(4, 6)
    key, masks = jax.random.key(0), []
    for scale in (jnp.zeros_like(loc), jnp.full_like(loc, 0.5), 0.1 + 5 * loc**2):
        # Inclusion probabilities do not differ here: a method that reads them asks for a prior, not for a spread.
        gated = getattr(method, "reads", MeanField) is SpikeSlab
        posterior = {"Dense_0.kernel": SpikeSlab(loc, scale, loc) if gated else MeanField(loc, scale)}
        state = method.init(key, posterior)
        state, _ = method.step(key, Evidence(posterior, {"Dense_0.kernel": loc}), state)
        masks.append(np.asarray(state.mask["Dense_0.kernel"]))
    return any(not np.array_equal(masks[0], other) for other in masks[1:])
