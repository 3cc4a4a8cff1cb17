"""Parameters of a diverged fit are refused at every door; what may be infinite is not."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from bayesprune.core.finite import broken, check_finite


@pytest.mark.parametrize(
    "value", [np.array([np.nan]), jnp.array([1.0, -jnp.inf]), np.float32("nan"), {"mean": jnp.array([jnp.nan])}]
)
def test_what_is_not_finite_is_refused_by_name(value) -> None:
    with pytest.raises(ValueError, match=r"params hold 1 value\(s\) that are NaN or infinite at 'b_auto_loc'"):
        check_finite({"a_auto_loc": np.zeros(2), "b_auto_loc": value})


def test_what_may_be_infinite_or_has_no_numbers_passes() -> None:
    check_finite({"w$prior_scale": jnp.inf, "w_auto_logit": np.array([np.inf, -np.inf]), "nn$params": {}, "n": np.arange(2)})
    check_finite({"key": jax.random.key(0), "half": jnp.zeros(2, jnp.bfloat16), "one": 1.0})
    with pytest.raises(ValueError, match="_logit"):
        check_finite({"w_auto_logit": np.array([np.nan])})


def test_tracers_pass() -> None:
    def total(w: jax.Array) -> jax.Array:
        check_finite({"w": w})
        return w.sum()

    assert jax.jit(total)(jnp.ones(3)) == 3


def test_the_broken_arrays_of_a_state() -> None:
    assert broken({"key": jax.random.key(0), "count": jnp.int32(2), "empty": ()}) == frozenset()
    assert broken([jnp.ones(2), (jnp.array([1.0, jnp.nan]), jnp.inf)]) == {"[1][0]", "[1][1]"}
