"""The protocols of priors and likelihoods: all of ours keep them, and who does not is refused at the door by the method."""

from dataclasses import dataclass

import jax.numpy as jnp
import pytest
from tests.infer import programs
from tests.priors import alone

import bayesprune as bp
from bayesprune.core.types import Pruned
from bayesprune.model.likelihoods.protocol import Likelihood, check_likelihood
from bayesprune.model.prior import Prior, check_prior

PARAMS = {"w_auto_loc": jnp.zeros(2), "w_auto_scale": jnp.ones(2), "w$unit": 1.0, "w$prior_scale": 1.0}
PRIORS = [getattr(bp.priors, name)() for name in alone.NAMES]
FITTED = Pruned(PARAMS, {}, None)
PRIORS += [bp.priors.moped({"w": jnp.ones(2)}), bp.priors.Posterior(FITTED), bp.priors.Empirical(FITTED)]
LIKELIHOODS = [
    bp.likelihoods.Bernoulli(), bp.likelihoods.Beta(), bp.likelihoods.Categorical(), bp.likelihoods.NegativeBinomial(),
    bp.likelihoods.Normal(), bp.likelihoods.Ordinal(3), bp.likelihoods.Poisson(), bp.likelihoods.StudentT(),
    bp.likelihoods.Masked(bp.likelihoods.Categorical(), missing=-1), bp.likelihoods.Custom(lambda outputs: None),
]  # fmt: skip


@pytest.mark.parametrize("prior", PRIORS, ids=lambda prior: type(prior).__name__)
def test_a_prior_of_ours_keeps_the_protocol(prior) -> None:
    assert isinstance(prior, Prior)
    check_prior(prior)


@pytest.mark.parametrize("likelihood", LIKELIHOODS, ids=lambda likelihood: type(likelihood).__name__)
def test_a_likelihood_of_ours_keeps_the_protocol(likelihood) -> None:
    assert isinstance(likelihood, Likelihood)
    check_likelihood(likelihood)


@dataclass(frozen=True)
class OtherGuide(bp.priors.Gaussian):
    def guide(self, family):
        raise AssertionError


@dataclass(frozen=True)
class MoreOfMean(bp.likelihoods.Categorical):
    def mean(self, outputs, temperature):
        raise AssertionError


def test_other_parameters_are_refused_by_the_method() -> None:
    with pytest.raises(
        TypeError, match=r"prior\.guide is called as guide\(layout, family\), and that of OtherGuide is guide\(family\)"
    ):
        programs.small_bnn(prior=OtherGuide())
    with pytest.raises(
        TypeError, match=r"likelihood\.mean is called as mean\(outputs\), and that of MoreOfMean is mean\(outputs, temp"
    ):
        programs.small_bnn(likelihood=MoreOfMean())
