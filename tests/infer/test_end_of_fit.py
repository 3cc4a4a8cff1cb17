"""What is said at the end of a fit, by curves whose end is known, and by fits that learn and do not."""

import warnings
from types import SimpleNamespace

import jax
import numpy as np
import optax
import pytest

import bayesprune as bp
from bayesprune.infer.end_of_fit import advise, baseline, held_back, warn_at_end
from tests.infer import programs

FALLS = "The loss still falls"
WORSE = "above the"
ROWS = 400


def noise(seed, steps, size=10.0) -> np.ndarray:
    return size * np.random.default_rng(seed).normal(size=steps)


@pytest.mark.parametrize(("level", "reference"), [(1000.0, None), (1000.0, 1020.0), (-1000.0, None), (0.0, 500.0)])
@pytest.mark.parametrize("steps", [300, 2000])
def test_noise_about_a_level_is_no_fall(steps, level, reference) -> None:
    """1,000 fixed keys in all; with others a case fails with probability 0.006: Student's t_18 is above 5 once in 21,000."""
    said = [advise(level + noise(seed, steps), reference, num_rows=1) for seed in range(125)]
    assert said == [""] * 125


def falling(steps, share=0.05) -> np.ndarray:
    """Down by a share of the first level in each twentieth."""
    return 1000.0 * (1.0 - share * 20 * np.arange(steps) / steps)


@pytest.mark.parametrize("shift", [0.0, -1000.0, 1e5])
@pytest.mark.parametrize("steps", [300, 400, 5000])
def test_a_line_that_falls(steps, shift) -> None:
    """By 5 % a twentieth, under noise of 2 %, whatever the units of y add to all losses."""
    losses = falling(steps) + noise(0, steps, 20.0) + shift
    for reference in (None, 2000.0 + shift):
        line = advise(losses, reference, ROWS)
        assert line.startswith(f"{FALLS}, by ") and f"of {steps:,} steps: train longer, num_steps={2 * steps}, or" in line
        nats = float(line.split("by ")[1].split(" nats")[0])
        assert nats == pytest.approx(50.0 if steps > 300 else 1000 / 15, rel=0.2), "of a twentieth, which is 20 steps of 300"


@pytest.mark.parametrize("shift", [0.0, -900.0, 1e5])
@pytest.mark.parametrize("scale", [1.0, 1e-3, 1e4])
def test_an_exponential(scale, shift) -> None:
    """Six of its lengths are enough, two are not, in whatever units; a start that is far off hides nothing."""
    steps = np.arange(2000)
    curve = lambda lengths: scale * (800.0 + 3000.0 * np.exp(-lengths * steps / 2000)) + shift  # noqa: E731
    far_off = np.where(steps < 50, 1e6 * scale, 0.0)
    for reference in (None, scale * 2000.0 + shift):
        assert advise(curve(6) + far_off, reference, num_rows=0) == ""
        assert FALLS in advise(curve(2) + far_off, reference, num_rows=0)


def test_less_than_a_thousandth_of_a_nat_a_row_is_no_fall() -> None:
    losses = 1000.0 - 1e-3 * np.arange(1000.0)
    assert FALLS in advise(losses, None, num_rows=49) and advise(losses, None, num_rows=51) == ""


def test_a_rise_is_no_fall() -> None:
    assert advise(-falling(1000), None, ROWS) == ""


def test_worse_than_without_inputs() -> None:
    losses = np.full(1000, 720.0) + noise(0, 1000, 1.0)
    assert advise(losses, 800.0, ROWS) == ""
    line = advise(losses, 693.0, ROWS)
    assert line.startswith("The loss ends at 720 nats, above the 693 of predicting without the inputs: ")
    assert "standardise x and y" in line and line.endswith(".") and "\n" not in line
    line = advise(falling(1000), -5.0, ROWS)
    assert "ends at 26 nats and still falls, above the -5 of" in line and "train longer, num_steps=2000" in line


def test_short_fits_and_steps_that_were_not_taken() -> None:
    bad = falling(1000)
    assert advise(bad[:299], 0.0, ROWS) == "" and advise(bad[:300], 0.0, ROWS) != ""
    interrupted = np.concatenate([bad[:500], np.full(500, np.nan)]).astype(np.float32)
    assert advise(interrupted, None, ROWS) == advise(bad[:500].astype(np.float32), None, ROWS) != ""
    assert advise(np.full(1000, np.nan), 0.0, ROWS) == "" and advise(np.zeros(0), None, ROWS) == ""


def test_baselines_of_likelihoods_that_have_none() -> None:
    class Own:
        """Of somebody who knows nothing of baselines."""

    y = np.random.default_rng(0).random(20)
    for likelihood in (Own(), bp.likelihoods.StudentT(), bp.likelihoods.Beta(), bp.likelihoods.Custom(lambda f: f)):
        assert baseline(likelihood, y) is None
    assert baseline(bp.likelihoods.Normal(), y.tolist()) == bp.likelihoods.Normal().baseline(y)


def fitted(train, num_steps=400, **settings):
    bnn = bp.BNN(bp.nets.MLP((16,), 10), prior=bp.priors.Flat(), likelihood=bp.likelihoods.Categorical(), input_shape=(8, 8, 1))
    fit = bp.fit_svi(jax.random.key(0), bnn, train, num_steps=num_steps, batch_size=128, progress=False, **settings)
    return advise(fit.losses, baseline(bnn.likelihood, train.y), len(train.y))


@pytest.mark.slow
def test_fits() -> None:
    """One that learns; the same of inputs too small to learn from; the same with too small a rate."""
    train, _ = bp.data.load("digits")
    assert fitted(train, 1000, optimizer=optax.adam(optax.cosine_decay_schedule(2e-2, 1000))) == ""
    assert WORSE in fitted(bp.Dataset(train.x * np.float32(1e-5), train.y), optimizer=optax.adam(1e-2))
    slow = fitted(train, optimizer=optax.adam(1e-3))
    assert "still falls" in slow and "num_steps=800" in slow


@pytest.mark.parametrize(
    "prior", [bp.priors.Gaussian(1.0), bp.priors.GroupNormalJeffreys()], ids=lambda prior: type(prior).__name__
)
def test_a_bound_without_a_norm_is_compared_with_nothing(prior) -> None:
    """Losses far above the baseline are worse than none, but not under an improper prior, whose constant nobody knows."""
    y = np.arange(100) % 10
    bnn = bp.BNN(bp.nets.MLP((4,), 10), prior=prior, likelihood=bp.likelihoods.Categorical(), input_shape=(3,))
    fit = SimpleNamespace(interrupted=False, history={}, losses=np.full(1000, 2000.0))
    recipe = SimpleNamespace(program=bnn, kl_weight=lambda step: 1.0)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        warn_at_end(fit, recipe, bp.Dataset(np.zeros((100, 3), np.float32), y))
    assert [WORSE in str(one.message) for one in caught] == ([] if getattr(prior, "improper", False) else [True])


def test_who_judges_fits_otherwise_is_told_and_nobody_is_warned() -> None:
    """Within `held_back`, whatever is raised there, and within another one; not after it."""
    fit = SimpleNamespace(interrupted=False, history={}, losses=np.full(1000, 2000.0))
    bnn = bp.BNN(bp.nets.MLP((4,), 10), prior=bp.priors.Flat(), likelihood=bp.likelihoods.Categorical(), input_shape=(3,))
    recipe, data = SimpleNamespace(program=bnn, kl_weight=lambda step: 1.0), bp.Dataset(np.zeros((100, 3)), np.arange(100) % 10)

    def warned() -> int:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            warn_at_end(fit, recipe, data)
        return len(caught)

    with pytest.raises(KeyError), held_back() as said:
        assert warned() == 0 and len(said) == 1 and WORSE in said[0]
        with held_back() as inner:
            assert warned() == 0 and len(inner) == len(said) == 1
        raise KeyError
    assert warned() == 1


@pytest.mark.slow
def test_a_schedule_that_is_cut_off_is_said_before_the_fit() -> None:
    """Schedules count acts: one of a hundred of them, in a fit of three, prunes next to nothing."""
    bnn, data = programs.small_bnn(), programs.classes(rows=30)
    options = {"num_steps": 40, "every": 10, "progress": False}
    with pytest.warns(UserWarning, match=r"at 0\.9\d* after the last of 3 acts, and its schedule ends at 0\.05: .* not steps"):
        bp.fit_svi(jax.random.key(0), bnn, data, sparsifier=bp.methods.Magnitude(bp.schedules.Cubic(0.05, 0, 100)), **options)
    with warnings.catch_warnings():
        warnings.filterwarnings("error", message="the density is at")
        bp.fit_svi(jax.random.key(0), bnn, data, sparsifier=bp.methods.Magnitude(bp.schedules.Cubic(0.05, 0, 3)), **options)
