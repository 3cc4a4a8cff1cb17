"""Spike and slab with the spike at exactly zero: the prior of sparse variational networks."""

import math
from dataclasses import dataclass, replace
from typing import Any, ClassVar

from bayesprune.core.checks import check_integer, check_name, check_positive, check_within, is_number
from bayesprune.core.types import Node
from bayesprune.formulas.dirac_slab import optimal_log_inclusion
from bayesprune.model import select
from bayesprune.model.families import Family, MeanFieldFamily
from bayesprune.model.layout import Layout, ParamSpec, Predicate, with_posterior
from bayesprune.model.prior import Moments, sample_each
from bayesprune.posteriors.spike_slab import GATES, GatedNormal

REFERENCE = "bai2020efficient"

OPTIMAL = ("optimal", "optimal_code")


@dataclass(frozen=True)
class DiracSlab:
    """Every weight and bias is zero with probability 1 - lam, and else Gaussian; the posterior is of the same form.

      g ~ Bernoulli(lam),  w_hat ~ N(0, 1),  w = slab_scale g w_hat;   q: g ~ Bernoulli(phi), w_hat ~ N(loc, scale²)

    with the divergence (5.1) in closed form and gates by (5.2).

    Args:
        log_inclusion: log lam, a negative number; or "optimal", the rate of (5.3) for the network and the rows it is fitted to;
            or "optimal_code", the same with the last term of the authors' program.
        slab_scale: standard deviation of the slab in the weights' units: sqrt 2 in the paper, 1.3 in its code.
        gate: how gradients reach phi: "hard" (0 or 1 forward, relaxed backward: the paper's), "inverse_cdf" (unbiased,
            but of a variance that lets most weights die: for small models), or "relaxed" (soft both ways; biased).
        init_inclusion: phi at the start.
        num_rows: rows of the data set for "optimal"; 0 takes those that the model is given, which `fit_svi` does right.

    Sites: one per weight array, g w_hat; parameters ``loc``, ``scale`` and ``logit`` (the log-odds of phi) in its coordinates.
    `BNN.posterior` gives `SpikeSlab` nodes. All weights may be pruned, those of the last layer too, unless the `BNN` is set
    otherwise. `methods.SVBNN` cuts at phi = 1/2; `features.selected` reads which inputs are used.

    Raises:
        ValueError: ``log_inclusion`` is no finite negative number nor a known word, ``slab_scale`` is not positive, ``gate`` is
            unknown, or ``init_inclusion`` is outside (0, 1).

    Example:
        >>> DiracSlab(log_inclusion=-20.0).gate
        'hard'

    Source: Bai, Song & Cheng (2020), equations 5 to 8; start values as in the authors' code.
    """

    log_inclusion: float | str = "optimal"
    slab_scale: float = math.sqrt(2.0)
    gate: str = "hard"
    init_inclusion: float = 0.99
    num_rows: int = 0

    prunable: ClassVar[Predicate] = staticmethod(select.everything)

    def __post_init__(self) -> None:
        check_positive(self.slab_scale, "slab_scale")
        check_integer(self.num_rows, "num_rows", minimum=0)
        check_name("gate", self.gate, GATES)
        check_within(self.init_inclusion, "init_inclusion", "(0, 1)")
        if isinstance(self.log_inclusion, str):
            check_name("log_inclusion", self.log_inclusion, OPTIMAL, "Or give log lam, a negative number.")
            return
        if not (is_number(self.log_inclusion) and -math.inf < self.log_inclusion < 0):
            raise ValueError(
                f"log_inclusion must be negative and finite, got {self.log_inclusion}: it is log lam, of a probability."
            )

    @property
    def family(self) -> MeanFieldFamily:
        """The start of the authors' code: weights in U(-0.6, 0.6), scales softplus(-6)."""
        return MeanFieldFamily(init_range=0.6 / self.slab_scale, init_scale=math.log1p(math.exp(-6.0)) / self.slab_scale)

    @property
    def unit(self) -> float:
        """What one unit of a site is in the network."""
        return self.slab_scale

    def model(self, layout: Layout, num_rows: int | Any) -> dict[str, Any]:
        """Sample every Bayesian weight; returns path -> w."""
        log_lam = self.log_prior_inclusion(layout, num_rows)
        logit = log_lam - math.log(-math.expm1(log_lam))
        return sample_each(layout, GatedNormal(logit=logit, gate=self.gate), self.slab_scale)

    def guide(self, layout: Layout, family: Family) -> None:
        """Approximate every site of `model` by ``family``."""
        for spec in with_posterior(layout):
            family.gated(spec, self.gate, self.init_inclusion)

    def node(self, node: Node, spec: ParamSpec, moment: Moments) -> Node:
        """In units of ``slab_scale``."""
        return replace(node, unit=self.slab_scale)  # type: ignore[type-var]

    def log_prior_inclusion(self, layout: Layout, num_rows: int | Any) -> float:
        """log lam for this network and so many rows (5.3): N is the widest hidden layer, p what the first kernel reads."""
        if not isinstance(self.log_inclusion, str):
            return self.log_inclusion
        kernels = [spec for spec in with_posterior(layout) if spec.inputs]
        hidden = kernels[:-1]
        return optimal_log_inclusion(
            num_weights=sum(math.prod(spec.shape) for spec in with_posterior(layout)),
            num_hidden=len(hidden),
            width=max((math.prod(spec.shape[axis] for axis in spec.outputs) for spec in hidden), default=1),
            num_rows=self.num_rows or num_rows,
            num_inputs=kernels[0].fan_in if kernels else 1,
            form="paper" if self.log_inclusion == "optimal" else "code",
        )
