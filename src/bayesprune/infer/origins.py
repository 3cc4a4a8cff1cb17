"""What a fit may go on from: another fit or a pruned one; all else is refused with what to give in its place."""

from collections.abc import Mapping
from typing import Any

from bayesprune.core.checks import got
from bayesprune.core.finite import check_finite
from bayesprune.core.given import GivenParams
from bayesprune.core.types import Pruned, PyTree
from bayesprune.infer.replicates import Replicates
from bayesprune.posteriors import params as posterior_params
from bayesprune.posteriors.samples import draws_of
from bayesprune.train.continuation import Origin, keep
from bayesprune.train.result import LAW, FitResult


def as_origin(init: FitResult | Pruned | None, init_params: object) -> Origin | None:
    """What ``init`` holds to go on from; None for None. `TypeError`, `ValueError`: it is no such thing, or both are given."""
    if init is None:
        return None
    check_origin(init, init_params)
    if draws_of(init.params):
        raise ValueError(
            "init holds samples of fit_sgmcmc, and a fit starts from one network: fit first and sample from there, by "
            "bp.fit_sgmcmc(..., init=fit)."
        )
    check_finite(init.params, "init.params")
    if isinstance(init, Pruned):
        return Origin(init.params, init.mask, None, whole=False)
    return Origin(init.params, init.mask, keep(init.state), whole=True, law=law_of(init))


def params_and_mask(given: FitResult | Pruned | PyTree) -> tuple[Any, Mapping[str, Any]]:
    """Of a fit or a pruned one its parameters and mask; of all else itself, and nothing dead."""
    return (given.params, given.mask) if isinstance(given, FitResult | Pruned) else (given, {})


def check_one_network(params: GivenParams) -> None:
    """Refuse samples where ``params_or_fit`` has to be of one network."""
    if draws_of(params):
        raise ValueError("params_or_fit are samples, networks of their own: give one network, a fit's or a trained one.")
    posterior_params.read(params)  # which refuses those of several fits


def law_of(fit: FitResult) -> str:
    """By what law its optimiser's state came about; "" where that is not known."""
    return bytes(fit.history.get(LAW, b"")).decode()


def check_origin(init: object, init_params: object) -> None:
    """Refuse what is neither a fit nor a pruned one, and two starts at once."""
    if init_params is not None:
        raise ValueError("init and init_params both say where to start: give init=fit, or init_params= and mask= alone.")
    if not isinstance(init, FitResult | Pruned):
        raise TypeError(f"init must be a fit or a pruned one, got {_what(init)}.")
    if not isinstance(init.params, dict):
        raise TypeError(f"init was pruned as a {type(init.params).__name__}, no parameters by name: prune fit.params.")


def _what(init: object) -> str:
    """What was given, and what to give in its place."""
    if isinstance(init, Replicates):
        return "Replicates, many fits: give one, as init_params=jax.tree.map(lambda leaf: leaf[r], fits.params)"
    if isinstance(init, dict):
        return "a dict: parameters alone are given as init_params="
    if hasattr(init, "params"):
        return f"{type(init).__name__}: give its parameters as init_params="
    return f"{got(init)}: give what bp.fit_svi returned, or parameters as init_params="
