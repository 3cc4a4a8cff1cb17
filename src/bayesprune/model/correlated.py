"""Correlated families: the weights of an array vary together, by a full or a Kronecker covariance."""

import math
from dataclasses import dataclass
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpyro
import numpyro.distributions as dist
from jax.scipy.linalg import solve_triangular
from numpyro.distributions import constraints

from bayesprune.core.checks import check_integer, unknown_name
from bayesprune.core.tracing import by_one_thread
from bayesprune.model.families import MeanFieldFamily, start_of_loc
from bayesprune.model.layout import Layout, ParamSpec
from bayesprune.model.prior import Moments, meaning
from bayesprune.posteriors import full, matrix_normal
from bayesprune.posteriors.correlated import Correlated, as_matrix, marginal

COVARIANCES = ("full", "matrix_normal")


class CorrelatedNormal(dist.Distribution):
    """One array of weights W ~ MN(loc, U, V), told weight by weight: its log density is that of each given those before it.

    So masks, weights of the divergence and ``to_event`` mean what they mean for independent weights: a sum over weights.
    ``rows``, ``columns``: the Cholesky factors of U and V, over the array as a matrix of their sizes.
    """

    support = constraints.real
    arg_constraints: ClassVar[dict[str, Any]] = {}

    def __init__(self, loc: Any, rows: Any, columns: Any) -> None:
        self.loc, self.rows, self.columns = loc, rows, columns
        self.scale = marginal(rows, columns, jnp.shape(loc))
        # Of each weight given those before it; that of a dead one is 0, and stands for nothing.
        spread = jnp.outer(jnp.diagonal(rows), jnp.diagonal(columns)).reshape(jnp.shape(loc))
        self.conditional = jnp.where(spread == 0, 1.0, spread)
        super().__init__(batch_shape=jnp.shape(loc), validate_args=False)

    def sample(self, key: jax.Array, sample_shape: tuple[int, ...] = ()) -> jax.Array:
        z = jax.random.normal(key, (*sample_shape, len(self.rows), len(self.columns)), jnp.result_type(self.loc))
        return self.loc + (self.rows @ z @ self.columns.T).reshape((*sample_shape, *self.batch_shape))

    def log_prob(self, value: Any, intermediates: Any = None) -> jax.Array:
        matrix = (value - self.loc).reshape((-1, len(self.rows), len(self.columns)))
        z = jax.vmap(lambda m: _solved(self.columns, _solved(self.rows, m).T).T)(matrix).reshape(jnp.shape(value))
        return dist.Normal(0.0, 1.0, validate_args=False).log_prob(z) - jnp.log(self.conditional)


def _solved(factor: jax.Array, matrix: jax.Array) -> jax.Array:
    return solve_triangular(factor, matrix, lower=True)


@dataclass(frozen=True)
class CorrelatedFamily(MeanFieldFamily):
    """The mean field, but the weights of an array are jointly Gaussian, for small layers (20.5).

      "full":           q(w) = N(loc, L L'),  L of (weights, weights)
      "matrix_normal":  q(W) = MN(loc, A A', B B'),  A of (rows, rows), B of (columns, columns), the last axis the columns

    Arrays of one row or one column are "full" in both. A fit starts at the mean field of ``init_scale``, spread
    by ``init_spread``; of a matrix normal rows and columns have such starts, and a weight the root of its two. `bp.bmr_prune`
    removes one weight after the other by its exact evidence, of a matrix normal whole rows and columns, and leaves the others
    at their posterior given that those are zero. Weights of different arrays stay independent. Training is of whole arrays:
    nothing is cut on the way.

    Args:
        covariance: "full" or "matrix_normal".
        sites: the arrays that have it, by their paths; the others are independent weights. () means all.
        largest: weights, or rows or columns, that an array may have: one factor has as many numbers squared.

    Example:
        >>> import bayesprune as bp
        >>> bnn = bp.BNN(bp.nets.MLP(hidden=(), num_outputs=1), prior=bp.priors.Gaussian(), likelihood=bp.likelihoods.Normal(),
        ...              input_shape=(4,), posterior="full")

    Source: Louizos & Welling 2016 for the matrix normal; Hassibi & Stork 1993 for the removal.
    """

    covariance: str = "full"
    sites: tuple[str, ...] = ()
    largest: int = 2048

    def __post_init__(self) -> None:
        super().__post_init__()
        check_integer(self.largest, "largest")
        if self.covariance not in COVARIANCES:
            raise unknown_name("covariance", self.covariance, COVARIANCES)

    def weight(self, spec: ParamSpec) -> Any:
        if not self.correlates(spec):
            return super().weight(spec)
        kind, (rows, columns) = self._kind(spec)
        self._check_size(spec, max(rows, columns))
        loc = self._param(kind, spec, "loc", start_of_loc(self, spec))
        factors = [
            self._param(
                kind, spec, field, self._start_of_factor(size, len(kind.joint)), constraint=constraints.softplus_lower_cholesky
            )
            for field, size in zip(kind.joint, (rows, columns), strict=False)
        ]
        return numpyro.sample(str(spec.path), CorrelatedNormal(loc, *factors, *[jnp.ones((1, 1))] * (2 - len(factors))))

    def coupled(self, spec: ParamSpec, standard: Any) -> Any:
        raise _not_by_themselves(self.covariance)

    def gated(self, spec: ParamSpec, gate: str, inclusion: float) -> Any:
        raise _not_by_themselves(self.covariance)

    def posterior(self, params: dict[str, Any], layout: Layout) -> dict[str, Any]:
        """The nodes of every Bayesian weight. Raises `KeyError` for a parameter that is missing."""
        nodes = super().posterior(params, tuple(spec for spec in layout if not self.correlates(spec)))
        joint: dict[str, Any] = {}
        for spec in layout:
            if spec.bayesian and self.correlates(spec):
                kind, _ = self._kind(spec)
                joint[str(spec.path)] = kind.make(kind.values(params, str(spec.path), not spec.prunable))
        return {str(spec.path): (nodes | joint)[str(spec.path)] for spec in layout if spec.bayesian}

    def correlates(self, spec: ParamSpec) -> bool:
        """Whether the weights of an array vary together."""
        return not self.sites or str(spec.path) in self.sites

    def factors(self, params: dict[str, Any], layout: Layout) -> list[Any]:
        """The Cholesky factors that ``params`` have; those of other families have none. A cut leaves zeros on a diagonal."""
        arrays = [(spec, self._kind(spec)[0]) for spec in layout if spec.bayesian and self.correlates(spec)]
        names = [kind.name(str(spec.path), field, not spec.prunable) for spec, kind in arrays for field in kind.joint]
        return [params[name] for name in names if name in params]

    def _kind(self, spec: ParamSpec) -> tuple[Any, tuple[int, int]]:
        """The names of an array's parameters, and the sizes of its factors."""
        matrix = as_matrix(spec.shape)
        if self.covariance == "full" or 1 in matrix:
            return full.FAMILY, (math.prod(spec.shape), 1)
        return matrix_normal.FAMILY, matrix

    def _start_of_factor(self, size: int, factors: int) -> Any:
        """The mean field's start; each of two factors has its root, so that both together have it."""
        start = self._start_of_scale((size,))
        root = lambda scale: jnp.diag(scale if factors == 1 else jnp.sqrt(scale))  # noqa: E731
        return (lambda rng_key: root(start(rng_key))) if callable(start) else root(start)

    def _check_size(self, spec: ParamSpec, size: int) -> None:
        if size > self.largest:
            other = "posterior='matrix_normal', " if self.covariance == "full" else ""
            raise ValueError(
                f"{spec.path} of shape {spec.shape} asks for a covariance of {size:,} x {size:,} numbers, and "
                f"largest={self.largest:,}: take {other}a smaller net, or, in Python, CorrelatedFamily("
                f"covariance={self.covariance!r}, sites=(...)) of bayesprune.model.correlated with the names of small arrays, "
                "which leaves the others independent."
            )

    def _param(self, kind: Any, spec: ParamSpec, field: str, value: Any, **constraint: Any) -> Any:
        return numpyro.param(kind.name(str(spec.path), field, not spec.prunable), value, **constraint)


def _not_by_themselves(covariance: str) -> ValueError:
    return ValueError(
        f"posterior={covariance!r} is of weights that are Gaussian by themselves, and this prior couples or gates them: take "
        "priors.Gaussian(), Flat() or MOPED, or posterior='mean_field'."
    )


@by_one_thread
def check_correlates(prior: Any, layout: Layout, family: Any) -> None:
    """Refuse sites that do not exist, arrays that are too large, and priors that would make other nodes of correlated ones."""
    if not isinstance(family, CorrelatedFamily):
        return
    paths = [str(spec.path) for spec in layout if spec.bayesian]
    for site in family.sites:
        if site not in paths:
            raise unknown_name("site of CorrelatedFamily", site, paths)

    def nodes() -> dict[str, Any]:
        with numpyro.handlers.block(), numpyro.handlers.trace() as sites, numpyro.handlers.seed(rng_seed=0):
            prior.guide(layout, family)
        params = {name: site["value"] for name, site in sites.items() if site["type"] == "param"}
        sites.clear()
        moment = Moments(family, params)
        specs = {str(spec.path): spec for spec in layout}
        return {path: meaning(prior, node, specs[path], moment) for path, node in family.posterior(params, layout).items()}

    found = jax.eval_shape(nodes)
    joint = [str(spec.path) for spec in layout if spec.bayesian and family.correlates(spec)]
    if not all(type(found[path]) is Correlated for path in joint):
        raise _not_by_themselves(family.covariance)


def check_training(program: Any, acts: bool = False, mask: Any = None, thin: bool = False, params: Any = None) -> None:
    """Refuse what training with correlated weights cannot do: cut on the way, or go on with what was cut.

    ``acts``: whether there is a sparsifier; ``thin``: whether dead weights have no memory; ``params``: those to start from.
    """
    family = getattr(program, "family", None)
    if not isinstance(family, CorrelatedFamily):
        return
    given = [jnp.all(jnp.asarray(alive)) for alive in jax.tree.leaves(mask)]
    cut = params is not None and any(not jnp.all(jnp.diag(factor)) for factor in family.factors(params, program.layout))
    if acts or cut or thin or not all(map(bool, given)):
        who = (
            f"the weights of {', '.join(family.sites)} vary"
            if family.sites
            else f"posterior={family.covariance!r} lets weights vary"
        )
        raise ValueError(
            f"{who} together, and such a fit trains whole arrays: a weight cut on the way changes the others' covariance. "
            "Train without a sparsifier, a mask, storage='active' or parameters that were cut before, and cut "
            "the fit by bp.bmr_prune(fit.params)."
        )
