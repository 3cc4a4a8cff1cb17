"""A direction that is cut to zero is a dead unit, in every way that a network may norm its weights."""

import equinox as eqx
import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import bayesprune as bp
from bayesprune.model.transforms.zero_norms import norms_weights, with_zero_norms

X = np.random.default_rng(0).normal(size=(30, 3)).astype(np.float32)
Y = (X[:, 0] > 0).astype(int)


class Normed(eqx.Module):
    first: eqx.nn.WeightNorm
    last: eqx.nn.Linear

    def __init__(self, key) -> None:
        one, two = jax.random.split(key)
        self.first = eqx.nn.WeightNorm(eqx.nn.Linear(3, 5, key=one))
        self.last = eqx.nn.Linear(5, 2, key=two)

    def __call__(self, x):
        return self.last(jnp.tanh(self.first(x)))


class ByHand(nn.Module):
    """Columns of unit length, of each other's own making."""

    @nn.compact
    def __call__(self, x):
        v = self.param("v", nn.initializers.normal(1.0), (3, 5))
        return nn.Dense(2)(jnp.tanh(x @ (v * jax.lax.rsqrt(jnp.sum(v * v, 0)))))


def of(net) -> bp.BNN:
    return bp.BNN(net, prior=bp.priors.Gaussian(), likelihood=bp.likelihoods.Categorical(), input_shape=(3,))


NETS = {
    "equinox": (lambda: of(Normed(jax.random.key(0))), "first.layer.weight", lambda v: np.s_[1]),
    "by hand": (lambda: of(ByHand()), "v", lambda v: np.s_[:, 1]),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", NETS)
def test_a_cut_direction_is_a_dead_unit(name, rng_key) -> None:
    make, site, unit = NETS[name]
    bnn = make()
    fit = bp.fit_svi(rng_key, bnn, bp.Dataset(X, Y), num_steps=2)
    mask = {site: np.ones(fit.params[f"{site}_auto_loc"].shape, bool)}
    mask[site][unit(None)] = False
    assert np.isfinite(bp.predict(rng_key, bnn, fit.params, X, mask=mask, num_samples=3)).all()
    on = bp.fit_svi(rng_key, bnn, bp.Dataset(X, Y), num_steps=3, init_params=fit.params, mask=mask)
    assert np.isfinite(on.losses).all() and not np.asarray(on.mask[site])[unit(None)].any()
    small = bp.compact(bnn, on.params, on.mask, keep="mean")
    weights = bnn.net_params(on.params, on.mask)
    assert small.certify().holds and jax.tree.leaves(weights)
    means = {s: n.loc * n.unit * np.asarray(on.mask.get(s, True)) for s, n in bnn.posterior(on.params).items()}
    wanted = jax.nn.softmax(bnn.forward(means, {}, jnp.asarray(X)))
    assert np.isfinite(wanted).all()
    np.testing.assert_allclose(small.predict(X), wanted, atol=1e-5)


@pytest.mark.slow
def test_what_lives_is_as_the_net_has_it() -> None:
    net = lambda params, x: jax.nn.relu(x @ (params["v"] / jnp.linalg.norm(params["v"], axis=0))) / params["v"].sum()  # noqa: E731
    v = {"v": jax.random.normal(jax.random.key(0), (3, 5))}
    np.testing.assert_array_equal(with_zero_norms(net)(v, X), net(v, X))
    ours, theirs = (jax.grad(lambda p, f=f: f(p, jnp.asarray(X)).sum())(v)["v"] for f in (with_zero_norms(net), net))
    np.testing.assert_allclose(ours, theirs, rtol=1e-5)
    dead = {"v": v["v"].at[:, 2].set(0.0)}
    assert bool(jnp.isfinite(jax.grad(lambda p: with_zero_norms(net)(p, jnp.asarray(X)).sum())(dead)["v"]).all())


@pytest.mark.parametrize(
    ("net", "wanted"),
    [
        (lambda v, x: x @ (v / jnp.linalg.norm(v)), True),
        (lambda v, x: x @ jax.vmap(lambda c: c / jnp.sqrt(c @ c))(v), True),
        (lambda v, x: x / jnp.linalg.norm(x) @ v, False),
        (lambda v, x: (x @ v) / jnp.sqrt((x @ v).var()), False),
    ],
)
def test_norms_of_weights_are_found(net, wanted) -> None:
    assert norms_weights(jax.make_jaxpr(net)(jnp.ones((3, 3)), jnp.ones((1, 3))), 1) is wanted


def test_complex_parameters_are_refused() -> None:
    class Waves(nn.Module):
        @nn.compact
        def __call__(self, x):
            w = self.param("w", lambda key: jnp.ones((3, 2), jnp.complex64))
            return nn.Dense(2)(jnp.abs(x.astype(jnp.complex64) @ w))

    with pytest.raises(
        TypeError, match=r"net has complex parameters, w, and posteriors are of real numbers.*jax\.lax\.complex"
    ):
        of(Waves())
