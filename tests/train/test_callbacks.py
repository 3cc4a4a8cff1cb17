"""Callbacks: when they are called, and the end that they may ask for, with checkpoints and without."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from tests.infer import programs

import bayesprune as bp
from bayesprune.train.stopping import asks_to_stop
from bayesprune.train.training import Periods

BNN, DATA = programs.small_bnn(), programs.classes()
SETTINGS = {"num_steps": 20, "batch_size": 16, "sparsifier": bp.methods.BMR(), "every": 6, "progress": False}
SETTINGS["course"] = bp.courses.Plain()  # which more steps prolong


def same(one: bp.FitResult, other: bp.FitResult) -> bool:
    parts = [(fit.params, fit.mask, fit.state, fit.losses, fit.history) for fit in (one, other)]
    return programs.same_bits(*parts)


def test_true_alone_asks_for_the_end() -> None:
    assert all(map(asks_to_stop, (True, np.bool_(True), np.array(True), jnp.array(True))))
    others = (None, False, 1, "done", [True], np.array([True]), np.ones(()), jnp.zeros((), bool), object())
    assert not any(map(asks_to_stop, others))


@pytest.mark.slow
def test_what_was_shown_at_the_end_is_returned(rng_key) -> None:
    shown: dict[int, tuple] = {}

    def show(moment: bp.Moment) -> str:
        shown[moment.step] = jax.tree.map(np.array, (moment.params(), moment.mask()))
        return "not True"

    fit = bp.fit_svi(rng_key, BNN, DATA, callbacks=[lambda moment: moment.step == 12, show], **SETTINGS)
    assert list(shown) == [6, 12], "all callbacks see the last moment"
    assert len(fit.losses) == 12 and fit.history["returned/step"].tolist() == [12] and np.isfinite(fit.losses).all()
    assert fit.history["prune/step"].tolist() == [6], "pruned after the end"
    assert programs.same_bits((fit.params, fit.mask), shown[12])


@pytest.mark.slow
def test_a_fit_that_was_ended_goes_on_to_the_same_bits(tmp_path, rng_key) -> None:
    kept = {"checkpoint": str(tmp_path), "checkpoint_every": 1_000}
    stop = {"callbacks": lambda moment: moment.step >= 9, "callback_every": 3}
    alone = bp.fit_svi(rng_key, BNN, DATA, **SETTINGS)
    first = bp.fit_svi(rng_key, BNN, DATA, **SETTINGS, **stop, **kept)
    assert len(first.losses) == 9 and first.losses.tobytes() == alone.losses[:9].tobytes()
    assert same(bp.fit_svi(rng_key, BNN, DATA, **SETTINGS, **stop, **kept), first), "the same call, the same fit"
    assert same(bp.fit_svi(rng_key, BNN, DATA, **SETTINGS, **kept), alone), "without the callback it goes on"


@pytest.mark.slow
def test_a_killed_fit_ends_where_its_callback_ends_it(tmp_path, rng_key) -> None:
    """Killed before the end that the callback asks for; and a callback that ends the fit where it is lengthened."""
    stop = lambda moment: moment.step == 16  # noqa: E731
    kept = {"checkpoint": str(tmp_path), "checkpoint_every": 4, "callback_every": 2}
    alone = bp.fit_svi(rng_key, BNN, DATA, callbacks=stop, callback_every=2, **SETTINGS)

    def kill(moment: bp.Moment) -> None:
        if moment.step == 10:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        bp.fit_svi(rng_key, BNN, DATA, callbacks=[stop, kill], **SETTINGS, **kept)
    assert same(bp.fit_svi(rng_key, BNN, DATA, callbacks=stop, **SETTINGS, **kept), alone)
    longer = SETTINGS | {"num_steps": 24}
    assert len(bp.fit_svi(rng_key, BNN, DATA, callbacks=stop, **longer, **kept).losses) == 16
    assert len(bp.fit_svi(rng_key, BNN, DATA, **longer, **kept).losses) == 24


@pytest.mark.slow
def test_a_period_of_their_own(rng_key, caplog) -> None:
    """Multiples of it and the last step, whatever else the fit pauses for; no bit changes, nothing is compiled again."""
    alone = bp.fit_svi(rng_key, BNN, DATA, **SETTINGS)
    seen: list[int] = []
    caplog.clear()
    with jax.log_compiles(), caplog.at_level("WARNING"):
        fit = bp.fit_svi(rng_key, BNN, DATA, callbacks=lambda moment: seen.append(moment.step), callback_every=7, **SETTINGS)
    assert seen == [7, 14, 20]
    assert same(fit, alone)
    assert [r.getMessage() for r in caplog.records if "Finished XLA compilation" in r.getMessage()] == []


def test_the_last_moment_of_an_early_stop_is_shown() -> None:
    wanted = {"every": (True, 6), "eval_every": (False, None), "checkpoint_every": (False, None)}
    periods = Periods.of(20, 5, callback_every=7, **wanted)
    stops = [0]
    while stops[-1] < 20:
        stops.append(periods.next_stop(stops[-1]))
    assert stops == [0, 6, 7, 12, 14, 18, 20]
    assert [step for step in stops[1:] if periods.shows(step, over=False)] == [7, 14, 20]
    assert periods.shows(12, over=True), "the early stop's step"
    assert Periods.of(20, 5, **wanted).shows(12, over=False), "without a period, every pause"


def test_a_period_of_nothing_is_told(recwarn) -> None:
    nothing = {"every": (False, 5), "eval_every": (False, 3), "checkpoint_every": (False, 2)}
    told = r"every= .* no sparsifier=; eval_every= .* no eval_data=; checkpoint_every= .* no checkpoint= folder\. Give that, or"
    with pytest.warns(UserWarning, match=told):
        assert Periods.of(20, 4, **nothing)[:4] == (20, 0, 0, 0)
    with pytest.raises(ValueError, match="eval_every must be an integer"):
        Periods.of(20, 4, **nothing | {"eval_every": (False, 0)})
    recwarn.clear()
    Periods.of(20, 4, callback_every=3, every=(True, 5), eval_every=(False, None), checkpoint_every=(False, None))
    assert not recwarn.list
