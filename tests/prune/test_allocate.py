"""How a density is shared out among the arrays of a network."""

import math

import numpy as np
import pytest

from bayesprune.prune.choose import allocate

LENET = {
    "Conv_0.kernel": (5, 5, 1, 6),
    "Conv_1.kernel": (5, 5, 6, 16),
    "Conv_2.kernel": (5, 5, 16, 120),
    "Dense_0.kernel": (120, 84),
    "Dense_0.bias": (84,),
}
SIZES = {site: math.prod(shape) for site, shape in LENET.items()}
every_distribution = pytest.mark.parametrize("distribution", ["uniform", "erdos_renyi", "global"])


@pytest.mark.fast_cases(1)
@every_distribution
@pytest.mark.parametrize("density", [1.0, 0.5, 0.1, 0.0313, 0.01, 1e-6])
def test_the_total_is_exact_and_no_array_is_empty_or_overfull(distribution, density) -> None:
    counts = allocate(LENET, density, distribution)
    assert list(counts) == list(LENET)
    assert sum(counts.values()) == max(len(LENET), round(density * sum(SIZES.values())))
    assert all(1 <= counts[site] <= SIZES[site] for site in LENET)


def test_uniform_keeps_the_first_convolution_whole_and_the_others_at_one_density() -> None:
    counts = allocate(LENET, 0.1)
    assert counts["Conv_0.kernel"] == 150
    rest = (round(0.1 * sum(SIZES.values())) - 150) / (sum(SIZES.values()) - 150)
    for site in list(LENET)[1:]:
        assert abs(counts[site] - rest * SIZES[site]) < 1


def test_a_first_matrix_is_as_sparse_as_the_others_unless_told() -> None:
    shapes = {"Dense_0.kernel": (20, 30), "Dense_1.kernel": (30, 30)}
    assert allocate(shapes, 0.1) == {"Dense_0.kernel": 60, "Dense_1.kernel": 90}
    assert allocate(shapes, 0.5, first="dense") == {"Dense_0.kernel": 600, "Dense_1.kernel": 150}


def test_erdos_renyi_is_that_of_its_definition() -> None:
    """Against a bisection for the one factor of the densities min(1, factor sum/prod)."""
    raw = np.array([sum(shape) / math.prod(shape) for shape in LENET.values()])
    sizes = np.array(list(SIZES.values()))
    for density in (0.3, 0.05, 0.01):
        low, high = 0.0, 1e6
        for _ in range(200):
            middle = (low + high) / 2
            full = np.minimum(1, middle * raw) @ sizes
            low, high = (middle, high) if full < density * sizes.sum() else (low, middle)
        wanted = np.minimum(1, low * raw) * sizes
        np.testing.assert_allclose(list(allocate(LENET, density, "erdos_renyi").values()), wanted, atol=1.01)


def test_what_cannot_be_is_refused() -> None:
    with pytest.raises(ValueError, match="higher density, or first='sparse'"):
        allocate({"Dense_0.kernel": (20, 30), "Dense_1.kernel": (30, 30)}, 0.1, first="dense")
    with pytest.raises(ValueError, match="Did you mean 'erdos_renyi'"):
        allocate(LENET, 0.1, "erdos-renyi")
    with pytest.raises(ValueError, match="density must lie in"):
        allocate(LENET, 0.0)
    with pytest.raises(ValueError, match="first"):
        allocate(LENET, 0.1, first="thin")


@pytest.mark.fast_cases(1)
@pytest.mark.parametrize("distribution", ["erdos_renyi", "global"])
def test_only_the_uniform_distribution_takes_a_dense_first_array(distribution) -> None:
    with pytest.raises(ValueError, match="goes with distribution='uniform'"):
        allocate(LENET, 0.5, distribution, first="dense")


def test_scalars_and_nothing() -> None:
    assert allocate({"a": (10, 10), "s": ()}, 1.0, "erdos_renyi") == {"a": 100, "s": 1}
    with pytest.raises(ValueError, match="there is none"):
        allocate({}, 0.5)
