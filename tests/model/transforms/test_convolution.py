"""The quick convolution equals XLA's, in value and in every derivative, for any net and any parameters."""

import itertools
from functools import partial

import equinox
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import quax
from flax import linen, nnx
from jax import lax

from bayesprune.model.transforms import convolution
from bayesprune.model.transforms.convolution import conv_general_dilated
from bayesprune.model.transforms.lower import Lowered, lower_convolutions

# layout, image (n, h, w, c), kernel (h, w, in, out), and what differs from a plain convolution
CASES = {
    "lenet first": ("NHWC", (4, 32, 32, 1), (5, 5, 1, 6), {}),
    "lenet second": ("NHWC", (3, 14, 14, 6), (5, 5, 6, 16), {}),
    "lenet third": ("NHWC", (3, 5, 5, 16), (5, 5, 16, 12), {}),
    "tiles": ("NHWC", (2, 11, 12, 3), (5, 4, 3, 2), {"padding": ((2, 2), (0, 3))}),
    "tile of one row": ("NHWC", (2, 5, 9, 2), (5, 5, 2, 3), {}),
    "tiles, channels first": ("NCHW", (2, 12, 11, 1), (5, 5, 1, 3), {}),
    "wide image": ("NHWC", (1, 3, 140, 1), (3, 3, 1, 2), {}),
    "no output": ("NHWC", (2, 3, 3, 2), (5, 5, 2, 3), {}),
    "no images": ("NHWC", (0, 6, 6, 2), (3, 3, 2, 3), {}),
    "padded 3x3": ("NHWC", (2, 8, 7, 9), (3, 3, 9, 8), {"padding": ((1, 1), (1, 1))}),
    "uneven padding": ("NHWC", (2, 6, 7, 3), (3, 4, 3, 5), {"padding": ((2, 0), (0, 3))}),
    "negative padding": ("NHWC", (2, 9, 9, 2), (3, 3, 2, 4), {"padding": ((-1, 0), (0, -2))}),
    "strides": ("NHWC", (2, 11, 10, 3), (3, 2, 3, 4), {"window_strides": (2, 3)}),
    "patch embedding": ("NHWC", (2, 12, 12, 3), (4, 4, 3, 7), {"window_strides": (4, 4)}),
    "dilated kernel": ("NHWC", (2, 12, 11, 2), (3, 3, 2, 3), {"rhs_dilation": (2, 3)}),
    "strided and dilated": (
        "NHWC",
        (2, 13, 12, 2),
        (3, 3, 2, 3),
        {"rhs_dilation": (2, 1), "window_strides": (2, 2), "padding": ((1, 2), (0, 1))},
    ),
    "1x1": ("NHWC", (2, 5, 5, 4), (1, 1, 4, 3), {}),
    "1x1 strided": ("NHWC", (2, 5, 5, 4), (1, 1, 4, 3), {"window_strides": (2, 2)}),
    "channels first": ("NCHW", (2, 9, 8, 3), (3, 3, 3, 5), {}),
    "dilated image": ("NHWC", (2, 6, 6, 2), (3, 3, 2, 3), {"lhs_dilation": (2, 2)}),
    "groups": ("NHWC", (2, 7, 7, 4), (3, 3, 2, 6), {"feature_group_count": 2}),
    "batch groups": ("NHWC", (4, 7, 7, 3), (3, 3, 3, 6), {"batch_group_count": 2}),
    "large kernel": ("NHWC", (2, 16, 16, 2), (9, 9, 2, 3), {}),
}


def _case(name):
    layout, image, kernel, changes = CASES[name]
    spec = {"NHWC": ("NHWC", "HWIO", "NHWC"), "NCHW": ("NCHW", "OIHW", "NCHW")}[layout]
    keys = jax.random.split(jax.random.key(3), 3)
    lhs, rhs = jax.random.normal(keys[0], image), jax.random.normal(keys[1], kernel)
    if layout == "NCHW":
        lhs, rhs = lhs.transpose(0, 3, 1, 2), rhs.transpose(3, 2, 0, 1)
    params = {
        "window_strides": (1, 1),
        "padding": ((0, 0), (0, 0)),
        "lhs_dilation": (1, 1),
        "rhs_dilation": (1, 1),
        "dimension_numbers": lax.conv_dimension_numbers(lhs.shape, rhs.shape, spec),
        "feature_group_count": 1,
        "batch_group_count": 1,
        "precision": None,
        "preferred_element_type": None,
    } | changes
    cotangent = jax.random.normal(keys[2], lax.conv_general_dilated(lhs, rhs, **params).shape)
    return lhs, rhs, cotangent, params


def _close(ours, theirs, rtol=2e-5):
    assert jax.tree.structure(ours) == jax.tree.structure(theirs)
    for a, b in zip(jax.tree.leaves(ours), jax.tree.leaves(theirs), strict=True):
        assert a.shape == b.shape
        assert a.dtype == b.dtype
        np.testing.assert_allclose(a, b, rtol=rtol, atol=rtol * max(1.0, float(jnp.abs(b).max(initial=0.0))))


@pytest.mark.slow_cases(8)
@pytest.mark.fast_cases(1)
@pytest.mark.parametrize("name", CASES)
def test_value_and_gradient_equal_xla(name):
    lhs, rhs, cotangent, params = _case(name)

    def outcome(conv):
        @jax.jit  # arrays come in as arguments: XLA would spend seconds on folding constants
        def run(lhs, rhs, cotangent):
            value, pull = jax.vjp(partial(conv, **params), lhs, rhs)
            return value, pull(cotangent)

        return run(lhs, rhs, cotangent)

    _close(outcome(conv_general_dilated), outcome(lax.conv_general_dilated))


@pytest.mark.fast_cases(1)
@pytest.mark.parametrize("name", ["lenet first", "strides", "channels first", "lenet third"])
def test_forward_mode_and_second_derivatives(name):
    lhs, rhs, cotangent, params = _case(name)

    def hessian_product(conv):
        def loss(rhs, lhs, cotangent):
            return jnp.sum(jnp.tanh(conv(lhs, rhs, **params)) * cotangent)

        @jax.jit
        def run(rhs, lhs, cotangent):
            return jax.jvp(lambda rhs: jax.grad(loss)(rhs, lhs, cotangent), (rhs,), (jnp.cos(rhs),))

        return run(rhs, lhs, cotangent)

    _close(hessian_product(conv_general_dilated), hessian_product(lax.conv_general_dilated), 2e-4)


@pytest.mark.fast_cases(1)
@pytest.mark.parametrize("name", ["lenet first", "lenet second", "padded 3x3", "groups"])
@pytest.mark.parametrize("axes", [(None, 0), (0, None), (0, 0)])
def test_vmap_over_draws(name, axes):
    lhs, rhs, cotangent, params = _case(name)
    stack = [jnp.stack([a, a * 2, -a]) if axis == 0 else a for a, axis in zip((lhs, rhs), axes, strict=True)]

    def gradient(conv):
        def loss(a, b, cotangent):
            return jnp.sum(conv(a, b, **params) ** 2 * cotangent)

        return jax.jit(jax.vmap(jax.grad(loss, (0, 1)), (*axes, None)))(*stack, cotangent)

    _close(gradient(conv_general_dilated), gradient(lax.conv_general_dilated), 1e-4)


@pytest.mark.slow
def test_sixty_four_bits():
    with jax.enable_x64(True):
        lhs, rhs, _, params = _case("lenet second")
        lhs, rhs = lhs.astype(jnp.float64), rhs.astype(jnp.float64)
        out = conv_general_dilated(lhs, rhs, **params)
        assert out.dtype == jnp.float64
        _close(out, lax.conv_general_dilated(lhs, rhs, **params), 1e-13)


@pytest.mark.fast_cases(1)
@pytest.mark.parametrize("dtype", [jnp.bfloat16, jnp.float16])
def test_half_precision_falls_back(dtype):
    lhs, rhs, _, params = _case("padded 3x3")
    lhs, rhs = lhs.astype(dtype), rhs.astype(dtype)
    out = conv_general_dilated(lhs, rhs, **params | {"preferred_element_type": jnp.float32})
    assert out.dtype == jnp.float32
    _close(out, lax.conv_general_dilated(lhs, rhs, **params | {"preferred_element_type": jnp.float32}))


def _primitives(f, *args, platform):
    text = jax.jit(f).trace(*args).lower(lowering_platforms=(platform,)).as_text()
    return {word for word in ("stablehlo.convolution", "stablehlo.dot_general") if word in text}


def test_only_the_cpu_leaves_xla():
    lhs, rhs, cotangent, params = _case("lenet first")

    def step(lhs, rhs):
        return jax.vjp(partial(conv_general_dilated, **params), lhs, rhs)[1](cotangent)

    assert "stablehlo.convolution" not in _primitives(step, lhs, rhs, platform="cpu")
    assert "stablehlo.convolution" in _primitives(step, lhs, rhs, platform="cuda")
    assert "stablehlo.dot_general" not in _primitives(step, lhs, rhs, platform="cuda")


class Linen(linen.Module):
    layers: tuple[dict, ...]

    @linen.compact
    def __call__(self, x):
        for layer in self.layers:
            x = jnp.tanh(linen.Conv(**layer)(x))
        return linen.Dense(3)(x.reshape(len(x), -1))


LAYERS = (
    {"features": 6, "kernel_size": (5, 5), "padding": "VALID"},
    {"features": 8, "kernel_size": (3, 3), "padding": "SAME", "strides": 2},
    {"features": 4, "kernel_size": (3, 3), "kernel_dilation": 2},
    {"features": 4, "kernel_size": (3, 3), "feature_group_count": 2, "use_bias": False},
)


def _linen():
    net, x = Linen(LAYERS), jax.random.normal(jax.random.key(0), (2, 16, 16, 3))
    return net.apply, net.init(jax.random.key(1), x), x


def _nnx():
    convs = [
        nnx.Conv(a, rngs=nnx.Rngs(i), **{n.replace("features", "out_features"): v for n, v in layer.items()})
        for i, (a, layer) in enumerate(zip((3, 6, 8, 4), [dict(x) for x in LAYERS], strict=True))
        if "feature_group_count" not in layer
    ]
    graph, state = nnx.split(nnx.Sequential(*itertools.chain.from_iterable((c, jnp.tanh) for c in convs)))
    return lambda state, x: nnx.merge(graph, state)(x), state, jax.random.normal(jax.random.key(0), (2, 16, 16, 3))


def _equinox():
    keys = jax.random.split(jax.random.key(1), 3)
    net = equinox.nn.Sequential(
        [
            equinox.nn.Conv2d(3, 6, 5, key=keys[0]),
            equinox.nn.Lambda(jnp.tanh),
            equinox.nn.Conv2d(6, 8, 3, stride=2, padding="SAME", key=keys[1]),
            equinox.nn.Conv2d(8, 4, 3, dilation=2, groups=2, key=keys[2]),
        ]
    )
    arrays, rest = equinox.partition(net, equinox.is_array)
    x = jax.random.normal(jax.random.key(0), (2, 3, 18, 18))
    return lambda arrays, x: jax.vmap(equinox.combine(arrays, rest))(x), arrays, x


@pytest.mark.slow
@pytest.mark.parametrize("build", [_linen, _nnx, _equinox])
def test_nets_run_unchanged(build):
    apply, params, x = build()

    def outcome(apply):
        return jax.jit(jax.value_and_grad(lambda params, x: jnp.sum(jnp.sin(apply(params, x))), (0, 1)))(params, x)

    _close(outcome(lower_convolutions(apply)), outcome(apply), 1e-4)


@pytest.mark.slow
@pytest.mark.parametrize("build", [_linen, _nnx, _equinox])
def test_nets_are_lowered(build, monkeypatch):
    seen = []
    monkeypatch.setattr(
        "bayesprune.model.transforms.lower.conv_general_dilated", lambda *a, **k: seen.append(a) or convolution_of(*a, **k)
    )
    convolution_of = convolution.conv_general_dilated
    apply, params, x = build()
    lower_convolutions(apply)(params, x)
    kernels = [p for p in jax.tree.leaves(params) if p.ndim == 4]
    assert len(seen) == len(kernels) > 0


def test_wrapped_array_is_plain_elsewhere():
    x = jnp.arange(6.0).reshape(2, 3)
    out = quax.quaxify(lambda w: (w.T @ w, w.reshape(-1), jnp.sum(w)))(Lowered(x))
    assert isinstance(out[1], Lowered)
    np.testing.assert_array_equal(out[0], x.T @ x)
    np.testing.assert_array_equal(out[1].value, x.reshape(-1))
    np.testing.assert_array_equal(lower_convolutions(lambda p: p["w"].T)({"w": x}), x.T)
