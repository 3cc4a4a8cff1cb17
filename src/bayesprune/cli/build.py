"""From settings to objects: network and start of its weights, method, arguments of the fit."""

import dataclasses
from pathlib import Path
from typing import Any

import jax

from bayesprune import data as data_sets
from bayesprune.cli import course, likelihood, log, own_net
from bayesprune.cli.find import KINDS, choose
from bayesprune.cli.rows import Data, RowsTask, chosen_by
from bayesprune.cli.run_settings import RunSettings, check_values, make, own_knobs
from bayesprune.cli.settings import periods
from bayesprune.data import catalogue
from bayesprune.deploy.held_out import evaluate_by_kernels
from bayesprune.model import select
from bayesprune.model.bnn import BNN
from bayesprune.model.families import Family, authors_family
from bayesprune.train.stopping import EarlyStop, NeverStop

NEED_IMAGES = ("lenet5", "mixer", "mlpmixer", "resnet", "resnet18", "vgg", "vit")
PATIENCE = 10**9
PERIODS = {"eval_every": 20, "checkpoint_every": 10}  # of all steps, where none is given


def resolve(settings: RunSettings) -> RunSettings:
    """Names in their one spelling, words and numbers checked, and what was left out filled in."""
    filled: dict[str, Any] = {kind: choose(kind, getattr(settings, kind)).name for kind in KINDS}
    filled["dataset"] = dataset = _dataset(settings)
    check_values(settings)
    log.check(settings.log)
    images = dataset in catalogue.IMAGE_SETS
    filled["pad"] = settings.pad if settings.pad >= 0 else 32 * (filled["net"] == "lenet5" and images)
    net = filled["net"].rpartition(own_net.MARK)[2]
    filled["out"] = folder = settings.out or Path("runs") / f"{dataset.replace('/', '-')}-{net}-{filled['method']}"
    kept = periods(folder, (*PERIODS, "every"), settings.steps)  # of a run that goes on, perhaps to more steps
    filled |= {name: getattr(settings, name) or kept.get(name) or -(-settings.steps // part) for name, part in PERIODS.items()}
    filled["every"] = settings.every or kept.get("every", 0)
    _check_choice(settings, filled["eval_every"])
    made = dataclasses.replace(settings, **filled)
    course.check_acts(made)
    return made


def _dataset(settings: RunSettings) -> str:
    """The data set's name in its one spelling, or that of the user's own file."""
    if settings.data is None:
        for name in ("target", "features", "drop", "exposure"):
            if getattr(settings, name):
                raise ValueError(f"{name} is a choice of columns, and {settings.dataset!r} has none: give --data FILE with it.")
        if settings.test_share != RunSettings.test_share:
            raise ValueError(f"test_share is of --data FILE, and {settings.dataset!r} has its own test rows: leave it out.")
        return catalogue.canonical(settings.dataset)
    name = Path(settings.data).name
    if settings.dataset not in (RunSettings.dataset, name):
        raise ValueError(f"dataset={settings.dataset} and data={settings.data} are both given: leave one of them out.")
    if settings.pad > 0:
        raise ValueError(f"pad={settings.pad} is of image sets by name: pad the images of {settings.data} yourself.")
    return name


def _check_choice(settings: RunSettings, eval_every: int) -> None:
    """That the best step is looked for, where it is, on rows that there are."""
    best, on_test, held = settings.choose == "best", settings.choose_on == "test", settings.validation
    if on_test and not best:
        raise ValueError("choose_on=test chooses nothing with choose=last: add --choose best, or leave it out.")
    if on_test and held:
        raise ValueError(f"choose_on=test leaves validation={held} without a use: give --validation 0, or no --choose-on.")
    if best and not on_test and not held:
        raise ValueError(
            "choose=best needs rows to choose on: --validation 0.1 holds out a tenth of the training rows; --choose-on test "
            "takes the test set, and the results are then optimistic."
        )
    if best and eval_every > settings.steps:
        raise ValueError(f"choose=best finds no evaluation: eval_every={eval_every} in {settings.steps} steps, choose less.")


def make_bnn(settings: RunSettings, data: Data) -> BNN:
    """The network for these data, with its prior, its likelihood and its family."""
    return bnn_for(settings, data.task)


def bnn_for(settings: RunSettings, task: RowsTask) -> BNN:
    """The network for a task."""
    made, outputs = likelihood.make(settings.likelihood, task.kind, task.size, task.rate, task.exposure)
    if settings.net in NEED_IMAGES:
        _check_images(f"net {settings.net}", settings, task.shape, "use mlp")
    prior = make(settings, "prior")
    bnn = BNN(
        _net(settings, task, outputs),
        prior=prior,
        likelihood=made,
        input_shape=task.shape,
        posterior=_family(settings, prior),
        bayesian=getattr(select, settings.bayesian),
        prunable=None if settings.prunable == "prior" else getattr(select, settings.prunable),
    )
    return _started(settings, bnn)


def _net(settings: RunSettings, task: RowsTask, outputs: int) -> Any:
    if own_net.MARK in settings.net:
        return own_net.make(settings.net, outputs, task.shape)
    return make(settings, "net", num_outputs=outputs)


def unit_of(settings: RunSettings) -> float:
    """What one unit of the posterior's coordinates is in the network, where it is the same for all weights."""
    return own_knobs(settings, "prior")["scale"] if settings.prior == "gaussian" else 1.0


def _family(settings: RunSettings, prior: object) -> str | Family:
    """The family by name, whose start is the course's; or with the start that the settings give."""
    name, start = settings.posterior.replace("-", "_"), _asked(settings)
    if not start or _partly_sound(settings):
        return name
    return dataclasses.replace(authors_family(name, prior), **start)  # type: ignore[type-var]


def _started(settings: RunSettings, bnn: BNN) -> BNN:
    """The network whose standard start has been overridden in part."""
    start, sound = _asked(settings), getattr(bnn.family, "sound", ())
    if not start or not _partly_sound(settings):
        return bnn
    if not sound:  # of the prior's authors
        return bnn.under(dataclasses.replace(bnn.family, **start))  # type: ignore[type-var]
    if start.get("init_spread"):
        what = f"init_spread={settings.init_spread} with course=standard, whose start has one scale for each array"
        raise ValueError(f"{what}: give init_loc too, or --course plain.")
    loc, scale = start.get("init_range"), start.get("init_scale")
    sound = tuple((site, loc or mean, scale or spread) for site, mean, spread in sound)
    latent = {"init_scale": scale} if scale else {}  # of the prior's own scales
    return bnn.under(dataclasses.replace(bnn.family, sound=sound, **latent))  # type: ignore[type-var]


def _asked(settings: RunSettings) -> dict[str, Any]:
    """The fields of a family that the settings give, in the posterior's coordinates."""
    start: dict[str, Any] = {}
    unit = unit_of(settings)
    if settings.init_loc:
        start |= {"init_loc": "normal", "init_range": settings.init_loc / unit}
    if settings.init_scale and settings.posterior != "map":
        start |= {"init_scale": settings.init_scale / unit, "init_spread": settings.init_spread / unit}
    return start


def _partly_sound(settings: RunSettings) -> bool:
    """Whether the standard course still decides something: the settings give no mean, or no scale."""
    return settings.course == "standard" and not (settings.init_loc and settings.init_scale)


def make_method(settings: RunSettings) -> Any:
    """The sparsifier."""
    return make(settings, "method")


def fit_arguments(settings: RunSettings, data: Data) -> dict[str, Any]:
    """What `fit_svi` takes beside key, network, data and method."""
    # Never stops; a fit that keeps the best is one that might have. Not of the steps: there may be more of them later.
    best = EarlyStop(chosen_by(data), patience=PATIENCE, restore="best")
    made = {
        "num_steps": settings.steps,
        "batch_size": min(settings.batch_size, len(data.train.y)),
        "course": course.of(settings),
        "optimizer": course.optimizer(settings, lambda: make_bnn(settings, data), unit_of(settings)),
        "kl_weight": course.kl_weight(settings),
        "estimator": None if settings.estimator == course.COURSE else settings.estimator,
        "every": settings.every or None,
        "eval_data": data.watched,
        "evaluator": evaluate_by_kernels,
        "early_stop": best if settings.choose == "best" else NeverStop(),
        **{name: getattr(settings, name) for name in (*PERIODS, "storage", "remat")},
    }
    unused = {"every": settings.method == "none", "eval_every": data.watched is None}
    made |= {name: None for name, idle in unused.items() if idle}
    if settings.augment == "none":
        return made
    _check_images(f"augment={settings.augment}", settings, data.task.shape, "leave --augment out")
    return made | {"augment": data_sets.CropFlip(4)}


def _check_images(what: str, settings: RunSettings, shape: tuple[int, ...], remedy: str) -> None:
    if len(shape) != 3:
        raise ValueError(f"{what} needs images, and {settings.dataset!r} has rows of shape {shape}: {remedy}.")


def keys(settings: RunSettings) -> tuple[jax.Array, jax.Array]:
    """Of the fit, and of the evaluation."""
    return tuple(jax.random.split(jax.random.key(settings.seed)))
