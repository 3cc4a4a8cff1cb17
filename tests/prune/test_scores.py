"""Scores as trees: each against its own oracle, MAP weights included."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

from bayesprune.posteriors.mean_field import MeanField
from bayesprune.posteriors.spike_slab import SpikeSlab
from bayesprune.prune import scores

RNG = np.random.default_rng(1)
LOC, SCALE = RNG.normal(size=(3, 4)).astype(np.float32), RNG.uniform(0.02, 0.9, (3, 4)).astype(np.float32)
ALL = [
    scores.magnitude,
    scores.snr,
    scores.expected_abs,
    scores.expected_abs_over_std,
    scores.log_expected_exp,
    scores.log_expected_exp_over_std,
    scores.evidence,
]


def draws_of_abs() -> np.ndarray:
    """Quantiles of |w|, a deterministic stand-in for a million draws; scales below 1 keep the tails of exp(2 |w|) light."""
    level = (np.arange(200_000) + 0.5) / 200_000
    return np.abs(LOC + SCALE * stats.norm.ppf(level)[:, None, None])


ORACLES = {
    scores.magnitude: lambda w: np.abs(LOC),
    scores.snr: lambda w: np.abs(LOC) / SCALE,
    scores.expected_abs: lambda w: w.mean(0),
    scores.expected_abs_over_std: lambda w: w.mean(0) / w.std(0),
    scores.log_expected_exp: lambda w: np.log(np.exp(w).mean(0)),
    scores.log_expected_exp_over_std: lambda w: np.log(np.exp(w).mean(0) / np.exp(w).std(0)),
    scores.evidence: lambda w: stats.norm.logpdf(0, 0, 1) - stats.norm.logpdf(0, LOC, SCALE),
}


@pytest.mark.fast_cases(1)
@pytest.mark.parametrize("score", ALL)
def test_score_against_quantiles_of_the_posterior(score: object) -> None:
    # The evidence is that of a Gaussian prior, which a spike and slab is not.
    other = MeanField(LOC, SCALE) if score is scores.evidence else SpikeSlab(LOC, SCALE, LOC, at_zero=False)
    got = score({"a": MeanField(LOC, SCALE), "b": other})
    expected = ORACLES[score](draws_of_abs())
    for leaf in (got["a"], got["b"]):
        np.testing.assert_allclose(leaf, expected, rtol=2e-3, atol=2e-3)


@pytest.mark.fast_cases(1)
@pytest.mark.parametrize("score", ALL)
def test_map_weights_rank_by_magnitude_without_nan(score: object) -> None:
    got = np.asarray(score(MeanField(jnp.asarray([0.0, 1e-3, -0.5, 3.0, 40.0]), jnp.zeros(5))))
    assert np.isfinite(got).all() and (np.diff(got) >= 0).all()
    if score is not scores.evidence:  # which saturates: every weight without spread is certain
        assert (np.diff(got) > 0).all()


def test_evidence_takes_one_prior_or_one_per_node() -> None:
    posterior = {"a": MeanField(LOC, SCALE), "b": MeanField(LOC, SCALE)}
    one, each = scores.evidence(posterior, 0.1), scores.evidence(posterior, {"a": 0.1, "b": jnp.full((3, 4), 2.0)})
    np.testing.assert_allclose(one["a"], stats.norm.logpdf(0, 0, 0.1) - stats.norm.logpdf(0, LOC, SCALE), rtol=1e-4, atol=1e-5)
    np.testing.assert_array_equal(each["a"], one["a"])
    assert (each["b"] < each["a"]).all()  # wider prior, larger gain from removal


def test_snr_and_expected_abs_over_std_rank_alike() -> None:
    posterior = MeanField(LOC, SCALE)
    np.testing.assert_array_equal(
        np.argsort(scores.snr(posterior), axis=None), np.argsort(scores.expected_abs_over_std(posterior), axis=None)
    )


def test_lam_weighs_spread_against_location() -> None:
    posterior = MeanField(jnp.asarray([1.0, 0.0]), jnp.asarray([0.1, 1.0]))
    gentle, harsh = scores.log_expected_exp(posterior, lam=0.1), scores.log_expected_exp(posterior, lam=5.0)
    assert gentle[0] > gentle[1] and harsh[0] < harsh[1]


def test_scores_trace() -> None:
    posterior = {"a": MeanField(jnp.asarray(LOC), jnp.asarray(SCALE))}
    for score in ALL:
        np.testing.assert_allclose(jax.jit(score)(posterior)["a"], score(posterior)["a"], rtol=1e-4, atol=1e-5)


def test_second_moment_and_inclusion_read_what_they_say() -> None:
    node = SpikeSlab(LOC, SCALE, LOC, at_zero=False)
    np.testing.assert_allclose(scores.second_moment({"a": node})["a"], np.log(LOC**2 + SCALE**2), rtol=1e-5, atol=1e-6)
    np.testing.assert_array_equal(scores.inclusion({"a": node})["a"], np.asarray(LOC, np.float32))
    assert np.isfinite(scores.second_moment(MeanField(jnp.asarray([1e-30]), jnp.asarray([1e-30])))).all()


def test_scores_refuse_the_wrong_kind_of_posterior() -> None:
    with pytest.raises(TypeError, match="no inclusion probabilities"):
        scores.inclusion(MeanField(LOC, SCALE))
    with pytest.raises(TypeError, match="that of a Gaussian prior"):
        scores.evidence({"a": SpikeSlab(LOC, SCALE, LOC)})
    for width in (-1.0, 0.0, {"a": float("nan")}):
        with pytest.raises(ValueError, match="prior_scale must be positive"):
            scores.evidence({"a": MeanField(LOC, SCALE)}, width)


def test_opd_and_obd_are_the_posteriors_precision_and_what_the_data_add_to_it() -> None:
    """(25.4), by precisions in double; OBD is 0 where the posterior is wider than the prior, and a prior is needed."""
    node = MeanField(jnp.asarray([0.3, -2.0, 0.5]), jnp.asarray([0.1, 0.5, 3.0]), prior_scale=2.0)
    loc, scale = np.array([0.3, -2.0, 0.5]), np.array([0.1, 0.5, 3.0])
    np.testing.assert_allclose(scores.opd({"a": node})["a"], loc**2 / scale**2, rtol=1e-5)
    expected = 0.5 * loc**2 * np.maximum(scale**-2.0 - 2.0**-2, 0.0)
    np.testing.assert_allclose(scores.obd({"a": node})["a"], expected, rtol=1e-5)
    with pytest.raises(ValueError, match="no fixed Gaussian prior"):
        scores.obd({"a": node.under(None)})


def test_a_spike_at_zero_is_part_of_what_is_scored() -> None:
    """Against the mean, the spread and the moments of a million draws of the mixture, each to five standard errors or so."""
    node = SpikeSlab(jnp.array([1.0, -0.3, 2.0]), jnp.array([0.5, 0.4, 0.1]), jnp.array([-2.0, 0.5, 6.0]), unit=2.0)
    rng = np.random.default_rng(0)
    there = rng.random((1_000_000, 3)) < 1 / (1 + np.exp(-np.asarray(node.logit)))
    w = there * (np.asarray(node.loc) + np.asarray(node.scale) * rng.standard_normal(there.shape))
    size = np.abs(w)
    expected = {
        scores.magnitude: np.abs(2.0 * w.mean(0)),
        scores.snr: np.abs(w.mean(0)) / w.std(0),
        scores.expected_abs: 2.0 * size.mean(0),
        scores.expected_abs_over_std: size.mean(0) / size.std(0),
        scores.log_expected_exp: np.log(np.exp(size).mean(0)),
        scores.second_moment: np.log(np.square(2.0 * w).mean(0)),
        scores.opd: np.square(w.mean(0) / w.std(0)),
    }
    for score, wanted in expected.items():
        np.testing.assert_allclose(score(node), wanted, rtol=0.02, atol=0.005, err_msg=score.__name__)
    extreme = SpikeSlab(jnp.array([1e30, 1e30, 0.0]), jnp.zeros(3), jnp.array([200.0, -200.0, 0.0]))
    for score in (scores.snr, scores.expected_abs_over_std, scores.opd, scores.expected_abs):
        assert not np.isnan(score(extreme)).any(), score.__name__
    with pytest.raises(TypeError, match="zero with a probability"):
        scores.log_expected_exp_over_std(node)
    # A narrow Gaussian for a spike leaves the posterior a Gaussian, which the inclusion says nothing of.
    narrow, plain = replace(node, at_zero=False), MeanField(node.loc, node.scale, unit=node.unit)
    for score in (*expected, scores.log_expected_exp_over_std):
        np.testing.assert_array_equal(score(narrow), score(plain), err_msg=score.__name__)


@pytest.mark.parametrize("score", [*ALL, scores.obd, scores.inclusion], ids=lambda score: score.__name__)
def test_parameters_that_were_not_read_are_refused_with_the_remedy(score) -> None:
    with pytest.raises(TypeError, match=r"bnn\.read\(fit\.params\)"):
        score({"w_auto_loc": jnp.ones(2), "w_auto_scale": jnp.ones(2)})
