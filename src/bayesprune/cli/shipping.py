"""The smaller network of a run: its file, and what it saves, measured."""

import statistics
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from bayesprune.core.tracing import by_one_thread
from bayesprune.core.types import PyTree
from bayesprune.deploy.compact import KEEPS, Compact, compact
from bayesprune.deploy.engines.measure import times
from bayesprune.deploy.program.laws import factorised, fixed, means, posterior
from bayesprune.infer.predict import blocks_of
from bayesprune.model.bnn import BNN, STATE
from bayesprune.model.net_params import why_no_mean
from bayesprune.posteriors.samples import draws_of

FILE = "net.bayesprune"
ROWS, NETWORKS = 1000, 20


def make(
    bnn: BNN, params: dict[str, Any], mask: dict[str, Any], keep: str, rng_key: jax.Array, num_draws: int | None
) -> Compact:
    """The smaller network; of a posterior that has to be drawn, 20 networks by default."""
    drawn = keep == KEEPS[0] and not factorised(bnn, params) and not draws_of(params)
    number = NETWORKS if drawn and num_draws is None else num_draws
    return compact(bnn, params, mask, keep, rng_key=rng_key, num_draws=number).certified()


def report(
    bnn: BNN, params: dict[str, Any], mask: dict[str, Any], small: Compact, rows: np.ndarray, path: Path, other: Path
) -> dict[str, Any]:
    """What it saves: numbers, FLOPs, bytes beside the posterior's file ``other``, seconds for a thousand rows."""
    x = np.resize(np.asarray(rows, np.float32), (ROWS, *bnn.input_shape))
    one, values = _timed(bnn, params, mask, small)
    weights = jax.tree.map(jnp.asarray, fixed(bnn, params) | values)

    @by_one_thread
    def predicted(weights: PyTree, state: PyTree, blocks: PyTree) -> Any:
        return jax.lax.map(lambda part: bnn.likelihood.mean(bnn.forward(weights, state, part)), blocks)

    whole = jax.jit(predicted)
    blocks, state = [jnp.asarray(block) for block in blocks_of(x)], params.get(STATE, {})
    before = statistics.median(times(lambda: [np.asarray(whole(weights, state, block)) for block in blocks]))
    return {
        "keeps": small.law.kind,
        "certificate_holds": small.certificate is not None and small.certificate.holds,
        "numbers": small.cost.numbers,
        "dense_numbers": small.cost.dense_numbers,
        "alive": small.cost.alive,
        "flops": small.cost.executed,
        "dense_flops": small.cost.dense,
        "bytes": path.stat().st_size,
        "posterior_bytes": other.stat().st_size,
        "rows": ROWS,
        "seconds": statistics.median(times(lambda: one.predict(x))),
        "seconds_before": before,
        "pinned": dict(small.pinned),
    }


def _timed(bnn: BNN, params: dict[str, Any], mask: dict[str, Any], small: Compact) -> tuple[Compact, dict[str, Any]]:
    """One network, smaller, and the Bayesian weights of the whole one: at the mean, or drawn where the mean is no network."""
    if small.law.kind != "draws":
        return small, means(bnn, params, mask)
    if why_no_mean(bnn, params):  # which one is drawn makes no difference to its time
        one = compact(bnn, params, mask, rng_key=jax.random.key(0), num_draws=1)
        return one, posterior(bnn, params, mask, jax.random.key(0), 1).mean()
    return compact(bnn, params, mask, keep="mean"), means(bnn, params, mask)


def inside(folder: Path, name: str, flag: str) -> Path:
    """The path of a file in ``folder``. ``flag``: by which the user names another path.

    Raises `ValueError` for a link that leads out of the folder: who made the folder would decide what is overwritten.
    """
    path = folder / name
    if path.is_symlink() and not path.resolve().is_relative_to(folder.resolve()):
        raise ValueError(f"{path} is a link that leads to {path.resolve()}, out of the folder: delete it, or give {flag} FILE.")
    return path
