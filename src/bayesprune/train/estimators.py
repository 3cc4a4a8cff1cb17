"""Estimators of the ELBO by name."""

import functools
from collections.abc import Callable, Hashable
from typing import Any

from numpyro.infer import ELBO

from bayesprune.core import same
from bayesprune.core.checks import check_integer, got, unknown_name
from bayesprune.model.elbo import MeanFieldELBO
from bayesprune.model.local import LocalELBO


def make_elbo(estimator: str | ELBO | Any, num_particles: int) -> ELBO:
    """``"weight"`` samples the weights, ``"local"`` each layer's outputs, ``"local_where_exact"`` those of layers in which that
    is the same law, drawing the other weights once; a NumPyro ELBO object is taken as it is.

    Objects of one class whose attributes are equal are one: the first of them is given back, and a second fit finds the
    compiled loop of the first.
    """
    if isinstance(estimator, ELBO):
        return same.first(estimator, _key(estimator))
    if not isinstance(estimator, str):
        raise TypeError(
            f"estimator must be 'weight', 'local', 'local_where_exact', or a NumPyro ELBO object, got {got(estimator)}."
        )
    check_integer(num_particles, "num_particles")
    known: dict[str, Callable[..., ELBO]] = {
        "weight": MeanFieldELBO,
        "local": LocalELBO,
        "local_where_exact": functools.partial(LocalELBO, shared="draw"),
    }
    if estimator not in known:
        raise unknown_name("estimator", estimator, known)
    made = known[estimator](num_particles=num_particles)
    return same.first(made, _key(made))


def _key(elbo: ELBO) -> Hashable:
    return type(elbo), same.key(vars(elbo))
