"""A network of a connected density: what is alive and reached by no path does not count."""

import math
from collections.abc import Callable

from bayesprune.lab.entry import Fitted
from bayesprune.lab.judge import densities

NEAR, TRAININGS, WIDEST = 0.1, 3, 4.0


def aimed(train: Callable[[float], Fitted], density: float) -> tuple[Fitted, int]:
    """The training whose connected density is nearest to ``density`` in ratio, and how many there were, at most three.

    The first asks for ``density``; each further one for as much more (up to four times) as the last one's connected weights
    fell short. One that is within a tenth ends it. No figure of the network but its density is looked at.
    """
    asked, best, off = density, None, math.inf
    for number in range(1, TRAININGS + 1):
        fitted = train(asked)
        have = densities(fitted)["connected"]
        ratio = density / have if have > 0 else math.inf
        if best is None or abs(math.log(ratio) if ratio < math.inf else math.inf) < off:
            best, off = fitted, abs(math.log(ratio)) if ratio < math.inf else math.inf
        asked, before = min(1.0, asked * min(ratio, WIDEST)), asked
        if off <= math.log(1 + NEAR) or asked == before:
            break
    assert best is not None
    return best, number
