"""Ctrl-C and SIGTERM in a fit with checkpoints: the state is saved, and the same call goes on to the same bits."""

import signal
import subprocess
import sys
import threading
from collections.abc import Iterator

import pytest
from tests.infer import programs

import bayesprune as bp
from bayesprune.train.interruption import InterruptedFit, Interruption
from bayesprune.train.training import Training

BNN, DATA = programs.small_bnn(), programs.classes()
SETTINGS = {"num_steps": 20, "batch_size": 16, "sparsifier": bp.methods.BMR(), "every": 6, "progress": False}


@pytest.fixture(autouse=True)
def listening() -> Iterator[None]:
    """SIGINT at Python's default, whatever the process that started the tests: a background job is born deaf to it."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.fixture(autouse=True)
def in_a_script(monkeypatch) -> None:
    """Whoever runs the tests, and from where."""
    monkeypatch.delattr(sys, "ps1", raising=False)


def signals(monkeypatch, signum: signal.Signals, at: int) -> None:
    """The signal arrives within the chunk of steps that begins at step ``at``."""
    chunk = Training._chunk

    def signalled(self, state, *rest):
        if int(state.carry.step) == at:
            signal.raise_signal(signum)
        return chunk(self, state, *rest)

    monkeypatch.setattr(Training, "_chunk", signalled)


@pytest.mark.slow_cases(2)
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


@pytest.mark.slow_cases(1)
@pytest.mark.slow
@pytest.mark.parametrize("asked", [{}, {"on_interrupt": "return"}], ids=["at a prompt", "by its name"])
def test_what_there_is_is_returned(asked, tmp_path, monkeypatch, rng_key) -> None:
    """Without a folder and with one; the same call, or ``init=``, goes on from there."""
    alone = bp.fit_svi(rng_key, BNN, DATA, **SETTINGS)
    before = signal.getsignal(signal.SIGINT)
    with monkeypatch.context() as patch:
        signals(patch, signal.SIGINT, 6)
        if not asked:
            patch.setattr(sys, "ps1", ">>> ", raising=False)
        with pytest.warns(UserWarning, match=r"SIGINT ended the fit at step 12 of 20\. It is returned.*'raise'"):
            fit = bp.fit_svi(rng_key, BNN, DATA, **asked, **SETTINGS)
        with pytest.warns(UserWarning, match=r"step 12 of 20\. Its state is saved in .*the same call goes on"):
            kept = bp.fit_svi(rng_key, BNN, DATA, checkpoint=tmp_path, checkpoint_every=1_000, **asked, **SETTINGS)
    assert signal.getsignal(signal.SIGINT) is before
    assert fit.interrupted and not alone.interrupted and repr(fit).endswith("interrupted)")
    assert fit.losses.tobytes() == alone.losses[:12].tobytes() and fit.history["interrupted/step"].tolist() == [12]
    assert fit.history["prune/step"].tolist() == [6], "pruned after the end"
    assert programs.same_bits((fit.params, fit.mask, fit.state), (kept.params, kept.mask, kept.state))
    fit.save(tmp_path / "fit")
    assert bp.load(tmp_path / "fit").interrupted
    resumed = bp.fit_svi(rng_key, BNN, DATA, checkpoint=tmp_path, checkpoint_every=1_000, **SETTINGS)
    assert not resumed.interrupted and programs.same_bits((alone.params, alone.state), (resumed.params, resumed.state))
    more = bp.fit_svi(rng_key, BNN, DATA, init=fit, **SETTINGS | {"num_steps": 8})
    assert len(more.losses) == 8 and not (more.mask["Dense_0.kernel"] & ~fit.mask["Dense_0.kernel"]).any()


def test_an_interruption_after_the_last_step_is_none(monkeypatch, rng_key) -> None:
    monkeypatch.setattr(sys, "ps1", ">>> ", raising=False)
    signals(monkeypatch, signal.SIGINT, 18)
    with pytest.warns(UserWarning, match="step 20 of 20"):
        fit = bp.fit_svi(rng_key, BNN, DATA, **SETTINGS)
    assert len(fit.losses) == 20 and not fit.interrupted


def test_what_an_interruption_does_is_a_known_word(rng_key) -> None:
    with pytest.raises(ValueError, match=r"unknown on_interrupt 'retrn'\. Did you mean 'return'"):
        bp.fit_svi(rng_key, BNN, DATA, on_interrupt="retrn", **SETTINGS)


def test_sigterm_is_never_swallowed(tmp_path) -> None:
    with pytest.raises(InterruptedFit, match="SIGTERM"), Interruption(tmp_path, returns=True) as interruption:
        signal.raise_signal(signal.SIGTERM)
        interruption.end(3, 5)
    before = signal.getsignal(signal.SIGTERM)
    with Interruption(None, returns=True):
        assert signal.getsignal(signal.SIGTERM) is before, "nothing is saved by which to go on"


@pytest.mark.slow
def test_samples_are_returned_too(monkeypatch, rng_key) -> None:
    """Of the first chain what it had kept by then; where that is nothing, it raises."""
    monkeypatch.setattr(sys, "ps1", ">>> ", raising=False)
    settings = {"num_steps": 20, "num_samples": 2, "sample_every": 8, "num_chains": 2, "batch_size": 16}
    settings |= {"callbacks": lambda moment: None, "callback_every": 3}
    with monkeypatch.context() as patch, pytest.warns(UserWarning, match=r"step 1[3-5] of 20"):
        signals(patch, signal.SIGINT, 12)  # of the first chain, after its first network
        fit = bp.fit_sgmcmc(rng_key, BNN, DATA, **settings)
    assert fit.params["Dense_0.kernel$draws"].shape[0] == 1 and 12 < fit.losses.shape[-1] < 16 and fit.interrupted
    with monkeypatch.context() as patch, pytest.warns(UserWarning), pytest.raises(KeyboardInterrupt, match="first network"):
        signals(patch, signal.SIGINT, 0)
        bp.fit_sgmcmc(rng_key, BNN, DATA, **settings)


SESSION = """
import jax, signal, numpy as np, bayesprune as bp
_ = signal.signal(signal.SIGINT, signal.default_int_handler)  # a background job is born deaf to it
data = bp.Dataset(np.random.default_rng(0).normal(size=(60, 4)).astype(np.float32), np.arange(60) % 3)
bnn = bp.BNN(bp.nets.MLP((4,), 3), prior=bp.priors.Flat(), likelihood=bp.likelihoods.Categorical(), input_shape=(4,))
go = lambda moment: print("step", moment.step, flush=True)
fit = bp.fit_svi(jax.random.key(0), bnn, data, num_steps=1_000_000, callbacks=go, callback_every=10)
print("interrupted", fit.interrupted)
"""


@pytest.mark.slow_cases(1)
@pytest.mark.slow
@pytest.mark.parametrize("interactive", [True, False], ids=["at the prompt", "script"])
def test_ctrl_c_from_outside(interactive, tmp_path) -> None:
    """A process of its own, and a signal that another one sends."""
    (tmp_path / "script.py").write_text(SESSION)
    process = subprocess.Popen(
        [sys.executable, *(["-i", "-q"] if interactive else [str(tmp_path / "script.py")])],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    with process:
        if interactive:
            process.stdin.write(SESSION)
            process.stdin.flush()
        assert process.stdout.readline().startswith("step")
        process.send_signal(signal.SIGINT)
        out, told = process.communicate(timeout=120)
    if interactive:
        assert "interrupted True" in out and "It is returned as it is" in told and process.returncode == 0
    else:
        assert "interrupted" not in out and "KeyboardInterrupt" in told and process.returncode in (-signal.SIGINT, 130)


def test_a_second_signal_does_not_wait(tmp_path) -> None:
    with pytest.raises(KeyboardInterrupt), Interruption(tmp_path) as interruption:
        signal.raise_signal(signal.SIGINT)
        assert interruption.signum
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


def test_a_signal_that_another_process_was_sent_is_heard(tmp_path) -> None:
    before = signal.getsignal(signal.SIGTERM)
    with Interruption(tmp_path) as interruption:
        interruption.hear(0)
        assert not interruption.signum
        interruption.hear(signal.SIGTERM)
        interruption.hear(signal.SIGINT)
        assert interruption.signum == signal.SIGTERM, "the first one counts"
        with pytest.raises(InterruptedFit, match="SIGTERM ended the fit at step 3 of 9"):
            interruption.end(3, 9)
    assert signal.getsignal(signal.SIGTERM) is before
