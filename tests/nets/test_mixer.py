"""The MLP-Mixer: sizes by hand, NumPy's outputs, roles, whole units."""

import jax
import numpy as np
import optax
import pytest
from flax import traverse_util
from tests.nets import tokens

import bayesprune as bp

SHAPE = (4, 4, 2)
IMAGES = jax.random.normal(jax.random.key(0), (6, *SHAPE))
DATA = bp.Dataset(IMAGES, np.arange(6, dtype=np.int32) % 3)
TINY = bp.nets.MLPMixer(3, patch=2, features=3, num_blocks=1, hidden_tokens=6, hidden_channels=5, frame=0)
BNN = bp.BNN(TINY, prior=bp.priors.Flat(), likelihood=bp.likelihoods.Categorical(), input_shape=SHAPE)
APPLY = jax.jit(TINY.apply)


def by_hand(channels, classes, patch=4, features=256, blocks=6, over_tokens=512, over_channels=512, side=32) -> int:
    def pair(size, hidden):
        return (size + 1) * hidden + (hidden + 1) * size

    block = pair((side // patch) ** 2, over_tokens) + pair(features, over_channels) + 4 * features
    return (patch**2 * channels + 1) * features + blocks * block + 2 * features + (features + 1) * classes


@pytest.mark.parametrize(
    ("net", "shape", "wanted"),
    [
        (bp.nets.MLPMixer(10), (28, 28, 1), by_hand(1, 10)),
        (bp.nets.MLPMixer(100), (32, 32, 3), by_hand(3, 100)),
        (TINY, SHAPE, by_hand(2, 3, 2, 3, 1, 6, 5, 4)),
    ],
)
def test_number_of_parameters(net, shape, wanted) -> None:
    assert tokens.count(net, shape) == wanted


@pytest.mark.fast_cases(1)
@pytest.mark.parametrize("pool", ["mean", "none"])
def test_outputs_against_numpy(pool) -> None:
    net = TINY.clone(pool=pool)
    apply = APPLY if net == TINY else jax.jit(net.apply)
    variables, p = tokens.drawn(net, SHAPE)
    x = tokens.dense(p, "embed", tokens.cut(IMAGES, 2))
    y = tokens.norm(p, "MixerBlock_0.LayerNorm_0", x).swapaxes(1, 2)
    x = x + tokens.feed_forward(p, "MixerBlock_0.over_tokens", y).swapaxes(1, 2)
    x = x + tokens.feed_forward(p, "MixerBlock_0.over_channels", tokens.norm(p, "MixerBlock_0.LayerNorm_1", x))
    x = tokens.norm(p, "LayerNorm_0", x)
    wanted = tokens.dense(p, "head", x.mean(1) if pool == "mean" else x)
    np.testing.assert_allclose(apply(variables, IMAGES), wanted, rtol=2e-4, atol=2e-4)


def test_norms_are_points_and_all_but_the_last_layer_is_prunable() -> None:
    for spec in BNN.layout:
        assert spec.bayesian is not ("LayerNorm" in spec.path)
        assert spec.prunable is (spec.bayesian and not spec.path.startswith("head"))


def test_hidden_units_over_channels_fall_and_the_stream_is_kept_whole() -> None:
    """A kernel over tokens serves every channel, so that channels of the stream are no units of their own.

    Without units, without some weights, and without what is then not connected, the outputs stay.
    """
    found = BNN.units.producers
    hidden = found["MixerBlock_0.over_channels.Dense_0.kernel"]
    assert len(np.unique(hidden)) == 5 and hidden.min() >= 0
    assert (found["embed.kernel"] == -1).all() and (found["MixerBlock_0.over_tokens.Dense_0.kernel"] == -1).all()
    rng = np.random.default_rng(0)
    mask = {site: (units != hidden[0, 2]) & (rng.random(units.shape) < 0.6) for site, units in found.items()}
    used = bp.connected(BNN, mask)
    read = "MixerBlock_0.over_channels.Dense_1.kernel"
    assert mask[read][2].any() and not used[read][2].any()
    _, p = tokens.drawn(TINY, SHAPE)
    kept = [
        traverse_util.unflatten_dict({site: np.float32(p[site] * alive[site]) for site in p}, sep=".") for alive in (mask, used)
    ]
    np.testing.assert_allclose(*(APPLY({"params": params}, IMAGES) for params in kept), rtol=1e-5, atol=1e-5)


@pytest.mark.slow
def test_it_trains_and_whole_units_fall() -> None:
    fit = bp.fit_svi(
        jax.random.key(0), BNN, DATA, num_steps=2, batch_size=3, optimizer=optax.adam(1e-2), estimator="local",
        sparsifier=bp.methods.Cut(score="snr", density=0.5, scope="unit"), every=1, progress=False,
    )  # fmt: skip
    assert np.isfinite(fit.losses).all()
    used = bp.connected(BNN, fit.mask)
    whole, less = (bp.predict(jax.random.key(1), BNN, fit.params, IMAGES, mask=m, num_samples=2) for m in (fit.mask, used))
    np.testing.assert_allclose(less, whole, rtol=1e-5, atol=1e-6)
