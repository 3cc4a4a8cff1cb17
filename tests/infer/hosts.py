"""What each process of `test_hosts` runs: ``python hosts.py COUNT INDEX PORT FOLDER``; of one process, the oracle.

Of 61 rows in batches of 24 no epoch ends with a batch. Results go to FOLDER/COUNT_INDEX.npz.
"""

import functools
import itertools
import json
import signal
import sys

import grain
import jax
import numpy as np

import bayesprune as bp
from tests.infer.programs import classes

DATA = classes(rows=61)
SETTINGS = {"num_steps": 12, "batch_size": 24, "num_rows": 61, "every": 5}
SETTINGS["sparsifier"] = bp.methods.Cut(score="snr", density=0.4)
FOUND: dict[str, np.ndarray] = {}
TOLD: dict[str, str] = {}


class Kill(Exception):
    """Stands for the end of a process in the midst of a fit."""


@functools.cache
def bnn() -> bp.BNN:
    """After `jax.distributed.initialize`, which comes first."""
    net = bp.nets.MLP((8,), 3)
    return bp.BNN(net, prior=bp.priors.Gaussian(), likelihood=bp.likelihoods.Categorical(), input_shape=(4,))


def keep(name: str, fit: bp.FitResult) -> None:
    FOUND[f"{name}/losses"] = fit.losses
    numbers = {n: np.asarray(value) for n, value in (fit.params | fit.mask).items() if "$" not in n}
    FOUND.update({f"{name}/{n}": value for n, value in numbers.items()})


def fit(key: int = 0, data=DATA, **more) -> bp.FitResult:
    return bp.fit_svi(jax.random.key(key), bnn(), data, **SETTINGS | more)


def refused(name: str, **more) -> None:
    try:
        fit(**more)
    except (ValueError, RuntimeError) as error:
        TOLD[name] = str(error)


def die() -> None:
    raise Kill


def be_told_to_end() -> None:
    """One process is; the other one hears of it from that."""
    signal.raise_signal(signal.SIGTERM)


def interrupted(folder: str, act=die, **more) -> bp.FitResult:
    """A fit that ends in the midst of it, and goes on. ``act``: what process 0, which alone calls back, does at step 8."""
    saved = {"checkpoint": folder, "checkpoint_every": 4, "callback_every": 8}
    try:
        fit(callbacks=lambda moment: act() if moment.step == 8 else None, **saved, **more)
    except (Kill, RuntimeError, KeyboardInterrupt) as error:
        TOLD[folder.rpartition("/")[2]] = f"{type(error).__name__}: {error}"
    return fit(**saved, **more)


def one(folder: str) -> None:
    mesh = jax.make_mesh((4,), ("rows",))
    keep("one device", fit())
    keep("four devices", fit(mesh=mesh))
    refused("uneven", batch_size=15, mesh=mesh)
    shares = [itertools.cycle(np.arange(61)[start::2]) for start in (0, 1)]
    rows = [np.concatenate([list(itertools.islice(share, 12)) for share in shares]) for _ in range(14)]
    keep("shares", fit(data=[(DATA.x[numbers], DATA.y[numbers]) for numbers in rows]))


def two(index: int, folder: str) -> None:
    rows, weights = jax.make_mesh((4,), ("rows",)), jax.make_mesh((2, 2), ("rows", "weights"))
    seen: list[int] = []
    watched = {"eval_data": DATA, "eval_every": 6, "evaluator": lambda *_, **__: {"process": float(index)}}
    whole = fit(mesh=rows, callbacks=lambda moment: seen.append(len(moment.params())), callback_every=6, **watched)
    keep("rows", whole)
    keep("rows again", interrupted(f"{folder}/killed", mesh=rows, **watched))
    FOUND.update(seen=np.asarray(seen), eval=whole.history["eval/process"])
    np.save(f"{folder}/x{index}.npy", DATA.x)
    mapped = bp.Dataset(np.load(f"{folder}/x{index}.npy", mmap_mode="r"), DATA.y)
    keep("mapped", fit(data=mapped, mesh=weights))
    source = grain.MapDataset.source([(x, y) for x, y in zip(DATA.x, DATA.y, strict=True)])
    share = source[index::2].batch(5).to_iter_dataset()
    keep("shares", fit(data=share, mesh=weights))
    keep("shares again", interrupted(f"{folder}/shares", be_told_to_end, data=share, mesh=weights))
    refused("no mesh")
    refused("keys", key=index, mesh=rows)
    refused("data", data=bp.Dataset(DATA.x + index, DATA.y), mesh=rows)
    refused("same batches", data=source.batch(5).to_iter_dataset(), mesh=rows)
    refused("other axis", data=share, mesh=jax.sharding.Mesh(np.asarray(weights.devices).T, ("rows", "weights")))
    FOUND["devices"] = np.asarray([jax.device_count(), jax.local_device_count()])


if __name__ == "__main__":
    count, index, port, folder = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3], sys.argv[4]
    if count == 1:
        one(folder)
    else:
        jax.config.update("jax_cpu_collectives_implementation", "gloo")
        jax.distributed.initialize(f"localhost:{port}", count, index, initialization_timeout=600)
        two(index, folder)
    np.savez(f"{folder}/{count}_{index}.npz", **FOUND, told=json.dumps(TOLD))
