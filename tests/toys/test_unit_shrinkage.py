"""That the grammar closes: a prior of one scale for each unit, and the sparsifier that reads it, in this one file."""

from dataclasses import dataclass, replace

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import optax
import pytest

import bayesprune as bp
from bayesprune.prune.bookkeeping import first_state, take_step
from tests.infer import programs


@dataclass(frozen=True)
class UnitScale:
    """w_ij = tau_j w_hat_ij, tau_j ~ Gamma(1, 1) for each unit j, w_hat_ij ~ N(0, 1)."""

    def _site(self, spec):
        return f"{spec.path}.tau", tuple(spec.shape[axis] if axis in spec.outputs else 1 for axis in range(len(spec.shape)))

    def model(self, layout):
        weights = {}
        for spec in layout:
            name, shape = self._site(spec)
            tau = numpyro.sample(name, dist.Gamma(1.0, 1.0).expand(shape))
            weights[str(spec.path)] = tau * numpyro.sample(str(spec.path), dist.Normal().expand(spec.shape))
        return weights

    def guide(self, layout, family):
        for spec in layout:
            family.positive(*self._site(spec))
            family.weight(spec)

    def node(self, node, spec, moment):
        return replace(node, prior_scale=1.0, unit=moment(self._site(spec)[0], 1.0))


@dataclass(frozen=True)
class Shrunk:
    """Cut the units whose posterior scale is less than a share of the largest of their array."""

    share: float = 0.5

    def init(self, rng_key, posterior):
        return first_state(posterior)

    def step(self, rng_key, evidence, state):
        stays = {
            s: jnp.broadcast_to(q.unit >= self.share * jnp.max(q.unit), q.loc.shape) for s, q in evidence.posterior.items()
        }
        return take_step(state, {s: alive & stays[s] for s, alive in state.mask.items()}, evidence.posterior)


@pytest.mark.slow
def test_it_goes_through_the_public_doors() -> None:
    bnn = programs.small_bnn(prior=UnitScale(), prunable=bp.select.not_last)
    data = programs.classes(rows=40)
    fit = bp.fit_svi(
        jax.random.key(0), bnn, data, num_steps=6, optimizer=optax.adam(0.05), sparsifier=Shrunk(), every=3, progress=False,
        course=bp.courses.Plain(),
    )  # fmt: skip
    unit = np.asarray(fit.params["Dense_0.kernel$unit"])
    assert unit.shape == (1, 8) and 0 < np.asarray(fit.mask["Dense_0.kernel"]).mean() < 1
    columns = np.asarray(fit.mask["Dense_0.kernel"])
    assert all(len(set(column)) == 1 for column in columns.T.tolist()), "whole units"
    again = bp.prune_once(fit.params, Shrunk(), mask=fit.mask)
    np.testing.assert_array_equal(again.mask["Dense_0.kernel"], columns & np.asarray(unit >= 0.5 * unit.max()))
    assert bp.bmr_prune(fit.params, mask=fit.mask).mask.keys() == fit.mask.keys()
    probs = bp.predict(jax.random.key(1), bnn, fit.params, data.x, mask=fit.mask, num_samples=3)
    assert probs.shape == (40, 3) and np.allclose(probs.sum(1), 1, atol=1e-5)
    assert set(bp.connected(bnn, fit.mask)) == set(fit.mask)
