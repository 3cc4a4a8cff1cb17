"""Estimators of the ELBO by name."""

import functools
from collections.abc import Callable, Mapping
from importlib.util import find_spec
from typing import Any

import jax
from numpyro.infer import ELBO, TraceEnum_ELBO

from bayesprune.core import same
from bayesprune.core.checks import check_integer, check_name, got
from bayesprune.core.types import PyTree
from bayesprune.model.elbo import MeanFieldELBO
from bayesprune.model.local import LocalELBO

BY_NAME: dict[str, Callable[..., ELBO]] = {
    "weight": MeanFieldELBO,
    "local": LocalELBO,
    "local_where_exact": functools.partial(LocalELBO, shared="draw"),
}


def make_elbo(estimator: str | ELBO | Any, num_particles: int) -> ELBO:
    """``"weight"`` samples the weights, ``"local"`` each layer's outputs, ``"local_where_exact"`` those of layers in which that
    is the same law, drawing the other weights once; a NumPyro ELBO object is taken as it is.

    Objects of one class whose attributes are equal are one: the first of them is given back, and a second fit finds the
    compiled loop of the first.
    """
    if isinstance(estimator, TraceEnum_ELBO) and find_spec("funsor") is None:
        raise ImportError("estimator=TraceEnum_ELBO() sums over discrete sites by the package funsor: pip install funsor.")
    check_integer(num_particles, "num_particles")
    if isinstance(estimator, ELBO):
        own = getattr(estimator, "num_particles", 1)
        if num_particles not in (1, own):
            raise ValueError(
                f"num_particles={num_particles} is of estimators by name, and {type(estimator).__name__} has its own, {own}: "
                f"write {type(estimator).__name__}(num_particles={num_particles}), and leave num_particles= out."
            )
    elif isinstance(estimator, str):
        check_name("estimator", estimator, BY_NAME)
        estimator = BY_NAME[estimator](num_particles=num_particles)
    else:
        raise TypeError(
            f"estimator must be 'weight', 'local', 'local_where_exact', or a NumPyro ELBO object, got {got(estimator)}."
        )
    return same.first(estimator, (type(estimator), same.key(vars(estimator))))


def keeps_state(elbo: ELBO) -> bool:
    """Whether it can carry state, such as batch statistics, from step to step; of NumPyro's, some cannot.

    >>> from numpyro.infer import RenyiELBO, Trace_ELBO
    >>> keeps_state(Trace_ELBO()), keeps_state(RenyiELBO())
    (True, False)
    """
    return type(elbo).loss_with_mutable_state is not ELBO.loss_with_mutable_state


def check_state(elbo: ELBO, mutable: Mapping[str, Any]) -> None:
    """Refuse an ELBO that cannot carry the program's state."""
    if mutable and not keeps_state(elbo):
        raise ValueError(
            f"estimator={type(elbo).__name__}() carries no state, and the program has {', '.join(map(repr, mutable))}, such as "
            "statistics of batches: take 'weight', 'local', numpyro.infer.Trace_ELBO() or TraceMeanField_ELBO(), or a net "
            "without, as norm='group' makes it."
        )


def loss_of(elbo: ELBO, rng_key: jax.Array, *args: PyTree, **kwargs: PyTree) -> tuple[jax.Array, dict[str, Any]]:
    """The loss of any ELBO, and what it has of state; arguments as of `numpyro.infer.ELBO.loss`."""
    if not keeps_state(elbo):
        return elbo.loss(rng_key, *args, **kwargs), {}
    result = elbo.loss_with_mutable_state(rng_key, *args, **kwargs)
    return result["loss"], result["mutable_state"] or {}
