"""What the figures of a fit say of its health: checks of plain arrays, each finding with its remedy."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from bayesprune.core.finite import lost_in

NOT_FINITE = "not finite"
SURE = 4.0  # standard errors that a figure is off by before it is said: by chance once in 16,000 checks
GAP = 0.05  # of a probability or coverage that is off: nobody acts on less
LARGE_GAP = 0.1
COLLAPSED, EXPLODED = 0.1, 2.0  # noise beside the root mean square of what predictions leave
SLOPE = 1.25  # of targets on predictions
RATIO, DOUBTED = 20.0, 0.05  # a label this many times less likely than another, and the share of such rows
FEWEST_STEPS = 300  # of whose losses anything is said
TWENTIETH = 20  # steps at least
BLOCKS = 20  # of the last fifth, by whose means its trend is known
# In 1,000 fits to noise about a level the trend is beyond five of its standard errors by chance with probability 0.05.
STANDARD_ERRORS = 5.0
SHARE = 0.01  # of what was gained: with less in a twentieth of the steps, as many steps again gain little
NATS_PER_ROW = 1e-3  # nobody sees less in a test nll
WIDER = "train longer, lower the divergence's weight, or widen the prior"
SURER = {  # by: too sure?
    True: "train with the divergence at its whole weight, cut, or add rows; of numbers see bp.refit_noise",
    False: WIDER,
}
NOISE_REMEDIES = {
    "collapsed": "train on more rows, or give the noise a prior or a known scale",
    "exploded": "train longer, standardise y, or start the noise lower",
}


@dataclass(frozen=True)
class Finding:
    """``name``: of the illness; ``says``: its figure, and the remedy after a semicolon."""

    name: str
    says: str


@dataclass(frozen=True)
class Health:
    """``findings``: what is wrong, the gravest first; ``checks``: the names of all checks that were made.

    ``others``: what makes those that were not.
    """

    findings: tuple[Finding, ...]
    checks: tuple[str, ...]
    others: str = ""

    @property
    def is_sound(self) -> bool:
        """Whether nothing was found."""
        return not self.findings

    def __str__(self) -> str:
        number = f"{len(self.findings) or 'no'} finding{'' if len(self.findings) == 1 else 's'} of {len(self.checks)} checks"
        others = f"; {self.others} makes others" if self.others else ""
        return "\n".join([number + others, *(f"{one.name}: {one.says}" for one in self.findings)])

    def __repr__(self) -> str:
        names = f": {', '.join(one.name for one in self.findings)}" if self.findings else ""
        return f"Health({str(self).splitlines()[0]}{names})"

    def __add__(self, other: "Health") -> "Health":
        return Health((*self.findings, *other.findings), (*self.checks, *other.checks))


def checked(name: str, says: str) -> Health:
    """One check: ``says`` what is wrong, or is empty."""
    return Health((Finding(name, says),) if says else (), (name,))


def of_fit(
    losses: np.ndarray, params: Mapping[str, Any], mask: Mapping[str, Any], floor: float | None = None, rows: int = 1
) -> Health:
    """Losses at their end, numbers that are not finite, layers without a weight.

    ``floor``: loss of predicting without inputs, nats, or None; ``rows``: of the whole data set.
    """
    broken = [name for name, _ in lost_in(params)]
    # A bias may have several axes, as an attention's has, and what it is added to gets through without it.
    kernels = {site: alive for site, alive in mask.items() if np.ndim(alive) > 1 and not _is_bias(site)}
    dead = [site for site, alive in kernels.items() if np.size(alive) and not np.any(alive)]
    ends = [advise(one, floor, rows) for one in np.reshape(losses, (-1, np.shape(losses)[-1]))] if np.size(losses) else []
    finite = "holds NaN or infinity; lower the learning rate, or look for such numbers in the data."
    layer = "is alive: nothing gets through it; cut less, later or by verified acts (data=)."
    return (
        checked(NOT_FINITE, f"{broken[0]} {finite}" if broken else "")
        + checked("end of training", next(filter(None, ends), ""))
        + checked("dead layer", f"no weight of {dead[0]} {layer}" if dead else "")
    )


def _is_bias(site: str) -> bool:
    return site.rpartition(".")[2] in ("bias", "b")


def advise(losses: np.ndarray, baseline: float | None, num_rows: int) -> str:
    """One line about a fit that ended too early or badly, with the remedy; "" where there is nothing to say.

    The level L is the mean loss over the last twentieth of the steps, at least 20. It is said

    - that L is above the baseline b: by its bound the network is worse than none; losses of points, which are no bounds, are
      compared with None;
    - that the loss still falls: a straight line through the last fifth goes down by d in a twentieth of the steps, and

        d > max(0.01 |b - L|, 5 standard errors of d, 0.001 nats a row)

      With no baseline, a fifth of the way takes its place: both differences stay when y is measured in other units, which
      shifts all losses. The standard error is that of least squares through twenty block means.

    A learning rate that falls to zero makes every loss flat at its end: of such a fit the second is seldom seen.

    Args:
        losses: negative ELBO of the whole data set by step, nats, (steps,); what is not finite is left out.
        baseline: of predicting without inputs, nats, or None.
        num_rows: rows of the whole data set.

    >>> steps = np.arange(1000)
    >>> advise(500.0 + 2000.0 * np.exp(-steps / 50), 1000.0, 400)
    ''
    >>> print(advise(900.0 - 0.5 * steps, 1000.0, 400))
    The loss still falls, by 25 nats in the last twentieth of 1,000 steps: train longer, num_steps=2000, or go on with init=fit.
    """
    losses = np.asarray(losses, np.float64)
    losses = losses[np.isfinite(losses)]
    steps = len(losses)
    if steps < FEWEST_STEPS:
        return ""
    twentieth = max(TWENTIETH, steps // 20)
    level = losses[-twentieth:].mean()
    reference = losses[steps // 5 :][:twentieth].mean() if baseline is None else baseline
    drop, error = _fall(losses[-4 * twentieth :], twentieth)
    falls = drop > max(SHARE * abs(reference - level), STANDARD_ERRORS * error, NATS_PER_ROW * num_rows)
    longer = f"train longer, num_steps={2 * steps}, or go on with init=fit"
    if baseline is not None and level > baseline:
        remedy = longer if falls else "train longer, standardise x and y, or try another key or fewer units"
        return (
            f"The loss ends at {_nats(level)} nats{' and still falls' if falls else ''}, above the {_nats(baseline)} of "
            "predicting without the inputs: the network has not learnt, has died, or its weights cost more than they explain; "
            f"{remedy}."
        )
    if falls:
        return f"The loss still falls, by {_nats(drop)} nats in the last twentieth of {steps:,} steps: {longer}."
    return ""


def _fall(losses: np.ndarray, over: int) -> tuple[float, float]:
    """By how much the losses go down over so many steps, by a straight line through their block means; its standard error."""
    blocks = np.array([block.mean() for block in np.array_split(losses, BLOCKS)])
    at = (np.arange(BLOCKS) - (BLOCKS - 1) / 2) * len(losses) / BLOCKS
    slope = (at @ blocks) / (at @ at)
    rest = blocks - blocks.mean() - slope * at
    return -slope * over, over * math.sqrt(rest @ rest / (BLOCKS - 2) / (at @ at))


def _nats(value: float) -> str:
    """Whole nats, but of small numbers three digits.

    >>> _nats(12345.6), _nats(-0.01234)
    ('12,346', '-0.0123')
    """
    return f"{value:,.0f}" if abs(value) >= 10 else f"{value:.3g}"


def of_draws(draws: np.ndarray) -> Health:
    """Draws of predictions (num_samples, rows, ...) that are all one point."""
    same = len(draws) > 1 and bool(np.ptp(draws, axis=0).max() == 0.0)
    says = (
        "all drawn networks predict the same: the posterior has no spread; train with posterior='mean_field', or with "
        "a sampler from several starts."
    )
    return checked("one point", says if same else "")


def of_labels(probs: np.ndarray, y: np.ndarray, held_out: bool) -> Health:
    """Confidence beside accuracy, and labels that predictions contradict; ``probs`` (rows, classes), ``y`` (rows,).

    Of a calibrated prediction sum(max p) - hits has mean 0 and variance sum(max p (1 - max p)).

    >>> probs = np.tile([0.95, 0.05], (400, 1))
    >>> print(of_labels(probs, np.arange(400) % 2, True).findings[0].name)
    calibration
    """
    top, likely = probs.max(axis=1), probs.argmax(axis=1)
    gap = float(np.mean(top) - np.mean(likely == y))
    sure = abs(gap) > GAP and abs(gap) * len(y) > SURE * math.sqrt(float(np.sum(top * (1 - top))) + 1e-12)
    rows = "held-out" if held_out else "training"
    doubted = np.flatnonzero(top > RATIO * probs[np.arange(len(y)), y])
    share = len(doubted) / len(y)
    calibration = (
        f"{rows} predictions are {abs(gap):.3f} {'more' if gap > 0 else 'less'} sure than they are right; {SURER[gap > 0]}."
    )
    labels = (
        f"{share:.0%} of the {rows} labels are {RATIO:.0f} times less likely than another, first in rows {_first(doubted)}: "
        "look at them; if they are right, the inputs do not tell the classes apart."
    )
    return checked("calibration", calibration if sure else "") + checked("labels", labels if share > DOUBTED else "")


def of_numbers(mean: np.ndarray, noise: np.ndarray, spread: np.ndarray, y: np.ndarray, held_out: bool) -> Health:
    """Noise, signal and intervals of numbers (rows,): ``noise`` and ``spread`` are standard deviations, of targets given the
    network, and of its predictions.

    Noise is compared with the root mean square of y - mean; the signal by the slope of y on the mean, which is 1 where
    predictions are neither shrunk nor blown up; coverage of the central 90 % by its binomial law.
    """
    rest = y - mean
    size = math.sqrt(float(np.mean(rest**2))) + 1e-300
    ratio = float(np.median(noise)) / size
    slope, error = _slope(mean, y)
    total = np.sqrt(noise**2 + spread**2) + 1e-300
    covered = float(np.mean(np.abs(rest) < 1.6449 * total))
    off = covered - 0.9
    rows = "held-out" if held_out else "training"
    surely_off = abs(off) > LARGE_GAP and abs(off) > SURE * math.sqrt(0.09 / len(y))
    noise_is = "collapsed" if ratio < COLLAPSED else "exploded" if ratio > EXPLODED else ""
    of_noise = f"it has {noise_is}: its standard deviation is {ratio:.2g} times what {rows} predictions leave"
    of_signal = f"predictions are shrunk: {rows} targets rise by {slope:.2f} where they rise by 1; {WIDER}."
    of_intervals = f"90 % intervals hold {covered:.0%} of the {rows} targets; {SURER[off < 0]}."
    shrunk = slope > SLOPE and slope - 1 > SURE * error
    return (
        checked("noise", f"{of_noise}; {NOISE_REMEDIES[noise_is]}." if noise_is else "")
        + checked("signal", of_signal if shrunk else "")
        + checked("calibration", of_intervals if surely_off and not noise_is else "")  # noise says why
    )


def _slope(mean: np.ndarray, y: np.ndarray) -> tuple[float, float]:
    """Of y on the mean by least squares, with its standard error; 1 and infinity where the mean does not vary."""
    centred = mean - mean.mean()
    power = float(centred @ centred)
    if len(y) < 8 or power <= 1e-12 * float(np.sum((y - y.mean()) ** 2)):
        return 1.0, math.inf
    slope = float(centred @ y) / power
    rest = y - y.mean() - slope * centred
    return slope, math.sqrt(float(rest @ rest) / (len(y) - 2) / power)


def _first(rows: Sequence[int] | np.ndarray) -> str:
    return ", ".join(map(str, rows[:3])) + (" ..." if len(rows) > 3 else "")
