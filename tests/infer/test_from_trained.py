"""A fit that starts from trained weights: the network is given back, its spread is what was asked, mismatches are listed."""

import equinox as eqx
import flax.serialization
import jax
import jax.numpy as jnp
import numpy as np
import optax
import orbax.checkpoint as ocp
import pytest
from flax import linen, nnx

import bayesprune as bp
from bayesprune.posteriors.structured import StructuredFamily
from tests.infer import programs
from tests.model.test_net_params import NETS, ROWS, build, in_its_own_hands
from tests.priors import alone

FIRST = "Dense_0.kernel"


def trained_of(net) -> object:
    """What a user has at the end of a training."""
    return net.init(jax.random.key(7), jnp.asarray(ROWS)) if isinstance(net, linen.Module) else net


def assert_close(one, other) -> None:
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-7), one, other)


@pytest.mark.fast_cases(1)
@pytest.mark.parametrize("kind", NETS)
def test_the_network_is_given_back(kind) -> None:
    net = NETS[kind]()
    trained, bnn = trained_of(net), build(net)
    params = bp.from_trained(bnn, trained, scale=0.02)
    outputs = in_its_own_hands(net, trained if not isinstance(net, nnx.Module) else nnx.state(net))
    np.testing.assert_allclose(in_its_own_hands(net, bnn.net_params(params)), outputs, rtol=1e-5, atol=1e-6)
    for site, node in bnn.posterior(params).items():
        np.testing.assert_allclose(np.asarray(node.scale * node.unit), 0.02, rtol=1e-5, err_msg=site)
    again = bp.from_trained(bnn, bnn.net_params(params), scale=0.02)
    assert programs.same_bits(again, params), "what net_params gives is taken"


@pytest.mark.slow
@pytest.mark.parametrize("prior", [name for name in alone.NAMES if name not in ("ScaleMixture", "DiracSlab", "GaussianSlab")])
def test_the_unit_of_every_prior_is_divided_out(prior) -> None:
    bnn = build(prior=getattr(bp.priors, prior)())
    trained = trained_of(NETS["linen"]())
    weights = bnn.net_params(bp.from_trained(bnn, trained))["params"]
    assert_close(weights, dict(trained["params"]))


@pytest.mark.slow
def test_spreads_by_weight_and_points() -> None:
    trained = trained_of(NETS["linen"]())
    kernel = np.asarray(trained["params"]["Dense_0"]["kernel"])
    bnn = build(prior=bp.priors.Gaussian(0.5))
    params = bp.from_trained(bnn, trained["params"], scale=lambda path, w: 0.1 * abs(w) + 1e-3)
    np.testing.assert_allclose(params[f"{FIRST}_auto_scale"], (0.1 * abs(kernel) + 1e-3) / 0.5, rtol=1e-5)
    np.testing.assert_allclose(params[f"{FIRST}_auto_loc"], kernel / 0.5, rtol=1e-6)
    points = bp.from_trained(build(posterior="map"), trained)
    assert f"{FIRST}_auto_scale" not in points and f"{FIRST}_map_loc" in points
    for scale in (0.0, -1.0, np.nan, lambda path, w: abs(w) * 0.0, lambda path, w: np.ones(7)):
        with pytest.raises(ValueError, match=r"scale of '\w+\.\w+' must be positive and finite.*0\.1 \* abs\(w\) \+ 1e-3"):
            bp.from_trained(bnn, trained, scale=scale)


def test_what_is_not_of_the_network_is_listed() -> None:
    bnn, params = build(), dict(trained_of(NETS["linen"]())["params"])
    wrong = {
        r"Dense_1\.bias is missing; Dense_1\.kernel is missing; Dense_2\.kernel has no place": {"Dense_0": params["Dense_0"]}
        | {"Dense_2": {"kernel": np.ones((2, 2))}},
        r"Dense_0\.bias has shape \(3,\), the network's \(2,\)": params | {"Dense_0": params["Dense_0"] | {"bias": np.ones(3)}},
        r"Dense_0\.bias is complex": params | {"Dense_0": params["Dense_0"] | {"bias": np.ones(2) + 1j}},
        r"Dense_0\.bias is not finite": params | {"Dense_0": params["Dense_0"] | {"bias": np.array([1.0, np.nan])}},
    }
    for told, given in wrong.items():
        with pytest.raises(ValueError, match=rf"trained is not of this network: .*{told}.*same module"):
            bp.from_trained(bnn, given)
    with pytest.raises(ValueError, match=r"posterior='mean_field' or 'map'"):
        bp.from_trained(build(posterior=StructuredFamily(), prior=bp.priors.Horseshoe()), params)


@pytest.mark.slow
def test_a_fit_starts_there_and_checkpoints_come_in_and_go_out(tmp_path, rng_key) -> None:
    """By Flax's own bytes and by Orbax; one step of rate 0 has the very network."""
    bnn, net = programs.small_bnn(), bp.nets.MLP(hidden=(8, 6), num_outputs=3)
    trained = net.init(rng_key, jnp.ones((1, 4)))
    path = tmp_path.resolve() / "orbax"
    with ocp.StandardCheckpointer() as checkpointer:
        checkpointer.save(path, trained)
    with ocp.StandardCheckpointer() as checkpointer:
        restored = checkpointer.restore(path)
    bytes_of = flax.serialization.msgpack_serialize(flax.serialization.to_state_dict(trained))
    by_flax = flax.serialization.msgpack_restore(bytes_of)
    still = {"num_steps": 1, "optimizer": optax.sgd(0.0), "progress": False}
    for given in (trained, restored, by_flax):
        fit = bp.fit_svi(rng_key, bnn, programs.classes(), init_params=bp.from_trained(bnn, given), **still)
        out = fit.net_params(bnn)
        assert_close(out["params"], dict(trained["params"]))
    with ocp.StandardCheckpointer() as checkpointer:
        checkpointer.save(path.parent / "out", out)
    with ocp.StandardCheckpointer() as checkpointer:
        back = checkpointer.restore(path.parent / "out")
    np.testing.assert_array_equal(net.apply(back, jnp.ones((2, 4))), net.apply(out, jnp.ones((2, 4))))


class NormedOfEquinox(eqx.Module):
    """A layer behind statistics of batches."""

    norm: eqx.nn.BatchNorm
    head: eqx.nn.Linear

    def __init__(self, key):
        self.norm, self.head = eqx.nn.BatchNorm(4, "batch", mode="batch"), eqx.nn.Linear(4, 3, key=key)

    def __call__(self, x, state):
        x, state = self.norm(x, state)
        return self.head(x), state


@pytest.mark.slow
def test_a_module_of_equinox_comes_back_with_its_state(rng_key) -> None:
    x = np.random.default_rng(0).normal(size=(40, 4)).astype(np.float32)
    data = bp.Dataset(x, (x[:, 0] > 0).astype(int))
    settings = {"prior": bp.priors.Gaussian(), "likelihood": bp.likelihoods.Categorical(), "example": x[:1], "posterior": "map"}
    bnn = bp.BNN(eqx.nn.make_with_state(NormedOfEquinox)(rng_key), **settings)
    fit = bp.fit_svi(rng_key, bnn, data, num_steps=5, progress=False)
    back = bp.from_trained(bnn, bnn.net_params(fit.params))
    np.testing.assert_allclose(bp.predict(rng_key, bnn, back, x), bp.predict(rng_key, bnn, fit.params, x), rtol=1e-5)
    around = bp.laplace(rng_key, bnn, bnn.net_params(fit.params), data)
    assert np.isfinite(around.losses).all()


class _Skipping(linen.Module):
    @linen.compact
    def __call__(self, x, train=False):
        return linen.Dense(1)(x) + (x * self.param("skip_scale", linen.initializers.ones, (3,))).sum(-1, keepdims=True)


def test_a_networks_own_scale_may_start_at_zero(rng_key) -> None:
    bnn = bp.BNN(
        _Skipping(), prior=bp.priors.Gaussian(), likelihood=bp.likelihoods.Normal(1.0), input_shape=(3,),
        bayesian=bp.select.kernels, posterior="map",
    )  # fmt: skip
    params = bp.from_trained(bnn, _Skipping().init(rng_key, jnp.ones((1, 3)))) | {"skip_scale": jnp.zeros(3)}
    data = bp.Dataset(np.eye(3, dtype=np.float32), np.ones(3, np.float32))
    fit = bp.fit_svi(rng_key, bnn, data, num_steps=1, optimizer=optax.sgd(1e-6), init_params=params, progress=False)
    np.testing.assert_allclose(fit.params["skip_scale"], 0.0, atol=1e-3)  # as it began at 1
