"""A guide family of the user's own is cut as it should be, or not at all."""

from dataclasses import dataclass

import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
from numpyro.distributions import constraints
from tests.infer import programs

import bayesprune as bp
from bayesprune.model.families import MeanFieldFamily
from bayesprune.posteriors.mean_field import MeanField


@dataclass(frozen=True)
class OwnNames(MeanFieldFamily):
    """Gaussians whose parameters have names that no file of ours knows."""

    def weight(self, spec):
        loc = numpyro.param(f"{spec.path}_mu", jnp.ones(spec.shape))
        scale = numpyro.param(f"{spec.path}_sigma", jnp.full(spec.shape, 0.1), constraint=constraints.positive)
        return numpyro.sample(str(spec.path), dist.Normal(loc, scale, validate_args=False))

    def posterior(self, params, layout):
        return {str(s.path): MeanField(params[f"{s.path}_mu"], params[f"{s.path}_sigma"]) for s in layout if s.bayesian}


@dataclass(frozen=True)
class OwnLaw(MeanFieldFamily):
    """Our names, and another law."""

    def weight(self, spec):
        return numpyro.sample(str(spec.path), dist.Laplace(*self._slab(spec), validate_args=False))


@dataclass(frozen=True)
class OwnStart(MeanFieldFamily):
    """Our names and our law; it starts elsewhere."""

    def weight(self, spec):
        loc = numpyro.param(f"{spec.path}_{'auto' if spec.prunable else 'dense'}_loc", jnp.full(spec.shape, 0.3))
        _, scale = self._slab(spec._replace(path=type(spec.path)(f"{spec.path}")))
        return numpyro.sample(str(spec.path), dist.Normal(loc, scale, validate_args=False))


DATA = programs.classes()
REFUSED = {
    OwnNames: r"OwnNames keeps the weights of 'Dense_0\.bias' in parameters of its own names",
    OwnLaw: r"OwnLaw draws the weights of 'Dense_0\.bias' from Laplace",
}


@pytest.mark.slow
@pytest.mark.parametrize("family", REFUSED)
def test_it_trains_and_predicts_and_is_not_cut(family, rng_key) -> None:
    bnn = programs.small_bnn(posterior=family(), prior=bp.priors.Gaussian())
    with pytest.raises(ValueError, match=REFUSED[family]):
        bp.fit_svi(rng_key, bnn, DATA, num_steps=1, sparsifier=bp.methods.BMR())
    with pytest.raises(ValueError, match=REFUSED[family]):
        bp.fit_svi(rng_key, bnn, DATA, num_steps=1, mask={"Dense_0.bias": np.zeros(8, bool)})
    fit = bp.fit_svi(rng_key, bnn, DATA, num_steps=2)
    assert np.isfinite(bp.predict(rng_key, bnn, fit.params, DATA.x, num_samples=2)).all()
    with pytest.raises(ValueError, match=REFUSED[family]):
        bp.prune_once(fit.params, bp.methods.SNR(0.5), program=bnn)
    with pytest.raises(ValueError, match=r"mean-field posterior|prior"):
        bp.bmr_prune(fit.params)


@pytest.mark.slow
def test_one_that_keeps_names_and_law_is_cut(rng_key) -> None:
    bnn = programs.small_bnn(posterior=OwnStart(), prior=bp.priors.Gaussian())
    fit = bp.fit_svi(rng_key, bnn, DATA, num_steps=2)
    pruned = bp.prune_once(fit.params, bp.methods.SNR(0.5), program=bnn)
    for site, alive in pruned.mask.items():
        np.testing.assert_array_equal(np.asarray(pruned.params[f"{site}_auto_loc"]) != 0, alive)


def test_ours_are_never_looked_at() -> None:
    assert programs.small_bnn().uncut == "" and programs.small_bnn(posterior="map").uncut == ""
