"""Signal-to-noise pruning: the surest weights stay."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax

from bayesprune.core.types import Evidence, Info, PyTree, SparseState
from bayesprune.prune import scores, to_density
from bayesprune.prune.book import first_state

BIBTEX = """@inproceedings{blundell2015weight,
  title={Weight Uncertainty in Neural Networks},
  author={Blundell, Charles and Cornebise, Julien and Kavukcuoglu, Koray and Wierstra, Daan},
  booktitle={International Conference on Machine Learning},
  year={2015}
}"""


@dataclass(frozen=True)
class SNR:
    """Keep the weights of largest |loc|/scale.

    Args:
        density: fraction of the prunable weights that stays alive, in (0, 1]; or a schedule: a function of the number of the
            pruning step (1, 2, ...), such as `schedules.Cubic` or `schedules.Geometric`.
        scope: "global" ranks all layers together, "per_layer" gives every array the same density.

    Counts are exact, ties included; every array keeps at least one weight; the dead stay dead.

    Example:
        >>> SNR(density=0.25)
        SNR(density=0.25, scope='global')

    Source: Graves (2011); Blundell et al. (2015), section 5.1.
    """

    density: float | Callable[[Any], Any] = 0.1
    scope: str = "global"

    def __post_init__(self) -> None:
        to_density.check(self.density, self.scope)

    def init(self, rng_key: jax.Array, posterior: PyTree) -> SparseState:
        """Everything alive."""
        return first_state(posterior)

    def step(self, rng_key: jax.Array, evidence: Evidence, state: SparseState) -> tuple[SparseState, Info]:
        """Cut to the density of this step."""
        return to_density.cut(scores.snr, self.density, self.scope, evidence, state)
