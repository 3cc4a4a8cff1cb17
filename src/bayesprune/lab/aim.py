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
    asked, found = density, list[tuple[float, Fitted]]()
    while True:
        fitted = train(asked)
        have = densities(fitted)["connected"]
        ratio = density / have if have > 0 else math.inf
        found.append((abs(math.log(ratio)) if ratio < math.inf else math.inf, fitted))
        more = min(1.0, asked * min(ratio, WIDEST))
        if found[-1][0] <= math.log(1 + NEAR) or more == asked or len(found) == TRAININGS:
            return min(found, key=lambda one: one[0])[1], len(found)
        asked = more
