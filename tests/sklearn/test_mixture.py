"""Several networks as one posterior: each drawn network is a member's, and all that reads a posterior reads them."""

import pickle
from dataclasses import replace

import jax
import numpy as np
import pytest
from scipy import stats
from sklearn.base import clone

import bayesprune as bp
from bayesprune.sklearn import forms, mixture, network
from bayesprune.sklearn.columns import fit_columns, joined_columns
from bayesprune.sklearn.thresholds import Thresholds
from tests.sklearn.problems import NET, linear_rows

FEW = {name: value for name, value in NET.items() if name not in ("hidden", "num_steps")} | {"hidden": (4,)}


@pytest.fixture
def short(monkeypatch):
    """Default fits of few steps."""
    preset = replace(forms.PRESETS["default"], num_steps=300)
    monkeypatch.setitem(forms.PRESETS, "default", preset)


def labels(y: np.ndarray) -> np.ndarray:
    return np.where(y > np.median(y), "high", "low")


def test_inputs_are_those_that_any_network_reads_each_once() -> None:
    x = np.array([[0.0, 5.0], [1.0, 6.0], [2.0, 9.0], [3.0, 8.0]])
    plain = fit_columns(x)
    steps = fit_columns(x, cuts=Thresholds(np.array([1, 0]), np.array([5.5, 1.5])))._replace(clipped=True)
    joint = joined_columns([plain, steps, fit_columns(x)], [np.array(m, bool) for m in ([1, 0], [0, 1, 1, 0], [0, 0])])
    assert joint.num_inputs == 32 and joint.spare == 29 and len(joint.maps) == 2
    assert [places.tolist() for places in joint.places] == [[0, -1], [-1, 1, 2, -1], [0, -1]]
    np.testing.assert_array_equal(joint.apply(x)[:, :3], np.column_stack([plain.apply(x)[:, 0], steps.apply(x)[:, 1:3]]))
    assert not joint.apply(x)[:, 3:].any()
    values = np.concatenate([[1.0, 2.0, 4.0], np.full(29, 8.0)])
    assert joint.of_column(values, np.add).tolist() == [1.0, 6.0]
    np.testing.assert_allclose(joint.of_column(np.log(values), np.logaddexp), np.log([1.0, 6.0]))
    assert joined_columns([plain], [np.zeros(2, bool)]).num_inputs == 32


@pytest.mark.slow_cases(2)
@pytest.mark.parametrize("hidden", [(), (4,), (4, 3)])
@pytest.mark.slow
def test_each_drawn_network_predicts_as_its_member_does(rng_key, hidden) -> None:
    """Members whose weights are all but known: of every form, laid into one network of all inputs."""
    x, y = linear_rows()
    kinds = ("plain", "linear", "wide", "steps") if hidden else ("plain", "plain")
    members, wanted = [], []
    for seed, form in enumerate(kinds):
        settings = FEW | {"hidden": hidden, "form": form, "random_state": seed}
        settings |= {"prior": bp.priors.Gaussian(1.0), "method": "none"}
        model = bp.BayesianSparseRegressor(**settings, num_steps=50).fit(x, y)
        known = {name: 1e-9 * value if name.endswith("_scale") else value for name, value in model.params_.items()}
        members.append(model._law.members[0]._replace(params=known))
        drawn = bp.infer.predict.predict_draws(rng_key, model.bnn_, members[-1].params, model.inputs_of(x), num_samples=1)
        wanted.append(drawn[0])
    shares = (0.4, 0.3, 0.2, 0.1) if hidden else (0.7, 0.3)
    law = mixture.Mixture(tuple(members), shares)
    params, mask = law.held(rng_key, 10)
    found = bp.infer.predict.predict_draws(
        rng_key, network.build(law.network), params, law.columns.apply(x), mask=mask, num_samples=10
    )
    of = [int(np.argmin([np.abs(one - each).max() for each in wanted])) for one in found]
    assert np.bincount(of).tolist() == [round(10 * share) for share in shares]
    for one, member in zip(found, of, strict=True):
        np.testing.assert_allclose(one, wanted[member], atol=2e-4)
    assert set(of[1::2]) >= {0, 1}  # evenly spaced ones are of more than one member


@pytest.mark.slow
def test_the_noise_of_each_network_is_its_members(rng_key) -> None:
    """Log precisions are of a mixture of two normal laws: by SciPy's test of Kolmogorov and Smirnov, at one in ten thousand."""
    x, y = linear_rows()
    models = [
        bp.BayesianSparseRegressor(**FEW, num_steps=50).fit(x, y + s * np.random.default_rng(0).normal(size=len(y)))
        for s in (0, 3)
    ]
    members = [model._law.members[0] for model in models]
    params, _ = mixture.Mixture(tuple(members), (0.5, 0.5)).held(rng_key, 600)
    logs = np.log(np.sort(params["noise_precision$draws"].ravel()))
    ends = [(float(m.params["noise_precision_log_loc"]), float(m.params["noise_precision_log_scale"])) for m in members]
    law = lambda v: 0.5 * sum(stats.norm.cdf(v, loc, scale) for loc, scale in ends)  # noqa: E731
    assert stats.kstest(logs, law).pvalue > 1e-4


@pytest.mark.slow
def test_a_default_fit_is_a_mixture_and_everything_reads_it(short) -> None:
    x, y = linear_rows(rows=200)
    model = bp.BayesianSparseRegressor(**FEW).fit(x, y)
    assert set(model.weights_) <= {"plain", "linear", "steps", "trees"} and model.form_ == next(iter(model.weights_))
    assert sum(model.weights_.values()) == pytest.approx(1.0) and len(model._law.members) == 4 * len(model.weights_)
    mean, std, ends = model.predict(x, return_std=True, interval=0.8)
    read = bp.predict(jax.random.key(0), model.bnn_, model.params_, model.inputs_of(x), mask=model.mask_)
    np.testing.assert_allclose(model._in_units(read, model._target_scaling.loc), mean, rtol=1e-4, atol=1e-4)
    assert (std > 0).all() and (ends[:, 0] < mean).all() and model.score(x, y) > 0.5
    assert model.predict_draws(x[:3]).shape == (model.num_samples, 3)
    assert model.sample_y(x[:3], 250).shape == (3, 250) and np.isfinite(model.log_density(x, y)).all()
    assert len(model.sample_posterior(7)["Dense_0.kernel"]) == 7
    again = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(again.predict(x), model.predict(x))
    assert again.set_params(num_samples=60).predict_draws(x[:3]).shape == (60, 3)
    small = model.compact()
    np.testing.assert_allclose(small.predict(x), mean, rtol=1e-3, atol=1e-3)
    alone = clone(model).set_params(form=model.form_, held_out=0.0, num_steps=300).fit(x, y)
    np.testing.assert_allclose(
        model.compact(keep="mean").predict(x), alone.compact(keep="mean").predict(x), rtol=1e-4, atol=1e-3
    )


@pytest.mark.every
@pytest.mark.slow
def test_classes_are_foreseen_by_the_mean_of_the_members(short) -> None:
    """Of many networks: the shares' mean of the members' probabilities, within four standard errors of so many draws."""
    x, y = linear_rows(rows=200)
    model = bp.BayesianSparseClassifier(**FEW | {"num_samples": 400}).fit(x, labels(y))
    wanted, error = np.zeros((len(x), 2)), np.zeros((len(x), 2))
    for member, share in zip(model._law.members, model._law.shares, strict=True):
        draws = bp.infer.predict.predict_draws(
            jax.random.key(1),
            network.build(member.network),
            member.params,
            member.columns.apply(x),
            mask=member.mask,
            num_samples=400,
        )
        wanted += share * draws.mean(axis=0)
        error += share**2 * draws.var(axis=0) * (1 / 400 + 1 / (400 * share))
    assert (np.abs(model.predict_proba(x) - wanted) < 6 * np.sqrt(error) + 0.005).all()
    assert model.predict_set(x, 0.9).shape == (200, 2) and model.temperature_ != 1.0


@pytest.mark.slow
def test_sets_of_a_mixture_cover_new_rows_at_their_level(short) -> None:
    """By 400 held-out rows coverage is .9 ± .015, and 2,000 rows count it to ± .007: not below by more than four of both."""
    x = np.random.default_rng(0).standard_normal((4000, 3))
    y = np.where(np.sin(3 * x[:, 0]) + x[:, 1] > 0, "up", "down")
    model = bp.BayesianSparseClassifier(**FEW).fit(x[:2000], y[:2000])
    sets = model.predict_set(x[2000:], level=0.9)
    covered = sets[np.arange(2000), np.searchsorted(model.classes_, y[2000:])]
    (fold,) = model._folds
    assert len(fold.members) == len(model.weights_) > 1 and covered.mean() > 0.9 - 0.066
    q = np.sort(model._conformity)[int(np.ceil(401 * 0.9)) - 1]
    alone = [model._predicting_by(member).predict_proba(x[2000:]) for member in fold.members]
    assert (sets >= (1 - np.average(alone, axis=0, weights=fold.shares) <= q)).all()
    np.testing.assert_array_equal(model.predict_set(x[:50]), sets_again(model, x[:50]))


@pytest.mark.slow
def test_a_fold_that_holds_out_no_other_rows_judges_nothing(monkeypatch) -> None:
    """Of five folds of a quarter the last is the first one again."""
    preset = replace(forms.PRESETS["best"], num_steps=50, forms=("plain", "linear"), grows=False)
    monkeypatch.setitem(forms.PRESETS, "best", preset)
    x, y = linear_rows(rows=40)
    model = bp.BayesianSparseClassifier(**FEW, presets="best", held_out=0.25).fit(x, labels(y))
    assert [len(scores) for scores in model._scores] == [10] * 4 and len(model._folds) == 4
    assert model.predict_set(x).shape == (40, 2)


def sets_again(model, x: np.ndarray) -> np.ndarray:
    """Of the estimator as a file has it."""
    return pickle.loads(pickle.dumps(model)).predict_set(x)


@pytest.mark.slow
def test_all_networks_of_a_classifier_are_cooled(short, monkeypatch) -> None:
    """Those to all rows, and those to the rows of each of three folds: by the temperature of their form."""
    settled = []
    of_classes = bp.BayesianSparseClassifier._settled

    def seen(self, member, chosen):
        settled.append((chosen.form, chosen.temperature))
        return of_classes(self, member, chosen)

    monkeypatch.setattr(bp.BayesianSparseClassifier, "_settled", seen)
    x, y = linear_rows(rows=200)
    model = bp.BayesianSparseClassifier(**FEW).fit(x, labels(y))
    assert sorted(form for form, _ in settled) == sorted([*model.weights_] * 4)
    assert settled[0][1] == model.temperature_


def test_a_mixture_of_probabilities_has_a_temperature_of_its_own() -> None:
    """19 of 20 rows are right where .7 is foreseen: what nets say together that are sure of different rows."""
    model = bp.BayesianSparseClassifier()
    y = np.arange(200) % 2
    right = np.where(np.arange(200) < 190, 0.7, 0.3)
    foreseen = np.where(y[:, None] == [0, 1], right[:, None], 1 - right[:, None])
    log_temperature, sharper = model._tempered(y, foreseen)
    assert log_temperature < -0.3 and abs(sharper.max() - 0.95) < 0.05
    np.testing.assert_allclose(sharper.sum(axis=1), 1.0)


@pytest.mark.slow
def test_weights_of_classes_are_not_tempered_away(short) -> None:
    x, y = linear_rows(rows=200)
    model = bp.BayesianSparseClassifier(**FEW, likelihood=bp.likelihoods.Categorical(class_weights=(1.0, 5.0)))
    assert len(model.fit(x, labels(y)).weights_) > 1 and model.temperature_ == 1.0


@pytest.mark.slow
def test_one_network_is_kept_where_it_is_asked_for(short) -> None:
    x, y = linear_rows(rows=200)
    for settings in ({"stacking": False}, {"density": 0.5}, {"form": "plain", "held_out": 0.2}):
        model = bp.BayesianSparseRegressor(**FEW | settings).fit(x, y)
        assert len(model._law.members) == 1 and list(model.weights_.values()) == [1.0]
        assert model.mask_ is model._law.members[0].mask
    with pytest.raises(TypeError, match="stacking must be True or False"):
        bp.BayesianSparseRegressor(**FEW, stacking="yes").fit(x, y)


@pytest.mark.slow
def test_a_mixture_of_two_targets_with_gaps(short) -> None:
    x, y = linear_rows(rows=200)
    both = np.column_stack([y, -y])
    both[::7, 1] = np.nan
    model = bp.BayesianSparseRegressor(**FEW).fit(x, both)
    mean, ends = model.predict(x, interval=0.9)
    assert len(model._law.members) > 1 and mean.shape == (200, 2) and ends.shape == (200, 2, 2)
    assert model.score(x, both) > 0.5 and np.isfinite(model.log_density(x, both)).all()


def test_by_chance_members_are_drawn_in_proportion() -> None:
    """Two thousand keys: one of nine mean counts is off by five of its standard errors once in 190,000 tests."""
    shares = np.array([0.55, 0.25, 0.2])
    for number in (1, 2, 7):
        keys = jax.random.split(jax.random.key(number), 2000)
        counts = np.array([mixture._by_chance(key, shares, number) for key in keys])
        assert (counts.sum(axis=1) == number).all() and (np.abs(counts - shares * number) < 1).all()
        rest = shares * number % 1  # of each draw, the chance that the count is rounded up
        error = np.sqrt(rest * (1 - rest) / 2000)
        assert (np.abs(counts.mean(axis=0) - shares * number) <= 5 * error).all()


@pytest.fixture
def of_two() -> bp.BayesianSparseRegressor:
    """A law of two members: the second, of share .3, foresees 50 standard deviations more."""
    x, y = linear_rows()
    model = bp.BayesianSparseRegressor(**FEW | {"hidden": (), "form": "plain"}, num_steps=50).fit(x, y)
    member = model._law.members[0]
    (bias,) = (name for name in member.params if "bias" in name and name.endswith("_loc"))
    far = member._replace(params=member.params | {bias: member.params[bias] + 50.0})
    model._law = mixture.Mixture((member, far), (0.7, 0.3))
    model._hold()
    return model


@pytest.mark.slow
def test_single_draws_visit_every_member(of_two) -> None:
    """Of 150 draws by other seeds the share of a member is off by more than four standard errors once in ten thousand."""
    model, x = of_two, np.zeros((1, 6))
    drawn = np.array([model.sample_y(x, random_state=seed)[0, 0] for seed in range(150)])
    far = np.mean(drawn > 25 * model._target_scaling.scale)
    assert abs(far - 0.3) < 4 * np.sqrt(0.3 * 0.7 / 150)
    # All of twenty draws by one member: once in 1,250 fits, and these seeds are not such.
    bias = [model.sample_posterior(random_state=seed)["Dense_0.bias"].item() > 25 for seed in range(20)]
    assert 0 < sum(bias) < 20
    np.testing.assert_array_equal(model.predict(x), model.predict(x))


@pytest.mark.parametrize("counts", [(50, 50), (50, 25, 25), (90, 10)])
def test_evenly_spaced_networks_are_of_all_members(counts, rng_key) -> None:
    """Every fourth of a hundred, over twenty orders: as many of each member as its share, and nearly so in each order."""
    owner = np.repeat(np.arange(len(counts)), counts)
    taken = []
    for key in jax.random.split(rng_key, 20):
        order = mixture._mixed(key, np.array(counts))
        assert sorted(order) == list(range(100))
        taken.append(np.bincount(owner[order][2::4], minlength=len(counts)))
    wanted = np.array(counts) / 4
    # A plain draw of 25 without putting back has this variance; twenty orders' mean has a twentieth of it at most.
    spread = np.sqrt(wanted * (1 - np.array(counts) / 100) * 75 / 99)
    assert (np.abs(np.mean(taken, axis=0) - wanted) < 4 * spread / np.sqrt(20)).all()
    assert (np.abs(taken - wanted) < 4 * spread).all()
