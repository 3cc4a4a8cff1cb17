"""Weights that the data cannot do without are in every network that is drawn."""

import numpy as np
import pytest
from scipy import optimize, special

import bayesprune as bp
from bayesprune.posteriors.spike_slab import SpikeSlab
from bayesprune.sklearn import cutting


@pytest.mark.slow
def test_the_spread_of_a_linear_model_is_the_exact_one() -> None:
    """Least squares in closed form, var f(x) = s² z' (Z'Z)^-1 z, of six needed columns under little noise s.

    A draw without one of them is off by much of a deviation of y: before, the median was 1.8 times too wide. Of other seeds it
    is .94 and 1.10.
    """
    rng = np.random.default_rng(0)
    x = rng.standard_normal((300, 6))
    y = x @ np.array([1.0, 2.0, -1.0, 0.5, 1.5, -0.7]) + 0.3 * rng.standard_normal(300)
    model = bp.BayesianSparseRegressor(hidden=(), num_steps=1500, random_state=0).fit(x, y)
    parts, design = model.uncertainty(x), np.column_stack([x, np.ones(300)])
    wanted = parts.aleatoric * np.einsum("ni,ij,nj->n", design, np.linalg.inv(design.T @ design), design)
    spread = np.sqrt(parts.epistemic / wanted)
    assert np.median(spread) == pytest.approx(1.0, abs=0.3)
    assert spread.max() < 1.6


@pytest.mark.slow
def test_what_is_unsure_stays_so_and_other_families_as_they_are() -> None:
    rng = np.random.default_rng(0)
    x, y = rng.standard_normal((60, 3)), rng.standard_normal(60)
    model = bp.BayesianSparseRegressor(hidden=(), num_steps=20, random_state=0).fit(x, y)
    name = next(name for name in model.params_ if name.endswith("logit") and np.size(model.params_[name]) == 3)
    logit = np.array([[2.0], [2.3], [-5.0]], np.float32)
    params = model.params_ | {name: logit}
    found = cutting.keep_sure(model.bnn_, params)
    np.testing.assert_array_equal(found[name], [[2.0], [cutting.OPEN], [-5.0]])
    assert {key for key in params if "loc" in key or "scale" in key} <= found.keys()
    assert all(np.array_equal(found[key], params[key]) for key in params if not key.endswith("logit"))
    flat = bp.BayesianSparseRegressor(hidden=(), num_steps=20, random_state=0, prior="flat").fit(x, y)
    assert cutting.keep_sure(flat.bnn_, flat.params_) is flat.params_
    node = SpikeSlab(np.ones(3), np.ones(3), np.full(3, cutting.OPEN, np.float32))
    assert (np.asarray(node.moments()[0]) == 1.0).all(), "float32 has it as certain"


@pytest.mark.slow
def test_without_a_cut_the_posterior_is_as_it_was_trained() -> None:
    rng = np.random.default_rng(0)
    x, y = rng.standard_normal((60, 3)), rng.standard_normal(60)
    model = bp.BayesianSparseRegressor(hidden=(), num_steps=20, random_state=0, method="none").fit(x, y)
    logits = np.concatenate([np.ravel(value) for name, value in model.params_.items() if name.endswith("logit")])
    assert (logits < cutting.OPEN).all() and np.allclose(logits, np.log(99), atol=1.0)


def test_the_bound_of_one_weight_is_highest_where_the_sheet_says() -> None:
    """(5.4), beside a search of the bound itself: y = w x + N(0, s²) with everything in closed form."""
    rng = np.random.default_rng(1)
    loc, scale, slab, lam, s = 0.3, 0.2, 1.0, 0.1, 1.0
    x = rng.standard_normal(20)
    y = 0.2 * x + s * rng.standard_normal(20)
    xx = x @ x
    on = -((y - loc * x) @ (y - loc * x) + scale**2 * xx) / (2 * s**2)  # E_q log p(y | w), but for a constant
    off = -(y @ y) / (2 * s**2)
    kl = np.log(slab / scale) + (scale**2 + loc**2) / (2 * slab**2) - 0.5

    def loss(phi: float) -> float:
        of_gate = phi * np.log(phi / lam) + (1 - phi) * np.log((1 - phi) / (1 - lam))
        return of_gate + phi * kl - phi * on - (1 - phi) * off

    best = optimize.minimize_scalar(loss, bounds=(1e-9, 1 - 1e-9), method="bounded", options={"xatol": 1e-12}).x
    assert special.logit(best) == pytest.approx(special.logit(lam) - kl + on - off, abs=1e-4)
