"""The settings of a run: flags on the command line, and ``settings.json`` in its folder."""

import dataclasses
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from tyro import conf

from bayesprune.cli import course as courses
from bayesprune.cli import fitted, own_net, valid
from bayesprune.cli.find import KINDS, choose
from bayesprune.cli.knobs import as_kind, flags, hints, table
from bayesprune.core.checks import check_name
from bayesprune.core.formats import jsonable, read_record, write_record
from bayesprune.train.checkpoints import check_same_settings

FILE = "settings.json"
# Where things lie does not change what a run is; the rest has to agree when one goes on.
FREE = ("out", "data_dir", "config", "log")
PLACES = ("data",)  # kept, to be found again; the rows themselves have to agree
GONE = ("density",)  # by then in the method's own knobs


@dataclass(frozen=True, kw_only=True)
class RunSettings:
    """What every run has, whatever its net, method, prior and course: their own knobs are four further fields."""

    config: Annotated[Path | None, conf.arg(metavar="FILE")] = None
    """A file of settings, TOML or the settings.json of a run: the names of the flags, the knobs of a net, method, prior
    or course in a table of its name. It goes before a preset, and flags go before it."""
    preset: str | None = None
    """Named settings, see `bayesprune methods`: ssvi-cifar. Flags that are given go before those of the preset."""
    dataset: str = "digits"
    """Data set, see `bayesprune methods`."""
    data: Annotated[str | None, conf.arg(metavar="FILE")] = None
    """A file of your own in place of a data set: .csv, .tsv, .parquet (named columns), or .npz (arrays x, y, perhaps x_test and
    y_test). What is found in it is printed."""
    target: Annotated[str | None, conf.arg(metavar="COLUMN")] = None
    """The column of --data to predict."""
    features: Annotated[tuple[str, ...], conf.arg(metavar="COLUMN ...")] = ()
    """The columns to predict it from; all others if left out."""
    drop: Annotated[tuple[str, ...], conf.arg(metavar="COLUMN ...")] = ()
    """Columns to leave out."""
    exposure: Annotated[str | None, conf.arg(metavar="COLUMN")] = None
    """Of counts in --data: the column that says how long, or over what area, those of each row were taken. It is no input;
    predictions are of an exposure of one."""
    test_share: float = 0.2
    """Share of the rows of --data held back for the results, drawn by --split."""
    net: str = "mlp"
    """Network: mlp, widemlp, lenet5, vit, mixer, vgg or resnet18. Its own knobs are flags such as --mlp.hidden. Or one of
    your own, MODULE:FUNCTION, such as my_module:make_net: a function of num_outputs and input_shape that gives a Flax or
    Equinox net."""
    method: str = "bmr"
    """How to prune, see `bayesprune methods`; none trains densely. Its own knobs are flags such as --bmr.group."""
    prior: str = "flat"
    """Prior of the weights, see `bayesprune methods`. Its own knobs are flags such as --flat.gamma0."""
    course: str = "standard"
    """How training goes, see `bayesprune methods`: standard, plain (nothing changes on the way), or a paper's. Its own knobs
    are flags such as --standard.warm-up; those of all runs, such as --every or --learning-rate, go before them."""
    likelihood: str = "auto"
    """Of real targets: normal (auto), student-t (outliers), or predicted-noise (each row's own); of labels: categorical (auto)
    or ordinal (ordered classes); of counts in --data: poisson, or negative-binomial (auto: by their variance); of shares: beta.
    One that is given says what the target is."""
    density: str | None = None
    """Share of the prunable weights that stays alive: the density knob of the method, where it has one."""
    out: Annotated[Path | None, conf.arg(metavar="PATH", help_behavior_hint="")] = None
    """Folder for all that is written; runs/DATASET-NET-METHOD if left out."""
    posterior: str = "mean_field"
    """mean_field (a Gaussian for each weight), structured (weights vary with the scales of their units, under priors that have
    such scales), full or matrix-normal (weights of small arrays vary together: --method none, and bmr_prune in Python), or map
    (a point)."""
    bayesian: str = "weights"
    """Which weights get a posterior: weights (and biases, without norms, class tokens and position embeddings), kernels, or
    everything."""
    prunable: str = "prior"
    """Which weights may be pruned: prior (its authors' choice), not_last, everything, or kernels (of all layers, no biases)."""
    estimator: str = "course"
    """Noise of the gradient: weight (draw the weights), local (draw each layer's outputs: less noise), local_where_exact (the
    same where it has the law of drawn weights), or course (as the course has it)."""
    steps: int = 4000
    """Optimiser steps."""
    batch_size: int = 128
    """Rows of a minibatch."""
    optimizer: str = "course"
    """adabelief, adam, sgd (momentum 0.9), or course (adabelief)."""
    learning_rate: float = 0.0
    """Of the optimiser; for sgd and the gaussian prior in the weights' own units; 0: the course's."""
    schedule: str = "course"
    """The learning rate over the steps: constant, cosine (to 0 at the end), or course (standard: cosine, others: constant)."""
    weight_decay: float = 0.0
    """Of means and of weights without a posterior, never of scales."""
    init_loc: float = 0.0
    """Means start at N(0, init_loc²), in the weights' own units for the gaussian prior, in the posterior's coordinates for
    others; 0: as the course starts them, which for all but standard is as the prior's authors do."""
    init_scale: float = 0.0
    """Scales start here, in the same units; 0: as the course starts them."""
    init_spread: float = 0.0
    """Scales start at |N(init_scale, init_spread²)|."""
    kl_weight: float = 1.0
    """Weight of the divergence from the prior in the loss; below 1 the posterior is a cold one."""
    kl_warmup: float = -1.0
    """Share of the steps over which that weight rises from 0; -1: the course's, for all but standard 0."""
    storage: str = "masked"
    """masked (whole arrays), or active (alive weights only; for ssvi)."""
    remat: bool = False
    """Keep for the backward pass only what products and convolutions gave: less memory at once (see fit_svi for CPUs)."""
    augment: str = "none"
    """Of the training images: none, or crop-flip (moved by up to 4 pixels, and mirrored)."""
    every: int = 0
    """Steps between prunings; 0: as the course has it."""
    eval_every: int = 0
    """Steps between evaluations for the training curves; 0: a twentieth of all steps."""
    checkpoint_every: int = 0
    """Steps between checkpoints; 0: a tenth of all steps."""
    log: str = "none"
    """Figures while it trains, at every evaluation, pruning and checkpoint: none, jsonl (log.jsonl in the folder), or
    tensorboard (its files in a folder of that name; needs tensorboardX, or PyTorch or TensorFlow)."""
    num_samples: int = 100
    """Networks drawn from the posterior for the final evaluation."""
    validation: float = 0.0
    """Share of the training rows to keep back, and to evaluate on in place of the test set: for choosing settings. With
    --choose best it only chooses the step, and the results are of the test set."""
    choose: str = "last"
    """Which step to keep: last, or best (the evaluation of highest accuracy, or of lowest nll)."""
    choose_on: str = "validation"
    """What best is judged on: validation, or test (as some authors do; the results are then optimistic)."""
    seed: int = 0
    """Of the fit, of the evaluation, and of a simulated data set."""
    data_dir: Annotated[Path | None, conf.arg(metavar="PATH", help_behavior_hint="")] = None
    """Folder of the data sets; $BAYESPRUNE_DATA if left out."""
    split: int = 0
    """Which published split of a UCI data set; of --data, the seed that draws the rows held back."""
    pad: int = -1
    """Side in pixels that images are padded to, 0: not at all; -1: 32 for lenet5 and 0 for other nets (vit, mixer and vgg frame
    images themselves)."""


def settings_class(net: str, method: str, prior: str, course: str = RunSettings.course) -> type[RunSettings]:
    """`RunSettings` with the knobs of this net, method, prior and course as further fields, each a dataclass of plain values.

    >>> settings_class("mlp", "bmr", "flat")().bmr.num_iters
    4
    """
    chosen = {"net": net, "method": method, "prior": prior, "course": course}
    choices = {kind: choose(kind, name) for kind, name in chosen.items()}
    names, fields = {kind: choice.name for kind, choice in choices.items()}, []
    for kind, choice in choices.items():
        made = flags(choice.cls)
        if made is not None:
            fields.append((field_name(kind, names), made, dataclasses.field(default_factory=made)))
    return dataclasses.make_dataclass("RunSettings", fields, bases=(RunSettings,), frozen=True, kw_only=True)


def field_name(kind: str, names: Mapping[str, str]) -> str:
    """The field that holds the knobs of one kind; longer for a prior that is named like the method.

    A paper's course is the plain one with other values, and is called so.

    >>> field_name("prior", {"prior": "scale-mixture", "method": "bmr"})
    'scale_mixture'
    """
    if kind == "course":
        return "standard" if names[kind] == "standard" else "plain"
    plain = names[kind].replace("-", "_")
    return f"{plain}_prior" if kind == "prior" and names["prior"] == names["method"] else plain


def own_knobs(settings: RunSettings, kind: str) -> dict[str, Any]:
    """The plain values of the own knobs of the net, the method, the prior or the course."""
    held = getattr(settings, field_name(kind, {k: getattr(settings, k) for k in KINDS}), None)
    return {} if held is None else dataclasses.asdict(held)


def to_json(settings: RunSettings) -> dict[str, Any]:
    """All that has to agree when a run goes on, in JSON's types."""
    return jsonable({name: value for name, value in dataclasses.asdict(settings).items() if name not in FREE + GONE})


def claim(settings: RunSettings, folder: Path) -> None:
    """Write ``settings.json``, having checked that the folder's own, if there is one, says the same but for fewer steps.

    Raises as `check` does, and `OSError` for a folder that cannot be written to.
    """
    path = folder / FILE
    check(settings, folder)
    if not path.is_file() or _read(path)["steps"] < settings.steps:
        write_record(path, to_json(settings))


def check(settings: RunSettings, folder: Path) -> None:
    """Check that the folder holds no run, this very one, or one of fewer steps that may go on to these.

    Raises `ValueError` naming every setting that differs.
    """
    fitted.refuse(folder)
    path = folder / FILE
    if not path.is_file():
        return
    before, now = _read(path) | {name: getattr(settings, name) for name in PLACES}, to_json(settings)
    if (steps := before["steps"]) < settings.steps:
        before["steps"] = settings.steps
    check_same_settings(before, now, folder)
    if steps < settings.steps and (over := courses.laid_out(settings)):
        raise ValueError(
            f"{folder} holds a run of {steps} steps with {over}, which is laid out over its steps: it cannot be lengthened. "
            "Give another --out; a run with --course plain can be, where no --schedule or --kl-warmup is laid out."
        )


def periods(folder: Path, names: Iterable[str], steps: int) -> dict[str, int]:
    """What the run in a folder has of the settings ``names``; nothing where there is none, or one that is beyond ``steps``."""
    path = folder / FILE
    found = _read(path) if path.is_file() else {"steps": steps + 1}
    return {name: found[name] for name in names if name in found and found["steps"] <= steps}


def load(folder: Path, net: str | None = None, **free: Any) -> RunSettings:
    """The settings of the run in ``folder``; ``free``: those of `FREE`, which no folder has.

    ``net``: its network, named again: of the user's own it is code, which a folder alone does not get to run.

    Raises `FileNotFoundError` where there is no run, `ValueError` for settings that this release does not know, and for a
    network of the user's own that ``net`` does not name.
    """
    fitted.refuse(folder)
    path = folder / FILE
    if not path.is_file():
        raise FileNotFoundError(2, f"no run in {folder}: it has no {FILE}. Make one with bayesprune run --out {folder}")
    values = _read(path)
    chosen = {kind: as_kind(values[kind], str, f"{path}: {kind}") for kind in KINDS}
    own_net.check_named(chosen["net"], net, f"the run in {folder}")
    cls = settings_class(**chosen)
    kinds = {name: hint for name, hint in hints(cls).items() if name not in FREE}
    try:
        made = cls(**{name: _as_setting(name, value, kinds) for name, value in values.items() if name not in GONE}, **free)
        valid.check(made)
    except (KeyError, TypeError, ValueError) as error:
        raise ValueError(
            f"{path} does not fit this release of bayesprune ({error}): run it again in another folder."
        ) from error
    return made


def _as_setting(name: str, value: object, kinds: Mapping[str, Any]) -> Any:
    check_name("setting", name, kinds)
    if dataclasses.is_dataclass(kind := kinds[name]) and isinstance(kind, type):
        return kind(**table(value, kind, name))
    return as_kind(value, kind, name)


def _read(path: Path) -> dict[str, Any]:
    remedy = "Delete it, and give the same bayesprune run command again: it goes on from its checkpoints."
    return read_record(path, "file of settings", remedy, needed=(*KINDS, "steps"))
