"""Ten small fits that a process may be killed in, and the process that runs them for `faults.py`.

    python benchmarks/faults_fits.py        # reads one request a line: {"kind": "ssvi", "folder": "runs/a"}

It has imported everything and computed nothing, so that a copy of it, by a fork for each request, is a process of its own that
begins at once. It writes a line at each event: which process began, that training goes on, how the fit ended, that it is gone.
"""

import contextlib
import hashlib
import json
import os
import shutil
import signal
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import jax
import numpy as np
import optax

import bayesprune as bp
from bayesprune.cli import build, log, run
from bayesprune.cli.flags import parse

ROWS = np.random.default_rng(0).normal(size=(96, 4)).astype(np.float32)
DATA = bp.Dataset(ROWS, np.argmax(ROWS[:, :3], axis=1).astype(np.int32))
BITS = bp.Dataset(ROWS, (ROWS[:, 0] > 0).astype(np.int32))
TIMES = ("seconds", "checksum", "resumed_at_step")  # of a run's figures, those that no two runs share
EVERY = 25  # steps between checkpoints
PLAIN: dict[str, Any] = {"course": bp.courses.Plain(), "optimizer": optax.adabelief(1e-2)}


def net(prior: Any, likelihood: Any = None, **settings: Any) -> bp.BNN:
    outputs = 1 if likelihood else 3
    chosen = likelihood or bp.likelihoods.Categorical()
    return bp.BNN(bp.nets.MLP((6,), outputs), prior=prior, likelihood=chosen, input_shape=(4,), **settings)


def svi(bnn: bp.BNN, data: Any = DATA, num_steps: int = 1500, **settings: Any) -> bp.FitResult:
    chosen = {"num_steps": num_steps, "batch_size": 16, "checkpoint_every": EVERY, "progress": False} | settings
    return bp.fit_svi(jax.random.key(0), bnn, data, **chosen)


def batches() -> Iterator[tuple[np.ndarray, np.ndarray]]:
    yield from ((DATA.x[first : first + 16], DATA.y[first : first + 16]) for first in range(0, 96, 16))


def sampled(**more: Any) -> bp.FitResult:
    kernel = bp.kernels.SGHMC(1e-3, num_cycles=3)
    return bp.fit_sgmcmc(
        jax.random.key(0), net(bp.priors.Gaussian()), DATA, num_steps=1500, batch_size=16, kernel=kernel, num_samples=12,
        checkpoint_every=EVERY, progress=False, **more,
    )  # fmt: skip


def command_line(checkpoint: str, callbacks: Any = ()) -> dict[str, str]:
    """`bayesprune run` without its figures: what it leaves in the folder, times apart."""
    words = "--dataset digits --net mlp --mlp.hidden 8 --method bmr --steps 400 --eval-every 200 --num-samples 2 --log jsonl"
    chosen = build.resolve(parse([*words.split(), "--checkpoint-every", str(EVERY), "--out", checkpoint]))
    writing = log.writing

    @contextlib.contextmanager
    def watched(*given: Any) -> Iterator[list[Any]]:
        with writing(*given) as made:
            yield [*made, *callbacks]

    run.log.writing = watched  # type: ignore[assignment]
    run.complete(chosen, Path(checkpoint), lambda _: None, False)
    return {path.name: content(path) for path in sorted(Path(checkpoint).iterdir()) if path.is_file()}


def content(path: Path) -> str:
    """A digest of what a file holds: JSON without times and the paths that it names; of a log the last line of each step, as
    steps after the last checkpoint are written again; of tensors their head in whatever order, which processes differ in.
    """
    text = path.read_bytes()
    if path.suffix in (".json", ".jsonl"):
        lines = [json.loads(line) for line in (text.splitlines() if path.suffix == ".jsonl" else [text])]
        lines = list({line.get("step", number): line for number, line in enumerate(lines)}.values())
        text = json.dumps([without_times(line) for line in lines]).replace(str(path.parent), "").encode()
    if path.suffix in (".safetensors", ".bayesprune"):
        end = 8 + int.from_bytes(text[:8], "little")
        text = json.dumps(json.loads(text[8:end]), sort_keys=True).encode() + text[end:]
    if path.suffix == ".npz":
        with np.load(path) as arrays:
            text = digest({name: arrays[name] for name in arrays.files}).encode()
    return hashlib.sha256(text).hexdigest()


def without_times(found: Any) -> Any:
    if isinstance(found, dict):
        return {name: without_times(one) for name, one in found.items() if not any(word in name for word in TIMES)}
    return found


# Name -> a fit, given checkpoint= and callbacks=. Nothing is built before it is asked for: one does not fork what has computed.
KINDS: dict[str, Callable[..., Any]] = {
    "standard course with BMR": lambda **more: svi(
        net(bp.priors.Flat()), sparsifier=bp.methods.BMR(), eval_data=DATA, eval_every=500, **more
    ),
    "noise of outputs": lambda **more: svi(
        net(bp.priors.Gaussian()), **PLAIN, estimator="local", sparsifier=bp.methods.BMR(), every=300, **more
    ),
    "horseshoe": lambda **more: svi(
        net(bp.priors.Horseshoe()), **PLAIN, sparsifier=bp.methods.BMR(), every=300, kl_weight=0.1, **more
    ),
    "SSVI of active weights": lambda **more: svi(
        net(bp.priors.Gaussian()), **PLAIN, sparsifier=bp.methods.SSVI(density=0.5), every=100, storage="active", **more
    ),
    "SNR": lambda **more: svi(
        net(bp.priors.Gaussian()),
        **PLAIN,
        sparsifier=bp.methods.SNR(density=bp.schedules.Cubic(0.2, 0, 10)),
        every=100,
        **more,
    ),
    "spike and slab": lambda **more: svi(
        net(bp.priors.DiracSlab(), bp.likelihoods.Bernoulli()), BITS, **PLAIN, sparsifier=bp.methods.SVBNN(), every=300, **more
    ),
    "batches from a function": lambda **more: svi(
        net(bp.priors.Flat()), batches, num_rows=96, sparsifier=bp.methods.BMR(), **more
    ),
    "compact": lambda **more: svi(net(bp.priors.Flat()), sparsifier=bp.methods.BMR(), storage="compact", **more),
    "SGHMC": sampled,
    "command line": command_line,
}


def digest(tree: Any) -> str:
    """Of every bit of a tree of arrays."""
    made = hashlib.sha256()
    for path, leaf in jax.tree_util.tree_flatten_with_path(tree)[0]:
        is_key = isinstance(leaf, jax.Array) and jax.numpy.issubdtype(leaf.dtype, jax.dtypes.prng_key)
        value = np.asarray(jax.random.key_data(leaf) if is_key else leaf)
        text = value.astype(str).tobytes() if value.dtype == object else value.tobytes()
        made.update(f"{jax.tree_util.keystr(path)} {value.dtype} {value.shape}".encode() + text)
    return made.hexdigest()


def of_fit(fit: Any) -> str:
    """Of all that a fit returns, or a command has written."""
    if isinstance(fit, dict):
        return digest({name: np.frombuffer(bytes.fromhex(one), np.uint8) for name, one in fit.items()})
    history = {name: np.asarray(values) for name, values in fit.history.items()}
    return digest([dict(fit.params), fit.state, np.asarray(fit.losses), fit.mask, history])


def say(event: str, **more: Any) -> None:
    os.write(1, json.dumps({"event": event} | more).encode() + b"\n")


def attempt(kind: str, folder: str, act: str = "", at: int = 0) -> None:
    """One fit, in the process of its own; ``act``: what happens to the folder at step ``at``, in the middle of the fit."""
    begun: list[int] = []

    def callback(moment: bp.Moment) -> None:
        if not begun:
            say("begun", step=moment.step)
        begun.append(moment.step)
        if act and moment.step >= at:
            acts(act, Path(folder))

    begin = time.process_time()
    try:
        found = KINDS[kind](checkpoint=folder, callbacks=[callback])
    except Exception as error:
        say("failed", error=type(error).__name__, says=str(error), losses=losses_of(getattr(error, "fit", None)))
    else:
        say("ended", digest=of_fit(found), losses=losses_of(found), cpu=time.process_time() - begin)


def losses_of(fit: Any) -> str:
    """Their bits, in hexadecimal; of a command line and of an error without a fit none."""
    return np.asarray(getattr(fit, "losses", ()), np.float32).tobytes().hex()


def acts(act: str, folder: Path) -> None:
    """What a user, or a system, may do to a folder that is in use."""
    if act == "remove" and folder.exists():
        shutil.rmtree(folder)
    elif act == "die":
        os.kill(os.getpid(), signal.SIGKILL)
    elif act == "lead nowhere":
        folder.unlink(missing_ok=True)
        folder.symlink_to(folder.parent / "nowhere" / "at all")
    elif act == "wait":  # until the study has done something to the disk
        say("waits")
        while not (folder.parents[1] / "go").exists():
            time.sleep(0.01)


def main() -> None:
    """A process for each request, and what becomes of it."""
    say("ready")
    for line in sys.stdin:
        request = json.loads(line)
        child = os.fork()
        if not child:
            say("started", pid=os.getpid())
            attempt(**request)
            os._exit(0)
        status = os.waitpid(child, 0)[1]
        say("gone", killed=os.WIFSIGNALED(status), code=os.waitstatus_to_exitcode(status))


if __name__ == "__main__":
    main()
