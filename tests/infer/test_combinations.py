"""Combinations of estimators, scopes, priors and nets: what works, and what is refused, early and with advice that helps."""

from importlib.util import find_spec

import flax.linen as nn
import jax
import numpy as np
import pytest
from numpyro.infer import RenyiELBO, Trace_ELBO, TraceEnum_ELBO, TraceGraph_ELBO

import bayesprune as bp
from bayesprune.infer import laid_out
from tests.infer import programs

DATA = programs.classes()


class WithStatistics(nn.Module):
    @nn.compact
    def __call__(self, x, train: bool = False):
        return nn.Dense(3)(nn.BatchNorm(use_running_average=not train)(nn.Dense(4)(x)))


def linear(**settings) -> bp.BNN:
    return programs_bnn(bp.nets.MLP((), 3), **settings)


def programs_bnn(net, **settings) -> bp.BNN:
    chosen = {"prior": bp.priors.Gaussian(), "likelihood": bp.likelihoods.Categorical(), "input_shape": (4,)} | settings
    return bp.BNN(net, **chosen)


@pytest.mark.slow
def test_a_bound_of_several_draws_is_that_of_the_log_mean_by_hand(rng_key) -> None:
    """Rényi's bound of order 0 with one parameter of no spread is the joint density itself; with K draws at least the ELBO."""
    bnn = programs.small_bnn(prior=bp.priors.Gaussian())
    how = {"num_steps": 40, "course": bp.courses.Plain()}
    rate = bp.courses.Plain().plan(40, begun=False).optimizer
    plain = bp.fit_svi(rng_key, bnn, DATA, **how, optimizer=rate, estimator=Trace_ELBO(num_particles=8))
    tighter = bp.fit_svi(rng_key, bnn, DATA, **how, optimizer=rate, estimator=RenyiELBO(alpha=0.0, num_particles=8))
    # The first step is from the same parameters; the importance-weighted bound is no looser. One draw in 1,000 would say else.
    assert tighter.losses[0] < plain.losses[0] and np.isfinite(tighter.losses).all()


@pytest.mark.slow_cases(1)
@pytest.mark.slow
@pytest.mark.parametrize("estimator", [TraceGraph_ELBO(), RenyiELBO(alpha=0.5, num_particles=2)])
def test_any_elbo_trains_and_prunes(estimator, rng_key) -> None:
    bnn = programs.small_bnn(prior=bp.priors.Gaussian())
    fit = bp.fit_svi(rng_key, bnn, DATA, num_steps=4, estimator=estimator, sparsifier=bp.methods.SNR(0.5), every=2)
    assert np.isfinite(fit.losses).all() and 0.4 < np.mean([np.mean(m) for m in fit.mask.values()]) < 0.7


def test_an_elbo_without_state_is_refused_for_a_net_with_some(rng_key) -> None:
    bnn = programs_bnn(WithStatistics())
    with pytest.raises(ValueError, match=r"RenyiELBO\(\) carries no state, and the program has 'net\$state'.*Trace_ELBO"):
        bp.fit_svi(rng_key, bnn, DATA, num_steps=1, estimator=RenyiELBO())


@pytest.mark.skipif(find_spec("funsor") is not None, reason="what is missing is here")
def test_enumeration_says_what_it_needs(rng_key) -> None:
    with pytest.raises(ImportError, match="package funsor: pip install funsor"):
        bp.fit_svi(rng_key, programs.small_bnn(), DATA, num_steps=1, estimator=TraceEnum_ELBO())


def dead_ends():
    bnn, whole = programs.small_bnn(prior=bp.priors.Gaussian()), linear(prunable=bp.select.everything)
    cauchy, points = programs.small_bnn(prior=bp.priors.Cauchy()), programs.small_bnn(posterior="map")
    last = programs.small_bnn(bayesian=lambda path, shape: path.is_last, prunable=bp.select.not_last)
    unit, bmr = bp.methods.Cut(scope="unit", density=0.5), bp.methods.BMR()
    return {
        "units of a linear net": (whole, {"sparsifier": unit}, "scope='unit' cuts units.*scope='global'"),
        "a linear net": (
            linear(),
            {"sparsifier": bmr},
            r"nothing to prune: 'Dense_0.*prunable=bp\.select\.everything",
        ),
        "a Bayesian last layer": (last, {"sparsifier": bmr}, r"nothing to prune: 'Dense_2.*'Dense_0.*are points"),
        "another prior": (cauchy, {"sparsifier": bmr}, r"priors\.Cauchy, is no fixed Gaussian.*methods\.SNR"),
        "points": (points, {"sparsifier": bmr}, "needs a posterior with spread"),
        "no gates": (bnn, {"sparsifier": bp.methods.SVBNN()}, "reads inclusion probabilities"),
        "an unknown site": (bnn, {"mask": {"Dense_9.kernel": np.ones(2, bool)}}, "unknown site in mask 'Dense_9.kernel'"),
        "another storage": (bnn, {"storage": "sparse"}, "unknown storage 'sparse'"),
        "nothing dead": (bnn, {"storage": "active"}, "nothing is dead"),
    }


@pytest.mark.parametrize("case", list(dead_ends()))
def test_what_arguments_forbid_is_refused_before_anything_is_traced(case, rng_key, monkeypatch) -> None:
    bnn, settings, message = dead_ends()[case]
    monkeypatch.setattr(laid_out, "feed_of", lambda *args: pytest.fail("data were looked at first"))
    with pytest.raises((ValueError, TypeError), match=message):
        bp.fit_svi(rng_key, bnn, DATA, num_steps=2, every=1 if "sparsifier" in settings else None, **settings)


def first_params(bnn: bp.BNN) -> dict:
    return bp.fit_svi(jax.random.key(0), bnn, DATA, num_steps=1).params


@pytest.mark.slow
def test_advice_of_one_shot_cuts_is_not_what_was_done() -> None:
    bnn = linear()
    params = first_params(bnn)
    for program in ({}, {"program": bnn}):
        with pytest.raises(ValueError, match=r"params have nothing to prune: .*'Dense_0\.kernel'.*bp\.select\.everything"):
            bp.bmr_prune(params, **program)
    whole = linear(prunable=bp.select.everything)
    with pytest.raises(ValueError, match="scope='unit' cuts units"):
        bp.prune_once(first_params(whole), bp.methods.Cut(scope="unit", density=0.5), program=whole)


@pytest.mark.slow
def test_advice_under_a_prior_that_is_no_gaussian() -> None:
    bnn = programs.small_bnn(prior=bp.priors.Cauchy())
    params = first_params(bnn)
    with pytest.raises(ValueError, match="give program="):
        bp.bmr_prune(params)
    with pytest.raises(ValueError, match=r"priors\.Cauchy, is no fixed Gaussian") as told:
        bp.bmr_prune(params, program=bnn)
    assert "give program=" not in str(told.value)
    assert bp.bmr_prune(params, program=bnn, prior_scale=1.0).mask
