"""Residual networks and their norms: sizes, NumPy's outputs, statistics, half precision, fits by both estimators."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import linen
from flax.traverse_util import flatten_dict

import bayesprune as bp
from bayesprune.cli.find import choose
from bayesprune.model import select
from bayesprune.model.transforms.gaussian_array import GaussianArray
from bayesprune.model.transforms.local_noise import local_noise
from bayesprune.nets.norms import FilterResponseNorm, pick_norm

IMAGES = jnp.asarray(np.random.default_rng(0).normal(size=(6, 8, 8, 3)), jnp.float32)


def tiny(norm="batch", dtype=None, stage_sizes=(1, 1)):
    return bp.nets.ResNet(num_outputs=3, stage_sizes=stage_sizes, features=4, norm=norm, dtype=dtype)


def kernels_by_hand(stage_sizes, features, channels, num_outputs):
    """Weights of the convolutions and of the head, block by block, and channels that are normalised."""
    count, normed = 9 * channels * features, features
    inputs = features
    for stage, blocks in enumerate(stage_sizes):
        outputs = features * 2**stage
        for _ in range(blocks):
            count += 9 * inputs * outputs + 9 * outputs**2 + (inputs * outputs if inputs != outputs else 0)
            normed += 2 * outputs + (outputs if inputs != outputs else 0)
            inputs = outputs
    return count + inputs * num_outputs, normed


def bnn_of(net, shape=(8, 8, 3), **settings):
    chosen = {"prior": bp.priors.Gaussian(0.1), "bayesian": select.kernels, "prunable": select.kernels}
    return bp.BNN(net, likelihood=bp.likelihoods.Categorical(), input_shape=shape, **(chosen | settings))


@pytest.mark.fast_cases(1)
@pytest.mark.parametrize(
    ("stage_sizes", "features", "outputs"), [((2, 2, 2, 2), 64, 10), ((3, 4, 6, 3), 64, 100), ((1, 2), 8, 5)]
)
def test_number_of_parameters(stage_sizes, features, outputs) -> None:
    net = bp.nets.ResNet(outputs, stage_sizes, features)
    variables = jax.eval_shape(net.init, jax.random.key(0), jax.ShapeDtypeStruct((1, 32, 32, 3), jnp.float32))
    kernels, normed = kernels_by_hand(stage_sizes, features, 3, outputs)
    assert sum(leaf.size for leaf in jax.tree.leaves(variables["params"])) == kernels + outputs + 2 * normed
    assert sum(leaf.size for leaf in jax.tree.leaves(variables["batch_stats"])) == 2 * normed


def test_resnet18_is_found_by_name_and_its_kernels_alone_are_bayesian() -> None:
    assert choose("net", "ResNet-18").cls is bp.nets.ResNet
    bnn = bnn_of(bp.nets.ResNet18(num_outputs=10), (32, 32, 3))
    sizes = lambda chosen: sum(int(np.prod(s.shape)) for s in bnn.layout if chosen(s))  # noqa: E731
    assert sizes(lambda s: True) == 11_173_962
    assert sizes(lambda s: s.bayesian and s.prunable) == 11_164_352
    assert {s.path.rpartition(".")[2] for s in bnn.layout if not s.bayesian} == {"scale", "bias"}
    assert bnn.layout[0].path == "Conv_0.kernel" and {s.path for s in bnn.layout if s.path.is_last} == {
        "Dense_0.kernel",
        "Dense_0.bias",
    }


@pytest.mark.fast_cases(1)
@pytest.mark.parametrize("norm", ["batch", "group", "frn"])
def test_by_default_norms_have_no_posterior(norm) -> None:
    bnn = bnn_of(tiny(norm), bayesian=select.weights, prunable=None)
    points = [str(s.path) for s in bnn.layout if not s.bayesian]
    assert len(points) == len([s for s in bnn.layout if len(s.shape) == 1]) - 1, "all vectors but the head's bias"


def np_convolve(x, kernel, stride):
    """Images and a kernel of odd sides, half a kernel of zeros around the images."""
    edge = kernel.shape[0] // 2
    x = np.pad(x, ((0, 0), (edge, edge), (edge, edge), (0, 0)))
    size = (x.shape[1] - kernel.shape[0]) // stride + 1
    out = np.zeros((len(x), size, size, kernel.shape[3]))
    for i in range(size):
        for j in range(size):
            window = x[:, i * stride : i * stride + kernel.shape[0], j * stride : j * stride + kernel.shape[1]]
            out[:, i, j] = np.einsum("nhwc,hwcf->nf", window, kernel)
    return out


def np_frn(x, scale, bias):
    return scale * x / np.sqrt((x**2).mean(axis=(1, 2), keepdims=True) + 1e-6) + bias


def np_group(x, groups):
    split = x.reshape(*x.shape[:3], groups, -1)
    centred = split - split.mean(axis=(1, 2, 4), keepdims=True)
    return (centred / np.sqrt((centred**2).mean(axis=(1, 2, 4), keepdims=True) + 1e-6)).reshape(x.shape)


def jittered(variables):
    """Parameters that hide nothing: no scale is one, no bias or threshold zero."""
    leaves, structure = jax.tree.flatten(variables)
    rng = np.random.default_rng(1)
    return jax.tree.unflatten(structure, [leaf + 0.3 * rng.normal(size=leaf.shape).astype(np.float32) for leaf in leaves])


@pytest.mark.slow
def test_the_whole_net_against_numpy() -> None:
    net = tiny("frn")
    variables = jittered(net.init(jax.random.key(0), IMAGES))
    p = {".".join(path): np.asarray(value, np.float64) for path, value in flatten_dict(variables["params"]).items()}

    def convolve(x, where, number, stride):
        at = f"{where}FilterResponseNorm_{number}"
        return np_frn(np_convolve(x, p[f"{where}Conv_{number}.kernel"], stride), p[f"{at}.scale"], p[f"{at}.bias"])

    def activate(x, where, number):
        return np.maximum(x, p[f"{where}ThresholdedLinearUnit_{number}.tau"])

    x = activate(convolve(np.asarray(IMAGES, np.float64), "", 0, 1), "", 0)
    for block, stride in ((0, 1), (1, 2)):
        at = f"BasicBlock_{block}."
        y = convolve(activate(convolve(x, at, 0, stride), at, 0), at, 1, 1)
        x = activate(y + (convolve(x, at, 2, stride) if stride > 1 else x), at, 1)
    wanted = x.mean(axis=(1, 2)) @ p["Dense_0.kernel"] + p["Dense_0.bias"]
    np.testing.assert_allclose(net.apply(variables, IMAGES), wanted, rtol=2e-4, atol=2e-4)


class OneNorm(linen.Module):
    norm: str

    @linen.compact
    def __call__(self, x, train=False):
        return pick_norm(self.norm, train, None)[0](x)


def test_batch_norm_against_numpy_in_training_and_in_prediction() -> None:
    x = 3.0 + 2.0 * IMAGES
    net = OneNorm("batch")
    variables = net.init(jax.random.key(0), x)
    wide = np.asarray(x, np.float64)
    mean, var = wide.mean(axis=(0, 1, 2)), wide.var(axis=(0, 1, 2))
    out, new = net.apply(variables, x, train=True, mutable=["batch_stats"])
    np.testing.assert_allclose(out, (wide - mean) / np.sqrt(var + 1e-5), rtol=1e-4, atol=1e-5)
    kept = new["batch_stats"]["BatchNorm_0"]
    np.testing.assert_allclose(kept["mean"], 0.1 * mean, rtol=1e-4)
    np.testing.assert_allclose(kept["var"], 0.9 + 0.1 * var, rtol=1e-4)
    predicted = net.apply({"params": variables["params"], **new}, x)
    np.testing.assert_allclose(predicted, (wide - 0.1 * mean) / np.sqrt(0.9 + 0.1 * var + 1e-5), rtol=1e-4, atol=1e-5)


@pytest.mark.fast_cases(1)
@pytest.mark.parametrize(("channels", "groups"), [(64, 32), (12, 4), (3, 1)])
def test_group_norm_against_numpy(channels, groups) -> None:
    x = jnp.asarray(1.0 + np.random.default_rng(2).normal(size=(2, 3, 4, channels)), jnp.float32)
    net = OneNorm("group")
    np.testing.assert_allclose(
        net.apply(net.init(jax.random.key(0), x), x), np_group(np.asarray(x, np.float64), groups), rtol=2e-4, atol=2e-5
    )


@pytest.mark.slow
@pytest.mark.parametrize("norm", ["group", "frn"])
def test_rows_do_not_see_one_another(norm) -> None:
    net = tiny(norm, stage_sizes=(1,))
    variables = net.init(jax.random.key(0), IMAGES)
    assert set(variables) == {"params"}
    together = net.apply(variables, IMAGES, train=True)
    np.testing.assert_allclose(together[:1], net.apply(variables, IMAGES[:1]), rtol=1e-4, atol=1e-5)


@pytest.mark.slow
def test_half_precision_computes_in_half_and_keeps_in_full() -> None:
    full, half = tiny(), tiny(dtype="bfloat16")
    variables = full.init(jax.random.key(0), IMAGES)
    same = half.init(jax.random.key(0), IMAGES)
    jax.tree.map(np.testing.assert_array_equal, variables, same)
    run = lambda net: net.apply(variables, IMAGES, train=True, mutable=["batch_stats"])  # noqa: E731
    (exact, exact_state), (rough, rough_state) = run(full), run(half)
    assert rough.dtype == jnp.float32
    assert {leaf.dtype for leaf in jax.tree.leaves((same, rough_state))} == {jnp.dtype(jnp.float32)}
    # bfloat16 has 8 bits: some ten roundings in a row.
    np.testing.assert_allclose(rough, exact, atol=0.1 * float(jnp.abs(exact).max()))
    assert not np.array_equal(rough, exact)
    close = lambda a, b: np.testing.assert_allclose(a, b, rtol=0.1, atol=0.05)  # noqa: E731
    jax.tree.map(close, rough_state, exact_state)
    by_type = jax.make_jaxpr(lambda v: tiny(dtype=jnp.bfloat16).apply(v, IMAGES))(variables).eqns
    kinds = {invar.aval.dtype for e in by_type if e.primitive.name == "conv_general_dilated" for invar in e.invars}
    assert kinds == {jnp.dtype(jnp.bfloat16)}
    assert FilterResponseNorm(dtype=jnp.bfloat16).init_with_output(jax.random.key(0), IMAGES)[0].dtype == jnp.bfloat16


@pytest.mark.fast_cases(1)
@pytest.mark.parametrize("norm", ["batch", "group", "frn"])
def test_half_precision_promotes_nothing_unasked(norm) -> None:
    net = tiny(norm, dtype="bfloat16", stage_sizes=(1,))
    with jax.numpy_dtype_promotion("strict"):
        variables = jax.eval_shape(net.init, jax.random.key(0), IMAGES)
        outputs = jax.eval_shape(lambda v: net.apply(v, IMAGES, train=True, mutable=["batch_stats"])[0], variables)
    assert outputs.dtype == jnp.float32
    assert {leaf.dtype for leaf in jax.tree.leaves(variables)} == {jnp.dtype(jnp.float32)}


@pytest.mark.fast_cases(1)
@pytest.mark.parametrize(("size", "stride"), [(3, 1), (3, 2), (1, 2)])
def test_local_noise_through_strides_and_half_precision(size, stride, rng_key) -> None:
    """Every output of a convolution of Gaussian weights has its mean and variance, (4.2)."""
    x = IMAGES[:1, :4, :4]
    conv = linen.Conv(2, (size, size), stride, padding=size // 2, use_bias=False, dtype=jnp.bfloat16)
    loc = 0.5 * jax.random.normal(rng_key, (size, size, 3, 2))
    scale = jnp.linspace(0.1, 1.0, loc.size).reshape(loc.shape)

    def draw(key):
        weight = GaussianArray(loc, scale, key)
        return local_noise(lambda w: conv.apply({"params": {"kernel": w}}, x))(weight)

    count = 4_000
    draws = np.asarray(jax.jit(jax.vmap(draw))(jax.random.split(rng_key, count)), np.float64)
    images, means, scales = (np.asarray(value, np.float64) for value in (x, loc, scale))
    mean, var = np_convolve(images, means, stride), np_convolve(images**2, scales**2, stride)
    # At most 32 outputs, means within five standard errors and variances within seven: another key fails in 1e-4 of all cases.
    # bfloat16 adds up to 1 % of the sizes that are summed.
    rounding = 0.01 * np.sqrt(np_convolve(images**2, means**2 + scales**2, stride))
    assert np.all(np.abs(draws.mean(axis=0) - mean) < 5 * np.sqrt(var / count) + rounding)
    np.testing.assert_allclose(draws.var(axis=0), var, rtol=7 * np.sqrt(2 / count) + 0.02)


@pytest.mark.slow_cases(1)
@pytest.mark.slow
@pytest.mark.parametrize(
    ("estimator", "posterior", "norm", "dtype", "stage_sizes"),
    [
        ("local", "mean_field", "batch", "bfloat16", (1,)),
        pytest.param("weight", "mean_field", "frn", "bfloat16", (), marks=pytest.mark.slow),
        ("weight", "map", "batch", None, ()),
    ],
)
def test_fits_by_every_estimator(estimator, posterior, norm, dtype, stage_sizes, rng_key, caplog) -> None:
    bnn = bnn_of(tiny(norm, dtype, stage_sizes), posterior=posterior)
    data = bp.Dataset(IMAGES, np.array([0, 1, 2, 0, 1, 2]))
    settings = {"batch_size": 4, "estimator": estimator, "sparsifier": bp.methods.Magnitude(0.5), "every": 3}
    with jax.log_compiles(), caplog.at_level("WARNING"):
        fit = bp.fit_svi(rng_key, bnn, data, num_steps=8, **settings)
    compiled = [r.getMessage() for r in caplog.records if "Finished XLA compilation of jit(run)" in r.getMessage()]
    assert len(compiled) == 1
    assert np.all(np.isfinite(fit.losses))
    for name in (
        "Dense_0.bias",
        "Conv_0.kernel_auto_loc" if posterior == "mean_field" else "Conv_0.kernel_map_loc",
    ):
        assert np.all(np.isfinite(fit.params[name])) and np.any(fit.params[name] != 0)
    assert all(leaf.dtype == jnp.float32 for leaf in jax.tree.leaves(fit.params))
    assert ("net$state" in fit.params) == (norm == "batch")
    if norm == "batch":
        kept = fit.params["net$state"]["batch_stats"]["BatchNorm_0"]
        assert np.all(kept["mean"] != 0) and np.all(kept["var"] != 1), "statistics move in training"
    before = jax.tree.map(np.array, fit.params)
    together, alone = (bp.predict(rng_key, bnn, fit.params, x, num_samples=2) for x in (IMAGES, IMAGES[:1]))
    np.testing.assert_allclose(together[:1], alone, rtol=0.05, atol=5e-3, err_msg="a prediction saw the other rows")
    jax.tree.map(np.testing.assert_array_equal, fit.params, before)


def test_what_is_no_norm_and_what_is_no_image_is_refused() -> None:
    with pytest.raises(ValueError, match=r"unknown norm 'bach'. Did you mean 'batch'"):
        tiny("bach").init(jax.random.key(0), IMAGES)
    with pytest.raises(ValueError, match=r"ResNet needs images .* got \(6, 192\)"):
        tiny().init(jax.random.key(0), IMAGES.reshape(6, -1))
