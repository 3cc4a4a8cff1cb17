"""What `test_parallel_chains` and `test_replicates` run in a process of four devices: prints what it has found, as JSON."""

import json
import sys
from typing import Any

import jax
import numpy as np

import bayesprune as bp
from bayesprune.infer import chains
from tests.infer import programs

SETTINGS = {"num_steps": 6, "batch_size": 16, "num_samples": 2, "sample_every": 2, "progress": False}
SETTINGS["kernel"] = bp.kernels.SGHMC(1e-3)


def sample(how: str, **more: Any) -> bp.FitResult:
    settings = SETTINGS | {"num_chains": 4} | more
    return bp.fit_sgmcmc(jax.random.key(0), programs.small_bnn(), programs.classes(), chain_method=how, **settings)


def watched(**more: Any) -> tuple[bp.FitResult, list[list[int]]]:
    """The fit; of its state's arrays with an axis of chains: on how many devices they lie, and of how many chains on each."""
    home, seen = chains.at_home, set()

    def at_home(tree: Any, mesh: Any) -> Any:
        leaves = jax.tree.leaves((tree.params, tree.opt_state)) if hasattr(tree, "opt_state") else []
        seen.update((leaf.sharding.num_devices, leaf.addressable_shards[0].data.shape[0]) for leaf in leaves if leaf.ndim)
        return home(tree, mesh)

    chains.at_home = at_home
    fit = sample("parallel", num_chains=8, **more)
    chains.at_home = home
    return fit, sorted(map(list, seen))


def replicate(**more: Any) -> bp.infer.replicates.Replicates:
    """Eight replications, each of data of its own, with a third of one's weights dead."""
    data = programs.classes()
    x = np.stack([data.x * (1 + 0.1 * r) for r in range(8)])
    shapes = {str(s.path): (8, *s.shape) for s in programs.small_bnn().layout if s.bayesian}
    mask = {site: np.random.default_rng(0).random(shape) < 0.7 for site, shape in shapes.items()}
    settings = {"num_steps": 7, "batch_size": 16, "mask": mask, "progress": False} | more
    return bp.fit_replicates(jax.random.key(0), programs.small_bnn(), bp.Dataset(x, np.stack([data.y] * 8)), **settings)


def replications() -> None:
    one, four = replicate(), replicate(mesh=jax.make_mesh((4,), ("replications",)))
    close = lambda a, b: np.allclose(a, b, rtol=2e-5, atol=2e-6)  # noqa: E731
    differs = [name for name in one.params if not close(one.params[name], four.params[name])]
    told = {"differs": differs, "losses": close(one.losses, four.losses)}
    told["bound"] = any(leaf.committed for leaf in jax.tree.leaves(four.params))
    try:
        replicate(mesh=jax.make_mesh((3,), ("replications",), devices=jax.devices()[:3]))
    except ValueError as error:
        sys.stdout.write(json.dumps(told | {"uneven": str(error)}))


def main() -> None:
    oracle = sample("vectorized", num_chains=8)
    four, places = watched()
    two, of_two = watched(mesh=jax.make_mesh((2,), ("chains",), devices=jax.devices()[:2]))
    # To rounding: a device computes with fewer chains at once.
    close = lambda fit, name: np.allclose(fit.params[name], oracle.params[name], rtol=2e-5, atol=2e-6)  # noqa: E731
    differs = [name for name in oracle.params for fit in (four, two) if not close(fit, name)]
    try:
        sample("parallel", num_chains=3)
    except ValueError as error:
        sys.stdout.write(json.dumps({"four": places, "two": of_two, "differs": differs, "uneven": str(error)}))


if __name__ == "__main__":
    replications() if "replications" in sys.argv else main()
