"""Correlated Gaussians: the weights of an array vary together, by a full or a Kronecker covariance."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
from jax.scipy.linalg import solve_triangular
from numpyro.distributions import Distribution, constraints
from numpyro.distributions.kl import kl_divergence

from bayesprune.core.checks import check_integer, check_name
from bayesprune.core.compiling import WHOLE_PRODUCTS
from bayesprune.core.layout import Layout, ParamSpec
from bayesprune.core.types import Array, Node
from bayesprune.formulas import gaussian
from bayesprune.posteriors.divergence import divergence
from bayesprune.posteriors.family import ParamNames, start_of_loc, starts_of
from bayesprune.posteriors.joint import Joint, all_alive
from bayesprune.posteriors.mean_field import MeanField, MeanFieldFamily
from bayesprune.posteriors.rows_and_columns import RowRemoval, as_matrix, check_whole, conditioned, marginal

COVARIANCES = ("full", "matrix_normal")


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Correlated(Joint, MeanField):
    """Gaussian weights of one array that vary together, q(W) = MN(loc, U, V) with U = rows rows', V = columns columns'.

    Seen as a matrix whose last axis is the array's own. ``rows`` and ``columns``: lower triangular, the Cholesky factors of
    Cov(W_ij, W_kl) = U_ik V_jl. A full covariance is one column, every weight a row, with ``columns`` = 1. ``scale``: the
    marginal standard deviations, what single weights are scored by; the evidence that (2.5) reads from them is exact for each
    weight alone, (20.1).
    """

    rows: Any = None
    columns: Any = None

    @property
    def factor(self) -> Any:
        """The Cholesky factor of a full covariance."""
        return self.rows

    @property
    def matrix(self) -> tuple[int, int]:
        """Rows and columns of the array as its covariance sees it."""
        return jnp.shape(self.rows)[0], jnp.shape(self.columns)[0]

    @property
    def whole(self) -> bool:
        """Whether it stays a matrix normal only where whole rows or columns are cut."""
        return self.matrix[1] > 1

    def check_cut(self, alive: Array) -> None:
        """Refuse a mask of single weights of a matrix normal."""
        check_whole(np.reshape(alive, self.matrix))

    @WHOLE_PRODUCTS
    def draw(self, rng_key: jax.Array) -> jax.Array:
        """One draw of the network's weights."""
        z = jax.random.normal(rng_key, self.matrix, jnp.result_type(self.loc))
        return (self.loc + (self.rows @ z @ self.columns.T).reshape(jnp.shape(self.loc))) * self.unit  # type: ignore[no-any-return]

    def divergence(self, prior: Distribution) -> jax.Array:
        """KL, weight by weight in the order of the array, nats: a share of each, whose sum is that of the array (20.5)."""
        return divergence(CorrelatedNormal(self.loc, self.rows, self.columns), prior)

    def removal(self, alive: jax.Array) -> RowRemoval:
        """Its removal, row after row or column after column, from those that are ``alive`` on."""
        return RowRemoval.start(self, alive)

    def given_zero(self, alive: Array) -> "Correlated":
        """The posterior of the others given that the dead weights are zero, (20.3).

        Raises `ValueError` for dead weights that are no whole rows and columns: their posterior is no matrix normal.
        """
        alive = jnp.broadcast_to(alive, jnp.shape(self.loc))
        if all_alive(alive):
            return self
        row_alive, column_alive = check_whole(alive.reshape(self.matrix))
        loc, scale, rows, columns = conditioned(jnp.asarray(self.loc), self.rows, self.columns, row_alive, column_alive)
        return replace(self, loc=loc, scale=scale, rows=rows, columns=columns)


def _full(values: dict[str, Any]) -> Correlated:
    columns = jnp.ones((1, 1), jnp.result_type(values["factor"]))
    return _matrix_normal({"loc": values["loc"], "rows": values["factor"], "columns": columns})


def _matrix_normal(values: dict[str, Any]) -> Correlated:
    scale = marginal(values["rows"], values["columns"], jnp.shape(values["loc"]))
    return Correlated(scale=scale, prior_scale=None, **values)


# "<site>_auto_loc", and the Cholesky factors of covariances: "<site>_auto_factor", (weights, weights), or "<site>_auto_rows"
# and "<site>_auto_columns".
FULL = ParamNames(("loc", "factor"), Correlated, _full, joint=("factor",))
MATRIX_NORMAL = ParamNames(("loc", "rows", "columns"), Correlated, _matrix_normal, joint=("rows", "columns"))


class CorrelatedNormal(dist.Distribution):
    """One array of weights W ~ MN(loc, U, V), said weight by weight: its log density is that of each given those before it.

    So masks, weights of the divergence and ``to_event`` mean what they mean for independent weights: a sum over weights.
    ``rows``, ``columns``: the Cholesky factors of U and V, over the array as a matrix of their sizes.
    """

    support = constraints.real
    arg_constraints: ClassVar[dict[str, Any]] = {}

    def __init__(self, loc: jax.Array, rows: jax.Array, columns: jax.Array) -> None:
        self.loc, self.rows, self.columns = loc, rows, columns
        self.scale = marginal(rows, columns, jnp.shape(loc))
        # Of each weight given those before it; that of a dead one is 0, and stands for nothing.
        spread = jnp.outer(jnp.diagonal(rows), jnp.diagonal(columns)).reshape(jnp.shape(loc))
        self.conditional = jnp.where(spread == 0, 1.0, spread)
        super().__init__(batch_shape=jnp.shape(loc), validate_args=False)

    @property
    def mean(self) -> jax.Array:
        return self.loc

    @property
    def variance(self) -> jax.Array:
        return jnp.square(self.scale)

    def sample(self, key: jax.Array, sample_shape: tuple[int, ...] = ()) -> jax.Array:
        return self.sample_with_intermediates(key, sample_shape)[0]

    @WHOLE_PRODUCTS
    def sample_with_intermediates(self, key: jax.Array, sample_shape: tuple[int, ...] = ()) -> Any:
        """A draw and, for its density, the standard normal numbers that made it.

        To solve for them is no way back in single precision: the condition of a triangular factor grows exponentially with the
        number of weights where off its diagonal it is as large as on it.
        """
        z = jax.random.normal(key, (*sample_shape, len(self.rows), len(self.columns)), jnp.result_type(self.loc))
        shape = (*sample_shape, *self.batch_shape)
        return self.loc + (self.rows @ z @ self.columns.T).reshape(shape), [z.reshape(shape)]

    def log_prob(self, value: jax.Array, intermediates: Sequence[Any] | None = None) -> jax.Array:
        z = intermediates[0] if intermediates else self._standard(value)
        return dist.Normal(0.0, 1.0, validate_args=False).log_prob(z) - jnp.log(self.conditional)

    def _standard(self, value: jax.Array) -> jax.Array:
        matrix = (value - self.loc).reshape((-1, len(self.rows), len(self.columns)))
        return jax.vmap(lambda m: _solved(self.columns, _solved(self.rows, m).T).T)(matrix).reshape(jnp.shape(value))


@kl_divergence.register(CorrelatedNormal, dist.Normal)
def _divergence(posterior: CorrelatedNormal, prior: dist.Normal) -> jax.Array:
    # By weights: the entropy is that of each given those before it, and the rest of the divergence knows marginals alone.
    nats = gaussian.kl_divergence(posterior.loc, posterior.scale, prior.loc, prior.scale)
    return nats + jnp.log(posterior.scale) - jnp.log(posterior.conditional)


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

    factorised: ClassVar[bool] = False
    centred: ClassVar[bool] = False

    def __post_init__(self) -> None:
        super().__post_init__()
        check_integer(self.largest, "largest")
        check_name("covariance", self.covariance, COVARIANCES)

    def guide(self, spec: ParamSpec) -> Any:
        if not self.joint(spec):
            return super().guide(spec)
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

    def coupled(self, spec: ParamSpec, standard: Array) -> Any:
        raise _not_by_themselves(self.covariance)

    def gated(self, spec: ParamSpec, gate: str, inclusion: float) -> Any:
        raise _not_by_themselves(self.covariance)

    def read(self, params: dict[str, Any], spec: ParamSpec) -> Any:
        return self._kind(spec)[0].read(params, spec) if self.joint(spec) else super().read(params, spec)

    def write(self, node: Node, spec: ParamSpec) -> dict[str, Any]:
        found: dict[str, Any] = self._kind(spec)[0].write(node, spec) if self.joint(spec) else super().write(node, spec)
        return found

    def joint(self, spec: ParamSpec) -> bool:
        """Whether the weights of an array vary together."""
        return not self.sites or str(spec.path) in self.sites

    def check(self, prior: Any, layout: Layout, read: Callable[..., Any]) -> None:
        """Refuse sites that do not exist, large arrays, and priors that would make other nodes of correlated ones."""
        paths = [str(spec.path) for spec in layout if spec.bayesian]
        for site in self.sites:
            check_name("site of CorrelatedFamily", site, paths)
        found = jax.eval_shape(lambda: read(starts_of(self, prior, layout)))
        if not all(type(found[str(spec.path)]) is Correlated for spec in layout if spec.bayesian and self.joint(spec)):
            raise _not_by_themselves(self.covariance)

    def _kind(self, spec: ParamSpec) -> tuple[Any, tuple[int, int]]:
        """The names of an array's parameters, and the sizes of its factors."""
        matrix = as_matrix(spec.shape)
        if self.covariance == "full" or 1 in matrix:
            return FULL, (math.prod(spec.shape), 1)
        return MATRIX_NORMAL, matrix

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
                f"covariance={self.covariance!r}, sites=(...)) of bayesprune.model.families with the names of small arrays, "
                "which leaves the others independent."
            )

    def _param(self, kind: ParamNames, spec: ParamSpec, field: str, value: Any, **constraint: object) -> Any:
        return numpyro.param(kind.name(str(spec.path), field, not spec.prunable), value, **constraint)


def _not_by_themselves(covariance: str) -> ValueError:
    return ValueError(
        f"posterior={covariance!r} is of weights that are Gaussian by themselves, and this prior couples or gates them: take "
        "priors.Gaussian(), Flat() or MOPED, or posterior='mean_field'."
    )
