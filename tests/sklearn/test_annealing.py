"""The course of a fit: what rises, what falls, and what it is good for."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from sklearn.datasets import make_hastie_10_2

import bayesprune as bp
from bayesprune.sklearn import annealing, worth
from tests.sklearn.problems import LINEAR, NET, linear_rows


def sizes(course: annealing.Annealed, num_steps: int) -> np.ndarray:
    """The sizes of steps under gradients that alternate in sign: in proportion to the rate, whatever the moments are."""
    point, optimizer = {"w": jnp.zeros(())}, course.plan(num_steps).optimizer

    def step(state, sign):
        updates, state = optimizer.update({"w": sign}, state, point)
        return state, jnp.abs(updates["w"])

    signs = (-1.0) ** jnp.arange(num_steps)
    return np.asarray(jax.lax.scan(step, optimizer.init(point), signs)[1])


@pytest.mark.fast_cases(1)
@pytest.mark.parametrize("share", [0.25, 0.75, 1.0])
def test_the_weight_rises_to_one_and_the_rate_falls_about_its_mean(share):
    steps = 2000
    annealed, constant = annealing.Annealed(0.01, share=share), annealing.Annealed(0.01, share=0.0)
    rising, flat = (course.plan(steps).kl_weight for course in (annealed, constant))
    weights = np.array([float(rising(step)) for step in (0, share * steps / 2, share * steps, steps)])
    np.testing.assert_allclose(weights, [0.0, 0.5, 1.0, 1.0], atol=1e-6)
    assert float(flat(0)) == float(flat(steps)) == 1.0
    ratio = sizes(annealed, steps) / sizes(constant, steps)
    assert ratio.mean() == pytest.approx(1.0, abs=1e-3)
    np.testing.assert_allclose(ratio[[0, 500, 1000, 1500]], 1 + np.cos(np.pi * np.array([0, 0.25, 0.5, 0.75])), rtol=1e-3)


def test_a_search_may_give_numbers_of_numpy():
    assert [annealing.read(share) for share in (np.float32(0.5), np.int64(0), "auto")] == [0.5, 0.0, 0.75]


@pytest.mark.parametrize("share", [0.75, 0.0])
def test_equal_settings_share_an_optimiser(share):
    one, same = (annealing.Annealed(0.01, share=share).plan(300).optimizer for _ in range(2))
    assert one is same


def test_steps_that_are_not_given_are_more_where_there_is_annealing():
    assert [annealing.read_steps("auto", share) for share in (0.75, 0.0)] == [5000, 3000]
    assert annealing.read_steps(7, 0.75) == 7


@pytest.mark.slow
def test_losses_are_the_bound_whatever_the_weight():
    """Of equal keys all annealed fits begin alike; the first steps, with less of the divergence or more, part them."""
    x, y = linear_rows()
    losses = [bp.BayesianSparseRegressor(**NET | {"num_steps": 5}, annealing=share).fit(x, y).losses_ for share in (1.0, 0.01)]
    np.testing.assert_allclose(losses[0][0], losses[1][0], rtol=1e-5)
    assert abs(losses[0][2] - losses[1][2]) > 1e-3


@pytest.mark.parametrize(
    ("annealing", "error", "words"),
    [("none", TypeError, "'auto' or a number"), (None, TypeError, "annealing"), (1.5, ValueError, "share of the steps")],
)
def test_what_is_no_share_is_refused(annealing, error, words):
    x, y = linear_rows()
    with pytest.raises(error, match=words):
        bp.BayesianSparseRegressor(annealing=annealing).fit(x, y)


@pytest.mark.slow
def test_a_selection_is_not_annealed_unless_it_is_asked_to_be():
    x, y = linear_rows()
    fits = [
        worth.fit_seeded(bp.BayesianSparseRegressor(**LINEAR | {"num_steps": 5}, **settings), jax.random.key(0), x, y)
        for settings in ({}, {"annealing": 0.5, "prior": "flat"})
    ]
    assert [(fit.prior, fit.annealing) for fit in fits] == [("dirac_slab", 0), ("flat", 0.5)]


@pytest.mark.every
@pytest.mark.slow
def test_annealing_saves_what_the_cut_would_take():
    """A ball in ten dimensions: many weights share it. Three seeds score .81 to .82, and without annealing .54 to .56."""
    x, y = make_hastie_10_2(700, random_state=0)
    test_x, test_y = make_hastie_10_2(1000, random_state=1)
    annealed, constant = (
        bp.BayesianSparseClassifier(annealing=share, form="plain", held_out=0, random_state=0)
        .fit(x[:350], y[:350])
        .score(test_x, test_y)
        for share in ("auto", 0)
    )
    assert annealed > 0.75 and annealed > constant + 0.15
