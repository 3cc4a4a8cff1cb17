"""The settings of a run, as flags on the command line: what there is, and which words and numbers are taken."""

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from tyro import conf

from bayesprune.cli import likelihood, log
from bayesprune.cli.find import KINDS, choose
from bayesprune.cli.knobs import build, flags
from bayesprune.core.checks import check_integer, check_name, check_not_negative

WORDS = {
    "prunable": ("prior", "not_last", "everything", "kernels"),
    "bayesian": ("weights", "kernels", "everything"),
    "schedule": ("course", "constant", "cosine"),
    "augment": ("none", "crop-flip"),
    "choose": ("last", "best"),
    "choose_on": ("validation", "test"),
    "log": log.KINDS,
}


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


def make(settings: RunSettings, kind: str, **given: Any) -> Any:
    """The net, the method, the prior or the course with its knobs, and with ``given`` fields."""
    return build(choose(kind, getattr(settings, kind)).cls, own_knobs(settings, kind), **given)


def check_values(settings: RunSettings) -> None:
    """Refuse an unknown word and a number out of its range."""
    for name, known in WORDS.items():
        check_name(f"choice of {name}", getattr(settings, name), known)
    likelihood.check(settings.likelihood)
    _check_numbers(settings)


def _check_numbers(settings: RunSettings) -> None:
    for name, minimum in {"steps": 1, "num_samples": 1, "seed": 0}.items():
        check_integer(getattr(settings, name), name, minimum)
    for name in ("learning_rate", "kl_weight"):  # a schedule of them would hide it
        check_not_negative(getattr(settings, name), name)
    if settings.init_spread and not settings.init_scale:
        raise ValueError(f"init_spread={settings.init_spread} spreads the scales about init_scale: give that too.")
    for name, of in {"kl_warmup": "of the steps", "validation": "of the training rows"}.items():
        left_out = getattr(settings, name) == getattr(type(settings), name)
        if not left_out and not 0.0 <= getattr(settings, name) <= 1.0:
            raise ValueError(f"{name} must lie in [0, 1], got {getattr(settings, name)}: it is a share {of}.")
    if not 0.0 < settings.test_share < 1.0:
        raise ValueError(f"test_share must lie in (0, 1), got {settings.test_share}: it is the share of rows held back.")
