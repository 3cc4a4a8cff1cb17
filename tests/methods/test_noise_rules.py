"""SBP and BMRS: each rule against its definition, whole units, the flag, and what is refused."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import bayesprune as bp
from bayesprune.core.types import Evidence
from bayesprune.posteriors.mean_field import Scaled
from bayesprune.posteriors.scales import TruncatedLogNormalScale

# Ratio and dF of (18.4): .91 and below -100, .25 and -3.8, .33 and -.6 (between -.92 and 0), 1.1 and above 0 at the bound.
NOISE = [(-2.0, 1.0), (-8.0, 4.0), (-20.0, 6.0), (-0.1, 0.05), (-10.0, 0.7)]


def posterior(laws=NOISE, low=-20.0):
    loc, scale = jnp.array(laws).T
    units = len(laws)
    law = TruncatedLogNormalScale(loc[None], scale[None], low)
    return {"a.kernel": Scaled(jnp.ones((3, units)), jnp.zeros((3, units)), None, law=law)}


def cut(method, seen, mask=None):
    key = jax.random.key(0)
    state = method.init(key, seen)
    state = state if mask is None else state._replace(mask=mask)
    state, info = jax.jit(method.step)(key, Evidence(seen, None), state)
    alive = np.asarray(state.mask["a.kernel"])
    np.testing.assert_array_equal(alive.any(0), alive.all(0))
    return alive.any(0), info


@pytest.mark.slow
def test_sbp_cuts_below_its_ratio() -> None:
    seen = posterior()
    ratio = np.asarray(seen["a.kernel"].law.snr())[0]
    assert (ratio < 1).any() and (ratio > 1).any()
    np.testing.assert_array_equal(cut(bp.methods.SBP(), seen)[0], ratio >= 1)
    np.testing.assert_array_equal(cut(bp.methods.SBP(threshold=0.3), seen)[0], ratio >= 0.3)


@pytest.mark.slow
def test_bmrs_cuts_where_evidence_is_gained_and_says_how_much() -> None:
    """dF >= 0 of (18.4), a unit's gain counted once; without the 2 pi at -.919."""
    seen = posterior([*NOISE, (-19.0, 2.0), (-12.3, 5.0)])
    gain = np.asarray(seen["a.kernel"].law.removal_gain())[0]
    between = (gain < 0) & (gain > -0.919)
    assert (gain > 0).any() and between.any() and (gain < -0.919).any()
    stays, info = cut(bp.methods.BMRS(), seen)
    np.testing.assert_array_equal(stays, gain < 0)
    np.testing.assert_allclose(info.evidence_gained, gain[gain > 0].sum(), rtol=1e-5)
    released, info = cut(bp.methods.BMRS(two_pi=False), seen)
    np.testing.assert_array_equal(released, gain < -0.5 * np.log(2 * np.pi))
    np.testing.assert_allclose(info.evidence_gained, gain[~released].sum(), rtol=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("bits", [8, 4])
def test_bmrs_with_a_uniform_prior_asks_for_the_share_below_its_bits(bits) -> None:
    seen = posterior()
    gain = np.asarray(seen["a.kernel"].law.uniform_gain(-23 * np.log(2), -bits * np.log(2)))[0]
    assert (gain > 0).any() and (gain < 0).any()
    np.testing.assert_array_equal(cut(bp.methods.BMRS("uniform", p1=bits), seen)[0], gain < 0)


def test_the_best_unit_stays_and_the_dead_are_not_it() -> None:
    seen = posterior([(-19.0, 2.0), (-18.0, 2.0), (-0.1, 0.05)])
    mask = {"a.kernel": jnp.broadcast_to(jnp.arange(3) < 2, (3, 3))}
    assert cut(bp.methods.SBP(), seen, mask)[0].tolist() == [True, False, False], "theta at the bound varies less"
    assert cut(bp.methods.BMRS(), seen, mask)[0].tolist() == [False, True, False]


def test_refusals() -> None:
    with pytest.raises(ValueError, match="unknown prior 'gamma'"):
        bp.methods.BMRS("gamma")
    with pytest.raises(ValueError, match=r"p1 must lie in \[0, 23\)"):
        bp.methods.BMRS("uniform", p1=23)
    with pytest.raises(ValueError, match="no 2 pi to leave out"):
        bp.methods.BMRS("uniform", two_pi=False)
    with pytest.raises(ValueError, match="p1=4 is of prior='uniform', got 'normal'"):
        bp.methods.BMRS(p1=4)  # it cut by the normal prior, in silence
    with pytest.raises(ValueError, match="threshold must be positive"):
        bp.methods.SBP(threshold=0.0)
    with pytest.raises(ValueError, match=r"begins at -10.0: fit with priors.UnitNoise\(low=-20\)"):
        bp.prune_once(posterior(low=-10.0), bp.methods.BMRS("uniform"))
    with pytest.raises(TypeError, match=r"TruncatedLogNormalScale.*priors.UnitNoise"):
        bp.prune_once({"w": bp.MeanField(jnp.ones(3), jnp.ones(3))}, bp.methods.SBP())
