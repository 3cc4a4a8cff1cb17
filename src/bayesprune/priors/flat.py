"""The flat prior of Bayesian model reduction: one Gaussian scale per layer, learned."""

from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpyro
import numpyro.distributions as dist

from bayesprune.core.checks import check_positive
from bayesprune.model.families import Family
from bayesprune.model.layout import Layout, ParamSpec
from bayesprune.model.prior import Moments, guide_each
from bayesprune.posteriors.mean_field import MeanField

REFERENCE = "markovic2024bayesian"


@dataclass(frozen=True)
class Flat:
    """Non-centred Gaussian weights with one scale per layer, kernel and bias together (1.1).

      c_l^-2 ~ Gamma(2, 2),   w_hat ~ N(0, 1),   w = gamma c_l w_hat

    Args:
        gamma0: gamma of every layer but the last.
        last_gamma: gamma of the last layer; 1 as in the authors' code. The paper's text has ``last_gamma=gamma0``.

    Sites: ``"<layer>.precision"`` (c_l^-2, a scalar) and one per weight array (w_hat, of its shape). The posterior is written
    in w_hat's coordinates, where the prior is exactly N(0, 1).

    Example:
        >>> Flat(gamma0=0.1).last_gamma
        1.0

    Source: Marković, Friston & Kiebel (2024), equations 7 and 8.
    """

    gamma0: float = 0.1
    last_gamma: float = 1.0

    prior_scale: ClassVar[float] = 1.0

    def __post_init__(self) -> None:
        check_positive(self.gamma0, "gamma0")
        check_positive(self.last_gamma, "last_gamma")

    def model(self, layout: Layout) -> dict[str, Any]:
        """Sample every Bayesian weight; returns path -> w."""
        scales = {layer: numpyro.sample(f"{layer}.precision", dist.Gamma(2.0, 2.0)) ** -0.5 for layer in _layers(layout)}
        standard = lambda spec: numpyro.sample(str(spec.path), dist.Normal(0.0, 1.0).expand(spec.shape))  # noqa: E731
        return {str(s.path): self._gamma(s) * scales[s.path.layer] * standard(s) for s in layout if s.bayesian}

    def guide(self, layout: Layout, family: Family) -> None:
        """Approximate every site of `model` by ``family``."""
        for layer in _layers(layout):
            family.positive(f"{layer}.precision")
        guide_each(layout, family)

    def factor(self, spec: ParamSpec) -> tuple[float, str, float]:
        """w = gamma c_l w_hat, c_l the power -1/2 of the layer's precision."""
        return self._gamma(spec), f"{spec.path.layer}.precision", -0.5

    def node(self, node: MeanField, spec: ParamSpec, moment: Moments) -> MeanField:
        """Prior N(0, 1); unit gamma E[c_l], so that ``loc * unit`` is the weight's posterior mean."""
        return replace(
            node, prior_scale=self.prior_scale, unit=self._gamma(spec) * moment(f"{spec.path.layer}.precision", -0.5)
        )

    def _gamma(self, spec: ParamSpec) -> float:
        return self.last_gamma if spec.path.is_last else self.gamma0


def _layers(layout: Layout) -> list[str]:
    """Layers with a Bayesian weight, in the network's order."""
    return list(dict.fromkeys(spec.path.layer for spec in layout if spec.bayesian))
