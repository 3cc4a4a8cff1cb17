"""What sparse training keeps in memory, and what a step of it takes: dense VI, SSVI masked, SSVI active, for ResNet-18.

    python benchmarks/ssvi_memory.py run                             # into runs/ssvi_memory.jsonl, if it is not there
    python benchmarks/ssvi_memory.py run --set batch=8 dtype=bfloat16
    python benchmarks/ssvi_memory.py table                           # from the results kept here

Trainable state: parameters, their gradients, the optimiser's moments, and for active storage the positions of the alive
weights; bytes counted from the shapes of what the compiled loop carries. XLA's account of the compiled loop, and of an
exchange of weights, comes from ``compiled.memory_analysis()``, the allocator's peak from the device where it tells (GPU). On a
CPU XLA orders work for parallelism by default; its account is also taken in the order that frees memory early, "sparing".
Step times alternate between the storages, one warm-up chunk each, medians of the rounds. Made-up images of CIFAR-10's shape;
momentum SGD and local reparameterisation, as in the SSVI paper. A MAP step of the same net stands beside them, for images a
second.
"""

import math
import statistics
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax

import bayesprune as bp
from bayesprune import cells
from bayesprune.model.families import Family, MapFamily, MeanFieldFamily
from bayesprune.prune.keep_all import KeepAll
from bayesprune.train.kernels.optimizer import Optax
from bayesprune.train.loop import compile_loop
from bayesprune.train.objective import make_elbo
from bayesprune.train.sites import Example
from bayesprune.train.start import start_mask, start_storage
from bayesprune.train.state import Recipe

OPTIMIZER = optax.sgd(1e-4, momentum=0.9)
SPARING = {"xla_cpu_scheduler_type": "CPU_SCHEDULER_TYPE_MEMORY_OPTIMIZED"}
CONTESTANTS = ("dense VI", "SSVI masked", "SSVI active", "SSVI active, remat", "MAP")


@dataclass(frozen=True)
class Cell:
    """All storages side by side. ``steps``: of each round; ``dtype``: to compute in, such as bfloat16."""

    batch: int
    steps: int
    rounds: int
    density: float = 0.05
    dtype: str = ""


CELLS = (Cell(batch=32, steps=1, rounds=5),)


def build(posterior: Family, dtype: str) -> bp.BNN:
    return bp.BNN(
        bp.nets.ResNet18(num_outputs=10, dtype=dtype or None),
        prior=bp.priors.Gaussian(0.05),
        likelihood=bp.likelihoods.Categorical(),
        input_shape=(32, 32, 3),
        posterior=posterior,
        bayesian=bp.select.kernels,
        prunable=bp.select.kernels,
    )


def opened(
    bnn: bp.BNN, data: bp.Dataset, batch: int, density: float, storage: str, estimator: str, remat: bool = False
) -> tuple[Any, Any, Any]:
    """The compiled loop of a fit, and its first states."""
    sparsifier = bp.methods.SSVI(density) if density < 1 else KeepAll()
    keywords = (("train", True), ("num_rows", len(data.y)))
    elbo = make_elbo(estimator, 1)
    recipe = Recipe(bnn, elbo, Optax(OPTIMIZER), sparsifier, bp.schedules.Constant(0.01), batch, keywords, None, remat=remat)
    loop = compile_loop(recipe, Example.of(data))
    carry = loop.init(jax.random.key(0), data)
    sparse = start_mask(jax.random.key(0), sparsifier, bnn.read(loop.constrain(carry.params)), None)
    return start_storage(storage, loop, recipe, carry, sparse, Example.of(data))


def num_bytes(tree: Any) -> int:
    arrays = [leaf for leaf in jax.tree.leaves(tree) if jnp.issubdtype(leaf.dtype, jnp.number)]
    return sum(math.prod(leaf.shape) * leaf.dtype.itemsize for leaf in arrays)


def state_bytes(carry: Any, mask: Any) -> dict[str, int]:
    """Parameters, gradients of the same shapes, moments, and masks or positions; in bytes."""
    parts = {"params": num_bytes(carry.params), "gradients": num_bytes(carry.params), "moments": num_bytes(carry.opt_state)}
    parts["mask or positions"] = sum(leaf.nbytes for leaf in jax.tree.leaves(mask))
    return parts


def account(compiled: Any) -> dict[str, int]:
    """XLA's own, in bytes."""
    memory = compiled.memory_analysis()
    return {k: int(getattr(memory, f"{k}_size_in_bytes")) for k in ("argument", "output", "temp", "alias")}


def contestants(cell: Cell) -> dict[str, tuple[Any, ...]]:
    """Name -> program, density, storage, estimator, whether activations are made again."""
    mean_field, point = build(MeanFieldFamily(), cell.dtype), build(MapFamily(), cell.dtype)
    how = (
        (mean_field, 1.0, "masked", "local", False),
        (mean_field, cell.density, "masked", "local", False),
        (mean_field, cell.density, "active", "local", False),
        (mean_field, cell.density, "active", "local", True),
        (point, 1.0, "masked", "weight", False),
    )
    return dict(zip(CONTESTANTS, how, strict=True))


def run(cell: Cell, folder: Path) -> cells.Record:
    """Compile every contestant and count its bytes, then let them take turns."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(4 * cell.batch, 32, 32, 3)).astype(np.float32)
    data = jax.tree.map(jnp.asarray, bp.Dataset(x, rng.integers(0, 10, len(x)).astype(np.int32)))
    rows: dict[str, Any] = {}
    running: dict[str, Any] = {}
    orders: dict[str, Any] = {"xla": {}} | ({"xla sparing": SPARING} if jax.default_backend() == "cpu" else {})
    for name, (bnn, density, *how) in contestants(cell).items():
        loop, carry, sparse = opened(bnn, data, cell.batch, density, *how)
        rows[name] = {"state": state_bytes(carry, sparse.mask)}
        step = loop.run.lower(carry, data, sparse.mask, jnp.asarray(1, jnp.int32))
        compiled = {order: step.compile(compiler_options=options) for order, options in orders.items()}
        for order, options in orders.items():
            rows[name][order] = {"step": account(compiled[order])}
            if density < 1:
                lowered = loop.prune.lower(carry, data, sparse, {}, jnp.asarray(1, jnp.int32))
                exchange = lowered.compile(compiler_options=options)
                rows[name][order]["exchange"] = account(exchange)
        running[name] = [compiled["xla"], carry, sparse.mask, []]
        print(name, rows[name], flush=True)
    take_turns(running, data, cell)
    peak = jax.devices()[0].memory_stats() or {}
    compared = {name: row | ratios(name, rows, running, cell.batch) for name, row in rows.items()}
    return cells.flat(compared) | {"allocator_peak_bytes": peak.get("peak_bytes_in_use")}


def take_turns(running: dict[str, Any], data: Any, cell: Cell) -> None:
    """Seconds a step into each contestant's list, a round's worth each."""
    for turn in range(cell.rounds + 1):
        for name, (compiled, carry, mask, seconds) in running.items():
            begin = time.perf_counter()
            carry, losses, _ = compiled(carry, data, mask, jnp.asarray(cell.steps, jnp.int32))
            jax.block_until_ready(losses)
            running[name][1] = carry
            if turn:  # the first round warms up
                seconds.append((time.perf_counter() - begin) / cell.steps)


def ratios(name: str, rows: dict[str, Any], running: dict[str, Any], batch: int) -> dict[str, float]:
    """A contestant's times, and its bytes and times over those of the others."""
    trainable = lambda state: sum(v for k, v in state.items() if k != "mask or positions")  # noqa: E731
    median = lambda who: statistics.median(running[who][3])  # noqa: E731
    state, dense = rows[name]["state"], trainable(rows["dense VI"]["state"])
    return {
        "seconds_per_step": median(name),
        "images_per_second": batch / median(name),
        "trainable / dense VI": trainable(state) / dense,
        "with positions / dense VI": sum(state.values()) / dense,
        "step / masked": median(name) / median("SSVI masked"),
    }


def memory(found: cells.Found) -> str:
    """State, steps and temporaries; after a bar the temporaries in the order that frees memory early."""
    head = ["", "trainable state, MB", "of dense VI's", "with masks or positions", "step, s", "step / masked", "images / s"]
    head += ["temporaries of a step", "of an exchange"]
    record = found.get(CELLS[0])
    if record is None:
        return cells.table(head, [[name, *["missing"] * 8] for name in CONTESTANTS], "lrrrrrrrr")
    forms = {
        "trainable / dense VI": ".4f",
        "with positions / dense VI": ".4f",
        "seconds_per_step": ".2f",
        "step / masked": ".3f",
    }
    rows = []
    for name in CONTESTANTS:
        state = sum(record[f"{name}/state/{part}"] for part in ("params", "gradients", "moments"))
        figures = [f"{record[f'{name}/{figure}']:{form}}" for figure, form in (forms | {"images_per_second": ".1f"}).items()]
        rows.append(
            [name, f"{state / 1e6:.1f}", *figures, *(_temporaries(record, name, what) for what in ("step", "exchange"))]
        )
    return cells.table(head, rows, "lrrrrrrrr")


def _temporaries(record: cells.Record, name: str, what: str) -> str:
    paths = [f"{name}/{order}/{what}/temp" for order in ("xla", "xla sparing")]
    return " \\| ".join(f"{record[path] / 1e6:.0f}" for path in paths if path in record)


STUDY = cells.Study("ssvi_memory", CELLS, run, {"resnet18": memory})

if __name__ == "__main__":
    cells.main(STUDY)
