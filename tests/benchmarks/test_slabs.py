"""The spike-and-slab benchmarks: their exact sums against quadrature, and the UCI protocol end to end on a toy."""

import calibrated_inclusion as calibrated
import numpy as np
import pytest
import reproduce_uci as uci

import bayesprune as bp


def by_quadrature(x, y, spike, rates):
    """P(z_j = 1 | y) of two inputs by sums over a fine grid of weights; ``rates``: values of the rate, equally likely."""
    grid = np.linspace(-6, 6, 1201)
    w = np.stack(np.meshgrid(grid, grid, indexing="ij"), axis=-1)
    likelihood = np.exp(-0.5 * ((y - w @ x.T) ** 2).sum(axis=-1))
    normal = lambda scale: np.exp(-0.5 * (grid / scale) ** 2) / scale  # noqa: E731
    density = {1: normal(1.0), 0: normal(spike)}
    evidence = np.array([[density[a] @ likelihood @ density[b] for b in (0, 1)] for a in (0, 1)])
    prior = np.mean([np.outer((1 - r, r), (1 - r, r)) for r in rates], axis=0)
    posterior = evidence * prior
    return np.array([posterior[1].sum(), posterior[:, 1].sum()]) / posterior.sum()


@pytest.mark.slow
@pytest.mark.parametrize(("rate", "rates"), [(0.3, [0.3]), (None, (np.arange(2000) + 0.5) / 2000)])
def test_exact_inclusion_is_the_integral_over_weights(rate, rates):
    rng = np.random.default_rng(3)
    x = rng.standard_normal((8, 2))
    x[:, 1] += x[:, 0]
    y = 0.6 * x[:, 0] + rng.standard_normal(8)
    found = calibrated.exact_inclusion(x, y, spike_scale=0.1, rate=rate)
    np.testing.assert_allclose(found, by_quadrature(x, y, 0.1, rates), atol=2e-4)
    almost = calibrated.exact_inclusion(x, y, spike_scale=1e-6, rate=rate)
    np.testing.assert_allclose(calibrated.exact_inclusion(x, y, rate=rate), almost, atol=1e-6)


def test_mean_field_is_exact_for_orthogonal_inputs():
    rng = np.random.default_rng(0)
    x = np.linalg.qr(rng.standard_normal((30, 5)))[0] * 4
    y = x @ np.array([0.5, 0.0, 0.3, 0.0, 0.1]) + rng.standard_normal(30)
    np.testing.assert_allclose(calibrated.coordinate_ascent(x, y), calibrated.exact_inclusion(x, y), atol=1e-10)


@pytest.mark.every
@pytest.mark.slow
def test_uci_protocol_on_a_toy_is_in_the_targets_units():
    rng = np.random.default_rng(0)
    x = rng.standard_normal((2, 80, 3))
    x[..., 2] = 7.0  # a constant column
    y = 100.0 + 20.0 * x[..., 0]
    train, test = bp.Dataset(x[:, :60], y[:, :60]), bp.Dataset(x[:, 60:], y[:, 60:])
    cell = uci.Cell("toy", steps=300, batch=30, refit=50)
    result = uci.fit_and_score(train, test, cell, densities=(0.5,))
    full = np.array(result["0/cut/rmse"])
    # Noise-free and linear: below the targets' spread of 20 after few steps.
    assert (full < 0.8 * np.array(result["mean_rmse"])).all()
    assert np.isfinite(result["50/refit/nll"]).all()
    plain = np.sqrt(np.mean((test.y - train.y.mean(1, keepdims=True)) ** 2, axis=1))
    np.testing.assert_allclose(result["mean_rmse"], plain, rtol=1e-4)
