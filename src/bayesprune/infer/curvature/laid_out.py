"""What is asked of Laplace's approximation, checked and read, before any second derivative is taken."""

from collections.abc import Mapping
from typing import Any, NamedTuple

import jax
import numpy as np

from bayesprune.core.checks import check_integer, check_key, check_name, check_positive, unknown_name
from bayesprune.core.given import GivenRows
from bayesprune.core.types import Dataset
from bayesprune.infer.curvature.gaussians import Asked, check_share, groups_of, groups_of_scales
from bayesprune.infer.curvature.of_trained import KnownWeights, known, latents_of
from bayesprune.infer.curvature.over_rows import STRUCTURES, LogDensity, Trained, check_bytes, log_density
from bayesprune.infer.data import check_program_data
from bayesprune.infer.predict import check_bnn
from bayesprune.model.bnn import BNN
from bayesprune.model.layout import ParamSpec
from bayesprune.model.shapes import is_shape

CURVATURES = ("diag", "kron", "full", "last_layer")
VARIANCES = ("conditional", "marginal")


class LaidOut(NamedTuple):
    """What was asked, checked and read, before any second derivative is taken.

    ``specs``: the arrays whose curvature is taken, in the form ``form``; ``trained``: the network, of which they are the
    weights; ``joint``: their covariance goes across weights, ``marginal``: their variances are whatever the others are.
    """

    rng_key: jax.Array
    bnn: BNN
    whole: KnownWeights
    trained: Trained
    data: Dataset
    held_out: Dataset | None
    form: str
    specs: dict[str, ParamSpec]
    structure: str
    num_draws: int | None
    asked: Asked
    marginal: bool
    joint: bool
    excess: float | None

    @property
    def density(self) -> LogDensity:
        """log p(y | f) of a row."""
        return log_density(self.bnn, latents_of(self.bnn, self.whole.params))


def lay_out_laplace(arguments: Mapping[str, Any]) -> LaidOut:
    """The arguments of `laplace`, by name, checked; the network is read."""
    bnn, curvature, structure = (arguments[name] for name in ("bnn", "curvature", "structure"))
    num_draws, prior_precision, excess = (arguments[name] for name in ("num_draws", "prior_precision", "excess"))
    rng_key = check_key(arguments["rng_key"])
    check_bnn(bnn)
    variances = _check(curvature, structure, arguments["variances"], num_draws)
    check_share(prior_precision, curvature)
    check_integer(arguments["max_bytes"], "max_bytes")
    if excess is not None:
        check_positive(excess, "excess")
    if not is_shape(bnn.output_shape):
        raise ValueError("laplace is of a network of one output array: choose one by output= of the BNN.")
    data = check_program_data(bnn, arguments["data"], "data")
    held_out = _held_out(bnn, arguments["eval_data"], prior_precision)
    form, specs = _form_of(bnn, curvature, variances)
    shapes = {str(s.path): s.shape for s in bnn.layout if s.bayesian}
    wanted = {site: spec.shape for site, spec in specs.items()}
    last = {str(s.path): s.shape for s in bnn.layout if s.bayesian and s.path.is_last}
    check_bytes("full" if form == "full" and curvature == "diag" else curvature, wanted, shapes, last, arguments["max_bytes"])
    whole = known(bnn, arguments["params_or_fit"], data)
    weights = {site: whole.trained.weights[site] for site in specs}
    rest = {site: value for site, value in whole.trained.weights.items() if site not in specs}
    trained = whole.trained._replace(weights=weights, points=whole.trained.points | rest)
    asked = _asked(whole, specs, form, prior_precision)
    return LaidOut(
        rng_key, bnn, whole, trained, data, held_out, form, specs, structure, num_draws, asked,
        marginal=variances == "marginal", joint=curvature != "diag", excess=excess,
    )  # fmt: skip


def _check(curvature: str, structure: str, variances: str | None, num_draws: int | None) -> str:
    """Refuse unknown names, and what does not go together. The kind of variances."""
    for name, value, names in (("curvature", curvature, CURVATURES), ("structure", structure, STRUCTURES)):
        if value not in names:
            elsewhere = "It is a curvature=." if name == "structure" and value in CURVATURES else ""
            raise unknown_name(name, str(value), names, elsewhere)
    default = "conditional" if curvature in ("diag", "kron") else "marginal"
    variances = default if variances is None else variances
    check_name("variances", variances, VARIANCES)
    if curvature == "kron" and variances == "marginal":
        raise ValueError(
            "variances='marginal' needs the curvature across arrays, which curvature='kron' leaves out: those of its arrays "
            "are given the others. Take curvature='full'."
        )
    if curvature == "kron" and structure == "exact":
        raise ValueError("structure='exact' has no Kronecker product: take structure='ggn', or curvature='full'.")
    if num_draws is not None:
        check_integer(num_draws, "num_draws")
        if structure != "ggn":
            raise ValueError(f"num_draws is of structure='ggn', got structure={structure!r}: leave it out.")
    return variances


def _held_out(bnn: BNN, eval_data: GivenRows | None, prior_precision: str | float | int) -> Dataset | None:
    if eval_data is None:
        return None
    if not isinstance(prior_precision, str) or prior_precision == "own":
        raise ValueError(
            f"eval_data chooses the precision, and prior_precision={prior_precision!r} gives it: leave one of them out."
        )
    return check_program_data(bnn, eval_data, "eval_data")


def _form_of(bnn: BNN, curvature: str, variances: str) -> tuple[str, dict[str, ParamSpec]]:
    """The form of the sum, and the arrays that it is of, in the order that JAX gives the leaves of a dict."""
    specs = {str(spec.path): spec for spec in bnn.layout if spec.bayesian}
    if curvature == "last_layer":
        specs = {site: spec for site, spec in specs.items() if spec.path.is_last}
        if not specs:
            raise ValueError("curvature='last_layer': no weight of the last layer is Bayesian: see bayesian= of the BNN.")
    full = curvature in ("full", "last_layer") or variances == "marginal"
    return "full" if full else curvature, {site: specs[site] for site in sorted(specs)}


def _asked(whole: KnownWeights, specs: Mapping[str, ParamSpec], form: str, share: str | float | int) -> Asked:
    """The weights, and who of them shares a precision."""
    scales = {site: np.asarray(np.multiply(whole.nodes[site].prior_scale, whole.nodes[site].unit)) for site in specs}
    if share == "own":
        groups, start = groups_of_scales(scales, form)
    else:
        groups = groups_of(specs, share if isinstance(share, str) else "layer")
        start = np.ones(len(groups.names))
        for site, scale in scales.items():
            start[groups.members[site]] = float(np.mean(scale)) ** -2.0 if isinstance(share, str) else share
    weights = {site: np.asarray(whole.trained.weights[site], np.float64) for site in specs}
    return Asked(weights, groups, start, chosen=isinstance(share, str) and share != "own")
