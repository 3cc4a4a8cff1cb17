"""Transposed convolutions, and negative padding, as plain convolutions, against JAX's own."""

import jax
import numpy as np
import pytest
from jax import lax
from jax.extend.core import jaxpr_as_fun

from bayesprune.deploy.program.plain import plain

X = np.random.default_rng(0).normal(size=(3, 7, 4)).astype(np.float32)


def written(function, *arrays):
    """The plain convolutions of the one of ``function``, as a function; None: it is kept."""
    program = plain(jax.make_jaxpr(function)(*arrays).eqns[-1])
    return program if program is None else lambda *arrays: jaxpr_as_fun(program)(*arrays)[0]


def drawn_convolution(rng: np.random.Generator):
    """A convolution of random sizes with some spread or some negative padding: data, kernel and parameters."""
    spread, taps, length = ([int(n) for n in rng.integers(1, most, 2)] for most in (4, 5, 5))
    padding = [(int(low), int(high)) for low, high in rng.integers(-2, 5, (2, 2))]
    dims = ("NHWC", "HWIO", "NHWC") if rng.random() < 0.5 else ("NCHW", "OIHW", "NCHW")
    data, kernel = rng.normal(size=(2, *length, 4)), rng.normal(size=(*taps, 2, 6))
    if dims[0] == "NCHW":
        data, kernel = data.transpose(0, 3, 1, 2), kernel.transpose(3, 2, 0, 1)
    params = {"padding": padding, "lhs_dilation": spread, "dimension_numbers": dims, "feature_group_count": 2}
    sizes = [(n - 1) * s + 1 + sum(pads) - k + 1 for n, s, pads, k in zip(length, spread, padding, taps, strict=True)]
    return data.astype(np.float32), kernel.astype(np.float32), params, min(sizes)


@pytest.mark.slow
@pytest.mark.parametrize("number", [10, pytest.param(100, marks=pytest.mark.every)])
def test_transposed_convolutions(number) -> None:
    """So many random ones are the same, and plain; those that are kept cut off all of their inputs, or into spread ones."""
    rng, done = np.random.default_rng(number), 0
    while done < number:
        data, kernel, params, least = drawn_convolution(rng)
        plain = set(params["lhs_dilation"]) == {1} and min(map(min, params["padding"])) >= 0
        if least < 1 or plain:
            continue
        function = lambda data, kernel: lax.conv_general_dilated(data, kernel, (1, 1), **params)  # noqa: E731, B023
        ours = written(function, data, kernel)
        if ours is None:
            assert min(map(min, params["padding"])) < 0
            continue
        done += 1
        np.testing.assert_allclose(ours(data, kernel), function(data, kernel), rtol=1e-4, atol=1e-4)
        for equation in jax.make_jaxpr(ours)(data, kernel).jaxpr.eqns:
            if equation.primitive.name == "conv_general_dilated":
                assert set(equation.params["lhs_dilation"]) == {1}
                assert min(map(min, equation.params["padding"])) >= 0


@pytest.mark.slow
def test_a_plain_convolution_and_one_with_both_spread_and_stride_are_kept() -> None:
    kernel = np.ones((2, 4, 1), np.float32)
    dims = ("NWC", "WIO", "NWC")
    for strides, spread in (((1,), (1,)), ((2,), (2,))):
        function = lambda x: lax.conv_general_dilated(x, kernel, strides, [(0, 0)], spread, dimension_numbers=dims)  # noqa: E731, B023
        assert written(function, X) is None
