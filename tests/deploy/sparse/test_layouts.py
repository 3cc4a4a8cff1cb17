"""Blocks of outputs are the matrices that they were made from."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import csr_matrix

from bayesprune.deploy.program.linear import Pattern
from bayesprune.deploy.sparse.layouts import WORTH, blocks


def pattern_of(matrix: np.ndarray) -> Pattern:
    form = csr_matrix(matrix)
    return Pattern(form.indptr.astype(np.int32), form.indices.astype(np.int32), np.arange(form.nnz), matrix.shape[1])


def product(made, layer: int, numbers: np.ndarray, begins: np.ndarray, x: np.ndarray) -> np.ndarray:
    """What `kernels_numba.rows` does with one layer, in the order in which it does it."""
    tall, n, found = int(made.tall[layer]), int(made.firsts[layer]), list[float]()
    for g in range(made.steps[layer], made.steps[layer + 1]):
        o = (g - made.steps[layer]) * tall
        sums = begins[made.tops[layer] + o :][:tall].astype(float)
        for j in range(made.ptr[g], made.ptr[g + 1]):
            sums += numbers[n : n + tall] * x[made.columns[j]]
            n += tall
        found.extend(sums)
    return np.array(found[: made.heights[layer]])


@settings(deadline=None, max_examples=60)
@given(
    seed=st.integers(0, 1000),
    size=st.sampled_from([2, 4]),
    shapes=st.lists(st.tuples(st.integers(1, 9), st.integers(1, 7)), min_size=1, max_size=3),
    density=st.sampled_from([0.0, 0.2, 0.7, 1.0]),
)
def test_blocks_are_their_matrices(seed, size, shapes, density) -> None:
    rng = np.random.default_rng(seed)
    matrices = [np.where(rng.random(shape) < density, rng.normal(size=shape), 0.0) for shape in shapes]
    starts = [rng.normal(size=shape[0]) for shape in shapes]
    made = blocks([pattern_of(matrix) for matrix in matrices], size)
    entries = np.concatenate([csr_matrix(matrix).data for matrix in matrices])
    numbers, begins = made.filled(entries, np.concatenate(starts))
    for layer, (matrix, start) in enumerate(zip(matrices, starts, strict=True)):
        x = rng.normal(size=matrix.shape[1])
        np.testing.assert_allclose(product(made, layer, numbers, begins, x), matrix @ x + start, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize(("shared", "tall"), [(True, 4), (False, 1)])
def test_only_what_outputs_share_is_read_in_blocks(shared, tall) -> None:
    matrix = np.zeros((4, 4 * 6))
    for output in range(4):
        matrix[output, (0 if shared else 6 * output) : (0 if shared else 6 * output) + 6] = 1.0
    assert blocks([pattern_of(matrix)], 4).tall == [tall]
    assert WORTH > 1


def test_a_column_read_twice_is_read_twice() -> None:
    """As of an image that was tiled: no number may take the place of another one."""
    twice = Pattern(np.array([0, 2, 4]), np.array([0, 0, 0, 0]), np.arange(4), 1)
    made = blocks([twice], 2)
    numbers, begins = made.filled(np.array([1.0, 2.0, 4.0, 8.0]), np.zeros(2))
    np.testing.assert_array_equal(product(made, 0, numbers, begins, np.ones(1)), [3.0, 12.0])
