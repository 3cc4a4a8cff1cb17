"""Groups cut at the widest gap: where it is, what explicit thresholds do, and what is left alone."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import bayesprune as bp
from bayesprune.core.types import Evidence
from bayesprune.methods.widest_gap import WidestGap
from bayesprune.posteriors.mean_field import Scaled
from bayesprune.posteriors.scales import GaussianScale, LogNormalScale


def posterior(log_alpha, site="a.kernel"):
    """A kernel of as many inputs as there are numbers, and three outputs."""
    law = GaussianScale(jnp.ones((len(log_alpha), 1)), jnp.exp(jnp.array(log_alpha)[:, None] / 2))
    return {site: Scaled(jnp.ones((len(log_alpha), 3)), jnp.ones((len(log_alpha), 3)), law=law)}


def cut(method, seen, mask=None):
    key = jax.random.key(0)
    state = method.init(key, seen)
    state = state if mask is None else state._replace(mask=mask)
    return {site: np.asarray(m) for site, m in jax.jit(method.step)(key, Evidence(seen, None), state)[0].mask.items()}


def rows(mask):
    alive = mask["a.kernel"]
    np.testing.assert_array_equal(alive.any(1), alive.all(1))
    return alive.any(1).tolist()


def test_the_widest_gap_is_found_and_said() -> None:
    """Sorted -8, -7.5, -6, 0, 1.5: between -6 and 0, at -3."""
    seen = posterior([0.0, -8.0, 1.5, -6.0, -7.5])
    np.testing.assert_allclose(WidestGap().thresholds(seen)["a.kernel"], -3.0, rtol=1e-5)
    assert rows(cut(WidestGap(), seen)) == [False, True, False, True, True]


def test_a_narrow_gap_is_none() -> None:
    seen = posterior([-3.0, -2.5, -1.6])
    assert rows(cut(WidestGap(), seen)) == [True, True, True]
    assert rows(cut(WidestGap(least=0.5), seen)) == [True, True, False]


def test_gaps_among_what_is_noise_are_not_looked_at() -> None:
    """Above log alpha = 0 everything goes; the widest gap, from 1 to 12, says nothing of the others."""
    seen = posterior([-4.0, -3.6, -0.5, 1.0, 12.0])
    np.testing.assert_allclose(WidestGap().thresholds(seen)["a.kernel"], -2.05, rtol=1e-5)
    np.testing.assert_allclose(WidestGap(least=4.0).thresholds(seen)["a.kernel"], 0.0, atol=1e-6)
    assert rows(cut(WidestGap(least=4.0), seen)) == [True, True, True, False, False]
    assert rows(cut(WidestGap(), posterior([3.0, 5.0]))) == [True, False], "the best group stays"


def test_the_dead_make_no_gap_and_stay_dead() -> None:
    """Without the group at 9 the widest gap is that between -4 and -1."""
    seen = posterior([-4.0, -4.5, 9.0, -1.0])
    mask = {"a.kernel": jnp.broadcast_to(jnp.array([True, True, False, True])[:, None], (4, 3))}
    assert rows(cut(WidestGap(), seen, mask)) == [True, True, False, False]
    assert rows(cut(WidestGap(), posterior([-4.0]))) == [True]


def test_thresholds_of_ones_own_for_all_arrays_or_by_name() -> None:
    seen = posterior([-4.0, -2.0, 3.0]) | posterior([-8.0, 1.0], "b.kernel")
    assert rows(cut(WidestGap(threshold=-3.0), seen)) == [True, False, False]
    named = cut(WidestGap(threshold={"a.kernel": -1.0}), seen)
    assert rows(named) == [True, True, False] and named["b.kernel"].any(1).tolist() == [True, False]
    assert rows(cut(WidestGap(threshold=-9.0), seen)) == [True, False, False], "the best group stays"


def test_scales_of_a_horseshoe_are_ranked_by_their_log_mode() -> None:
    """(16.4): a wide law goes before a narrow one of a lower mean."""
    law = LogNormalScale(jnp.array([[0.0], [-1.0], [0.2]]), jnp.array([[3.0], [0.1], [0.1]]))
    assert rows(cut(WidestGap(), {"a.kernel": Scaled(jnp.ones((3, 2)), jnp.ones((3, 2)), law=law)})) == [False, True, True]


def test_refusals() -> None:
    with pytest.raises(ValueError, match="threshold must be finite"):
        WidestGap(threshold={"a": float("nan")})
    with pytest.raises(ValueError, match="least must be positive"):
        WidestGap(least=0.0)
    with pytest.raises(ValueError, match=r"unknown site in threshold 'c.kernel'"):
        bp.prune_once(posterior([0.0, 1.0]), WidestGap(threshold={"c.kernel": 0.0}))
