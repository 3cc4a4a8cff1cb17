"""An ONNX model in the making: its nodes in order, and the arrays that they read."""

import hashlib
from collections.abc import Iterable, Sequence
from types import ModuleType
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax.typing import DTypeLike

from bayesprune.deploy.program.packing import Packing

OPSET, IR = 18, 8  # of 2022: the first whose reductions all take their axes alike
LEARNING, OPSET_OF_LEARNING = "ai.onnx.ml", 3  # the standard's part for machine learning
LARGEST = 2_000_000_000
OUTPUT = "mean"
Array = str | np.ndarray  # by its name in the graph, or known now


class OnnxGraph:
    """Nodes in order, and the arrays that they read, each once."""

    def __init__(self, onnx: ModuleType, inputs: Packing) -> None:
        self.onnx, self.nodes, self.arrays = onnx, list[Any](), dict[Any, Any]()
        self.inputs, self.types = inputs, {leaf.name: np.dtype(leaf.dtype) for leaf in inputs.leaves}

    def rows(self) -> Array:
        """The one array that the program takes."""
        names = [self.cast(leaf.name, np.float32) for leaf in self.inputs.leaves]
        if self.inputs.is_one:
            return names[0]
        pairs = zip(names, self.inputs.leaves, strict=True)
        return self.add("Concat", *(self.add("Reshape", name, integers([-1, leaf.size])) for name, leaf in pairs), axis=1)

    def add(
        self, kind: str, *inputs: Array | float | int, dtype: DTypeLike | None = None, output: str = "", **attributes: object
    ) -> str:
        """A node; its result is of ``dtype``, or of the type of its inputs, which plain numbers among them take too."""
        own, *_ = [self.type(a) for a in inputs[kind == "Where" :] if isinstance(a, Array)]
        names = [self.name(a if isinstance(a, Array) else np.asarray(a, own)) for a in inputs]
        output = output or f"{kind}_{len(self.nodes)}"
        self.nodes.append(self.onnx.helper.make_node(kind, names, [output], name=output, **attributes))
        self.types[output] = np.dtype(dtype or own)
        return output

    def name(self, array: Array) -> str:
        if isinstance(array, str):
            return array
        key = array.dtype, array.shape, hashlib.sha256(array.tobytes()).digest()  # draws share what is made for each anew
        if key not in self.arrays:
            self.arrays[key] = self.onnx.numpy_helper.from_array(array, f"array_{len(self.arrays)}")
        return self.arrays[key].name

    def type(self, array: Array) -> Any:
        return self.types[array] if isinstance(array, str) else array.dtype

    def cast(self, array: Array, dtype: DTypeLike) -> Array:
        if isinstance(array, np.ndarray):
            return np.asarray(array, dtype)
        code = self.onnx.helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
        return array if self.types[array] == dtype else self.add("Cast", array, dtype=dtype, to=code)

    def alike(self, arrays: Sequence[Array], least: Any = np.int32) -> list[Any]:
        """In the type that JAX would compute in, and in ``least`` in the place of bool, on which ONNX has no arithmetic."""
        if any(self.type(array).name in ("int8", "uint8") for array in arrays):  # nor on these, whose overflow is JAX's own
            raise ValueError("ONNX does not compute with int8 and uint8: let the network convert to int32 instead.")
        common = jnp.result_type(least, *map(self.type, arrays))
        return [self.cast(array, common) for array in arrays]

    def transpose(self, array: Array, order: Sequence[int]) -> Array:
        if list(order) == sorted(order):
            return array
        return self.add("Transpose", array, perm=list(order)) if isinstance(array, str) else array.transpose(order)

    def reshape(self, array: Array, sizes: Sequence[int]) -> Array:
        one = sum(n < 0 for n in sizes) == 1  # which follows from the others
        return self.add("Reshape", array, integers(max(n, -1) for n in sizes) if one else self.shape(sizes))

    def pad(self, array: Array, sides: Sequence[Sequence[int]], value: Array) -> Array:
        return self.add("Pad", array, np.asarray(sides, np.int64).T.ravel(), value) if np.any(sides) else array

    def shape(self, sizes: Sequence[int]) -> Array:
        """Sizes that may grow with the rows, as an array."""
        fixed, growing = integers(max(n, 0) for n in sizes), integers(max(-n, 0) for n in sizes)
        if not growing.any():
            return fixed
        rows = self.add("Shape", self.inputs.leaves[0].name, dtype=np.int64, start=0, end=1)
        return self.add("Add", self.add("Mul", rows, growing), fixed)


def integers(values: Iterable[int]) -> np.ndarray:
    """As ONNX takes sizes and axes."""
    return np.asarray(list(values), np.int64)


def model(graph: OnnxGraph, output: Sequence[int]) -> Any:
    """The model, checked; ``output``: sizes, below zero where they grow with the rows."""
    onnx, helper = graph.onnx, graph.onnx.helper
    if sum(len(array.raw_data) for array in graph.arrays.values()) > LARGEST:
        raise ValueError("an ONNX file holds two gigabytes at most: average over fewer networks, or use `Compact.save`.")

    def value(name: str, sizes: Sequence[int]) -> Any:
        code = helper.np_dtype_to_tensor_dtype(graph.types[name])
        return helper.make_tensor_value_info(name, code, ["rows" if n < 0 else n for n in sizes])

    inputs = [value(leaf.name, (-1, *leaf.shape)) for leaf in graph.inputs.leaves]
    network = helper.make_graph(graph.nodes, "network", inputs, [value(OUTPUT, output)], list(graph.arrays.values()))
    opsets = {"": OPSET} | ({LEARNING: OPSET_OF_LEARNING} if any(node.domain for node in graph.nodes) else {})
    imports = [helper.make_opsetid(domain, version) for domain, version in opsets.items()]
    made = helper.make_model(network, opset_imports=imports, ir_version=IR, producer_name="bayesprune")
    onnx.checker.check_model(made, full_check=True)
    return made
