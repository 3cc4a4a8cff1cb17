import numpy as np
import pytest

from bayesprune import data
from bayesprune.data.images import RawImages, channel_scaling, to_dataset, unit_scaling


def random_images(rows=2500, side=5, channels=3):
    x = np.random.default_rng(0).integers(0, 256, (rows, side, side, channels), dtype=np.uint8)
    return RawImages(x, np.zeros(rows, np.int32))


def test_padding_puts_the_image_in_the_middle():
    x = np.arange(1, 10, dtype=np.uint8).reshape(1, 3, 3, 1)
    padded = data.pad_to(x, 6)
    assert padded.shape == (1, 6, 6, 1) and padded.dtype == np.uint8
    np.testing.assert_array_equal(padded[:, 1:4, 1:4], x)
    assert padded.sum() == x.sum()


def test_padding_to_the_same_size_gives_the_same_array():
    x = np.ones((2, 4, 4, 1))
    assert data.pad_to(x, 4) is x


def test_padding_refuses_to_crop_and_wants_four_axes():
    with pytest.raises(ValueError, match="size must be at least the images' 28 pixels, got 8"):
        data.pad_to(np.ones((2, 28, 28, 1)), 8)
    with pytest.raises((ValueError, TypeError), match=r"x must have the shape|parameter 'x'"):
        data.pad_to(np.ones((2, 28, 28)), 32)


def test_channel_statistics_are_numpys():
    raw = random_images()
    raw.x[..., 1] //= 4
    scaling = channel_scaling(raw.x)
    np.testing.assert_allclose(scaling.loc, raw.x.mean(axis=(0, 1, 2)), rtol=1e-12)
    np.testing.assert_allclose(scaling.scale, raw.x.std(axis=(0, 1, 2)), rtol=1e-12)


def test_standardised_images_have_mean_0_and_deviation_1_in_every_channel():
    raw = random_images()
    x = to_dataset(raw, channel_scaling(raw.x)).x
    assert x.dtype == np.float32
    np.testing.assert_allclose(x.mean(axis=(0, 1, 2), dtype=np.float64), 0.0, atol=1e-5)
    np.testing.assert_allclose(x.std(axis=(0, 1, 2), dtype=np.float64), 1.0, atol=1e-5)


def test_a_constant_channel_becomes_zero():
    raw = random_images()
    raw.x[..., 2] = 77
    scaling = channel_scaling(raw.x)
    assert scaling.scale[2] == 1.0
    assert np.all(to_dataset(raw, scaling).x[..., 2] == 0)


def test_unscaled_images_lie_between_0_and_1():
    x = np.array([0, 8, 16, 4], np.uint8).reshape(1, 2, 2, 1)
    raw = RawImages(x, np.zeros(1, np.int32), top=16)
    np.testing.assert_allclose(to_dataset(raw, unit_scaling(raw)).x.ravel(), [0.0, 0.5, 1.0, 0.25])
