"""Priors under which weights stand on their own: one site for each array, of one law and one unit."""

from typing import Any

import numpyro
import numpyro.distributions as dist

from bayesprune.model.families import Family
from bayesprune.model.layout import Layout


def sample_each(layout: Layout, law: dist.Distribution, unit: float) -> dict[str, Any]:
    """Sample every Bayesian weight, w = unit w_hat with w_hat of ``law``, elementwise; returns path -> w."""
    site = lambda spec: numpyro.sample(str(spec.path), law.expand(spec.shape))  # noqa: E731
    return {str(spec.path): unit * site(spec) for spec in layout if spec.bayesian}


def guide_each(layout: Layout, family: Family) -> None:
    """Approximate the site of every Bayesian weight by ``family``."""
    for spec in layout:
        if spec.bayesian:
            family.weight(spec)
