"""Handlers: pruning, probing and scaling a program from outside."""

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
import scipy.stats
from numpyro.handlers import seed, substitute, trace
from numpyro.infer import Predictive
from numpyro.infer.autoguide import AutoNormal
from numpyro.infer.util import log_density

import bayesprune as bp
from bayesprune.model.handlers import probed, scaled

MASK = {"w": jnp.array([True, False, True])}
VALUE = np.array([0.4, -1.3, 2.0])


def model(y=None):
    w = numpyro.sample("w", dist.Normal(0.0, 2.0).expand([3]))
    b = numpyro.sample("b", dist.Normal(0.0, 1.0))
    return numpyro.sample("obs", dist.Normal(jnp.sum(w) + b, 0.5), obs=y)


def only_weights():
    return numpyro.sample("w", dist.Normal(0.0, 2.0).expand([3]))


def events(y=None):
    """The same, its weights one event."""
    w = numpyro.sample("w", dist.Normal(0.0, 2.0).expand([3]).to_event(1))
    b = numpyro.sample("b", dist.Normal(0.0, 1.0))
    return numpyro.sample("obs", dist.Normal(jnp.sum(w) + b, 0.5), obs=y)


def by_hand(w, alive, y, b=0.3) -> float:
    """log p(w alive, b, y), the dead at zero."""
    w = np.where(alive, w, 0.0)
    prior = scipy.stats.norm.logpdf(w, 0.0, 2.0)[alive].sum() + scipy.stats.norm.logpdf(b)
    return float(prior + scipy.stats.norm.logpdf(y, w.sum() + b, 0.5))


@pytest.mark.fast_cases(1)
@pytest.mark.parametrize("program", [model, events])
def test_dead_values_are_exactly_zero_and_leave_the_density(program, rng_key) -> None:
    site = trace(seed(bp.masked(program, MASK), rng_key)).get_trace()["w"]
    plain = trace(seed(program, rng_key)).get_trace()["w"]["value"]
    np.testing.assert_array_equal(site["value"], np.where(MASK["w"], plain, 0.0))
    values = {"w": jnp.asarray(VALUE, jnp.float32), "b": jnp.float32(0.3)}
    density, _ = log_density(bp.masked(program, MASK), (1.0,), {}, values)
    assert float(density) == pytest.approx(by_hand(VALUE, np.asarray(MASK["w"]), 1.0), rel=1e-5)
    assert site["fn"].sample(rng_key, (5,)).shape == (5, 3) and not np.any(site["fn"].sample(rng_key, (5,))[:, 1])


def test_given_values_are_pruned_as_drawn_ones_are() -> None:
    given = substitute(bp.masked(only_weights, MASK), data={"w": jnp.asarray(VALUE)})()
    np.testing.assert_array_equal(given, np.where(MASK["w"], VALUE.astype(np.float32), 0.0))


def test_a_mask_of_ones_changes_nothing(rng_key) -> None:
    whole = {"w": jnp.ones(3, bool)}
    values = {"w": jnp.asarray(VALUE, jnp.float32), "b": jnp.float32(0.3)}
    assert log_density(bp.masked(model, whole), (1.0,), {}, values)[0] == log_density(model, (1.0,), {}, values)[0]
    assert log_density(bp.masked(model, {}), (1.0,), {}, values)[0] == log_density(model, (1.0,), {}, values)[0]


def test_a_changing_mask_never_traces_again() -> None:
    traces = []

    @jax.jit
    def density(mask):
        traces.append(1)
        return log_density(bp.masked(model, {"w": mask}), (1.0,), {}, {"w": jnp.asarray(VALUE), "b": 0.3})[0]

    for pattern in ([1, 1, 1], [1, 0, 1], [0, 0, 0]):
        alive = np.array(pattern, bool)
        assert float(density(jnp.asarray(alive))) == pytest.approx(by_hand(VALUE, alive, 1.0), rel=1e-5)
    assert len(traces) == 1


def test_elements_that_share_a_density_are_refused(rng_key) -> None:
    def joint():
        numpyro.sample("w", dist.MultivariateNormal(jnp.zeros(3), jnp.eye(3)))

    with pytest.raises(ValueError, match=r"site 'w' has batch shape \(\) and event shape \(3,\).*independent elements"):
        seed(bp.masked(joint, MASK), rng_key)()

    def matrix():
        numpyro.sample("w", dist.Normal(0.0, 1.0).expand([2, 3]))

    with pytest.raises(ValueError, match=r"batch shape \(2, 3\).*its mask \(3,\)"):
        seed(bp.masked(matrix, MASK), rng_key)()


def test_the_gradient_in_a_zero_probe_is_that_of_every_weight_the_dead_included() -> None:
    def target(w):
        return numpyro.sample("obs", dist.Normal(jnp.sin(w[0]) + w[1] * w[2] + w[1] ** 2, 0.5), obs=1.0)

    def program():
        target(numpyro.sample("w", dist.Normal(0.0, 2.0).expand([3])))

    def likelihood(probe):
        probed_program = bp.masked(probed(program, {"w": probe}), MASK)
        site = trace(substitute(probed_program, data={"w": jnp.asarray(VALUE)})).get_trace()["obs"]
        return site["fn"].log_prob(site["value"])

    def by_numpy(w):
        return scipy.stats.norm.logpdf(1.0, np.sin(w[0]) + w[1] * w[2] + w[1] ** 2, 0.5)

    with jax.enable_x64(True):
        gradient = np.asarray(jax.grad(likelihood)(jnp.zeros(3)))
    cut, step = np.where(MASK["w"], VALUE, 0.0), 1e-5
    differences = [(by_numpy(cut + step * e) - by_numpy(cut - step * e)) / (2 * step) for e in np.eye(3)]
    np.testing.assert_allclose(gradient, differences, rtol=1e-6)
    assert abs(gradient[1]) > 0.1, "the dead weight's gradient is not zero"


def test_scales_multiply_and_keep_data_and_latent_apart(rng_key) -> None:
    values = {"w": jnp.asarray(VALUE), "b": jnp.float32(0.3)}
    prior = scipy.stats.norm.logpdf(VALUE, 0.0, 2.0).sum() + scipy.stats.norm.logpdf(0.3)
    data = scipy.stats.norm.logpdf(1.0, VALUE.sum() + 0.3, 0.5)
    density = log_density(scaled(model, observed=5.0, latent=0.1), (1.0,), {}, values)[0]
    assert float(density) == pytest.approx(5.0 * data + 0.1 * prior, rel=1e-5)
    twice = log_density(scaled(scaled(model, observed=5.0), observed=2.0, latent=3.0), (1.0,), {}, values)[0]
    assert float(twice) == pytest.approx(10.0 * data + 3.0 * prior, rel=1e-5)


@pytest.mark.slow
def test_numpyros_own_guide_takes_pruned_parameters(rng_key) -> None:
    """Its dead weights have scale zero, which NumPyro's own distributions refuse."""
    guide = AutoNormal(model)
    seed(guide, rng_key)(1.0)  # as a fit does: NumPyro looks at the model once, before it draws
    params = {
        "w_auto_loc": jnp.array([0.4, 0.0, 2.0]), "w_auto_scale": jnp.array([0.5, 0.0, 0.1]),
        "b_auto_loc": jnp.float32(0.3), "b_auto_scale": jnp.float32(0.2),
    }  # fmt: skip
    pruned = bp.masked(guide, MASK)
    drawn = Predictive(pruned, params=params, num_samples=2000)(rng_key)
    assert not np.any(drawn["w"][:, 1])
    # Standard errors are .5 / sqrt(2000) = .011 and less, of standard deviations .008: five of them.
    np.testing.assert_allclose(drawn["w"].mean(0), params["w_auto_loc"], atol=0.056)
    np.testing.assert_allclose(drawn["w"].std(0), params["w_auto_scale"], atol=0.04)
    rows = Predictive(model, guide=pruned, params=params, num_samples=7)(rng_key)
    assert rows["obs"].shape == (7,) and np.isfinite(rows["obs"]).all()
    values = {"w": jnp.asarray(VALUE, jnp.float32), "b": jnp.float32(0.3)}
    density, _ = log_density(substitute(seed(pruned, rng_key), data=values), (), {}, params)
    alive = scipy.stats.norm.logpdf(VALUE, [0.4, 0.0, 2.0], [0.5, 1.0, 0.1])[[0, 2]].sum()
    assert float(density) == pytest.approx(alive + scipy.stats.norm.logpdf(0.3, 0.3, 0.2), rel=1e-5)


def test_a_mask_of_probabilities_is_refused_and_a_list_is_taken() -> None:
    def model() -> None:
        numpyro.sample("w", dist.Normal(0, 1).expand([3]).to_event(1))

    density = lambda alive: log_density(bp.masked(model, {"w": alive}), (), {}, {"w": jnp.asarray(VALUE)})[0]  # noqa: E731
    expected = scipy.stats.norm.logpdf(VALUE[[0, 2]]).sum()
    for alive in ([True, False, True], np.array([1.0, 0.0, 1.0]), MASK["w"]):
        assert density(alive) == pytest.approx(expected, rel=1e-6)
    with pytest.raises(ValueError, match=r"mask\['w'\] must be boolean"):
        density(np.array([0.5, 0.0, 1.0]))


def test_a_site_that_the_program_does_not_sample_is_no_site_to_mask(rng_key) -> None:
    """Under another name, as of a typing error, a mask would leave the program whole."""
    with pytest.raises(ValueError, match=r"mask has 'v', and the program samples .*'w'.*would stay whole"):
        seed(bp.masked(model, MASK | {"v": MASK["w"]}), rng_key)(1.0)
    with pytest.raises(ZeroDivisionError):  # an error of the program's own comes first
        bp.masked(lambda: 1 / 0, MASK)()
