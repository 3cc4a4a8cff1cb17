"""The VGG-like net: sizes by hand, NumPy's outputs, roles, frame, a fit with running statistics."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from flax.traverse_util import flatten_dict

import bayesprune as bp

TINY = bp.nets.VGG(3, stage_sizes=(2, 1), features=(4, 6), units=5, frame=0)
SHAPE = (4, 4, 2)
IMAGES = jax.random.normal(jax.random.key(0), (6, *SHAPE))
BNN = bp.BNN(TINY, prior=bp.priors.Flat(), likelihood=bp.likelihoods.Categorical(), input_shape=SHAPE)


def abstract(net, shape):
    return jax.eval_shape(net.init, jax.random.key(0), jax.ShapeDtypeStruct((1, *shape), jnp.float32))


def by_hand(channels, classes, widths, units, last_pixels=1) -> int:
    """Kernels of the convolutions and of the two dense layers, two numbers of a norm for each channel and unit, one bias."""
    kernels = sum(9 * ins * outs for ins, outs in zip((channels, *widths), widths, strict=False))
    return kernels + last_pixels * widths[-1] * units + 2 * (sum(widths) + units) + (units + 1) * classes


LIKE_VGG = (64, 64, 128, 128, 256, 256, 256, *(512,) * 6)


@pytest.mark.parametrize(
    ("net", "shape", "wanted"),
    [
        (bp.nets.VGG(10), (32, 32, 3), by_hand(3, 10, LIKE_VGG, 512)),
        (bp.nets.VGG(100), (28, 28, 1), by_hand(1, 100, LIKE_VGG, 512)),
        (TINY, SHAPE, by_hand(2, 3, (4, 4, 6), 5)),
    ],
)
def test_number_of_parameters(net, shape, wanted) -> None:
    assert sum(leaf.size for leaf in jax.tree.leaves(abstract(net, shape)["params"])) == wanted


def convolved(x, kernel):
    """Three by three positions, zeros around."""
    x = np.pad(x, ((0, 0), (1, 1), (1, 1), (0, 0)))
    size = x.shape[1] - 2
    return sum(x[:, i : i + size, j : j + size] @ kernel[i, j] for i in range(3) for j in range(3))


def test_outputs_against_numpy() -> None:
    rng = np.random.default_rng(1)
    # A net whose norms scale, shift, and have seen means and variances.
    variables = jax.tree.map(lambda leaf: rng.uniform(0.2, 1.2, leaf.shape).astype(np.float32), abstract(TINY, SHAPE))
    variables["params"] = jax.tree.map(lambda leaf: leaf - 0.7, variables["params"])
    flat = [pair for tree in variables.values() for pair in flatten_dict(tree, sep=".").items()]
    p = {path: np.asarray(value, np.float64) for path, value in flat}

    def normed(x, layer):
        x = (x - p[f"BatchNorm_{layer}.mean"]) / np.sqrt(p[f"BatchNorm_{layer}.var"] + 1e-5)
        return np.maximum(x * p[f"BatchNorm_{layer}.scale"] + p[f"BatchNorm_{layer}.bias"], 0)

    pooled = lambda x: x.reshape(6, x.shape[1] // 2, 2, x.shape[2] // 2, 2, -1).max((2, 4))  # noqa: E731
    x = np.asarray(IMAGES, np.float64)
    for layer in (0, 1):
        x = normed(convolved(x, p[f"Conv_{layer}.kernel"]), layer)
    x = pooled(normed(convolved(pooled(x), p["Conv_2.kernel"]), 2)).reshape(6, -1)
    wanted = normed(x @ p["Dense_0.kernel"], 3) @ p["Dense_1.kernel"] + p["Dense_1.bias"]
    np.testing.assert_allclose(jax.jit(TINY.apply)(variables, IMAGES), wanted, rtol=1e-4, atol=1e-4)


def test_kernels_are_bayesian_and_norms_are_points() -> None:
    assert {str(spec.path) for spec in BNN.layout if not spec.bayesian} == {
        f"BatchNorm_{i}.{part}" for i in range(4) for part in ("scale", "bias")
    }
    assert {str(spec.path) for spec in BNN.layout if spec.bayesian and not spec.prunable} == {"Dense_1.kernel", "Dense_1.bias"}
    # Channels and units are units, with their norms; the head's are none.
    assert BNN.units.count == 4 + 4 + 6 + 5
    np.testing.assert_array_equal(BNN.units.producers["BatchNorm_2.scale"], BNN.units.producers["Conv_2.kernel"][0, 0, 0])


def test_small_images_are_framed_to_32_pixels() -> None:
    assert abstract(bp.nets.VGG(10), (28, 28, 1))["params"]["Dense_0"]["kernel"].shape == (512, 512)
    assert abstract(bp.nets.VGG(10), (64, 64, 3))["params"]["Dense_0"]["kernel"].shape == (4 * 512, 512)


@pytest.mark.slow_cases(1)
@pytest.mark.slow
@pytest.mark.parametrize("norm", ["batch", "group"])
def test_it_trains_and_is_recalibrated(norm, rng_key) -> None:
    data = bp.Dataset(np.asarray(IMAGES), np.arange(6, dtype=np.int32) % 3)
    bnn = bp.BNN(TINY.clone(norm=norm), prior=bp.priors.Flat(), likelihood=bp.likelihoods.Categorical(), input_shape=SHAPE)
    fit = bp.fit_svi(
        rng_key, bnn, data, num_steps=4, batch_size=3, optimizer=optax.adam(1e-2), estimator="local",
        sparsifier=bp.methods.Cut(score="snr", density=0.5, scope="unit"), every=2, progress=False,
    )  # fmt: skip
    assert np.isfinite(fit.losses).all()
    params = bp.recalibrate(rng_key, bnn, fit.params, data, mask=fit.mask, batch_size=3) if norm == "batch" else fit.params
    used = bp.connected(bnn, fit.mask)
    whole, less = (bp.predict(rng_key, bnn, params, IMAGES, mask=mask, num_samples=2) for mask in (fit.mask, used))
    np.testing.assert_allclose(less, whole, rtol=1e-4, atol=1e-5)


REFUSED = {
    "norm": ({"norm": "frn"}, SHAPE, "unknown norm 'frn'. .*batch"),
    "stages": ({"features": (4, 6, 8)}, SHAPE, r"each of the 2 stages in stage_sizes, got \(4, 6, 8\)"),
    "no image": ({}, (32,), r"VGG needs images .* got \(1, 32\)"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_is_no_such_net_is_refused(case) -> None:
    settings, shape, message = REFUSED[case]
    with pytest.raises(ValueError, match=message):
        abstract(TINY.clone(**settings), shape)
