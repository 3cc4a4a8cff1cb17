"""What is done to images before anything is learnt: a frame, patches."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import bayesprune as bp
from bayesprune.nets.images import check_images, framed, patches

IMAGES = np.random.default_rng(0).normal(size=(3, 4, 6, 2)).astype(np.float32)


def test_patches_are_the_squares_row_by_row() -> None:
    found = np.asarray(patches(jnp.asarray(IMAGES), 2, "net"))
    assert found.shape == (3, 6, 8)
    for token in range(6):
        top, left = 2 * (token // 3), 2 * (token % 3)
        np.testing.assert_array_equal(found[:, token].reshape(3, 2, 2, 2), IMAGES[:, top : top + 2, left : left + 2])


def test_a_frame_is_around_the_image_and_of_its_corner() -> None:
    found = np.asarray(framed(jnp.asarray(IMAGES), 6))
    assert found.shape == (3, 6, 6, 2)
    np.testing.assert_allclose(found[:, 1:5], IMAGES, rtol=1e-6, atol=1e-6)
    for edge in (found[:, 0], found[:, 5]):
        np.testing.assert_array_equal(edge, np.broadcast_to(IMAGES[:, :1, 0], edge.shape))
    assert framed(jnp.asarray(IMAGES), 0).shape == framed(jnp.asarray(IMAGES), 3).shape == IMAGES.shape


@pytest.mark.parametrize("size", [0, 3, 4])
def test_patches_that_do_not_fit_are_refused(size) -> None:
    with pytest.raises(ValueError, match=rf"net cuts images into patches of {size}x{size} pixels, got images of 4x6"):
        patches(jnp.asarray(IMAGES), size, "net")


def test_what_is_no_image_is_refused() -> None:
    with pytest.raises(ValueError, match=r"ViT needs images .* got \(3, 48\)"):
        check_images(jnp.zeros((3, 48)), "ViT")
    with pytest.raises(ValueError, match=r"LeNet5 needs images .* got \(3, 48\)"):
        jax.eval_shape(bp.nets.LeNet5(10).init, jax.random.key(0), jnp.zeros((3, 48)))
