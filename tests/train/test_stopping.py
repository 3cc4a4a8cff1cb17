"""When to stop early, and what is then returned: what was evaluated."""

import jax
import numpy as np
import optax
import pytest
from tests.infer import programs

import bayesprune as bp

NAN = float("nan")


@pytest.mark.fast_cases(1)
@pytest.mark.parametrize(
    ("metric", "values", "stops"),
    [
        ("nll", [3.0, 2.0, 2.5], False),
        ("nll", [3.0, 2.0, 2.5, 2.1], True),
        ("accuracy", [0.5, 0.6, 0.5], False),
        ("accuracy", [0.9, 0.6, 0.5], True),
        ("nll", [NAN, 3.0, 2.0], False),  # what is undefined is no best
        ("nll", [3.0, 2.0, NAN, NAN], True),
        ("accuracy", [0.5, NAN, 0.6], False),
        ("nll", [np.inf, 2.0, 1.0], False),
        ("coverage", [1.0, 0.97, 0.95], False),  # the nearest to its level, from above
        ("coverage", [0.5, 0.7, 0.9], False),  # and from below
        ("coverage", [0.95, 0.99, 1.0], True),
        ("rps", [0.1, 0.2, 0.3], True),
    ],
)
def test_it_waits_for_a_new_best(metric: str, values: list[float], stops: bool) -> None:
    assert bp.EarlyStop(metric, patience=2)({f"eval/{metric}": values}) is stops


@pytest.mark.fast_cases(1)
@pytest.mark.parametrize(
    ("metric", "direction", "values", "best"),
    [
        ("f1", "max", [0.2, 0.7, 0.4], 1),
        ("loss", "min", [0.7, 0.4, 0.2], 2),
        ("slope", 1, [0.2, 1.1, 2.0], 1),
        ("coverage", None, [0.90, 0.96, 1.0], 1),
        ("coverage", None, [NAN, 0.5, NAN], 1),
        ("nll", None, [NAN, np.inf, np.inf], 1),  # a number, where NaN is none; the first of equals
        ("power", "max", [0.2, 0.7, 0.4], 1),
        ("nll", None, [NAN, NAN, NAN], None),
    ],
)
def test_the_best_is_kept_by_its_direction(metric, direction, values, best) -> None:
    stop = bp.EarlyStop(metric, restore="best", direction=direction)
    kept = [at for at in range(len(values)) if stop.keeps({f"eval/{metric}": values[: at + 1]})]
    assert (kept[-1] if kept else None) == best


def test_patience_ends_where_nothing_is_a_number() -> None:
    stop = bp.EarlyStop("nll", patience=2)
    assert [stop({"eval/nll": [NAN] * count}) for count in (1, 2)] == [False, True]


def test_it_hashes() -> None:
    assert hash(bp.EarlyStop("slope", direction=0.5)) == hash(bp.EarlyStop("slope", direction=0.5))


def test_a_metric_that_is_not_reported_is_told() -> None:
    with pytest.raises(ValueError, match="watches 'loss', but the evaluation reports nll: name one of these"):
        bp.EarlyStop("loss", direction="min")({"eval/step": [1], "eval/nll": [0.5]})


def test_an_unknown_metric_needs_its_direction() -> None:
    with pytest.raises(ValueError, match=r"unknown metric 'acuracy'\. Did you mean 'accuracy'.*direction=\"max\""):
        bp.EarlyStop("acuracy")


def test_the_direction_of_a_metric_of_ours_is_not_changed() -> None:
    with pytest.raises(ValueError, match="direction='min' contradicts 'accuracy', which is better the higher it is"):
        bp.EarlyStop("accuracy", direction="min")


def test_an_unknown_thing_to_restore_is_told() -> None:
    with pytest.raises(ValueError, match=r"unknown restore 'first'.*Known: best, last"):
        bp.EarlyStop(restore="first")


BNN, DATA = programs.small_bnn(), programs.classes()
# Prunes at every evaluation; the held-out figure worsens from a moment on, for the net is cut to next to nothing.
SHRINKING = {
    "batch_size": 16, "optimizer": optax.adabelief(2e-2), "every": 5, "eval_data": DATA, "eval_every": 5, "eval_samples": 8,
    "sparsifier": bp.methods.SNR(bp.schedules.Geometric(0.02, rate=0.5)),
}  # fmt: skip


def stopped(rng_key, num_steps: int = 200, **settings) -> tuple[bp.FitResult, dict[int, tuple]]:
    """A fit that stops early, and what its callbacks were shown: step -> (params, mask)."""
    shown = {}

    def show(moment: bp.Moment) -> None:
        shown[moment.step] = jax.tree.map(np.array, (moment.params(), moment.mask()))

    fit = bp.fit_svi(rng_key, BNN, DATA, num_steps=num_steps, callbacks=[show], **(SHRINKING | settings))
    return fit, shown


@pytest.mark.slow
def test_what_was_evaluated_is_returned(rng_key) -> None:
    fit, shown = stopped(rng_key, early_stop=bp.EarlyStop("nll", patience=2))
    last = len(fit.losses)
    assert last < 200 and fit.history["eval/step"][-1] == last
    assert fit.history["prune/step"][-1] < last, "pruned once more after the stop"
    assert fit.history["returned/step"].tolist() == [last]
    assert programs.same_bits((fit.params, fit.mask), shown[last])


@pytest.mark.slow
def test_the_best_is_returned_on_request(rng_key) -> None:
    fit, shown = stopped(rng_key, early_stop=bp.EarlyStop("nll", patience=2, restore="best"))
    best = int(fit.history["eval/step"][np.argmin(fit.history["eval/nll"])])
    assert best == len(fit.losses) - 10, "two evaluations without a new best"
    assert fit.history["returned/step"].tolist() == [best] and int(fit.state.optim_state[0]) == best
    assert programs.same_bits((fit.params, fit.mask), shown[best])


@pytest.mark.slow
def test_where_no_figure_is_a_number_the_last_state_is_returned(rng_key) -> None:
    undefined = {"early_stop": bp.EarlyStop("nll", restore="best"), "evaluator": lambda *_, **__: {"nll": NAN}}
    fit, shown = stopped(rng_key, num_steps=12, **undefined)
    assert fit.history["returned/step"].tolist() == [12]
    assert programs.same_bits((fit.params, fit.mask), shown[12])


@pytest.mark.slow
def test_the_best_survives_a_checkpoint(tmp_path, rng_key) -> None:
    best = {"early_stop": bp.EarlyStop("nll", patience=2, restore="best")}
    alone, _ = stopped(rng_key, **best)
    kept = {"checkpoint": str(tmp_path), "checkpoint_every": 5}

    def kill(moment: bp.Moment) -> None:
        if moment.step == len(alone.losses):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):  # the best lies before the checkpoint
        bp.fit_svi(rng_key, BNN, DATA, num_steps=200, callbacks=[kill], **SHRINKING, **kept, **best)
    for _ in ("resumed", "given back"):
        again, _ = stopped(rng_key, **best, **kept)
        assert programs.same_bits((again.params, again.mask, again.state), (alone.params, alone.mask, alone.state))
        assert len(again.losses) == len(alone.losses)
