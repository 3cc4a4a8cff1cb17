"""Acts rest after refusals: what was refused now will most likely be refused in the next moment, too."""

import itertools
from collections.abc import Mapping, Sequence


def rests(history: Mapping[str, Sequence[float]], step: int, every: int, most: int) -> bool:
    """Whether the act that would be due after ``step`` steps rests.

    After a verified act of which nothing was taken the next one comes a rhythm later, after the second in a row two, after the
    third four, up to ``most``; what is taken begins anew. ``history``: of `FitResult.history`, its acts until now; ``every``:
    the rhythm, in steps.

    >>> refused = {"prune/step": [100, 150], "prune/num_proposed": [9, 9], "prune/num_pruned": [0, 0]}
    >>> rests(refused, 200, every=50, most=4), rests(refused, 250, every=50, most=4)
    (True, False)
    """
    proposed, pruned = (history.get(f"prune/num_{name}", ()) for name in ("proposed", "pruned"))
    latest_first = zip(reversed(proposed), reversed(pruned), strict=True)
    # Of what nobody looked at, NaN, or had nothing to look at in, nothing was refused.
    in_a_row = sum(1 for _ in itertools.takewhile(lambda act: act[0] > 0 and act[1] == 0, latest_first))
    return in_a_row > 0 and step - history["prune/step"][-1] < every * min(most, 2 ** (in_a_row - 1))
