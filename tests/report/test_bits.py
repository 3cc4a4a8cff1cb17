"""Bits per weight: rounding a posterior to its grid, shared scales, masks, and what has no bits."""

import jax.numpy as jnp
import numpy as np
import pytest

from bayesprune.posteriors.mean_field import MeanField, Scaled
from bayesprune.posteriors.scales import GaussianScale, LogNormalScale
from bayesprune.posteriors.spike_slab import SpikeSlab
from bayesprune.report import bits_per_weight


def test_the_grid_has_that_many_points_and_costs_that_much() -> None:
    rng = np.random.default_rng(0)
    loc, scale = rng.normal(size=4000), rng.uniform(0.02, 0.2, 4000)
    found = bits_per_weight({"w": MeanField(jnp.array(loc), jnp.array(scale), None, 0.5)}, nats=0.2)["per_site"]["w"]
    weights, step = 0.5 * loc, found["step"]
    codes = np.round(weights / step)
    assert found["ours"] == np.ceil(np.log2(codes.max() - codes.min() + 1))
    paid = ((codes * step - weights) / (0.5 * scale)) ** 2 / 2
    assert abs(paid.mean() - 0.2) < 5 * paid.std() / np.sqrt(4000)


def test_masks_and_the_mean_over_arrays() -> None:
    nodes = {"a": MeanField(jnp.array([0.5, 8.0]), jnp.array([0.01, 0.5])), "b": MeanField(jnp.full(3, 0.5), jnp.full(3, 0.01))}
    whole = bits_per_weight(nodes)
    assert whole["paper"] == pytest.approx((2 * whole["per_site"]["a"]["paper"] + 3 * 15) / 5)
    cut = bits_per_weight(nodes, {"a": np.array([True, False])})
    assert cut["per_site"]["a"] == cut["per_site"]["b"] | {"num_alive": 1}
    none = bits_per_weight({"a": nodes["a"]}, {"a": np.zeros(2, bool)})
    assert np.isnan(none["paper"]) and none["per_site"]["a"]["num_alive"] == 0


def test_the_spread_of_a_shared_scale_counts() -> None:
    """(16.2): Var w = 2² .01² + .1² (.5² + .01²) for z of mean 2 and standard deviation .1."""
    law = GaussianScale(jnp.array(2.0), jnp.array(0.1))
    shared = bits_per_weight({"w": Scaled(jnp.full(3, 0.5), jnp.full(3, 0.01), 1.0, 2.0, law)})["per_site"]["w"]
    spread = np.sqrt(4e-4 + 0.01 * (0.25 + 1e-4))
    alone = bits_per_weight({"w": MeanField(jnp.full(3, 1.0), jnp.full(3, spread))})["per_site"]["w"]
    assert shared == pytest.approx(alone, rel=1e-5)


def test_refusals() -> None:
    ones = jnp.ones(2)
    with pytest.raises(ValueError, match="without spread"):
        bits_per_weight({"w": MeanField(ones, 0 * ones)})
    with pytest.raises(ValueError, match="is a SpikeSlab"):
        bits_per_weight({"w": SpikeSlab(ones, ones, ones)})
    with pytest.raises(ValueError, match=r"bounded by a slab.*slab=None"):
        bits_per_weight({"w": Scaled(ones, ones, 1.0, 0.3, LogNormalScale(0.0, 1.0))})
    with pytest.raises(ValueError, match="nats must be positive"):
        bits_per_weight({"w": MeanField(ones, ones)}, nats=0.0)
    with pytest.raises(ValueError, match="unknown site in mask 'v'"):
        bits_per_weight({"w": MeanField(ones, ones)}, {"v": jnp.zeros(2, bool)})
