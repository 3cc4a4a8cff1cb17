"""Crops and mirrors: every output is one of the images that NumPy can cut, all equally often, each row for itself."""

import dataclasses
import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

from bayesprune.data import CropFlip

IMAGE = np.random.default_rng(0).integers(1, 255, (5, 4, 3)).astype(np.float32)


def all_crops(image, pad, flip, fill=0.0):
    """Every image that may come out, by NumPy: place by place, as it is and mirrored."""
    height, width, channels = image.shape
    found = []
    for picture in (image, image[:, ::-1]) if flip else (image,):
        frame = np.empty((height + 2 * pad, width + 2 * pad, channels), image.dtype)
        frame[:] = fill
        frame[pad : pad + height, pad : pad + width] = picture
        found += [frame[i : i + height, j : j + width] for i in range(2 * pad + 1) for j in range(2 * pad + 1)]
    return np.stack(found)


def which(outputs, crops):
    """The number of the crop that each output is; fails where it is none."""
    same = (outputs[:, None] == crops[None]).all(axis=(2, 3, 4))
    assert np.all(same.sum(axis=1) == 1), "an output is none of the crops, or crops are not distinct"
    return same.argmax(axis=1)


@pytest.mark.parametrize("flip", [True, False])
@pytest.mark.parametrize("fill", [0.0, (-1.0, -2.5, 7.0)])
def test_every_crop_is_one_of_numpys_and_all_are_as_likely(flip, fill, rng_key) -> None:
    augment = CropFlip(pad=1, flip=flip, fill=fill)
    crops = all_crops(IMAGE, 1, flip, fill)
    rows = 4_000
    outputs = np.asarray(jax.jit(augment)(rng_key, jnp.broadcast_to(jnp.asarray(IMAGE), (rows, *IMAGE.shape))))
    counts = np.bincount(which(outputs, crops), minlength=len(crops))
    # Failure budget of a chi-square test with another key: 1e-4 for each of the four cases.
    assert stats.chisquare(counts).pvalue > 1e-4


def test_rows_draw_for_themselves_and_do_not_mix(rng_key) -> None:
    images = np.stack([IMAGE, IMAGE[::-1], 2 * IMAGE])
    x = jnp.asarray(np.tile(images, (300, 1, 1, 1)))
    outputs = np.asarray(CropFlip(pad=1)(rng_key, x))
    kinds = np.stack([which(outputs[first::3], all_crops(images[first], 1, True)) for first in range(3)])
    for one, other in ((0, 1), (1, 2), (0, 2)):
        # 1 in 18 pairs agree by chance: 300 tries, five standard errors are 0.066.
        assert abs(np.mean(kinds[one] == kinds[other]) - 1 / 18) < 0.066


def test_another_key_gives_other_crops_and_the_same_key_the_same(rng_key) -> None:
    x = jnp.broadcast_to(jnp.asarray(IMAGE), (50, *IMAGE.shape))
    augment = CropFlip(pad=2)
    keys = jax.random.split(rng_key)
    np.testing.assert_array_equal(augment(keys[0], x), augment(keys[0], x))
    assert not np.array_equal(augment(keys[0], x), augment(keys[1], x))


@pytest.mark.parametrize("dtype", [jnp.uint8, jnp.float32, jnp.bfloat16, jnp.int32])
def test_shape_and_type_are_kept(dtype, rng_key) -> None:
    x = jnp.asarray(np.tile(IMAGE, (7, 1, 1, 1)), dtype)
    out = CropFlip(pad=3)(rng_key, x)
    assert out.shape == x.shape and out.dtype == dtype


def test_the_null_augmentation_changes_nothing(rng_key) -> None:
    x = jnp.asarray(IMAGE[None])
    np.testing.assert_array_equal(CropFlip(pad=0, flip=False)(rng_key, x), x)


def test_equal_knobs_share_one_compilation(rng_key) -> None:
    traces = []

    def apply(augment, key, x):
        traces.append(augment)
        return augment(key, x)

    run = jax.jit(apply, static_argnums=0)
    x = jnp.asarray(IMAGE[None])
    for key in jax.random.split(rng_key, 3):
        run(CropFlip(pad=1, fill=(0.0, 1.0, 2.0)), key, x)
    assert len(traces) == 1
    assert dataclasses.replace(traces[0], pad=2) != traces[0]


def test_bad_knobs_and_bad_images_are_refused(rng_key) -> None:
    with pytest.raises(ValueError, match="pad must be an integer of at least 0, got -1"):
        CropFlip(pad=-1)
    with pytest.raises(ValueError, match="one per channel, got 2 for 3 channels"):
        CropFlip(fill=(0.0, 1.0))(rng_key, jnp.asarray(IMAGE[None]))
    with pytest.raises((ValueError, TypeError), match=r"x must be images|parameter 'x'"):
        CropFlip()(rng_key, jnp.asarray(IMAGE))
    with pytest.raises(TypeError, match=r"rng_key must be a JAX random key"):
        CropFlip()(0, jnp.asarray(IMAGE[None]))


@pytest.mark.parametrize("flip", [0.25, "no"])
def test_a_share_of_mirrored_images_is_no_flip(flip) -> None:
    with pytest.raises(TypeError, match="flip must be True or False"):
        CropFlip(flip=flip)


@pytest.mark.parametrize("fill", [0.5, -1.0, 300.0, (255.0, 256.0), np.nan])
def test_bytes_are_not_filled_with_what_they_cannot_hold(fill, rng_key) -> None:
    with pytest.raises(ValueError, match=re.escape(f"fill={fill} is no uint8")):
        CropFlip(pad=1, fill=fill)(rng_key, jnp.ones((1, 2, 2, 2), jnp.uint8))
