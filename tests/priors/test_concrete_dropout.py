"""Dropout whose rate is learned: gates against their law, the loss against (14.2) in NumPy, draws, refusals, a fit."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from numpyro.handlers import seed, substitute, trace
from scipy import integrate, stats
from tests.infer import programs

import bayesprune as bp
from bayesprune.formulas import concrete
from bayesprune.model.layout import ParamPath, ParamSpec
from bayesprune.model.prior import Moments
from bayesprune.posteriors.mean_field import Scaled

CONV = ParamSpec(ParamPath("c.kernel"), (3, 3, 2, 5), jnp.float32, True, True, (2,), (3,), 18, 5)
BIAS = ParamSpec(ParamPath("c.bias"), (5,), jnp.float32, True, False, (), (0,), 1, 5)
DENSE = ParamSpec(ParamPath("z.kernel", True), (5, 2), jnp.float32, True, False, (0,), (1,), 5, 2)
LAYOUT, PRIOR = (CONV, BIAS, DENSE), bp.priors.ConcreteDropout(length_scale=0.3, temperature=0.2, start=0.25)
RATES = {"c.kernel": 0.3, "z.kernel": 0.1}


def logit(p: float) -> float:
    return float(np.log(p / (1 - p)))


def params_of(key: jax.Array) -> dict[str, jax.Array]:
    guide = trace(seed(lambda: PRIOR.guide(LAYOUT, PRIOR.family), key)).get_trace()
    params = {name: site["value"] for name, site in guide.items() if site["type"] == "param"}
    assert {name for name in params if name.endswith("odds")} == {f"{name}.gate_log_odds" for name in RATES}
    assert all(float(params[f"{name}.gate_log_odds"]) == pytest.approx(logit(0.25)) for name in RATES)
    return params | {f"{name}.gate_log_odds": jnp.asarray(logit(p)) for name, p in RATES.items()}


@pytest.mark.parametrize("temperature", [0.05, 0.1, 1.0])
def test_gates_fall_below_one_half_with_probability_p(temperature: float) -> None:
    """Exact by the quantile where z = 1/2: u = 1 - p. And moments against SciPy's quadrature."""
    p = 0.3
    assert float(concrete.gate(logit(p), jnp.asarray(1 - p), temperature)) == pytest.approx(0.5, abs=1e-5)
    assert float(concrete.gate(logit(p), jnp.asarray(1 - p + 0.01), temperature)) < 0.5
    z = lambda u: 1 - 1 / (1 + np.exp(-(logit(p) + np.log(u / (1 - u))) / temperature))  # noqa: E731
    for power in (1, 2):
        exact = integrate.quad(lambda u, power=power: (z(u) / (1 - p)) ** power, 0, 1, points=[1 - p], limit=200)[0]
        assert float(concrete.moment(power, logit(p), temperature)) == pytest.approx(exact, abs=2e-4)


def test_the_entropy_is_scipy_s() -> None:
    for p in (1e-6, 0.2, 0.5, 0.999):
        assert float(concrete.entropy(logit(p))) == pytest.approx(stats.bernoulli(p).entropy(), rel=1e-4)


def test_the_loss_without_data_is_14_2(rng_key: jax.Array) -> None:
    params = params_of(rng_key)
    loss = bp.MeanFieldELBO().loss(rng_key, params, lambda: PRIOR.model(LAYOUT), lambda: PRIOR.guide(LAYOUT, PRIOR.family))
    expected = 0.0
    for name, inputs in (("c.kernel", 2), ("z.kernel", 5)):
        p, w = (
            RATES[name],
            np.asarray(next(value for key, value in params.items() if key.startswith(name) and "odds" not in key)),
        )
        expected += 0.3**2 / 2 * np.sum(w**2) / (1 - p) - inputs * (-p * np.log(p) - (1 - p) * np.log(1 - p))
    assert float(loss) == pytest.approx(expected, rel=1e-5)


def test_gates_multiply_the_inputs_of_every_kernel(rng_key: jax.Array) -> None:
    guide = trace(seed(lambda: PRIOR.guide(LAYOUT, PRIOR.family), rng_key)).get_trace()
    values = {name: site["value"] for name, site in guide.items() if site["type"] == "sample"}
    assert values["c.kernel.gate"].shape == (1, 1, 2, 1) and values["z.kernel.gate"].shape == (5, 1)
    values["c.kernel.gate"] = jnp.array([2.0, 0.0]).reshape(1, 1, 2, 1)
    weights = seed(substitute(lambda: PRIOR.model(LAYOUT), data=values), rng_key)()
    np.testing.assert_allclose(weights["c.kernel"][:, :, 0], 2 * values["c.kernel"][:, :, 0], rtol=1e-6)
    assert not np.any(weights["c.kernel"][:, :, 1])
    np.testing.assert_array_equal(weights["c.bias"], values["c.bias"])
    np.testing.assert_allclose(weights["z.kernel"], values["z.kernel"] * values["z.kernel.gate"], rtol=1e-6)


def test_nodes_know_the_mean_and_the_spread_of_gates(rng_key: jax.Array) -> None:
    params = params_of(rng_key)
    node = PRIOR.node(PRIOR.family.posterior(params, LAYOUT)["c.kernel"], CONV, Moments(PRIOR.family, params))
    assert isinstance(node, Scaled) and node.prior_scale is None and not np.any(node.scale)
    u = np.random.default_rng(0).uniform(size=200_000)
    s = (1 - 1 / (1 + np.exp(-(logit(0.3) + np.log(u / (1 - u))) / 0.2))) / 0.7
    # Five standard errors of 200,000 draws of spread .6.
    assert float(node.law.mean()) == pytest.approx(s.mean(), abs=0.007) and node.unit == node.law.mean()
    assert float(node.law.variance()) == pytest.approx(s.var(), abs=0.01)
    assert PRIOR.rates(params) == pytest.approx(RATES)


def test_what_it_is_not_is_refused(rng_key: jax.Array) -> None:
    data = programs.classes()
    with pytest.raises(ValueError, match=r"priors.ConcreteDropout has points for weights.*leave posterior= at 'mean_field'"):
        bp.fit_svi(rng_key, programs.small_bnn(prior=PRIOR, posterior="map"), data, num_steps=1, progress=False)
    with pytest.raises(ValueError, match="start must lie in"):
        bp.priors.ConcreteDropout(start=1.0)
    with pytest.raises(ValueError, match="temperature"):
        bp.priors.ConcreteDropout(temperature=0.0)
    for length_scale in (-1.0, float("nan")):
        with pytest.raises(ValueError, match="length_scale must be finite and not negative"):
            bp.priors.ConcreteDropout(length_scale=length_scale)
    with pytest.raises(ValueError, match="FlatLine is an improper prior"):
        seed(PRIOR.model, rng_key)(LAYOUT)


@pytest.mark.slow
def test_a_fit_learns_its_rates_and_predicts_by_gates(rng_key: jax.Array) -> None:
    """Rates move from where they start; predictions are the mean over gates that NumPy draws."""
    data, bnn = programs.classes(rows=200), programs.small_bnn(prior=bp.priors.ConcreteDropout())
    fit = bp.fit_svi(rng_key, bnn, data, num_steps=2000, batch_size=50, progress=False, optimizer=optax.adam(1e-2))
    rates = bnn.prior.rates(fit.params)
    assert all(0 < p < 0.5 for p in rates.values()) and any(abs(p - 0.1) > 0.02 for p in rates.values())
    probs = bp.predict(rng_key, bnn, fit.params, data.x, num_samples=400)
    assert bp.metrics.summary(probs, data.y)["accuracy"] > 0.9
    with pytest.raises(ValueError, match="evidence"):
        bp.bmr_prune(fit.params, program=bnn)
    hat = {
        str(s.path): np.asarray(fit.params[f"{s.path}_map_loc" if s.prunable else f"{s.path}_dense_map_loc"])
        for s in bnn.layout
    }
    rng, total = np.random.default_rng(0), 0.0
    for _ in range(400):
        drawn = dict(hat)
        for name, p in rates.items():
            u = rng.uniform(size=(len(hat[name]), 1))
            drawn[name] = hat[name] * (1 - 1 / (1 + np.exp(-(logit(p) + np.log(u / (1 - u))) / 0.1))) / (1 - p)
        total = total + np.asarray(jax.nn.softmax(bnn.forward(drawn, {}, jnp.asarray(data.x)), axis=-1)) / 400
    # Five standard errors of a difference of two means of 400 probabilities, whose spread is at most .15 here.
    np.testing.assert_allclose(probs, total, atol=0.053)
    cut = bp.prune_once(fit.params, bp.methods.Magnitude(density=0.5), program=bnn)
    assert np.isfinite(bp.predict(rng_key, bnn, cut.params, data.x, mask=cut.mask, num_samples=5)).all()
    small = bp.compact(bnn, fit.params, rng_key=rng_key, num_draws=300)
    np.testing.assert_allclose(small.predict_draws(rng_key, data.x[:20], 300).mean(0), probs[:20], atol=0.06)
