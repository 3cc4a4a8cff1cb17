import jax
import numpy as np
import pytest

from bayesprune.features import gaussian_knockoffs, knockoffs


def autoregressive(size, rho):
    index = np.arange(size)
    return rho ** np.abs(index[:, None] - index)


def draw(seed, rows, mean, covariance):
    return np.random.default_rng(seed).multivariate_normal(mean, covariance, size=rows)


@pytest.mark.fast_cases(1)
@pytest.mark.parametrize("rho", [0.0, 0.3, 0.7])
def test_originals_and_copies_have_the_exchangeable_covariance(rho):
    # 100 000 rows: a sample covariance of variables of scale up to 2 deviates by at most 4 * sqrt(2 / 1e5) = 0.018; 0.1 is over
    # five of those, for each of 55 entries, and smaller entries have more room.
    scale = np.array([1.0, 2.0, 0.5, 1.0, 1.5])
    mean = np.array([0.0, 3.0, -1.0, 0.0, 10.0])
    correlation = autoregressive(5, rho)
    covariance = correlation * np.outer(scale, scale)
    x = draw(0, 100_000, mean, covariance)
    copies = gaussian_knockoffs(jax.random.key(0), x, mean, covariance)
    s = min(1.0, 2 * np.linalg.eigvalsh(correlation).min())
    across = covariance - s * np.diag(scale**2)
    wanted = np.block([[covariance, across], [across, covariance]])
    np.testing.assert_allclose(np.cov(np.hstack([x, copies]), rowvar=False), wanted, atol=0.1)
    np.testing.assert_allclose(copies.mean(axis=0), mean, atol=0.04)


def test_swapping_any_inputs_with_their_copies_changes_no_second_moment():
    covariance = autoregressive(4, 0.6)
    x = draw(1, 100_000, np.zeros(4), covariance)
    copies = knockoffs(jax.random.key(1), x)  # with estimated moments
    both = np.cov(np.hstack([x, copies]), rowvar=False)
    for swapped in ([0], [1, 3], [0, 1, 2, 3]):
        order = np.arange(8)
        order[swapped], order[np.array(swapped) + 4] = np.array(swapped) + 4, swapped
        # Deviation of a covariance 0.0045: the margin is over six of a difference of two.
        np.testing.assert_allclose(both[np.ix_(order, order)], both, atol=0.04)
    # ... though the copies are new numbers: they agree with their originals only up to 1 - s.
    assert np.all(np.diag(both[:4, 4:]) < 0.6)


def test_type_key_and_scale():
    x = draw(2, 60, np.zeros(3), autoregressive(3, 0.5)).astype(np.float32)
    one, again, other = (knockoffs(jax.random.key(k), x) for k in (0, 0, 1))
    assert one.dtype == np.float32
    np.testing.assert_array_equal(one, again)
    assert not np.allclose(one, other)
    moved = knockoffs(jax.random.key(0), x.astype(float) * [1.0, 100.0, 1e-3] + [0.0, 5.0, 1.0])
    np.testing.assert_allclose(moved, one * [1.0, 100.0, 1e-3] + [0.0, 5.0, 1.0], rtol=1e-4, atol=1e-5)


def test_copies_of_whole_numbers_are_none():
    """Cut off to whole numbers they would be nearer to zero than what they are copies of: the filter finds false inputs so."""
    x = np.random.default_rng(0).integers(0, 3, (2000, 3))
    copies = knockoffs(jax.random.key(0), x)
    np.testing.assert_array_equal(copies, knockoffs(jax.random.key(0), x.astype(np.float64)))
    np.testing.assert_allclose(copies.mean(axis=0), x.mean(axis=0), atol=0.1)  # five standard errors of a spread of .82


def test_shrinkage_serves_more_columns_than_rows():
    x = np.random.default_rng(0).standard_normal((20, 40))
    with pytest.raises(ValueError, match="shrinkage"):
        knockoffs(jax.random.key(0), x)
    copies = knockoffs(jax.random.key(0), x, shrinkage=0.5)
    assert np.isfinite(copies).all() and copies.shape == x.shape


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: knockoffs(jax.random.key(0), np.ones((5, 2))), "constant"),
        (lambda: knockoffs(jax.random.key(0), np.zeros((1, 2))), "two rows"),
        (lambda: knockoffs(jax.random.key(0), np.array([[0.0], [np.nan]])), "x must be finite"),
        (lambda: knockoffs(jax.random.key(0), np.eye(3), shrinkage=1.0), "shrinkage"),
        (lambda: gaussian_knockoffs(jax.random.key(0), np.eye(3), np.zeros(2), np.eye(3)), r"mean|parameter"),
        (
            lambda: gaussian_knockoffs(jax.random.key(0), np.eye(2), np.zeros(2), np.array([[1.0, 0.5], [0.1, 1.0]])),
            "symmetric",
        ),
        (lambda: gaussian_knockoffs(jax.random.key(0), np.eye(2), np.zeros(2), np.ones((2, 2))), "singular"),
        (lambda: gaussian_knockoffs(np.zeros(2), np.eye(2), np.zeros(2), np.eye(2)), "rng_key"),
    ],
)
def test_bad_arguments_are_named(call, message):
    with pytest.raises((ValueError, TypeError), match=message):
        call()
