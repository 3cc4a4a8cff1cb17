"""What sparse training keeps in memory, and what a step of it takes: dense VI, SSVI masked, SSVI active, for ResNet-18.

    python benchmarks/ssvi_memory.py --batch 32 --steps 3 --out runs/ssvi_memory.json

Trainable state: parameters, their gradients, the optimiser's moments, and for active storage the positions of the alive
weights; bytes counted from the shapes of what the compiled loop carries. XLA's account of the compiled loop, and of an
exchange of weights, comes from ``compiled.memory_analysis()``, the allocator's peak from the device where it tells (GPU). On a
CPU XLA orders work for parallelism by default; its account is also taken in the order that frees memory early, "sparing".
Step times alternate between the storages, one warm-up chunk each, medians of the rounds. Made-up images of CIFAR-10's shape;
momentum SGD and local reparameterisation, as in the SSVI paper. A MAP step of the same net stands beside them, for images a
second.
"""

import argparse
import math
import statistics
import time
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax

import bayesprune as bp
from bayesprune.infer.compiled import Recipe, compile_loop
from bayesprune.infer.estimators import make_elbo
from bayesprune.infer.result import KeepAll
from bayesprune.infer.sites import Example
from bayesprune.infer.start import reader, start_mask, start_storage

OPTIMIZER = optax.sgd(1e-4, momentum=0.9)
SPARING = {"xla_cpu_scheduler_type": "CPU_SCHEDULER_TYPE_MEMORY_OPTIMIZED"}


def build(posterior: str, dtype: str | None) -> bp.BNN:
    return bp.BNN(
        bp.nets.ResNet18(num_outputs=10, dtype=dtype),
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
    recipe = Recipe(
        bnn, elbo, OPTIMIZER, sparsifier, bp.schedules.Constant(0.01), reader(bnn), batch, keywords, None, remat=remat
    )
    loop = compile_loop(recipe, Example.of(data))
    carry = loop.init(jax.random.key(0), data)
    sparse = start_mask(jax.random.key(0), sparsifier, bnn.read(loop.constrain(carry.params)), None, bnn, data, 100.0)
    return start_storage(storage, loop, recipe, carry, sparse, data)


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


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--steps", type=int, default=2, help="of each round")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--density", type=float, default=0.05)
    parser.add_argument("--dtype", default=None, help="to compute in, such as bfloat16")
    parser.add_argument("--out", type=Path, default=Path("runs/ssvi_memory.json"))
    arguments = parser.parse_args()
    rng = np.random.default_rng(0)
    x = rng.normal(size=(4 * arguments.batch, 32, 32, 3)).astype(np.float32)
    data = jax.tree.map(jnp.asarray, bp.Dataset(x, rng.integers(0, 10, len(x)).astype(np.int32)))
    mean_field, point = build("mean_field", arguments.dtype), build("map", arguments.dtype)
    contestants = {
        "dense VI": (mean_field, 1.0, "masked", "local", False),
        "SSVI masked": (mean_field, arguments.density, "masked", "local", False),
        "SSVI active": (mean_field, arguments.density, "active", "local", False),
        "SSVI active, remat": (mean_field, arguments.density, "active", "local", True),
        "MAP": (point, 1.0, "masked", "weight", False),
    }
    rows: dict[str, Any] = {}
    running: dict[str, Any] = {}
    orders: dict[str, Any] = {"xla": {}} | ({"xla sparing": SPARING} if jax.default_backend() == "cpu" else {})
    for name, (bnn, density, *how) in contestants.items():
        loop, carry, sparse = opened(bnn, data, arguments.batch, density, *how)
        rows[name] = {"state": state_bytes(carry, sparse.mask)}
        step = loop.run.lower(carry, data, sparse.mask, jnp.asarray(1, jnp.int32))
        compiled = {order: step.compile(compiler_options=options) for order, options in orders.items()}
        for order, options in orders.items():
            rows[name][order] = {"step": account(compiled[order])}
            if density < 1:
                exchange = loop.prune.lower(carry, data, sparse).compile(compiler_options=options)
                rows[name][order]["exchange"] = account(exchange)
        running[name] = [compiled["xla"], carry, sparse.mask, []]
        print(name, rows[name], flush=True)
    for turn in range(arguments.rounds + 1):
        for name, (compiled, carry, mask, seconds) in running.items():
            begin = time.perf_counter()
            carry, losses, _ = compiled(carry, data, mask, jnp.asarray(arguments.steps, jnp.int32))
            jax.block_until_ready(losses)
            running[name][1] = carry
            if turn:  # the first round warms up
                seconds.append((time.perf_counter() - begin) / arguments.steps)
    dense = rows["dense VI"]["state"]
    trainable = lambda state: sum(v for k, v in state.items() if k != "mask or positions")  # noqa: E731
    for name, row in rows.items():
        row["seconds_per_step"] = statistics.median(running[name][3])
        row["images_per_second"] = arguments.batch / row["seconds_per_step"]
        row["trainable / dense VI"] = trainable(row["state"]) / trainable(dense)
        row["with positions / dense VI"] = sum(row["state"].values()) / trainable(dense)
        row["step / masked"] = row["seconds_per_step"] / statistics.median(running["SSVI masked"][3])
    peak = jax.devices()[0].memory_stats() or {}
    result = {"batch": arguments.batch, "density": arguments.density, "dtype": arguments.dtype, "rows": rows}
    result |= {"device": str(jax.devices()[0]), "allocator_peak_bytes": peak.get("peak_bytes_in_use")}
    bp.report.write_json(arguments.out, result)
    for name, row in rows.items():
        print(name, {k: (round(v, 4) if isinstance(v, float) else v) for k, v in row.items()})


if __name__ == "__main__":
    main()
