"""That the grammar closes: a score of one's own with one of the house's choices, in this one file."""

from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import bayesprune as bp
from bayesprune.core.types import Gradient, Needs
from bayesprune.prune.bookkeeping import first_state, take_step
from bayesprune.prune.choose import keep_density
from tests.infer import programs


@dataclass(frozen=True)
class Sensitivity:
    """Keep what the loss depends on most, |loc * gradient|, with the gradient at the means; later steps keep less."""

    final: float = 0.25

    needs = Needs(gradient=Gradient(at_mean=True))

    def init(self, rng_key, posterior):
        return first_state(posterior)

    def step(self, rng_key, evidence, state):
        worth = {site: jnp.abs(node.loc * evidence.gradient[site]) for site, node in evidence.posterior.items()}
        density = 1.0 - (1.0 - self.final) * evidence.progress
        return take_step(state, keep_density(worth, density, "layer", state.mask), evidence.posterior)


@pytest.mark.slow
def test_it_goes_through_the_public_doors() -> None:
    bnn, data = programs.small_bnn(prior=bp.priors.Gaussian(0.5)), programs.classes(rows=40)
    fit = bp.fit_svi(
        jax.random.key(0), bnn, data, num_steps=9, optimizer=optax.adam(1e-2), sparsifier=Sensitivity(), every=4, progress=False
    )
    assert fit.history["prune/num_alive"].tolist() == [62, 32], "two thirds, then one third, of 32, 8, 48 and 6"
    counts = {site: int(np.sum(alive)) for site, alive in fit.mask.items()}
    assert counts == {s: max(1, round(np.prod(a.shape) * (1 - 0.75 * 8 / 9))) for s, a in fit.mask.items()}
