"""A unit of the network's graph and what leaves the smaller network with it: two readings of one trace that must agree."""

import numpy as np
import pytest

from bayesprune.deploy.shrinking.plan import make_plan
from bayesprune.structure import units
from tests.deploy.programs import NETS, program
from tests.structure.nets import case

# A group of a convolution, or of a group norm, leaves as a whole: one channel alone is zero, and stays.
BY_GROUPS = ("convolutions", "equinox, images")
# A row that nothing reads leaves as well ("fused"), and what fed that unit alone ("gated").
WITH_MORE = ("fused", "gated")
APART = [name for name in NETS if name not in ("chosen", "endless")]
MOST = 24  # units of one network that are tried


def of_unit(numbers: np.ndarray, axis: int, unit: int) -> np.ndarray:
    """Which slices along an axis are that unit's alone."""
    return (np.moveaxis(numbers, axis, 0).reshape(numbers.shape[axis], -1) == unit).all(1)


@pytest.mark.slow_cases(4)
@pytest.mark.fast_cases(3)
@pytest.mark.parametrize("name", APART)
def test_without_a_unit_its_slices_leave_and_no_others(name) -> None:
    found, net = units(case(name).graph), program(name)
    tried = np.arange(found.count)[:: -(-found.count // MOST)]
    assert len(tried)
    for unit in tried:
        alive = {site: ~((found.producers[site] == unit) | (found.consumers[site] == unit)) for site in net.weights}
        keep = make_plan(net, alive, {}).keep
        for site, number in net.weights.items():
            makes, reads = found.producers[site], found.consumers[site]
            for axis in range(makes.ndim):
                own, gone = of_unit(makes, axis, unit) | of_unit(reads, axis, unit), ~keep[number][axis]
                if own.all():  # an axis is never left without a slice
                    continue
                assert name in BY_GROUPS or gone[own].all(), (unit, site, axis)
                assert name in WITH_MORE or not gone[~own].any(), (unit, site, axis)
