"""What sparsifiers that cut by one score have in common: a file of `methods` gives the score and the knobs."""

from bayesprune.core.keys import Key
from bayesprune.core.types import Evidence, Info, Needs, PyTree, SparseState
from bayesprune.prune import cutting
from bayesprune.prune.bookkeeping import first_state
from bayesprune.prune.cutting import Scheduled


class ByScore:
    """For a frozen dataclass with ``density`` and ``scope``, and a ``score``: a cut at every step, see `cutting.cut`."""

    score: str
    density: Scheduled | None
    scope: str
    threshold: float | None = None
    price: Scheduled | None = None

    def __post_init__(self) -> None:
        cutting.check(self.score, self.density, self.threshold, self.scope, self.price)
        if self.density is None and self.least is None:
            raise ValueError("density is None, and nothing says where to cut: give the share that stays, such as 0.1.")

    @property
    def least(self) -> float | None:
        """The lowest score that stays where no density is given."""
        return self.threshold

    @property
    def needs(self) -> Needs:
        """What the score and the scope need."""
        return cutting.needs(self.score, self.scope)

    def init(self, rng_key: Key, posterior: PyTree) -> SparseState:
        """Everything alive."""
        return first_state(posterior)

    def step(self, rng_key: Key, evidence: Evidence, state: SparseState) -> tuple[SparseState, Info]:
        """Cut once, to the density of this step."""
        return cutting.cut(self.score, self.density, self.least, self.scope, evidence, state, self.price)


class ByInclusion(ByScore):
    """The same by the inclusion probabilities of a spike and slab; a dataclass with ``probability``, the lowest that stays."""

    score = "inclusion"
    probability: float

    def __post_init__(self) -> None:
        cutting.log_odds(self.probability)
        super().__post_init__()

    @property
    def least(self) -> float:
        return cutting.log_odds(self.probability)
