"""What `foreign.py` gives nets of others: a few rows of each shape, and how such a net is written down."""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

import jax
import numpy as np

import bayesprune as bp

ROWS = 24
RNG = np.random.default_rng(0)
LABELS = (np.arange(ROWS) % 3).astype(np.int32)


def normal(*shape: int) -> np.ndarray:
    """Rows of real numbers."""
    return RNG.normal(size=(ROWS, *shape)).astype(np.float32)


VECTORS, IMAGES, SEQUENCES = normal(5), normal(8, 8, 1), normal(6, 4)
TOKENS = RNG.integers(0, 11, (ROWS, 6)).astype(np.int32)
MASKS = np.arange(6) < RNG.integers(1, 7, (ROWS, 1))
NODES, EDGES = normal(5, 4), (RNG.random((ROWS, 5, 5)) < 0.4).astype(np.float32)
COUNTS = RNG.poisson(3.0, ROWS).astype(np.int32)
REAL = VECTORS[:, 0]


class Net(NamedTuple):
    """A net of another's hand. ``make()`` builds it or a `bp.Program`; ``x``, ``y``: its rows; ``settings``: of `bp.BNN`."""

    title: str
    make: Callable[[], Any]
    x: Any
    y: np.ndarray = LABELS
    settings: Mapping[str, Any] = MappingProxyType({})

    def data(self) -> bp.Dataset:
        """Its rows."""
        return bp.Dataset(self.x, self.y)

    def program(self) -> Any:
        """The network with a prior and a likelihood, or the program that it is."""
        made = self.make()
        if isinstance(made, bp.Program):
            return made
        first = jax.tree.map(lambda part: part[:1], self.x)
        given = {"prior": bp.priors.Flat(), "likelihood": bp.likelihoods.Categorical(), "example": first}
        return bp.BNN(made, **given | dict(self.settings))


def real(**settings: Any) -> Mapping[str, Any]:
    """Settings of a regression."""
    return {"likelihood": bp.likelihoods.Normal()} | settings
