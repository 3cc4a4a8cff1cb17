"""Local noise through attention and mixed tokens: what meets several tokens of a row is drawn once, and the law is kept.

The oracle samples weights by NumPy, or by the weight estimator. Failure budget: as in `test_local_noise`.
"""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import traverse_util
from tests.infer.test_predict import start
from tests.model.transforms.test_local_noise import SIGMAS, assert_same_law, by_numpy, drawn, lift, normal, ours

import bayesprune as bp
from bayesprune.model.elbo import MeanFieldELBO
from bayesprune.model.local import LocalELBO
from bayesprune.model.transforms.local_noise import local_noise
from bayesprune.model.transforms.settle import Dependence, Image, settle

IMAGES = normal(4, 3, 4, 4, 2)
VIT = {"patch": 2, "features": 4, "num_blocks": 1, "num_heads": 2, "hidden": 5, "frame": 0}
MIXER = {"patch": 2, "features": 3, "num_blocks": 1, "hidden_tokens": 4, "hidden_channels": 5, "frame": 0}
NETS = {
    "vit": bp.nets.ViT(2, **VIT),
    "vit, mean": bp.nets.ViT(2, pool="mean", **VIT),
    "vit, each token": bp.nets.ViT(2, pool="none", **VIT),
    "mixer": bp.nets.MLPMixer(2, **MIXER),
}


def case(name):
    """Weights off their start, so that norms scale and shift; the net; rows."""
    net = NETS[name]
    shapes = jax.eval_shape(net.init, jax.random.key(0), IMAGES)["params"]
    rng = np.random.default_rng(3)
    params = jax.tree.map(lambda leaf: jnp.asarray(rng.normal(scale=0.5, size=leaf.shape), jnp.float32), shapes)
    return params, lambda params, x: net.apply({"params": params}, x), IMAGES


# What meets one number of each row's result: a head that reads one vector, and places, each at its own token.
NOISY = {
    "vit": {"head.kernel", "head.bias", "position_embedding"},
    "vit, mean": {"head.kernel", "head.bias", "position_embedding"},
    "vit, each token": {"position_embedding"},
    "mixer": {"head.kernel", "head.bias"},
}


@pytest.mark.parametrize("name", NETS)
def test_what_meets_several_tokens_is_drawn_once(name) -> None:
    params, net, x = case(name)
    names = list(traverse_util.flatten_dict(params, sep="."))
    run = lambda values, x: net(traverse_util.unflatten_dict(dict(zip(names, values, strict=True)), sep="."), x)  # noqa: E731
    closed = jax.make_jaxpr(run)(jax.tree.leaves(params), x)
    once = settle(closed.jaxpr, [*(Image(i) for i in range(len(names))), Dependence(0)], "convolutions")
    assert {names[i] for i in range(len(names)) if i not in once} == NOISY[name]


@pytest.mark.slow
@pytest.mark.parametrize("name", NETS)
def test_without_width_of_what_makes_noise_it_is_the_net_of_one_draw(name) -> None:
    params, net, x = case(name)
    weights = traverse_util.flatten_dict(lift(params, jax.random.key(7)), sep=".")
    still = {site: g.replace(g.loc, jnp.zeros_like(g.scale)) if site in NOISY[name] else g for site, g in weights.items()}
    nested = traverse_util.unflatten_dict(still, sep=".")
    local, once = jax.jit(lambda weights: (local_noise(net)(weights, x), net(drawn(weights), x)))(nested)
    np.testing.assert_allclose(local, once, rtol=1e-4, atol=1e-5)


@pytest.mark.slow_cases(1)
@pytest.mark.slow
@pytest.mark.parametrize("name", NETS)
def test_each_row_has_the_law_of_sampled_weights(name) -> None:
    assert_same_law(ours(*case(name)), by_numpy(*case(name)))


@pytest.mark.slow_cases(1)
@pytest.mark.slow
@pytest.mark.parametrize("name", NETS)
def test_the_expected_loss_is_that_of_weight_sampling(name) -> None:
    """As a network with a prior, a guide and labels for each row, or each token; in one gradient step's own loss."""
    bnn = bp.BNN(
        NETS[name], prior=bp.priors.Flat(), likelihood=bp.likelihoods.Categorical(), input_shape=(4, 4, 2),
        bayesian=bp.select.everything,
    )  # fmt: skip
    labels = np.arange(12).reshape(3, 4) % 2 if len(bnn.output_shape) > 1 else np.array([0, 1, 1])
    params = start(bnn)
    wide = {site: jnp.full_like(value, 0.3) for site, value in params.items() if site.endswith("_scale")}
    params |= wide | {site: 0.5 * value for site, value in params.items() if site.endswith("_loc")}
    keys = jax.random.split(jax.random.key(5), 3_000)
    found = []
    for elbo in (LocalELBO(), MeanFieldELBO()):
        loss = lambda key, elbo=elbo: elbo.loss(key, params, bnn.model, bnn.guide, IMAGES, jnp.asarray(labels))  # noqa: E731
        found.append(np.asarray(jax.jit(jax.vmap(loss))(keys), np.float64))
    error = np.hypot(*(losses.std() for losses in found)) / np.sqrt(len(keys))
    assert abs(found[0].mean() - found[1].mean()) < SIGMAS * error
