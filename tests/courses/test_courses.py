"""Courses: what they lay out, and that what is given stands."""

import jax
import numpy as np
import optax
import pytest
from numpyro.infer.autoguide import AutoDelta, AutoNormal

import bayesprune as bp
from bayesprune.model.families import MapFamily, MeanFieldFamily
from tests.infer import programs

DATA = programs.classes()
SMALL = {"num_steps": 40, "batch_size": 16, "progress": False}
ACTS = {"sparsifier": bp.methods.Magnitude(0.5)}


@pytest.mark.slow
def test_the_standard_course_rises_falls_and_settles() -> None:
    """(2.10), by the steps that plain gradient descent would take at its rate."""
    course = bp.courses.Standard(rate=0.02, warm_up=0.5, every=50, first=0.1, last=0.9)
    plan = course.plan(1000)
    assert [float(plan.kl_weight(step)) for step in (0, 250, 500, 999)] == [0.0, 0.5, 1.0, 1.0]
    assert (plan.every, plan.first, plan.last) == (50, 100, 900)
    # A gradient of alternating sign keeps AdaBelief's moments the same, so that its steps go as the rate does.
    state, steps = plan.optimizer.init(np.ones(1)), []
    for step in range(1000):
        update, state = plan.optimizer.update(np.full(1, (-1.0) ** step), state)
        steps.append(abs(float(update[0])))
    expected = 0.5 * (1 + np.cos(np.pi * np.arange(1000) / 1000))
    late = slice(200, 1000, 2)
    np.testing.assert_allclose(np.array(steps)[late] / steps[200], expected[late] / expected[200], rtol=0.02, atol=1e-4)
    rhythm = {steps: bp.courses.Standard().plan(steps).every for steps in (3, 100, 400, 2_000, 5_000, 50_000)}
    assert rhythm == {3: 1, 100: 5, 400: 20, 2_000: 20, 5_000: 50, 50_000: 100}
    assert float(course.plan(1000, begun=True).kl_weight(0)) == 1.0
    assert bp.courses.Standard(warm_up=0.0).plan(10).kl_weight(0) == 1.0


@pytest.mark.slow
def test_it_acts_within_its_share_of_the_steps(rng_key) -> None:
    course = bp.courses.Standard(every=5, first=0.25, last=0.5)
    fit = bp.fit_svi(rng_key, programs.small_bnn(), DATA, course=course, **SMALL | ACTS | {"num_steps": 100})
    assert list(fit.history["prune/step"]) == [25, 30, 35, 40, 45, 50]
    fit = bp.fit_svi(rng_key, programs.small_bnn(), DATA, course=course, every=15, **SMALL | ACTS)
    assert list(fit.history["prune/step"]) == [15, 30]  # what is given stands


@pytest.mark.parametrize(
    "settings",
    [
        {"warm_up": 1.5},
        {"last": -0.1},
        {"first": 0.8, "last": 0.5},
        {"rate": 0.0},
        {"every": 0},
        {"verified": -1},
    ],
)
def test_bad_knobs_are_refused(settings) -> None:
    with pytest.raises(ValueError, match=next(iter(settings))):
        bp.courses.Standard(**settings)


def test_what_is_no_course_is_refused(rng_key) -> None:
    with pytest.raises(TypeError, match=r"course must be .* bp\.courses\.Standard\(\)"):
        bp.fit_svi(rng_key, programs.small_bnn(), DATA, course="standard", **SMALL)
    with pytest.raises(ValueError, match="paper 'bmrr'"):
        bp.courses.paper("bmrr")


@pytest.mark.slow
def test_what_is_given_stands(rng_key) -> None:
    """With all of it given, the two courses are one."""
    given = {"optimizer": optax.adam(1e-2), "kl_weight": 0.5, "every": 10, "estimator": "weight"}
    bnn = programs.small_bnn(posterior=MeanFieldFamily())
    fits = [
        bp.fit_svi(rng_key, bnn, DATA, course=c, **given, **SMALL | ACTS) for c in (bp.courses.Standard(), bp.courses.Plain())
    ]
    assert programs.same_bits(fits[0].params, fits[1].params)


@pytest.mark.slow
def test_the_plain_course_has_the_authors_start(rng_key) -> None:
    """U(-2, 2) of a posterior by name; a family that was given keeps its own."""
    still = {"num_steps": 1, "optimizer": optax.sgd(0.0), "progress": False}
    loc = lambda bnn, course: np.asarray(  # noqa: E731
        bp.fit_svi(rng_key, bnn, DATA, course=course, **still).params["Dense_0.kernel_auto_loc"]
    )
    plain, standard = (loc(programs.small_bnn(), course) for course in (bp.courses.Plain(), bp.courses.Standard()))
    assert plain.min() < -1 and plain.max() > 1
    np.testing.assert_array_equal(plain, loc(programs.small_bnn(posterior=MeanFieldFamily()), bp.courses.Standard()))
    assert abs(standard).max() < 2.3 * np.sqrt(2 / 4)  # a tenth of He's, in units of a tenth
    own = MeanFieldFamily(init_loc="normal", init_range=1e-3)
    assert abs(loc(programs.small_bnn(posterior=own), bp.courses.Plain())).max() < 1e-2


@pytest.mark.slow_cases(1)
@pytest.mark.slow
@pytest.mark.parametrize("depth", [1, 2, 8])
def test_a_sound_start_carries_a_signal_however_deep(depth) -> None:
    """(2.11): the outputs' spread over rows is about a hundredth of that of He's start, however deep."""
    shapes = {"hidden": (64,) * depth, "num_outputs": 3}
    x = np.random.default_rng(0).normal(size=(200, 16)).astype(np.float32)
    spread = {}
    for name, posterior in (("sound", "map"), ("he", MapFamily(init_loc="he"))):
        bnn = bp.BNN(
            bp.nets.MLP(**shapes), prior=bp.priors.Gaussian(), likelihood=bp.likelihoods.Categorical(), input_shape=(16,),
            posterior=posterior,
        )  # fmt: skip
        data = bp.Dataset(x, np.zeros(200, np.int32))
        params = bp.fit_svi(jax.random.key(0), bnn, data, num_steps=1, optimizer=optax.sgd(0.0), progress=False).params
        outputs = np.log(bp.predict(jax.random.key(1), bnn, params, x, num_samples=1))
        spread[name] = (outputs - outputs.mean(1, keepdims=True)).std()
    assert 0.001 < spread["sound"] / spread["he"] < 0.3


@pytest.mark.slow
def test_a_course_goes_on_without_a_warm_up(rng_key) -> None:
    """What has been learnt is not unlearnt: from trained weights the divergence counts in full from the first step."""
    bnn = programs.small_bnn()
    first = bp.fit_svi(rng_key, bnn, DATA, **SMALL)
    on = bp.fit_svi(rng_key, bnn, DATA, init=first, **SMALL)
    same = bp.fit_svi(rng_key, bnn, DATA, init=first, kl_weight=1.0, **SMALL)
    assert programs.same_bits(on.params, same.params)
    # And its rate begins anew: the optimiser's own count, which goes on elsewhere, is at the end of the first course.
    moved = np.abs(np.asarray(on.params["Dense_0.kernel_auto_loc"] - first.params["Dense_0.kernel_auto_loc"]))
    assert moved.max() > 0.01


WIDE, NARROW = 400, 20


@pytest.mark.parametrize(
    ("prior", "fan_in", "rate"),
    [
        (bp.priors.Flat(), WIDE, 0.04),  # scales its sites
        (bp.priors.Horseshoe(), WIDE, 0.04),
        (bp.priors.Gaussian(), NARROW, 0.04),
        (bp.priors.Gaussian(), WIDE, 2 / WIDE),
        (bp.priors.Gaussian(0.1), WIDE, 0.04),
        (bp.priors.Gaussian(0.2), WIDE, 2 / WIDE / 0.2),
        (bp.priors.Gaussian(0.2, centred=True), WIDE, 2 / WIDE),
        (bp.priors.GaussianSlab(slab_scale=10.0), NARROW, 2 / NARROW / 10),
        (bp.priors.DiracSlab(slab_scale=2.0), WIDE, 1 / WIDE),
        (bp.priors.ScaleMixture(), WIDE, 2 / WIDE),
        (bp.priors.LogUniform(), WIDE, 2 / WIDE),
        (bp.priors.Cauchy(), WIDE, 0.04),
        (bp.priors.GroupNormalJeffreys(), WIDE, 2 / WIDE),
        (bp.priors.UnitNoise(), NARROW, 0.005),  # points
        (bp.priors.ConcreteDropout(), WIDE, 0.005),
    ],
)
def test_weights_step_less_where_an_output_reads_many(prior, fan_in: int, rate: float) -> None:
    bnn = bp.BNN(bp.nets.MLP((3,), 1), prior=prior, likelihood=bp.likelihoods.Normal(), input_shape=(fan_in,))
    np.testing.assert_allclose(bp.courses.Standard().rate_for(bnn), rate)
    assert bp.courses.Standard(rate=0.3).rate_for(bnn) == 0.3


KERNEL = "Dense_0.kernel"


@pytest.mark.parametrize(
    ("prior", "of_weights", "others"),
    [
        (bp.priors.DiracSlab(slab_scale=2.0), {"_auto_loc": 1 / WIDE, "_auto_scale": 1 / WIDE}, {"_auto_logit": 0.04}),
        (bp.priors.GroupNormalJeffreys(), {"_auto_loc": 2 / WIDE}, {".z_loc": 0.04, ".z_scale": 0.04}),
        (bp.priors.UnitNoise(), {"_map_loc": 0.005}, {".noise_loc": 0.04}),
        (bp.priors.ConcreteDropout(), {"_map_loc": 0.005}, {".gate_log_odds": 0.005}),
    ],
)
def test_gates_and_noise_keep_their_rate(prior, of_weights, others) -> None:
    """A first step of AdaBelief is its rate, whatever the gradient; where weights and rates of dropout are points, theirs."""
    bnn = bp.BNN(bp.nets.MLP((3,), 1), prior=prior, likelihood=bp.likelihoods.Normal(), input_shape=(WIDE,))
    plan = bp.courses.Standard().plan(1000)
    rates = {KERNEL + end: rate for end, rate in (of_weights | others).items()}
    rates["noise_precision_auto_loc"] = 0.005 if isinstance(prior, bp.priors.ConcreteDropout) else 0.04
    names = tuple(rates)
    ones = {name: np.ones(2, np.float32) for name in names}
    steps, of_program = {}, plan.optimizer_for(bnn)
    for name, optimizer in (("alike", plan.optimizer), ("own", of_program)):
        steps[name], _ = optimizer.update(ones, optimizer.init(ones), ones)
    shares = [float(steps["own"][name][0] / steps["alike"][name][0]) for name in names]
    np.testing.assert_allclose(shares, [rate / 0.04 for rate in rates.values()], rtol=1e-5)


@pytest.mark.slow_cases(1)
@pytest.mark.slow
@pytest.mark.parametrize("points", ["map", MapFamily(init_loc="he", init_range=0.0), "AutoDelta"])
def test_points_have_a_rate_of_their_own(points, rng_key) -> None:
    """Without a rate .005, bit for bit; .04 under a prior that scales its sites; what is given stands."""
    if points == "AutoDelta":
        model = programs.linear_program().model
        program, spread, data = bp.Program(model, AutoDelta(model)), bp.Program(model, AutoNormal(model)), programs.line()[0]
    else:
        unit = {"prior": bp.priors.Gaussian()}
        program, spread, data = programs.small_bnn(posterior=points, **unit), programs.small_bnn(posterior=points), DATA
    for one, rate in ((program, 0.005), (spread, 0.04)):
        losses = [
            bp.fit_svi(rng_key, one, data, course=course, **SMALL).losses
            for course in (bp.courses.Standard(), bp.courses.Standard(rate=rate), bp.courses.Standard(rate=0.02))
        ]
        assert np.array_equal(*losses[:2]) and not np.array_equal(*losses[1:])


@pytest.mark.slow
def test_the_share_of_the_rate_goes_with_weights_that_a_shrunk_loop_keeps(rng_key) -> None:
    """Fewer units, the same steps as with whole arrays."""
    x = np.random.default_rng(0).normal(size=(120, 90)).astype(np.float32)
    data = bp.Dataset(x, (x[:, 0] > 0).astype(np.int32))
    bnn = bp.BNN(bp.nets.MLP((60,), 2), prior=bp.priors.Gaussian(), likelihood=bp.likelihoods.Categorical(), input_shape=(90,))
    assert bp.courses.Standard().rate_for(bnn) < 0.04
    settings = {"num_steps": 60, "batch_size": 60, "every": 10, "progress": False}
    units = bp.methods.Cut(score="snr", density=0.1, scope="unit")
    masked, shrunk = (
        bp.fit_svi(rng_key, bnn, data, sparsifier=units, storage=storage, **settings) for storage in ("masked", "compact")
    )
    assert 0 < sum(int(alive.sum()) for alive in shrunk.mask.values()) < 0.2 * 90 * 60
    for name, value in masked.params.items():
        np.testing.assert_allclose(shrunk.params[name], value, rtol=1e-3, atol=1e-5)
    assert programs.same_bits(masked.mask, shrunk.mask)
