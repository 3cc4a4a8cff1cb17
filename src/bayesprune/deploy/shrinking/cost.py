"""What a network costs before and after: numbers that are stored, and floating-point operations for one row."""

import math
from dataclasses import dataclass

import numpy as np

from bayesprune.deploy.program.linear import terms
from bayesprune.deploy.program.ops import OPAQUE, Op, OpProgram
from bayesprune.deploy.shrinking.plan import ShrinkPlan
from bayesprune.deploy.shrinking.shrink import Small
from bayesprune.structure import Graph, multiply_adds


@dataclass(frozen=True)
class Cost:
    """``dense_numbers``: weights of the network; ``numbers``: weights and constants that are left, ``alive`` of them other than
    zero. FLOPs of products and convolutions for one row, two for a multiply-add, padding counted: ``dense`` by the network,
    ``executed`` by the smaller one on dense arrays, ``theoretical`` if no zero were multiplied. What is not followed counts as
    the network's graph has it, all of it while a part is left; loops whose turns are settled when they run do not."""

    dense_numbers: int
    numbers: int
    alive: int
    dense: int
    executed: int
    theoretical: int


def cost(plan: ShrinkPlan, small: Small, graph: Graph) -> Cost:
    """Count both programs. ``graph``: of the network, which says what is done in operations that neither follows."""
    arrays = {**small.program.constants, **{n: small.alive[site] for site, n in small.program.weights.items()}}
    products = [op for op in small.program.ops if op.name in ("dot", "conv")]
    executed = [flops(op, small.program) for op in products]
    dense = sum(flops(op, plan.program) for op in plan.program.ops if op.name in ("dot", "conv"))
    pinned = max(_of_graph(graph) - dense, 0) if plan.program.one_by_one else 0
    left = pinned if any(op.name == OPAQUE for op in small.program.ops) else 0
    return Cost(
        dense_numbers=sum(math.prod(plan.program.shapes[number]) for number in plan.program.weights.values()),
        numbers=sum(array.size for array in arrays.values()),
        alive=sum(int(np.count_nonzero(array)) for array in arrays.values()),
        dense=dense + pinned,
        executed=sum(executed) + left,
        theoretical=sum(round(n * _density(op, arrays)) for op, n in zip(products, executed, strict=True)) + left,
    )


def _of_graph(graph: Graph) -> int:
    """FLOPs of the whole network; none where it is not known before it runs how many there are."""
    return 0 if graph.unsettled else 2 * sum(executed for _, executed, _ in multiply_adds(graph, {}))


def flops(op: Op, program: OpProgram) -> int:
    """Of one product or convolution."""
    return 2 * math.prod(program.shapes[op.outputs[0]]) * terms(op, program.shapes[op.inputs[1]])


def _density(op: Op, arrays: dict[int, np.ndarray]) -> float:
    """The share of a factor's entries that are not zero; every entry takes part equally often."""
    known = [np.count_nonzero(arrays[i]) / arrays[i].size for i in op.inputs if i in arrays]
    return min(known, default=1.0)
