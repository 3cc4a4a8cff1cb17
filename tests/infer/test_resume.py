"""A run killed at any step and taken up again gives the bits of a run left alone."""

import jax
import numpy as np
import optax
import pytest

import bayesprune as bp
from tests.infer import programs


class KilledError(Exception):
    """Stands for the end of the process."""


def killer(at: int):
    def callback(moment) -> None:
        if moment.step >= at:
            raise KilledError

    return callback


@pytest.mark.parametrize("killed_at", [5, 10, 23])
def test_a_resumed_run_has_the_same_bits(killed_at, tmp_path, rng_key) -> None:
    bnn, data = programs.small_bnn(), programs.classes()
    settings = {
        "num_steps": 30, "batch_size": 16, "optimizer": optax.adabelief(1e-2), "sparsifier": bp.methods.BMR(), "every": 5,
        "eval_data": data, "eval_every": 10, "eval_samples": 2, "checkpoint_every": 7,
    }  # fmt: skip
    alone = bp.fit_svi(rng_key, bnn, data, **settings)
    with pytest.raises(KilledError):
        bp.fit_svi(rng_key, bnn, data, checkpoint=str(tmp_path), callbacks=[killer(killed_at)], **settings)
    resumed = bp.fit_svi(rng_key, bnn, data, checkpoint=str(tmp_path), **settings)
    assert programs.same_bits(alone.params, resumed.params)
    assert programs.same_bits(alone.state, resumed.state)
    assert alone.losses.tobytes() == resumed.losses.tobytes()
    assert programs.same_bits(alone.mask, resumed.mask)
    assert alone.history.keys() == resumed.history.keys()
    assert all(np.array_equal(alone.history[k], resumed.history[k], equal_nan=True) for k in alone.history)


def test_other_settings_do_not_resume(tmp_path, rng_key) -> None:
    bnn, data = programs.small_bnn(), programs.classes()
    bp.fit_svi(rng_key, bnn, data, num_steps=4, batch_size=16, checkpoint=str(tmp_path))
    with pytest.raises(ValueError, match=r"batch_size was 16, now 8.*another folder"):
        bp.fit_svi(rng_key, bnn, data, num_steps=4, batch_size=8, checkpoint=str(tmp_path))
    with pytest.raises(ValueError, match="rng_key"):
        bp.fit_svi(jax.random.key(5), bnn, data, num_steps=4, batch_size=16, checkpoint=str(tmp_path))


def test_a_function_of_another_process_is_no_other_setting(tmp_path, rng_key) -> None:
    bnn, data = programs.small_bnn(), programs.classes()

    def fit(num_steps: int) -> bp.FitResult:
        # New functions at every call, at other addresses, as in a process that was started again.
        keep, sparsifier = lambda step: 1.0, bp.methods.Magnitude(density=lambda step: 0.5)
        made.append(keep)
        settings = {"kl_weight": keep, "sparsifier": sparsifier, "every": 2, "checkpoint": str(tmp_path)}
        return bp.fit_svi(rng_key, bnn, data, num_steps=num_steps, **settings)

    made: list[object] = []  # kept, so that no address is used twice
    fit(2)
    assert len(fit(4).losses) == 4


def test_a_finished_run_is_given_back_and_can_be_prolonged(tmp_path, rng_key) -> None:
    bnn, data = programs.small_bnn(), programs.classes()
    first = bp.fit_svi(rng_key, bnn, data, num_steps=8, batch_size=16, checkpoint=str(tmp_path))
    again = bp.fit_svi(rng_key, bnn, data, num_steps=8, batch_size=16, checkpoint=str(tmp_path))
    assert programs.same_bits(first.params, again.params)
    longer = bp.fit_svi(rng_key, bnn, data, num_steps=12, batch_size=16, checkpoint=str(tmp_path))
    alone = bp.fit_svi(rng_key, bnn, data, num_steps=12, batch_size=16)
    assert programs.same_bits(alone.params, longer.params)
