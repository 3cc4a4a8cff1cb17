"""The knobs of the standard course, one changed at a time, by held-out rows: what the defaults were chosen by.

    python benchmarks/course_choices.py run                     # what is not in runs/course_choices.jsonl yet: an hour
    python benchmarks/course_choices.py run --only data=digits  # one case
    python benchmarks/course_choices.py run --only data=digits knobs=first=0.1 --set "knobs=warm_up=0.3;rate=0.01"   # a trial
    python benchmarks/course_choices.py table --out runs

Cells, nets and figures are those of `course.py`, with a sixth of the training rows kept back to judge by; the test rows are not
looked at. Two of the cases nothing was tuned on. All else is as in the standard course, but that acts begin with the first
step, as they did until this study: `first=0.1` is what came of it; and the divergence's weight rises over half of the steps,
as it did until `course_warm_up.py`. `start` is that of the weights, "uniform" U(-2, 2), "he"
He's own; `dead` is what BMR takes dead weights to say of their group's rate.
"""

from dataclasses import replace

import numpy as np
from course import HEAD, Cell, run, summed

from bayesprune import cells

AROUND = "first=0.0;warm_up=0.5"  # what one knob is changed of at a time
CHOICES = (
    "first=0.1", "first=0.2", "rate=0.02", "rate=0.08", "warm_up=0.25", "warm_up=0.75", "every=100", "every=25", "last=0.75",
    "verified=0", "verified=4", "estimator=weight", "start=uniform", "start=he", "dead=excluded", "dead=forgotten",
)  # fmt: skip
# Cases that settings are chosen by, and two that nothing was tuned on; with their seeds.
TUNED = (("digits", "mlp100x2", 5_000, 3), ("fashion_mnist", "lenet5", 2_000, 1))
UNTUNED = (("mnist", "mlp200x2", 2_000, 1), ("concrete", "mlp50", 3_000, 3))
CASES = TUNED + UNTUNED


def changed(choice: str) -> str:
    """The knobs of a cell in which one differs from `AROUND`."""
    name = choice.partition("=")[0]
    return ";".join([*(pair for pair in AROUND.split(";") if not pair.startswith(f"{name}=")), choice])


KNOBS = (AROUND, *map(changed, CHOICES))
CELLS = tuple(
    Cell(data, net, "standard", seed, steps, "held_out", knobs)
    for seed in range(3)
    for data, net, steps, seeds in CASES
    for knobs in KNOBS
    if seed < seeds
)


def by_choice(found: cells.Found) -> str:
    """The same on the held-out rows, for each setting."""
    rows = []
    for data, net, steps, _ in CASES:
        for knobs in KNOBS:
            mine = [cell for cell in CELLS if (cell.data, cell.net, cell.rows, cell.knobs) == (data, net, "held_out", knobs)]
            have = [found[cell] for cell in mine if cell in found]
            rows.append([data, net, knobs, str(steps), cells.count(have, mine), *summed(have)])
    return cells.table(["data", "net", "knobs", "steps", *HEAD], rows, "lllr" + "l" * len(HEAD))


def differences(found: cells.Found) -> str:
    """By how much each setting's held-out NLL is above that of `AROUND`, seed by seed: mean, ± standard error."""
    rows = []
    for knobs in CHOICES:
        columns, every = [], []
        for data, net, steps, seeds in CASES:
            around = [Cell(data, net, "standard", seed, steps, "held_out", AROUND) for seed in range(seeds)]
            pairs = [(replace(cell, knobs=changed(knobs)), cell) for cell in around]
            more = [found[a]["nll"] - found[b]["nll"] for a, b in pairs if a in found and b in found]
            every += [np.mean(more)] if more else []
            columns.append(cells.mean_and_error(more))
        rows.append([knobs, *columns, f"{np.mean(every):.4f}" if len(every) == len(columns) else cells.MISSING])
    names = [f"{data}, {net}" for data, net, *_ in CASES]
    return cells.table(["knobs", *names, "mean of all"], rows, "l" + "r" * (len(names) + 1))


STUDY = cells.Study("course_choices", CELLS, run, {"by_choice": by_choice, "differences": differences})

if __name__ == "__main__":
    cells.main(STUDY)
