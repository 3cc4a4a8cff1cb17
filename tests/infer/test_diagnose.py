"""`bp.diagnose` on fits: some that are ill in one way, and one that is sound. All twelve illnesses: `benchmarks/health.py`."""

import jax
import numpy as np
import pytest

import bayesprune as bp

RNG = np.random.default_rng(0)


def rows(num: int = 200) -> bp.Dataset:
    x = RNG.normal(size=(num, 3)).astype(np.float32)
    return bp.Dataset(x, (x[:, 0] + 0.3 * RNG.normal(size=num)).astype(np.float32))


TRAIN, HELD = rows(), rows()


def network(noise: float | None = None) -> bp.BNN:
    likelihood = bp.likelihoods.Normal() if noise is None else bp.likelihoods.Normal(noise)
    return bp.BNN(bp.nets.MLP((8,), 1), prior=bp.priors.Flat(), likelihood=likelihood, input_shape=(3,))


def fitted(bnn: bp.BNN, data: bp.Dataset = TRAIN, steps: int = 1500) -> bp.FitResult:
    return bp.fit_svi(jax.random.key(0), bnn, data, num_steps=steps, batch_size=100, progress=False)


def found(bnn: bp.BNN, fit: bp.FitResult, data: bp.Dataset = TRAIN, held: bp.Dataset = HELD) -> list[str]:
    return [one.name for one in bp.diagnose(jax.random.key(1), bnn, fit, data, held_out=held).findings]


@pytest.mark.slow
def test_a_sound_fit_is_left_alone_and_an_ill_one_named() -> None:
    bnn = network()
    fit = fitted(bnn)
    assert found(bnn, fit) == [] and fit.diagnose().is_sound
    point = {name: 0 * value if name.endswith("_scale") else value for name, value in fit.params.items()}
    assert "one point" in found(bnn, fit._replace(params=point))
    lost = fit.params | {next(iter(fit.params)): np.array(np.nan)}
    assert (
        found(bnn, fit._replace(params=lost))
        == ["not finite"]
        == [one.name for one in fit._replace(params=lost).diagnose().findings]
    )
    assert "unit scale" in found(bnn, fit, TRAIN._replace(x=1e4 * TRAIN.x))


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:The loss")
def test_a_noise_that_is_too_small_is_named() -> None:
    bnn = network(0.005)
    assert "noise" in found(bnn, fitted(bnn, steps=300))


@pytest.mark.slow
def test_chains_that_have_not_met_are_named() -> None:
    bnn = network()
    fit = bp.fit_sgmcmc(
        jax.random.key(0), bnn, TRAIN, num_steps=60, num_samples=20, num_chains=3, batch_size=100, progress=False
    )
    assert "chains apart" in found(bnn, fit)


def test_what_is_no_fit_is_refused() -> None:
    with pytest.raises(TypeError, match="takes the result of fit_svi"):
        bp.diagnose(jax.random.key(0), network(), {}, TRAIN)
    fit = bp.FitResult({}, None, np.ones(3), {}, {})
    with pytest.raises(TypeError, match=r"takes the BNN .* fit.diagnose"):
        bp.diagnose(jax.random.key(0), bp.Program(lambda x, y: None, lambda x, y: None), fit, TRAIN)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:The loss")
@pytest.mark.parametrize("labels", [True, False])
def test_what_is_missing_counts_for_nothing(labels: bool) -> None:
    """Of a masked likelihood the findings are those of the rows that are observed, by the same networks."""
    targets = (TRAIN.y > 0).astype(np.int32) if labels else TRAIN.y
    inner = bp.likelihoods.Categorical() if labels else bp.likelihoods.Normal(0.02)  # ill on purpose
    masked = bp.likelihoods.Masked(inner, missing=-1 if labels else "nan")
    bnn = bp.BNN(bp.nets.MLP((8,), 2 if labels else 1), prior=bp.priors.Flat(), likelihood=masked, input_shape=(3,))
    away = RNG.random(len(targets)) < 0.4
    hidden = bp.Dataset(TRAIN.x, np.where(away, -1 if labels else np.nan, targets).astype(targets.dtype))
    seen = bp.Dataset(TRAIN.x[~away], targets[~away])
    fit = fitted(bnn, hidden, steps=300)
    judged = [bp.diagnose(jax.random.key(1), bnn, fit, hidden, held_out=rows) for rows in (hidden, seen)]
    assert judged[0] == judged[1] and ("calibration" if labels else "noise") in judged[0].checks
    assert labels or "noise" in [one.name for one in judged[0].findings]


@pytest.mark.slow
def test_rows_that_are_written_out_are_taken_as_a_fit_takes_them() -> None:
    bnn = network()
    fit, lists = fitted(bnn, steps=2), bp.Dataset(TRAIN.x.tolist(), TRAIN.y.tolist())
    assert found(bnn, fit, lists, lists) == found(bnn, fit, TRAIN, TRAIN)


def test_targets_of_which_no_check_would_find_anything_are_refused() -> None:
    bnn = network()
    fit = bp.fit_svi(jax.random.key(0), bnn, TRAIN, num_steps=2, batch_size=100, progress=False)
    with pytest.raises(ValueError, match=r"held_out\.y holds 1 value.*NaN"):
        found(bnn, fit, held=HELD._replace(y=np.where(np.arange(200) == 3, np.nan, HELD.y)))
    with pytest.raises(ValueError, match=r"held_out\.x and held_out\.y must have one row per example"):
        found(bnn, fit, held=HELD._replace(y=HELD.y[:30]))
