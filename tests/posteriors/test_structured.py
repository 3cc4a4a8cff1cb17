"""The structured family: its marginals, its divergence against draws, and what is left of it at correlation zero."""

from dataclasses import fields

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from numpyro.handlers import seed, substitute, trace
from numpyro.infer import Trace_ELBO
from tests.infer import programs

import bayesprune as bp
from bayesprune.model.elbo import MeanFieldELBO
from bayesprune.model.families import MeanFieldFamily
from bayesprune.posteriors import params as posterior_params
from bayesprune.posteriors.structured import StructuredFamily

PRIOR = bp.priors.Horseshoe(tau0=0.5)
SITE = "Dense_0.kernel"


def started(family, rho=None):
    bnn = programs.small_bnn(prior=PRIOR, posterior=family)
    sites = trace(seed(bnn.guide, jax.random.key(0))).get_trace()
    params = {n: s["value"] for n, s in sites.items() if s["type"] == "param"}
    return bnn, params if rho is None else params | {f"{SITE}_auto_correlation": jnp.full((4, 8), rho)}


@pytest.mark.slow
def test_at_correlation_zero_it_is_the_mean_field() -> None:
    """Same parameters beside the correlations, same draws, same loss."""
    (plain, params), (bnn, both) = started(MeanFieldFamily()), started(StructuredFamily())
    data, key = programs.classes(rows=20), jax.random.key(5)
    own = {n: v for n, v in both.items() if "_correlation" not in n}
    assert own.keys() == params.keys()
    loss = lambda program, p: MeanFieldELBO().loss(key, p, program.model, program.guide, data.x, data.y)  # noqa: E731
    np.testing.assert_allclose(loss(bnn, both | params), loss(plain, params), rtol=1e-6)


@pytest.mark.slow
def test_marginals_and_correlation_3_7_are_those_of_draws() -> None:
    """(3.7) by 20,000 draws of one array's guide: mean, sd and correlation with log tau, within five standard errors."""
    bnn, params = started(StructuredFamily(init_scale=0.5), rho=0.8)

    def draw(key):
        sites = trace(substitute(seed(bnn.guide, key), data=params)).get_trace()
        return sites[SITE]["value"][1], jnp.log(sites["Dense_0.tau_8"]["value"])

    w, log_tau = (np.asarray(d, np.float64) for d in jax.jit(jax.vmap(draw))(jax.random.split(jax.random.key(6), 20_000)))
    node = bnn.read(params)[SITE]
    error = 5 / np.sqrt(20_000)
    assert np.all(np.abs(w.mean(0) - np.asarray(node.loc)[1]) < error * w.std(0))
    np.testing.assert_allclose(w.std(0), np.asarray(node.scale)[1], rtol=error)
    found = [np.corrcoef(w[:, unit], log_tau[:, unit])[0, 1] for unit in range(8)]
    np.testing.assert_allclose(found, 0.8, atol=error)


@pytest.mark.slow
def test_the_elbo_is_that_of_sampled_densities() -> None:
    """The closed form given tau against NumPyro's sampled one, 4,000 draws of each, five standard errors."""
    bnn, params = started(StructuredFamily(init_scale=0.5), rho=0.7)
    data = programs.classes(rows=5)
    losses = []
    for elbo in (MeanFieldELBO(), Trace_ELBO()):
        loss = lambda key, elbo=elbo: elbo.loss(key, params, bnn.model, bnn.guide, data.x, data.y)  # noqa: E731
        losses.append(
            np.asarray(jax.jit(lambda keys, loss=loss: jax.lax.map(loss, keys))(jax.random.split(jax.random.key(7), 4000)))
        )
    ours, sampled = losses
    error = np.hypot(ours.std(), sampled.std()) / np.sqrt(4000)
    assert abs(ours.mean() - sampled.mean()) < 5 * error
    assert ours.std() < sampled.std()


@pytest.mark.slow
def test_reading_cutting_and_writing_keep_the_correlations() -> None:
    bnn, params = started(StructuredFamily(), rho=0.6)
    nodes = bnn.read(params)
    again = posterior_params.write(params, nodes)
    np.testing.assert_array_equal(again[f"{SITE}_auto_correlation"], params[f"{SITE}_auto_correlation"])
    mask = {SITE: jnp.arange(32).reshape(4, 8) % 2 == 0}
    cut = posterior_params.cut(params, mask)
    for field in ("loc", "scale", "correlation"):
        np.testing.assert_array_equal(np.asarray(cut[f"{SITE}_auto_{field}"])[~np.asarray(mask[SITE])], 0.0)


@pytest.mark.slow
def test_it_trains_and_moves_its_correlations() -> None:
    """Through the public doors, pruned by evidence on the way, and by the scales afterwards."""
    bnn = programs.small_bnn(prior=PRIOR, posterior=StructuredFamily())
    data = programs.classes(rows=60)
    fit = bp.fit_svi(
        jax.random.key(0), bnn, data, num_steps=40, optimizer=optax.adam(0.05), sparsifier=bp.methods.BMR(), every=20,
        progress=False,
    )  # fmt: skip
    assert float(jnp.abs(fit.params[f"{SITE}_auto_correlation"]).max()) > 0.01
    dead = ~np.asarray(fit.mask[SITE])
    probs = bp.predict(jax.random.key(1), bnn, fit.params, data.x, mask=fit.mask, num_samples=3)
    assert np.all(np.isfinite(probs)) and np.all(np.asarray(fit.params[f"{SITE}_auto_loc"])[dead] == 0)
    assert set(bp.prune_once(fit.params, bp.methods.Shrinkage(), program=bnn, mask=fit.mask).mask) == set(fit.mask)


WITH_SCALES = (PRIOR, bp.priors.GroupHorseshoe(), bp.priors.GroupNormalJeffreys())
WITHOUT = (bp.priors.Flat(), bp.priors.DiracSlab(), bp.priors.UnitNoise())


@pytest.mark.slow
@pytest.mark.parametrize("prior", WITH_SCALES, ids=lambda p: type(p).__name__)
def test_its_name_gives_it_the_start_of_the_priors_authors(prior) -> None:
    family = programs.small_bnn(prior=prior, posterior="structured").family
    mean_field = programs.small_bnn(prior=prior).family
    assert isinstance(family, StructuredFamily)
    assert {field.name: getattr(family, field.name) for field in fields(mean_field)} == vars(mean_field)
    sites = trace(seed(programs.small_bnn(prior=prior, posterior=family).guide, jax.random.key(0))).get_trace()
    assert f"{SITE}_auto_correlation" in sites, "its weights vary with their scales"


@pytest.mark.parametrize("prior", WITHOUT, ids=lambda p: type(p).__name__)
def test_without_scales_of_units_it_is_refused(prior) -> None:
    with pytest.raises(ValueError, match=f"{type(prior).__name__} has no such scales.*Take 'mean_field'"):
        programs.small_bnn(prior=prior, posterior="structured")


@pytest.mark.parametrize("posterior", ["structured", StructuredFamily()], ids=["name", "family"])
def test_where_the_prior_scales_no_unit_of_the_network_it_is_refused(posterior) -> None:
    """A horseshoe's last layer has one scale, so a net of nothing else has no unit with one."""
    build = lambda prior: bp.BNN(  # noqa: E731
        bp.nets.MLP((), 3), prior=prior, likelihood=bp.likelihoods.Categorical(), input_shape=(4,), posterior=posterior
    )
    with pytest.raises(ValueError, match=r"Horseshoe scales no unit here.*last='unit'"):
        build(bp.priors.Horseshoe())
    for prior in (bp.priors.Horseshoe(last="unit"), bp.priors.GroupHorseshoe(), bp.priors.GroupNormalJeffreys()):
        build(prior)  # the remedies that it names


def test_a_family_is_refused_by_a_prior_without_scales() -> None:
    with pytest.raises(ValueError, match=r"Flat scales no unit here.*a prior that has such scales"):
        programs.small_bnn(prior=bp.priors.Flat(), posterior=StructuredFamily())


def test_whether_weights_are_coupled_is_asked_in_silence() -> None:
    """No handler around a network that is made sees the guide, and nothing of its trace is left."""
    with jax.checking_leaks(), trace() as seen:
        programs.small_bnn(prior=PRIOR, posterior="structured")
    assert not seen
