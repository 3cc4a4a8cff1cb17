"""Noise of slices is that of the whole array where they lie, bit by bit."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from bayesprune.model.transforms import noise as noises
from bayesprune.model.transforms.gaussian_array import GaussianArray
from bayesprune.model.transforms.local_noise import local_noise
from bayesprune.model.transforms.noise import NoiseOfSlices

KEYS = {"counters": jax.random.key(7), "another": jax.random.key(7, impl="rbg")}


def taken(array, kept):
    for axis, index in enumerate(kept):
        array = array if index is None else jnp.take(array, np.array(index), axis)
    return array


@pytest.mark.fast_cases(2)
@pytest.mark.parametrize("noise", [noises.quantile, noises.exact])
@pytest.mark.parametrize("kind", KEYS)
@pytest.mark.parametrize(
    ("sizes", "kept"),
    [((5,), ((3,),)), ((4, 3), ((1, 3), None)), ((7, 5), ((0, 6), (2, 4))), ((3, 4, 5), (None, (3,), (0, 4)))],
)
def test_the_numbers_are_those_of_the_whole_array(noise, kind, sizes, kept) -> None:
    key = KEYS[kind]
    part, wanted = NoiseOfSlices(noise, sizes, kept), taken(noise(key, sizes), kept)
    np.testing.assert_array_equal(part(key, wanted.shape), wanted)


def test_another_shape_is_refused() -> None:
    with pytest.raises(ValueError, match=r"noise of shape \(2, 2\)"):
        NoiseOfSlices(noises.quantile, (4, 3), ((1, 3), None))(jax.random.key(0), (2, 2))


ROWS = jnp.asarray(np.random.default_rng(0).normal(size=(5, 3)))
LAYERS = {
    "dense": (lambda w, x: x @ w, (3, 6), (None, (1, 2, 5))),
    "scaled": (lambda w, x: x @ (0.5 * w), (3, 6), (None, (1, 2, 5))),
    "turned": (lambda w, x: x @ w.T, (6, 3), ((0, 4), None)),
    "from the left": (lambda w, x: w @ x.T, (6, 3), ((0, 4), None)),
    "bias": (lambda w, x: x[:, :1] + w, (6,), ((2, 3),)),
    "scale": (lambda w, x: x[:, :1] * w.reshape(1, -1), (6,), ((2, 3),)),
    "drawn once": (lambda w, x: jnp.tanh(w)[None] * x[:, :1], (6,), ((2, 3),)),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", LAYERS)
def test_outputs_have_the_noise_of_whole_layers(name) -> None:
    layer, sizes, kept = LAYERS[name]
    loc, key = jnp.asarray(np.random.default_rng(1).normal(size=sizes)), jax.random.key(3)
    whole = local_noise(layer)(GaussianArray(loc, 0.3, key, noises.quantile), ROWS)
    axis = 0 if name == "from the left" else 1
    index = next(one for one in kept if one is not None)
    short = GaussianArray(taken(loc, kept), 0.3, key, NoiseOfSlices(noises.quantile, sizes, kept))
    np.testing.assert_allclose(local_noise(layer)(short, ROWS), jnp.take(whole, np.array(index), axis), rtol=1e-6)


@pytest.mark.slow
def test_a_convolution_has_the_noise_of_its_channels() -> None:
    images = jnp.asarray(np.random.default_rng(2).normal(size=(2, 5, 5, 2)))
    loc, key, kept = jnp.ones((3, 3, 2, 4)), jax.random.key(3), (None, None, None, (1, 3))

    def layer(w, x):
        return jax.lax.conv_general_dilated(x, w, (1, 1), "VALID", dimension_numbers=("NHWC", "HWIO", "NHWC"))

    whole = local_noise(layer)(GaussianArray(loc, 0.3, key, noises.quantile), images)
    short = GaussianArray(taken(loc, kept), 0.3, key, NoiseOfSlices(noises.quantile, loc.shape, kept))
    np.testing.assert_allclose(local_noise(layer)(short, images), whole[..., jnp.array([1, 3])], rtol=1e-5)
