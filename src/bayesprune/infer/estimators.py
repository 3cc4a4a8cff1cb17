"""Estimators of the ELBO by name."""

import functools

from numpyro.infer import ELBO

from bayesprune.core.checks import check_integer, unknown_name
from bayesprune.model.elbo import MeanFieldELBO
from bayesprune.model.local import LocalELBO


def make_elbo(estimator: str | ELBO, num_particles: int) -> ELBO:
    """``"weight"`` samples the weights, ``"local"`` each layer's outputs; a NumPyro ELBO object is taken as it is."""
    if isinstance(estimator, ELBO):
        return estimator
    check_integer(num_particles, "num_particles")
    return _named(estimator, num_particles)


@functools.cache
def _named(estimator: str, num_particles: int) -> ELBO:
    # Cached, so that equal settings give the same object, and a second fit finds the compiled loop of the first.
    known = {"weight": MeanFieldELBO, "local": LocalELBO}
    if estimator not in known:
        raise unknown_name("estimator", estimator, known)
    return known[estimator](num_particles=num_particles)
