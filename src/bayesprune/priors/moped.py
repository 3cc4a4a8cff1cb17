"""A prior around weights that someone trained: empirical Bayes by a network without uncertainty (MOPED)."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist

from bayesprune.core.checks import check_positive
from bayesprune.core.types import PyTree
from bayesprune.model.layout import Layout, ParamSpec
from bayesprune.model.net_params import named
from bayesprune.model.prior import Independent, array_of, sample_own

REFERENCE = "krishnan2020specifying"


@dataclass(frozen=True, eq=False)
class MOPED(Independent):
    """Independent Gaussians about given weights; `moped` makes one. ``weights``: path -> array.

    Sites: one per weight array, the weight itself. The prior is not centred at zero, so that a weight's removal has no evidence
    here: `bmr_prune` and `methods.BMR` refuse it, and scores such as `methods.SNR` take it.
    """

    weights: Mapping[str, Any]
    delta: float
    floor: float

    def scale(self, spec: ParamSpec) -> np.ndarray:
        """The standard deviation of each weight of an array: max(delta |w0|, floor)."""
        return np.maximum(self.delta * np.abs(self._centre(spec)), self.floor).astype(jnp.result_type(float))

    def model(self, layout: Layout) -> dict[str, Any]:
        """Sample every Bayesian weight; returns path -> w."""
        return sample_own(layout, lambda spec: dist.Normal(self._centre(spec), self.scale(spec)))

    def _centre(self, spec: ParamSpec) -> np.ndarray:
        remedy = "Give what the same module was trained to."
        return array_of(self.weights, spec, "priors.moped was given weights", remedy)  # type: ignore[no-any-return]


def moped(trained: PyTree, delta: float = 0.1, floor: float = 1e-3) -> MOPED:
    """The prior  w ~ N(w0, max(delta |w0|, floor)²)  about trained weights w0 (22.1).

    Start the fit there too, by ``init_params=bp.from_trained(bnn, trained)``: the guide's own start knows nothing of w0.

    Args:
        trained: as of `from_trained`: of Flax linen, nnx or Equinox, or nested dicts from a checkpoint.
        delta: standard deviation as a share of |w0|, such as 0.05 to 0.2.
        floor: the least standard deviation, in the network's own units, for weights about 0.

    Raises:
        ValueError: ``delta`` or ``floor`` is not positive; at the fit: the network has other weights, by path and shape.

    Example:
        >>> prior = moped({"Dense_0": {"bias": np.array([0.0, -2.0])}})
        >>> prior.delta, list(prior.weights)
        (0.1, ['Dense_0.bias'])

    Source: Krishnan, Subedar & Tickoo (2020), section 3; ``floor`` is ours.
    """
    check_positive(delta, "delta")
    check_positive(floor, "floor")
    return MOPED({path: np.asarray(leaf) for path, leaf in named(trained).items()}, delta, floor)
