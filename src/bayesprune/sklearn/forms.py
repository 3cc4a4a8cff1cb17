"""The forms that a network for a table may have, how a fit chooses among them, and what a preset says of that."""

from dataclasses import dataclass, replace

import numpy as np

from bayesprune.core.checks import check_name, got
from bayesprune.sklearn.annealing import is_auto
from bayesprune.sklearn.columns import is_collinear
from bayesprune.sklearn.thresholds import growth

LEAST_ROWS = 10  # below which nothing is held out
FEW, SOME = 160, 500  # rows below which each fold holds out a third, so that all judge; and there are more folds than one
FOLDS = 3


@dataclass(frozen=True)
class Form:
    """``linear``: no hidden layer. ``wide``: a linear path beside the net, and far numbers drawn in. ``steps``: the net also
    reads on which side of thresholds a number lies, see `thresholds.fit_thresholds`; ``components``: the principal components,
    each of unit size, and where columns outnumber rows nothing else; ``trees``: what these say, alone."""

    wide: bool = False
    steps: bool = False
    components: bool = False
    linear: bool = False
    trees: bool = False


LINEAR, THRESHOLDS, TREES = "linear", "steps", "trees"
NOT_OF_FEW = (THRESHOLDS,)  # beside trees they lose as often as they win, for up to twice the time
FORMS = {
    "plain": Form(),
    LINEAR: Form(linear=True),
    "wide": Form(wide=True),
    THRESHOLDS: Form(wide=True, steps=True),
    "components": Form(wide=True, components=True),
    TREES: Form(linear=True, trees=True),
}


@dataclass(frozen=True)
class Preset:
    """``num_steps``: under "auto", with annealing; ``grows``: of a large table more, see `growth`. ``forms``: what "auto"
    chooses among, the first where nothing is held out. ``held_out``: share of the rows by which they are judged. ``folds``:
    how often, other rows each time."""

    num_steps: int = 5000
    forms: tuple[str, ...] = ("plain", LINEAR, THRESHOLDS, "components", TREES)
    held_out: float = 0.2
    folds: int = 1
    grows: bool = True

    def steps_for(self, rows: int) -> int:
        """Under "auto", with annealing."""
        return int(self.num_steps * growth(rows)) if self.grows else self.num_steps


PRESETS = {"fast": Preset(2000, ("plain",), 0.0, grows=False), "default": Preset(), "best": Preset(10_000, folds=5)}


@dataclass(frozen=True)
class FormChoice:
    """The choice of a fit: names of `FORMS`, the number of folds, and the share of the rows that each holds out."""

    forms: tuple[str, ...]
    folds: int
    held_out: float

    @property
    def needs_a_forest(self) -> bool:
        """Whether a small one is grown: for thresholds, and for how heavy the noise's tails are where anything is chosen."""
        return THRESHOLDS in self.forms or len(self.forms) > 1


def read_preset(presets: object) -> Preset:
    """The preset of a name."""
    check_name("presets", name := str(presets), PRESETS)
    return PRESETS[name]


def read_choice(
    form: object, held_out: object, preset: Preset, num_steps: int | str, hidden: tuple[int, ...], x: np.ndarray
) -> FormChoice:
    """The forms that settings and training rows allow; components among them where columns are collinear.

    A fifth of 160 rows cannot tell forms apart: of few rows all judge, and of less than 500 three fifths. Of 15 real tables of
    230 to 600 rows that took 2 % off CRPS and NLL, for a sixth more time.

    With at least as many columns as rows, components replace the columns and come first: a net of two dozen inputs is then
    the simplest form, which others have to beat.

    A given number of steps is that of a single fit: "auto" is then the plain form, and nothing is held out.
    """
    check_name("form", str(form), ("auto", *FORMS))
    free, folds = is_auto(num_steps) and len(x) >= LEAST_ROWS, preset.folds
    share = (preset.held_out if free else 0.0) if is_auto(held_out) else _share(held_out)
    few = is_auto(held_out) and share > 0 and len(x) < FEW
    if few:
        share, folds = 1.0 / FOLDS, FOLDS
    elif is_auto(held_out) and len(x) < SOME:
        folds = max(folds, FOLDS)
    if not is_auto(form):
        forms: tuple[str, ...] = (str(form),)
    elif not is_auto(num_steps) or not hidden:
        forms = ("plain",)
    else:
        forms = preset.forms if share else preset.forms[:1]
        if "components" in forms and not is_collinear(x):
            forms = tuple(name for name in forms if name != "components")
        elif "components" in forms and x.shape[1] >= len(x):
            forms = ("components", "plain", THRESHOLDS, TREES)
    if not hidden and forms not in (("plain",), (LINEAR,), (TREES,)):
        raise ValueError(f"form={form!r} goes with hidden layers, got hidden=(): a linear model has a linear path as it is.")
    if few and is_auto(form):
        forms = tuple(name for name in forms if name not in NOT_OF_FEW)
    return FormChoice(forms, folds if share else 0, share)


def check_stacking(stacking: object) -> None:
    """Refuse what is neither yes nor no."""
    if not isinstance(stacking, bool | np.bool_):
        raise TypeError(f"stacking must be True or False, got {got(stacking)}.")


def without(choice: FormChoice, form: str) -> FormChoice:
    """The choice without a form, if another one is left.

    >>> without(FormChoice(("plain", "trees"), 1, 0.2), "trees").forms, without(FormChoice(("trees",), 0, 0.0), "trees").forms
    (('plain',), ('trees',))
    """
    return replace(choice, forms=tuple(name for name in choice.forms if name != form) or choice.forms)


def _share(held_out: object) -> float:
    if isinstance(held_out, bool) or not isinstance(held_out, int | float) or not 0 <= held_out <= 0.5:
        raise ValueError(f"held_out must be 'auto' or lie in [0, 0.5], got {held_out!r}: it is a share of the rows.")
    return float(held_out)
