"""What a prior is: the weights it samples, its guide, what the guide's weights are in the network; and the plainest of them."""

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Protocol, runtime_checkable

import jax
import jax.numpy as jnp
import numpyro
import numpyro.distributions as dist
from jax.typing import ArrayLike
from numpyro.distributions import constraints
from numpyro.distributions.kl import kl_divergence

from bayesprune.core.checks import check_calls, check_object
from bayesprune.core.types import Array, Node
from bayesprune.formulas import log_uniform
from bayesprune.model.families import Family
from bayesprune.model.layout import Layout, ParamSpec, with_posterior
from bayesprune.posteriors.params import check_units


@dataclass(frozen=True)
class Moments:
    """What the posterior says of a positive site c: called with its name and a power, E[c^power].

    ``log(name)``: mean and standard deviation of log c. ``value(name)``: a parameter of the prior's own guide, by its name.
    ``family``: a guide family, or `posteriors.samples.READER`, which reads them from ``params``.
    """

    family: Any
    params: dict[str, Any]

    def __call__(self, name: str, power: float) -> Any:
        return self.family.moment(self.params, name, power)

    def log(self, name: str) -> tuple[Any, Any]:
        return self.family.log_moments(self.params, name)

    def value(self, name: str) -> Any:
        return self.params[name]


@runtime_checkable
class Prior(Protocol):
    """``model`` samples every Bayesian weight, path -> w; ``guide`` has one site for each of its sites.

    ``node(node, spec, moment)`` gives the node of one weight array its meaning: ``prior_scale`` (None where the prior is not
    Gaussian), ``unit``, and its inclusion probability where the prior has one. A Gaussian prior of one scale everywhere also
    says it as an attribute ``prior_scale``, which needs no parameters. A prior whose weights are w = number c^power w_hat, with
    one positive site c for an array or none, may say so by ``factor(spec) -> (number, name of c, power)``, the name empty for
    none: then the law of the weights is known without drawing them.

    Rely on: ``layout`` is of the whole network, in the order of its use; ``family`` has ``weight``, ``coupled``, ``gated``,
    ``positive`` and ``scale_of_units`` of `posteriors.family.Family`; a node's loc and scale have the array's shape.

    Optional: a parameter ``num_rows`` of ``model``, the rows of the whole data set; ``scale_starts(layout)``, where the
    logarithms of positive scales start, by site. Attributes: ``prunable``, a predicate; ``family``, whose start is that of the
    prior's authors; ``couples``, whether weights may vary with a unit's scale; ``improper``, true where the
    prior has no norm: losses under it have a constant of their own.
    """

    def model(self, layout: Layout) -> dict[str, Any]: ...

    def guide(self, layout: Layout, family: Family) -> None: ...

    def node(self, node: Node, spec: ParamSpec, moment: Moments) -> Node: ...


# What methods are called with; those after ``guide`` a prior may leave out.
CALLS = {
    "model": ("layout",), "guide": ("layout", "family"), "node": ("node", "spec", "moment"), "factor": ("spec",),
    "scale_starts": ("layout",),
}  # fmt: skip


def check_prior(prior: object) -> None:
    """Refuse what is no prior, and one whose methods have other parameters than `Prior` says."""
    check_object(prior, "prior", ("model", "guide"), "bp.priors.Flat()")
    check_calls(prior, "prior", CALLS, {"model": ("num_rows",)})


def rows_of(prior: Any, num_rows: ArrayLike) -> dict[str, Any]:
    """The rows of the whole data set, by name, for the ``model`` of a prior that asks for them."""
    return {"num_rows": num_rows} if "num_rows" in inspect.signature(prior.model).parameters else {}


def meaning(prior: object, node: Node, spec: ParamSpec, moment: Moments) -> Node:
    """The node under ``prior``. One that says nothing of its nodes is taken to be no Gaussian: nothing is guessed."""
    if hasattr(prior, "node"):
        # Read outside of compiled code, a prior's own numbers are sent one by one, as by every operation there: to compile this
        # for each prior and shape would take longer.
        with jax.transfer_guard_host_to_device("allow"):
            return prior.node(node, spec, moment)
    return node.under(None)


def sample_each(layout: Layout, law: dist.Distribution, unit: float) -> dict[str, Any]:
    """Sample every Bayesian weight, w = unit w_hat with w_hat of ``law``, elementwise; returns path -> w."""
    site = lambda spec: numpyro.sample(str(spec.path), law.expand(spec.shape))  # noqa: E731
    return {str(spec.path): unit * site(spec) for spec in layout if spec.bayesian}


def sample_own(layout: Layout, law: Callable[[ParamSpec], dist.Distribution]) -> dict[str, Any]:
    """Sample every Bayesian weight itself, of the ``law`` of its array; returns path -> w."""
    return {str(spec.path): numpyro.sample(str(spec.path), law(spec)) for spec in with_posterior(layout)}


def array_of(arrays: Mapping[str, Any], spec: ParamSpec, given: str, remedy: str) -> Any:
    """The array that a prior holds of one weight array. ``given``: what it was given; a `ValueError` if of another network."""
    held = arrays.get(str(spec.path))
    if held is None or held.shape != spec.shape:
        has = "none" if held is None else f"shape {held.shape}"
        raise ValueError(f"{given} of another network: of {str(spec.path)!r}, {spec.shape}, it has {has}. {remedy}")
    return held


def guide_each(layout: Layout, family: Family) -> None:
    """Approximate the site of every Bayesian weight by ``family``."""
    for spec in with_posterior(layout):
        family.weight(spec)


class Independent:
    """A prior with one site for each weight array and none besides, w = unit w_hat; in ``model`` it says the law of w_hat."""

    @property
    def prior_scale(self) -> float | None:
        """The standard deviation of the sites' Gaussian prior about zero; None where the prior is another."""
        return None

    @property
    def unit(self) -> float:
        """What one unit of a site is in the network."""
        return 1.0

    def guide(self, layout: Layout, family: Family) -> None:
        """Approximate every site of `model` by ``family``."""
        guide_each(layout, family)

    def factor(self, spec: ParamSpec) -> tuple[float, str, float]:
        """w = unit w_hat."""
        return self.unit, "", 0.0

    def node(self, node: Any, spec: ParamSpec, moment: Moments) -> Any:  # of any family with these two fields, a user's too
        """Prior N(0, prior_scale²), or none, in units of ``unit``."""
        return replace(node, prior_scale=self.prior_scale, unit=self.unit)


def check_fixed_units(prior: object, layout: Layout, nodes: Mapping[str, Node], params: Mapping[str, Any]) -> None:
    """Refuse parameters of another prior by the units that they say, of sites whose unit no parameter moves.

    A learned unit is what the parameters at hand make of it.
    """
    factor = getattr(prior, "factor", None)
    if factor is not None:
        fixed = [str(spec.path) for spec in layout if spec.bayesian and not factor(spec)[1]]
        check_units({site: nodes[site] for site in fixed if site in nodes}, params)


class Improper(dist.Distribution):
    """A density that no number makes integrate to one: it cannot be drawn from."""

    support = constraints.real
    arg_constraints: ClassVar[dict[str, Any]] = {}

    def sample(self, key: jax.Array, sample_shape: tuple[int, ...] = ()) -> jax.Array:
        raise ValueError(
            f"{type(self).__name__} is an improper prior and has no draws, so its network has no prior predictive: draw from "
            "the guide after a fit (bp.predict), or take a proper prior, such as priors.Horseshoe."
        )


class LogUniformDensity(Improper):
    """p(z) = C/|z|, z of either sign: uniform in log |z|. C is that of `formulas.log_uniform`."""

    def log_prob(self, value: Array, intermediates: object = None) -> jax.Array:
        return log_uniform.LOG_CONSTANT - jnp.log(jnp.abs(value))


class FittedLogUniform(LogUniformDensity):
    """The same density, whose divergence from a weight is the fit (13.5) and not exact."""


class FlatLine(Improper):
    """p(w) = 1: what is maximised under it is the likelihood alone."""

    def log_prob(self, value: Array, intermediates: object = None) -> jax.Array:
        return jnp.zeros(jnp.shape(value))


def noisy_weights(layout: Layout, noise: Callable[[ParamSpec], Any]) -> dict[str, Any]:
    """Every Bayesian array under `FlatLine`, times what ``noise`` samples for it; path -> w."""
    bayesian = (spec for spec in layout if spec.bayesian)
    return {str(s.path): numpyro.sample(str(s.path), FlatLine().expand(s.shape)) * noise(s) for s in bayesian}


class DrawnNormal(dist.Normal):
    """N(loc, scale²) of a scale that weights share: a kind of its own, so that no estimator takes it for a weight."""


@kl_divergence.register(dist.Normal, LogUniformDensity)
def _exact(posterior: dist.Normal, prior: LogUniformDensity) -> jax.Array:
    return log_uniform.exact_kl_divergence(posterior.loc, posterior.scale)


@kl_divergence.register(dist.Normal, FittedLogUniform)
@kl_divergence.register(DrawnNormal, LogUniformDensity)
def _fitted(posterior: dist.Normal, prior: LogUniformDensity) -> jax.Array:
    return log_uniform.kl_divergence(posterior.loc, posterior.scale)
