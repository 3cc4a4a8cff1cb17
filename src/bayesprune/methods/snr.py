"""Signal-to-noise pruning: the surest weights stay."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from bayesprune.core.keys import Key
from bayesprune.core.types import Evidence, Info, Needs, PyTree, SparseState
from bayesprune.prune import cutting
from bayesprune.prune.bookkeeping import first_state

REFERENCE = "blundell2015weight"


@dataclass(frozen=True)
class SNR:
    """Keep the weights of largest |loc|/scale.

    Args:
        density: fraction of the prunable weights that stays alive, in (0, 1]; or a schedule: a function of the number of the
            pruning step (1, 2, ...), such as `schedules.Cubic` or `schedules.Geometric`.
        scope: what competes: "global", all weights; "layer", those of each array; "per_output", those of each output of an
            array; "unit" or "head", whole units or heads of attention, of which the density is then a share. See `Cut`.

    Counts are exact, ties included; every array keeps at least one weight; the dead stay dead.

    Example:
        >>> SNR(density=0.25)
        SNR(density=0.25, scope='global')

    Source: Graves (2011); Blundell et al. (2015), section 5.1.
    """

    density: float | Callable[[Any], Any] = 0.1
    scope: str = "global"

    def __post_init__(self) -> None:
        cutting.check("snr", self.density, None, self.scope)

    @property
    def needs(self) -> Needs:
        """What the scope asks of the network."""
        return cutting.needs("snr", self.scope)

    def init(self, rng_key: Key, posterior: PyTree) -> SparseState:
        """Everything alive."""
        return first_state(posterior)

    def step(self, rng_key: Key, evidence: Evidence, state: SparseState) -> tuple[SparseState, Info]:
        """Cut to the density of this step."""
        return cutting.cut("snr", self.density, None, self.scope, evidence, state)
