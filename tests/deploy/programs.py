"""Networks of many kinds as programs, and their smaller ones: what the tests of compaction share."""

from functools import cache

import jax
import jax.numpy as jnp
import numpy as np

from bayesprune.deploy.program.ops import OpProgram
from bayesprune.deploy.program.trace import trace
from bayesprune.deploy.shrinking.plan import ShrinkPlan, make_plan
from bayesprune.deploy.shrinking.shrink import Small, build
from tests.structure.nets import NETS, case

__all__ = ["NETS", "case", "plan_of", "program", "weights_of"]


@cache
def program(name: str) -> OpProgram:
    """The operations of a network, its state drawn at random."""
    net, sites = case(name), sorted(case(name).abstract[0])
    leaves, tree = jax.tree.flatten(net.drawn(0)[0])

    def outputs(weights, state, x):
        return net.adapted.apply(dict(zip(sites, weights, strict=True)), jax.tree.unflatten(tree, state), x, False, None)[0]

    def jaxpr(rows):
        weights = [net.abstract[0][site] for site in sites]
        return jax.make_jaxpr(outputs)(weights, leaves, jax.ShapeDtypeStruct((rows, *net.shape), jnp.float32))

    return trace(jaxpr, sites, [np.asarray(leaf) for leaf in leaves])


def weights_of(name: str, seed: int, density: float, units: float = 0.0) -> dict[str, np.ndarray]:
    """Masked weights: single ones at random, and whole slices of the last axis with probability ``units``."""
    rng = np.random.default_rng(seed)
    weights = case(name).weights(rng)
    for site, value in weights.items():
        alive = rng.random(value.shape) < density
        if value.ndim > 1 and "class" not in site:
            alive &= rng.random(value.shape[-1:]) >= units
        weights[site] = np.where(alive, value, 0).astype(np.float32)
    return weights


def plan_of(name: str, weights: dict[str, np.ndarray], keep: str) -> tuple[ShrinkPlan, Small]:
    random = {site: value != 0 for site, value in weights.items()} if keep == "posterior" else {}
    plan = make_plan(program(name), random, {} if keep == "posterior" else weights)
    return plan, build(plan, plan.known.values)
