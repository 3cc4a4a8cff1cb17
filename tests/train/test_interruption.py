"""Ctrl-C and SIGTERM in a fit with checkpoints: the state is saved, and the same call goes on to the same bits."""

import signal
import threading
from collections.abc import Iterator

import pytest
from tests.infer import programs

import bayesprune as bp
from bayesprune.train.course import Training
from bayesprune.train.interruption import InterruptedFit, Interruption

BNN, DATA = programs.small_bnn(), programs.classes()
SETTINGS = {"num_steps": 20, "batch_size": 16, "sparsifier": bp.methods.BMR(), "every": 6, "progress": False}


@pytest.fixture(autouse=True)
def listening() -> Iterator[None]:
    """SIGINT at Python's default, whatever the process that started the tests: a background job is born deaf to it."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def signals(monkeypatch, signum: signal.Signals, at: int) -> None:
    """The signal arrives within the chunk of steps that begins at step ``at``."""
    chunk = Training._chunk

    def signalled(self, carry, *rest):
        if int(carry.step) == at:
            signal.raise_signal(signum)
        return chunk(self, carry, *rest)

    monkeypatch.setattr(Training, "_chunk", signalled)


@pytest.mark.fast_cases(1)
@pytest.mark.parametrize(("signum", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
@pytest.mark.parametrize(("every", "at", "end"), [(6, 6, 12), (18, 0, 16)], ids=["where it prunes", "between"])
def test_a_signal_ends_the_fit_saved(signum, code, every, at, end, tmp_path, monkeypatch, rng_key) -> None:
    settings = SETTINGS | {"every": every}
    alone = bp.fit_svi(rng_key, BNN, DATA, **settings)
    kept = {"checkpoint": str(tmp_path), "checkpoint_every": 1_000}
    before = signal.getsignal(signum)
    with monkeypatch.context() as patch:
        signals(patch, signum, at)
        with pytest.raises(InterruptedFit, match=rf"{signum.name} ended the fit at step {end} of 20.*the same call") as stop:
            bp.fit_svi(rng_key, BNN, DATA, **kept, **settings)
    assert stop.value.exit_code == code and isinstance(stop.value, KeyboardInterrupt)
    assert signal.getsignal(signum) is before, "the signal's handler was not put back"
    resumed = bp.fit_svi(rng_key, BNN, DATA, **kept, **settings)
    assert programs.same_bits((alone.params, alone.mask, alone.state), (resumed.params, resumed.mask, resumed.state))
    assert resumed.history["prune/step"].tolist() == list(range(every, 20, every))


def test_a_fit_without_checkpoints_ends_at_once(monkeypatch, rng_key) -> None:
    with monkeypatch.context() as patch:
        signals(patch, signal.SIGINT, 6)
        with pytest.raises(KeyboardInterrupt) as end:
            bp.fit_svi(rng_key, BNN, DATA, **SETTINGS)
    assert not isinstance(end.value, InterruptedFit)


def test_a_second_signal_does_not_wait(tmp_path) -> None:
    with pytest.raises(KeyboardInterrupt), Interruption(tmp_path) as interruption:
        signal.raise_signal(signal.SIGINT)
        assert interruption.asked
        signal.raise_signal(signal.SIGINT)


def test_other_threads_leave_the_signals_alone(tmp_path) -> None:
    def within() -> None:
        with Interruption(tmp_path):
            seen.append(signal.getsignal(signal.SIGTERM))

    seen: list[object] = []
    thread = threading.Thread(target=within)
    thread.start()
    thread.join()
    assert seen == [signal.getsignal(signal.SIGTERM)]
