"""What a training step keeps and makes in memory, by XLA's account: plain, in bfloat16, with remat, active, over a mesh.

    python benchmarks/memory_of_a_step.py

An MLP of four hidden layers of 256 units, batches of 512, on one CPU device or on four forced
ones, whose figures are those of each. "state": parameters, the optimiser's moments and the mask, which the loop takes over
(donates) and gives back in the same memory; data are left out. "temporaries": what a step makes beside, in the order of work
that frees memory early. Nothing is trained, no time is taken.
"""

import os
from typing import Any

import jax
import jax.numpy as jnp
import optax
from flax import linen

import bayesprune as bp
from bayesprune.core.schedules import Constant
from bayesprune.infer.data import spread
from bayesprune.prune.keep_all import KeepAll
from bayesprune.report.tables import markdown
from bayesprune.train.loop import compile_loop
from bayesprune.train.recipe import make_recipe
from bayesprune.train.share import automatic
from bayesprune.train.sites import Example
from bayesprune.train.start import start_mask, start_storage

BATCH, WIDTH, INPUTS = 512, 256, 32
FLAGS = "--xla_force_host_platform_device_count=4 --xla_cpu_enable_concurrency_optimized_scheduler=false"
SPARSE = bp.methods.SSVI(density=0.05, distribution="uniform")


class Net(linen.Module):
    """An MLP that computes in ``dtype``, with parameters in float32."""

    dtype: Any = jnp.float32

    @linen.compact
    def __call__(self, x: jax.Array) -> jax.Array:
        for _ in range(4):
            x = linen.gelu(linen.Dense(WIDTH, dtype=self.dtype)(x))
        return linen.Dense(10, dtype=self.dtype)(x).astype(jnp.float32)


def account(dtype: Any = jnp.float32, sparsifier: Any = KeepAll(), storage: str = "masked", axes: Any = (), **more: Any) -> Any:
    """MB of state and temporaries on one device."""
    bnn = bp.BNN(Net(dtype), prior=bp.priors.Gaussian(), likelihood=bp.likelihoods.Categorical(), input_shape=(INPUTS,))
    mesh = automatic(jax.make_mesh(axes, ("rows", "weights")[: len(axes)])) if axes else None
    data = spread(bp.Dataset(jnp.zeros((BATCH, INPUTS)), jnp.zeros((BATCH,), jnp.int32)), BATCH, mesh)
    example = Example.of(data)
    recipe = make_recipe(
        bnn, example, BATCH, optimizer=optax.adabelief(1e-3), sparsifier=sparsifier, kl_weight=Constant(1.0),
        estimator="weight", num_particles=1, mesh=mesh, **more,
    )  # fmt: skip
    loop = compile_loop(recipe, example)
    carry = loop.init(jax.random.key(0), data)
    sparse = start_mask(jax.random.key(0), sparsifier, bnn.read(loop.constrain(carry.params)), None)
    loop, carry, sparse = start_storage(storage, loop, recipe, carry, sparse, example)
    found = loop.run.lower(carry, data, sparse.mask, jnp.zeros((), jnp.int32)).compile().memory_analysis()
    state = found.argument_size_in_bytes - sum(leaf.nbytes for leaf in jax.tree.leaves(data))
    return f"{state / 1e6:.1f}", f"{found.temp_size_in_bytes / 1e6:.1f}"


def main() -> None:
    os.environ["XLA_FLAGS"] = f"{os.environ.get('XLA_FLAGS', '')} {FLAGS}"  # before the first device is asked for
    cases = {
        "plain": {},
        "compute in bfloat16": {"dtype": jnp.bfloat16},
        "`remat=True`": {"remat": True},
        "SSVI at density .05, masked": {"sparsifier": SPARSE},
        'SSVI at density .05, `storage="active"`': {"sparsifier": SPARSE, "storage": "active"},
        "mesh of 4 devices for rows, each": {"axes": (4,)},
        "mesh of 2 for rows by 2 for parameters, each": {"axes": (2, 2)},
        "mesh of 1 for rows by 4 for parameters, each": {"axes": (1, 4)},
    }
    rows = [(name, *account(**case)) for name, case in cases.items()]
    print(markdown([("", "state, MB", "temporaries, MB"), *rows]))


if __name__ == "__main__":
    main()
