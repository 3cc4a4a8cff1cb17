"""What losses say at their end: that nothing was learnt from the inputs, or that they still fall."""

import math

import numpy as np

FEWEST_STEPS = 300  # of which anything is said
TWENTIETH = 20  # steps at least
BLOCKS = 20  # of the last fifth, by whose means its trend is known
# In 1,000 fits to noise about a level the trend is beyond five of its standard errors by chance with probability 0.05.
STANDARD_ERRORS = 5.0
SHARE = 0.01  # of what was gained: with less in a twentieth of the steps, as many steps again gain little
NATS_PER_ROW = 1e-3  # nobody sees less in a test nll


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
