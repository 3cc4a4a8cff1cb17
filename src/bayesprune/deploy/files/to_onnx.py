"""A compact network as one ONNX model, for runtimes that have neither JAX nor NumPy."""

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import jax
import numpy as np

from bayesprune.core.files import write_atomically
from bayesprune.core.given import RandomKey
from bayesprune.deploy.files.onnx_graph import LEARNING, OUTPUT, Array, OnnxGraph, integers, model
from bayesprune.deploy.program.ops import Op, OpProgram
from bayesprune.deploy.program.rules import COMPARE
from bayesprune.deploy.program.weights import Draws, Law, Weighted, checked
from bayesprune.deploy.reader import subscripts
from bayesprune.structure.ops import PRIMITIVES
from bayesprune.structure.ops.trees import follows

END = np.iinfo(np.int64).max
LOGIC = frozenset(["and", "not", "or", "xor"])
REDUCE = {"reduce_max": "ReduceMax", "reduce_min": "ReduceMin", "reduce_prod": "ReduceProd", "reduce_sum": "ReduceSum"}
POOL = {"window_sum": ("AveragePool", 0.0), "window_max": ("MaxPool", -np.inf), "window_min": ("MaxPool", np.inf)}


def export_onnx(
    compact: Weighted, path: str | os.PathLike[str], *, rng_key: RandomKey | None = None, num_draws: int | None = None
) -> None:
    """Write a compact network to ``path`` as one ONNX model, whole or not at all.

    Its input "x" is float32, or what ``compact.takes`` says, of shape (rows, *input_shape) for any number of rows; several
    inputs have the names of their dictionary, "x[0]" and "x[1]" of a tuple. Its output "mean" is E[y | x] as `Compact.predict`
    gives it: class probabilities (rows, classes), or means of y. Without a key it is that of the network at the posterior mean,
    or the average over stored draws; with one, the average over networks that are drawn now. Each of them has nodes and weights
    of its own, so that the file grows with their number; what no weight reaches is shared.

    Args:
        compact: of `bayesprune.compact` or `bayesprune.load`.
        path: where to, such as "net.onnx".
        rng_key, num_draws: draw so many networks; of stored draws, take so many, evenly over all. Both or neither.

    Raises:
        ImportError: onnx is not installed.
        ValueError: an operation that ONNX does not have; one of ``rng_key`` and ``num_draws`` without the other; more than two
            gigabytes, which no ONNX file holds.
        OSError: as the disk says, with a remedy; an older file is then left as it was.

    Example:
        >>> import bayesprune as bp, tempfile
        >>> bnn = bp.BNN(bp.nets.MLP((8,), 3), prior=bp.priors.Gaussian(), likelihood=bp.likelihoods.Categorical(),
        ...              input_shape=(4,))
        >>> train = bp.Dataset(np.ones((20, 4)), np.arange(20) % 3)
        >>> fit = bp.fit_svi(jax.random.key(0), bnn, train, num_steps=1, batch_size=20)
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     export_onnx(bp.compact(bnn, fit.params, fit.mask), os.path.join(folder, "net.onnx"))
        ...     os.listdir(folder)
        ['net.onnx']
    """
    try:
        import onnx
    except ImportError as error:
        raise ImportError('ONNX models need onnx: pip install "bayesprune[export]".') from error
    if opaque := ", ".join([*compact.program.opaque, *compact.head.opaque]):
        raise ValueError(f"ONNX cannot hold {opaque}: keep the network in JAX, or write it by sums, products and functions.")
    names = [leaf.name for leaf in compact.inputs.leaves]
    if OUTPUT in names or len(set(names)) < len(names):
        raise ValueError(f"the inputs {', '.join(names)} cannot all keep their names beside the output {OUTPUT!r}: rename.")
    graph, head = OnnxGraph(onnx, compact.inputs), compact.head
    outputs = _outputs(graph, compact.program, _networks(compact.law, rng_key, num_draws))
    means = [graph.cast(_run(graph, head, head.ops, {head.rows: made})[head.output], np.float32) for made in outputs]
    graph.add("Mean" if len(means) > 1 else "Identity", *means, output=OUTPUT)
    write_atomically(path, model(graph, head.sizes[head.output]).SerializeToString())


def _outputs(graph: OnnxGraph, program: OpProgram, networks: Iterable[Mapping[str, Any]]) -> Iterator[Array]:
    """The outputs of each network."""
    first, rest = program.halves
    shared = _run(graph, program, first, {program.rows: graph.rows()})
    for weights in networks:
        own = {number: np.asarray(weights[site]) for site, number in program.weights.items()}
        yield _run(graph, program, rest, {**shared, **own})[program.output]


def _networks(law: Law, rng_key: jax.Array | None, num_draws: int | None) -> Iterator[Mapping[str, Any]]:
    """The weights of each network that is averaged."""
    if (rng_key is None) != (num_draws is None):
        raise ValueError("give both rng_key= and num_draws=, to average over so many drawn networks, or neither.")
    if rng_key is not None:
        key, number = checked(rng_key, num_draws)
    elif isinstance(law, Draws):
        key, number = jax.random.key(0), law.num_draws
    else:
        yield law.mean()
        return
    draw = jax.jit(lambda index, tensors: law.draw(key, index, tensors))
    for index in law.chosen(number):
        yield draw(index, law.tensors())


def _run(graph: OnnxGraph, program: OpProgram, ops: Iterable[Op], values: Mapping[int, Array]) -> dict[int, Array]:
    """``values`` and the results of the operations; constants in the types that JAX computes in."""
    typed = {n: array.astype(jax.dtypes.canonicalize_dtype(array.dtype)) for n, array in program.constants.items()}
    values = {**typed, **values}
    for op in ops:
        values[op.outputs[0]] = _step(graph, op, program.sizes, [values[number] for number in op.inputs])
    return values


def _step(graph: OnnxGraph, op: Op, sizes: Mapping[int, Any], arrays: Sequence[Any]) -> Array:
    """One operation, as `reader.step` defines it."""
    name, at, a, before = op.name, op.attributes, arrays[0], sizes[op.inputs[0]]
    if onnx := PRIMITIVES[name].onnx if name in PRIMITIVES else "":
        return _entry_by_entry(graph, name, onnx, arrays, at)
    if name in REDUCE:
        return graph.add(REDUCE[name], *graph.alike([a]), integers(at["axes"]), keepdims=0, noop_with_empty_axes=1)
    if name in ("conv", *POOL):
        if any(graph.type(array).kind != "f" for array in arrays):
            raise ValueError(f"{name!r} of integers, which ONNX does not run: convert them to floats in the network.")
        return _convolve(graph, at, a, arrays[1]) if name == "conv" else _pool(graph, op, sizes, a)
    match name:
        case "convert":
            kind = jax.dtypes.canonicalize_dtype(at["dtype"])
            if graph.type(a).kind == "f" and kind == np.int32:  # of what is beyond these Cast may make anything
                ends = (-(2.0**31), np.nextafter(np.float32(2.0**31), np.float32(0.0)))
                a = graph.add("Clip", a, *(np.asarray(end, graph.type(a)) for end in ends))
            return graph.cast(a, kind)
        case "select":
            return graph.add("Where", graph.cast(a, bool), *graph.alike(arrays[:0:-1]))
        case "dot":
            return _dot(graph, op, sizes, *graph.alike(arrays))
        case "lookup":
            return _look_up(graph, a, arrays[1], before[0], len(before) - 1, at["fill"])
        case "trees":
            return _walk(graph, at["turns"], arrays)
        case "reshape":
            return graph.reshape(a, at["sizes"])
        case "transpose":
            return graph.transpose(a, at["order"])
        case "broadcast":
            return _broadcast(graph, a, before, at["sizes"], at["axes"])
        case "slice":
            cut = {axis: part for axis, part in enumerate(at["ranges"]) if list(part) != [0, before[axis], 1]}
            return _slice(graph, a, {axis: (low, END if high < 0 else high, by) for axis, (low, high, by) in cut.items()})
        case "take":
            return graph.add("Gather", a, integers(at["index"]), axis=at["axis"])
        case "reverse":
            return _slice(graph, a, {axis: (-1, -END, -1) for axis in at["axes"]})
        case "concatenate":
            return graph.add("Concat", *graph.alike(arrays), axis=at["axis"])
        case "pad":
            return graph.pad(a, at["sides"], graph.reshape(graph.cast(arrays[1], graph.type(a)), []))
    raise ValueError(f"operation {name!r} has no form in ONNX: write the network without it, or keep it in JAX.")


def _entry_by_entry(graph: OnnxGraph, name: str, onnx: Any, arrays: Sequence[Any], at: Mapping[str, Any]) -> Array:
    if name in LOGIC:
        return graph.add(onnx, *(graph.cast(array, bool) for array in arrays))
    if name in COMPARE:
        made = graph.add(onnx, *graph.alike(arrays), dtype=bool)
        return graph.add("Not", made) if name == "ne" else made
    alike = graph.alike(arrays, np.float32 if name == "div" else np.int32)
    return graph.add(onnx, *alike) if isinstance(onnx, str) else onnx(graph.add, *alike, **at)


def _walk(graph: OnnxGraph, turns: int, arrays: Sequence[Any]) -> Array:
    """Trees, whose nodes must be known: an operator of the standard's part for machine learning."""
    x, *known = arrays
    if any(isinstance(array, str) for array in known):
        raise ValueError("trees whose nodes are made within the network, which ONNX does not walk.")
    column, at, below, values, roots = known
    if not follows(below, roots):
        raise ValueError("trees whose nodes do not lead to later ones, one tree after the other, which ONNX does not walk.")
    last = np.append(roots[1:], len(below))
    tree, node = np.repeat(np.arange(len(roots)), last - roots), np.concatenate([*map(np.arange, last - roots)])
    leaf = below == 0
    inside = np.where(leaf, 0, below - roots[tree])
    target = np.arange(values.shape[1]) + (tree[leaf] % turns * values.shape[1])[:, None]
    of_leaf = lambda array: np.repeat(array[leaf], values.shape[1]).tolist()  # noqa: E731
    return graph.add(
        "TreeEnsembleRegressor",
        graph.cast(x, np.float32),
        dtype=np.float32,
        domain=LEARNING,
        n_targets=turns * values.shape[1],
        nodes_treeids=tree.tolist(),
        nodes_nodeids=node.tolist(),
        nodes_featureids=column.astype(int).tolist(),
        nodes_modes=np.where(leaf, "LEAF", "BRANCH_LEQ").tolist(),
        nodes_values=at.astype(float).tolist(),
        nodes_truenodeids=inside.tolist(),
        nodes_falsenodeids=np.where(leaf, 0, inside + 1).tolist(),
        target_treeids=of_leaf(tree),
        target_nodeids=of_leaf(node),
        target_ids=target.ravel().tolist(),
        target_weights=values[leaf].astype(float).ravel().tolist(),
    )


def _dot(graph: OnnxGraph, op: Op, sizes: Mapping[int, Any], a: Array, b: Array) -> Array:
    if op.is_matrix_product(sizes):
        return graph.add("MatMul", a, b)
    axes = (len(sizes[number]) for number in op.inputs)
    return graph.add("Einsum", a, b, equation=subscripts(*axes, **op.attributes))


def _convolve(graph: OnnxGraph, at: Mapping[str, Any], a: Array, kernel: Array) -> Array:
    made = graph.add(
        "Conv", graph.transpose(a, at["data"]), graph.transpose(kernel, at["weights"]), group=at["groups"],
        pads=np.ravel(at["sides"], order="F"), strides=list(at["strides"]), dilations=list(at["dilation"]),
    )  # fmt: skip
    return graph.transpose(made, np.argsort(at["result"]).tolist())


def _pool(graph: OnnxGraph, op: Op, sizes: Mapping[int, Any], a: Array) -> Array:
    """In ONNX the axes that a window moves along come after two others."""
    (kind, empty), window, strides, sides = POOL[op.name], *(op.attributes[key] for key in ("window", "strides", "sides"))
    moving = [axis for axis, pair in enumerate(zip(window, strides, strict=True)) if pair != (1, 1)]
    order = [*(axis for axis in range(len(window)) if axis not in moving), *moving]
    made = graph.transpose(graph.pad(a, sides, np.asarray(empty, graph.type(a))), order)
    if not moving:
        return made
    if not (two := len(order) == len(moving) + 2):
        made = graph.reshape(made, [-1, 1, *(sizes[op.inputs[0]][axis] + sum(sides[axis]) for axis in moving)])
    # Multiplied before it is averaged: ONNX Runtime 1.20 merges a pad and an average that meet, and the pad does not count.
    made = graph.add("Mul", made, int(np.prod(window))) if op.name == "window_sum" else made
    made = graph.add("Neg", made) if op.name == "window_min" else made
    made = graph.add(kind, made, kernel_shape=[window[i] for i in moving], strides=[strides[i] for i in moving])
    made = graph.add("Neg", made) if op.name == "window_min" else made
    made = made if two else graph.reshape(made, [sizes[op.outputs[0]][axis] for axis in order])
    return graph.transpose(made, np.argsort(order).tolist())


def _broadcast(graph: OnnxGraph, a: Array, before: Sequence[int], sizes: Sequence[int], axes: Sequence[int]) -> Array:
    known = dict(zip(axes, before, strict=True))
    added = [axis for axis in range(len(sizes)) if axis not in known]
    a = graph.add("Unsqueeze", a, integers(added)) if added else a
    return a if all(known.get(i, 1) == n for i, n in enumerate(sizes)) else graph.add("Expand", a, graph.shape(sizes))


def _look_up(graph: OnnxGraph, table: Array, index: Array, rows: int, rest: int, fill: bool) -> Array:
    """ONNX refuses numbers beyond the table's ends: they are moved to its ends, and what is found there is replaced."""
    index = graph.add("Squeeze", graph.cast(index, np.int64), integers([-1]))
    inside = graph.add("Min", graph.add("Max", index, 0), rows - 1)
    made = graph.add("Gather", table, inside, axis=0)
    if not fill:
        return made
    same = graph.add("Equal", inside, index, dtype=bool)
    return graph.add("Where", graph.add("Unsqueeze", same, integers(range(-rest, 0))) if rest else same, made, np.nan)


def _slice(graph: OnnxGraph, a: Array, ranges: Mapping[int, Sequence[int]]) -> Array:
    """``ranges``: by axis (first, last, step)."""
    if not ranges:
        return a
    first, last, steps = (integers(column) for column in zip(*ranges.values(), strict=True))
    return graph.add("Slice", a, first, last, integers(ranges), steps)
