"""What numba compiles, against NumPy and SciPy."""

import numpy as np
import pytest
from scipy import stats

from bayesprune.deploy.engines import draws_table
from bayesprune.deploy.sparse.fusing import ACTIVATIONS

pytest.importorskip("numba")
pytestmark = pytest.mark.slow  # compiled at their first use

F = np.float32
EDGES = np.array([0, -0.0, 1e-30, -1e-30, 0.62, 0.63, -0.625, 20, -20, 87, -87, 88.8, -88.8, 120, -120, 1e30, -1e30], F)
NUMBERS = np.concatenate([EDGES, np.random.default_rng(0).normal(size=2000).astype(F) * 8])
EXPECTED = {
    "none": lambda x: x,
    "relu": lambda x: np.maximum(x, 0),
    "tanh": np.tanh,
    "logistic": lambda x: 1 / (1 + np.exp(-x)),
    "silu": lambda x: x / (1 + np.exp(-x)),
}


@pytest.mark.parametrize("act", EXPECTED)
def test_activations(act) -> None:
    """Within 5e-7 of the largest and of their own size; what is not a number stays so, what is infinite is not lost."""
    from bayesprune.deploy.sparse.kernels_numba import activate

    made = NUMBERS.copy()
    activate(made, ACTIVATIONS.index(act), 1)
    with np.errstate(over="ignore"):
        expected = EXPECTED[act](NUMBERS.astype(float))
    np.testing.assert_allclose(made, expected, rtol=5e-7, atol=5e-8)
    edges = np.array([np.nan, np.inf, -np.inf], F)
    activate(edges, ACTIVATIONS.index(act), 1)
    wanted = {
        "none": [np.nan, np.inf, -np.inf],
        "relu": [np.nan, np.inf, 0],
        "tanh": [np.nan, 1, -1],
        "logistic": [np.nan, 1, 0],
    }
    if act in wanted:
        np.testing.assert_allclose(edges, np.array(wanted[act], F), atol=1e-7)


@pytest.mark.parametrize("lanes", [1, 32])
def test_softmax(lanes) -> None:
    from bayesprune.deploy.sparse.kernels_numba import activate

    values = np.random.default_rng(0).normal(size=(7, lanes)).astype(F) * 30
    made = values.copy().reshape(-1)
    activate(made, ACTIVATIONS.index("softmax"), lanes)
    powers = np.exp(values.astype(float) - values.max(0))
    np.testing.assert_allclose(made.reshape(values.shape), powers / powers.sum(0), rtol=1e-6, atol=1e-9)


def test_exponential_and_logarithm() -> None:
    from bayesprune.deploy.sparse.kernels_numba import exp
    from bayesprune.deploy.sparse.normals_numba import log

    x = np.linspace(-86, 86, 5001).astype(F)
    np.testing.assert_allclose([exp(v) for v in x], np.exp(x.astype(float)), rtol=3e-7)
    y = np.exp(np.linspace(-30, 0, 5001)).astype(F)
    np.testing.assert_allclose([log(v) for v in y], np.log(y.astype(float)), rtol=3e-7, atol=1e-7)


def drawn(seed: int, count: int) -> np.ndarray:
    from bayesprune.deploy.sparse.normals_numba import LANES, draw

    state = np.random.default_rng(seed).integers(1, 1 << 32, (4, LANES), np.uint32)
    out = np.empty((count, LANES), F)
    draw(state, np.zeros(count, F), np.ones(count, F), out)
    return out


def test_numbers_are_normal() -> None:
    """320,000 of them: by SciPy's tests each at 1e-4, lines and lanes without correlation, the two of a pair too."""
    out = drawn(0, 10_001)
    z = out.reshape(-1).astype(float)
    assert stats.kstest(z, "norm").pvalue > 1e-4
    assert stats.kstest(z**2 + np.roll(z, 32) ** 2, stats.chi2(2).cdf).pvalue > 1e-4
    for moment, expected, spread in ((z, 0, 1), (z**2, 1, 2), (z**3, 0, 15), (z**4, 3, 96)):
        assert abs(moment.mean() - expected) < 4 * np.sqrt(spread / z.size)
    pairs = [
        (out[0:-1:2], out[1::2]),
        (out[1:-1:2], out[2::2]),
        (out[:, :-1], out[:, 1:]),
        (out[:, :16] ** 2, out[:, 16:] ** 2),
    ]
    for one, other in pairs:
        assert abs(np.corrcoef(one.reshape(-1), other.reshape(-1))[0, 1]) < 4 / np.sqrt(one.size)
    tail = (np.abs(z) > 4).sum()
    assert abs(tail - 6.33e-5 * z.size) < 4.5 * np.sqrt(6.33e-5 * z.size)


@pytest.mark.parametrize("count", [1, 2, 7])
def test_numbers_have_their_place_and_state(count) -> None:
    """The same state, the same numbers; a loc and a scale for each; scale zero is the loc itself."""
    from bayesprune.deploy.sparse.normals_numba import LANES, draw

    np.testing.assert_array_equal(drawn(1, count), drawn(1, count))
    loc, scale, out = np.arange(count, dtype=F), np.zeros(count, F), np.empty((count, LANES), F)
    draw(np.ones((4, LANES), np.uint32), loc, scale, out)
    np.testing.assert_array_equal(out, np.broadcast_to(loc[:, None], out.shape))


def test_a_block_of_networks_has_as_many_lanes_as_kernels_take() -> None:
    from bayesprune.deploy.sparse.kernels_numba import LANES

    assert draws_table.LANES == LANES
