"""Checks of what concerns sites: one wording wherever a mask comes in."""

import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import bayesprune as bp
from bayesprune.core.checks import (
    check_level,
    check_mask,
    check_not_negative,
    check_number,
    check_positive,
    check_share,
    check_site,
    check_within,
    got,
)

SHAPES = {"Dense_0.kernel": (2, 3), "Dense_0.bias": (3,)}


def test_a_good_mask_comes_back_boolean() -> None:
    given = {"Dense_0.kernel": np.array([[1.0, 0.0, 1.0], [0.0, 0.0, 1.0]]), "Dense_0.bias": [True, False, True]}
    taken = check_mask(given, SHAPES)
    assert {site: (alive.dtype, alive.shape) for site, alive in taken.items()} == {s: (bool, SHAPES[s]) for s in SHAPES}
    np.testing.assert_array_equal(taken["Dense_0.kernel"], given["Dense_0.kernel"] != 0)
    assert jax.jit(lambda m: check_mask(m, SHAPES))(taken).keys() == taken.keys()


BAD = {
    "site": ({"Dense_0.kernle": True}, "unknown site in mask 'Dense_0.kernle'. Did you mean 'Dense_0.kernel'"),
    "shape": ({"Dense_0.kernel": np.ones(3, bool)}, "mask['Dense_0.kernel'] has shape (3,), its site (2, 3)"),
    "one for all": ({"Dense_0.bias": True}, "has shape (), its site (3,): give one value for each weight"),
    "hidden": ({"Dense_0.bias": np.ma.array([True] * 3, mask=[1, 0, 0])}, "mask['Dense_0.bias'] is a masked array with 1"),
    "probabilities": ({"Dense_0.bias": np.full(3, 0.2)}, "mask['Dense_0.bias'] must be boolean"),
}


@pytest.mark.parametrize("case", BAD)
def test_a_bad_mask_is_told(case: str) -> None:
    mask, message = BAD[case]
    with pytest.raises(ValueError, match=re.escape(message)):
        check_mask(mask, SHAPES)


@pytest.mark.parametrize("shape", [(), (3,), (1, 3), (2, 1), (2, 3)])
def test_what_may_be_spread_broadcasts(shape: tuple[int, ...]) -> None:
    check_site("prior_scale", "Dense_0.kernel", np.ones(shape), SHAPES, spread=True)


@pytest.mark.parametrize("shape", [(2,), (1, 2, 3), (6,)])
def test_what_does_not_broadcast_is_refused(shape: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match="prior_scale"):
        check_site("prior_scale", "Dense_0.kernel", np.ones(shape), SHAPES, spread=True)


@pytest.mark.slow
def test_every_door_says_the_same(rng_key: jax.Array) -> None:
    bnn = bp.BNN(bp.nets.MLP((3,), 2), prior=bp.priors.Flat(), likelihood=bp.likelihoods.Categorical(), input_shape=(2,))
    data = bp.Dataset(jnp.ones((4, 2)), jnp.array([0, 1, 0, 1]))
    params = bp.fit_svi(rng_key, bnn, data, num_steps=1).params
    doors = (
        lambda mask: bp.fit_svi(rng_key, bnn, data, num_steps=1, mask=mask),
        lambda mask: bp.bmr_prune(params, mask=mask),
        lambda mask: bp.predict(rng_key, bnn, params, data.x, mask=mask),
    )
    for mask, _ in BAD.values():
        told = []
        for door in doors:
            with pytest.raises(ValueError) as error:
                door(mask)
            told.append(str(error.value).split(" Did you mean")[0])  # the doors know more sites or fewer
        assert len(set(told)) == 1


HALVES = [0.5, np.float16(0.5), np.float64(0.5), np.array(0.5, np.float32), jnp.array(0.5), jnp.array(0.5, jnp.bfloat16)]


@pytest.mark.parametrize("value", HALVES, ids=lambda value: str(getattr(value, "dtype", "float")) + type(value).__name__)
def test_a_number_of_any_type_lies_where_it_lies(value: object) -> None:
    check_within(value, "keep", "(0, 1)")
    check_share(value, "keep", "a share")
    check_level(value, "keep")
    with pytest.raises(ValueError, match=r"^keep must lie in \(0\.5, 1\], got 0\.5: a share\.$"):
        check_within(value, "keep", "(0.5, 1]", "a share")


OUTSIDE = {
    "an end": (np.int64(1), "1"),
    "NaN": (np.float32(np.nan), "nan"),
    "infinite": (jnp.array(jnp.inf, jnp.bfloat16), "inf"),
    "no boolean": (np.True_, "True"),
    "complex": (0.5j, "0.5j"),
    "complex, in an array": (np.array(0.5j), "0.5j"),
    "more than a float holds": (10**400, "1000"),
    "several": (np.array([0.5]), "ndarray"),
    "text": ("0.5", "'0.5'"),
    "nothing": (None, "None"),
}


@pytest.mark.parametrize("case", OUTSIDE)
def test_what_lies_outside_is_shown(case: str) -> None:
    value, shown = OUTSIDE[case]
    for check in (check_level, lambda value, name: check_within(value, name, "[0, 1)")):
        with pytest.raises(ValueError, match=rf"level must lie in .0, 1\), got {re.escape(shown)}"):
            check(value, "level")


def test_complex_numbers_are_no_real_ones() -> None:
    for check in (check_number, check_positive, check_not_negative):
        with pytest.raises((TypeError, ValueError), match="got 1j"):
            check(1j, "rate")


def test_numbers_of_numpy_are_shown_as_they_are() -> None:
    assert [got(value) for value in (np.float64(1.5), np.float32(0.1), np.int64(3))] == ["1.5", "0.1", "3"]
    key = jax.random.key(0)
    assert [got(value) for value in (np.zeros(2), key, [1.0])] == ["ndarray", type(key).__name__, "list"]
    assert got(np.str_("a")) == repr(np.str_("a"))
