"""Laplace's approximation: a posterior around any trained network, from the second derivatives of its loss."""

from collections.abc import Mapping
from functools import partial
from typing import Any

import jax.numpy as jnp
import numpy as np

from bayesprune.core.given import GivenParams, GivenRows, RandomKey
from bayesprune.core.send import send
from bayesprune.core.streams import OfACurvature, stream
from bayesprune.core.types import Dataset, Node, Pruned
from bayesprune.infer.curvature.forms import FORMS, hessian
from bayesprune.infer.curvature.gaussians import (
    Asked,
    FoundGaussian,
    WeightGaussian,
    bases_of,
    of_all,
    of_diagonal,
    of_kronecker,
    positive,
)
from bayesprune.infer.curvature.laid_out import LaidOut, lay_out_laplace
from bayesprune.infer.curvature.of_trained import KnownWeights
from bayesprune.infer.curvature.over_rows import (
    Pass,
    Sums,
    directions,
    sum_over_rows,
)
from bayesprune.infer.curvature.reach import Draws, in_reach
from bayesprune.model.bnn import BNN
from bayesprune.model.families import CorrelatedFamily, MeanFieldFamily
from bayesprune.model.layout import ParamSpec
from bayesprune.posteriors.correlated import Correlated
from bayesprune.posteriors.mean_field import MeanField
from bayesprune.posteriors.params import CHOSEN
from bayesprune.posteriors.rows_and_columns import marginal
from bayesprune.train.result import FitResult

REFERENCE = "daxberger2021laplace"


def laplace(
    rng_key: RandomKey,
    bnn: BNN | Any,
    params_or_fit: FitResult | Pruned | GivenParams | Any,
    data: GivenRows,
    *,
    curvature: str = "diag",
    structure: str = "ggn",
    prior_precision: str | float | int = "layer",
    variances: str | None = None,
    num_draws: int | None = None,
    excess: float | int | None = 2.0,
    eval_data: GivenRows | None = None,
    max_bytes: int = 2**32,
) -> FitResult:
    """A Gaussian posterior around a trained network, N(w, P^-1) with P = H + delta, without any training.

      log p(D) = log p(D | w) + sum [ -delta w²/2 + log delta/2 ] - log det P / 2                         (25.1)

    H: second derivatives of -log p(D | w), as ``curvature`` and ``structure`` have them; 1/delta: the prior's variance, in
    units of the network's weights. The weights stay where they are, at a maximum of the posterior density if they were trained
    with a weight decay that is about delta. `bp.bmr_prune(fit.params)`, `methods.Cut`, `predict`, `compact` and ``fit.save``
    take what comes back, whatever posterior ``bnn`` was built with.

    Second derivatives hold near the weights alone, and the evidence knows nothing else: around a network of more weights than
    its rows determine, its delta leaves them so free that drawn networks have forgotten what was learnt. So the precisions
    that it chose are multiplied by the least power of two under which draws do as second derivatives say,

      E_q[-log p(D | w')] + log p(D | w) <= excess tr(H P^-1) / 2,                                        (25.9)

    or cost no more than a hundredth of a nat a row; or, given rows that were not trained on, by the one that foresees them
    best. Of linear models with Gaussian noise it is 1.

    Args:
        rng_key: a JAX random key, for ``num_draws`` and the draws of (25.9).
        bnn: a `BNN` of the network, with a prior that is a Gaussian about zero, `priors.Gaussian` or `Flat`.
        params_or_fit: a fit, of ``posterior="map"`` say, or its params; a pruned one, whose dead weights stay dead; or what was
            trained by others, in any form that `from_trained` takes.
        data: the training data, fields x and y.
        curvature: "diag": independent weights. "kron": a matrix normal for each array, from the partial traces (25.5) and the
            nearest to them with the prior (25.6). "full": of all weights together, of which the covariance of each array is
            kept. "last_layer": the same for the last layer alone, the other weights points.
        structure: "ggn": generalised Gauss-Newton, J' L J with the likelihood's own second derivatives (25.3), never negative.
            "empirical": squares of the gradients of log p(y | w), one for each row in place of one for each output; near zero
            in a network that fits all its rows. "exact": the second derivatives themselves, negative ones taken for 0; one
            product with the data for each weight.
        prior_precision: who shares a delta that the evidence chooses: "scalar", all weights; "layer"; or "unit", an output of
            a layer. A number is delta; "own" is that of the ``bnn``'s prior. Not each weight: that would keep all (25.7).
        variances: of independent weights, "conditional" 1/P_ii, the others being at their means, what "diag" has if nothing
            is said; or "marginal" [P^-1]_ii, whatever the others are, from all of P. Of "full", "marginal", its default, or of
            each array given the others, "conditional". The exact evidence of a removal, (20.1), asks for marginal ones.
        num_draws: of "ggn": random directions for each row in place of all its outputs; their sum has the same mean.
        excess: see (25.9). None: the precisions of the evidence as they are. Those that are given, or "own", stay as they are,
            with a warning if draws do not keep to it.
        eval_data: rows that were not trained on, to choose by in place of (25.9): by the mean density of drawn networks.
        max_bytes: what the curvature may take.

    Returns:
        A `FitResult` without a state. ``losses`` holds one number, minus the log evidence in nats; ``history``
        "laplace/prior_precision" of each group, of "own" of each array, "laplace/log_likelihood", and of (25.9) the
        "laplace/factor" on these precisions and what it compares, "laplace/expected_rise" and "laplace/rise", nats a row.
        ``params`` say the priors, the factor in them.

    Raises:
        ValueError: an unknown name; ``params_or_fit`` is not of this network, or holds samples; the prior is no Gaussian about
            zero; the curvature takes more than ``max_bytes``, with the one that fits; a precision for each weight; precisions
            that are given, and ``eval_data`` to choose by.
        TypeError: ``bnn`` is no `BNN`.

    Example:
        >>> import jax, bayesprune as bp
        >>> train, test = bp.data.load("digits")
        >>> bnn = bp.BNN(bp.nets.MLP((16,), 10), prior=bp.priors.Flat(), likelihood=bp.likelihoods.Categorical(),
        ...              input_shape=(8, 8, 1), posterior="map")
        >>> trained = bp.fit_svi(jax.random.key(0), bnn, train, num_steps=200, batch_size=64, progress=False)
        >>> fit = bp.laplace(jax.random.key(1), bnn, trained, train)
        >>> pruned = bp.bmr_prune(fit.params)
        >>> probs = bp.predict(jax.random.key(2), bnn, pruned.params, test.x, mask=pruned.mask, num_samples=10)

    Source: MacKay (1992); Daxberger et al. (2021); Dhahri et al. (2024) for pruning by it.
    """
    laid = lay_out_laplace(dict(locals()))
    return settled(laid, curvature_of(laid, laid.data).total())


def curvature_of(laid: LaidOut, data: Dataset) -> Pass:
    """The pass over these rows that sums up their second derivatives."""
    bnn, trained, density = laid.bnn, laid.trained, laid.density
    if laid.structure == "exact":
        return hessian(bnn, trained, data, density, diagonal=laid.form == "diag")
    find = directions(density, laid.structure, laid.num_draws)
    return sum_over_rows(laid.rng_key, trained, data, density, find, *FORMS[laid.form](bnn, trained, data))


def settled(laid: LaidOut, sums: Sums) -> FitResult:
    """The posterior of this curvature: its precisions chosen, and in reach of draws."""
    bnn, whole, asked, specs = laid.bnn, laid.whole, laid.asked, laid.specs
    prepared = _prepared(sums.form, laid.form)
    posterior = partial(_posterior, prepared, form=laid.form, marginal=laid.marginal, joint=laid.joint)
    units = {site: send(whole.nodes[site].unit) for site in specs}
    draws = Draws(stream(laid.rng_key, OfACurvature.DRAWING), bnn, laid.trained, laid.density, units)
    best = posterior(asked)
    nodes = lambda found: _nodes(found, whole)  # noqa: E731
    found, notes = in_reach(best, posterior, asked, draws, nodes, laid.data, laid.held_out, laid.excess)
    params, nats = _params(bnn, whole, specs, found, asked), float(sums.log_likelihood)
    history = {"laplace/prior_precision": best.delta, "laplace/log_likelihood": np.asarray([nats])} | notes
    return FitResult(params, None, np.asarray([-nats - best.evidence], np.float32), whole.mask, history)


def _prepared(curvature: Any, form: str) -> Any:
    """The curvature as `_posterior` takes it: what no precision changes is computed once."""
    if form == "diag":
        return curvature
    return bases_of(curvature) if form == "kron" else positive(curvature)


def _posterior(curvature: Any, asked: Asked, form: str, marginal: bool, joint: bool) -> FoundGaussian:
    if form == "diag":
        return of_diagonal(curvature, asked)
    return of_kronecker(curvature, asked) if form == "kron" else of_all(curvature, asked, marginal, whole=joint)


def _params(
    bnn: BNN, whole: KnownWeights, specs: Mapping[str, ParamSpec], found: FoundGaussian, asked: Asked
) -> dict[str, Any]:
    """The parameters of the posterior, in the coordinates of the network's prior."""
    nodes = {str(s.path): _node(found.gaussians.get(str(s.path)), whole, str(s.path)) for s in bnn.layout if s.bayesian}
    joint = {site: node for site, node in nodes.items() if isinstance(node, Correlated)}
    covariance = "matrix_normal" if any(node.matrix[1] > 1 for node in joint.values()) else "full"
    family = CorrelatedFamily(covariance=covariance, sites=tuple(joint)) if joint else MeanFieldFamily()
    params = dict(whole.params)
    for spec in bnn.layout:
        if spec.bayesian:
            params |= family.write(nodes[str(spec.path)], spec)
    for site, node in whole.nodes.items():
        prior = np.asarray(node.prior_scale)
        if site in specs:
            prior = np.asarray(found.delta[asked.groups.members[site]] ** -0.5) / np.asarray(node.unit, np.float64)
        params[site + CHOSEN] = send(prior, jnp.result_type(float))
    return params | bnn.describe(params)


def _nodes(found: FoundGaussian, whole: KnownWeights) -> dict[str, Node]:
    """Of the arrays that have a Gaussian."""
    return {site: _node(gaussian, whole, site) for site, gaussian in found.gaussians.items()}


def _node(gaussian: WeightGaussian | None, whole: KnownWeights, site: str) -> MeanField | Correlated:
    """The node of one array, in units of its prior; without a Gaussian a point."""
    unit, weight, alive = np.asarray(whole.nodes[site].unit, np.float64), whole.trained.weights[site], whole.alive[site]
    dtype = jnp.result_type(weight)
    loc = send(np.asarray(weight, np.float64) / unit, dtype)
    if gaussian is None:
        return MeanField(loc, send(np.zeros_like(loc)), prior_scale=None)
    if gaussian.scale is not None:
        return MeanField(loc, send(np.where(alive, gaussian.scale / unit, 0.0), dtype), prior_scale=None)
    rows = send(np.asarray(gaussian.rows) / unit, dtype)
    columns = send(np.ones((1, 1)) if gaussian.columns is None else gaussian.columns, dtype)
    node = Correlated(loc, marginal(rows, columns, jnp.shape(loc)), rows=rows, columns=columns, prior_scale=None)
    node.check_cut(alive)
    return node.given_zero(send(alive))
