"""Reading a network: one walk through its jaxpr, in which every array is known by its signals or its weights alone."""

import functools
import math
import operator
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from jax.extend.core import ClosedJaxpr, Literal, jaxprs_in_params

from bayesprune.structure import movement
from bayesprune.structure.constants import computed, known
from bayesprune.structure.costs import PRIMITIVES
from bayesprune.structure.elementwise import read_elementwise
from bayesprune.structure.graph import Graph, Product
from bayesprune.structure.jaxprs import called
from bayesprune.structure.loops import read_roles, too_large
from bayesprune.structure.monomials import ELEMENTWISE
from bayesprune.structure.places import with_places
from bayesprune.structure.products import depending_on, opaque, read_convolution, read_gather, read_product
from bayesprune.structure.recorder import Recorder
from bayesprune.structure.roles import roles
from bayesprune.structure.simpler import WRITTEN, simpler
from bayesprune.structure.values import CONSTANT, Signals, Value, Weights

REDUCTIONS = frozenset(["reduce_sum", "reduce_max", "reduce_min", "reduce_prod", "reduce_and", "reduce_or", "reduce_xor"])
ALONG_AN_AXIS = frozenset(["cumsum", "cumprod", "cummax", "cummin"])
MANY = 1 << 14  # labels of one array from which on it pays to tell fewer apart
WINDOWS = frozenset(["reduce_window_sum", "reduce_window_max", "reduce_window_min"])


def read(jaxpr: ClosedJaxpr, sites: Mapping[str, tuple[int, ...]], num_inputs: int = 1) -> Graph:
    """The graph of a network.

    ``jaxpr``: of a function of (weights, state, rows), flattened; its first inputs are the weights, in the order of ``sites``
    ({name: shape}), its last ``num_inputs`` are the rows, and what lies between is state, such as the averages of a batch norm.
    Nothing is computed: only shapes are looked at.

    Followed are matrix products, convolutions, look-ups, everything entry by entry, everything that moves entries, sums and
    maxima over axes and windows, branches, short scans, and calls. What is not is named in ``graph.unfollowed``.
    """
    recorder = Recorder(list(sites), list(sites.values()))
    weights: list[Value] = [recorder.view(site) for site in range(len(sites))]
    avals = [variable.aval for variable in jaxpr.jaxpr.invars]
    state = [Signals(_constant(aval)) for aval in avals[len(sites) : -num_inputs]]
    rows = [Signals(_constant(aval), of_rows=True) for aval in avals[-num_inputs:]]
    results = _Walk(recorder).closed(jaxpr, [*weights, *state, *rows])
    outputs = [recorder.as_signals(one, "given out") if isinstance(one, Weights) else one for one in results]
    graph = Graph(
        roles=roles(recorder, functools.reduce(operator.or_, (output.heads for output in outputs))),
        terms=tuple(recorder.terms),
        outputs=np.unique(np.concatenate([output.labels.ravel() for output in outputs])),
        ties=np.concatenate([np.zeros((0, 2), np.int64), *recorder.ties]),
        loose=np.concatenate([np.zeros((0, 2), np.int64), *recorder.loose]),
        blend=recorder.all_blends,
        unfollowed=dict(recorder.unfollowed),
        products=tuple(recorder.products),
        sites=tuple(recorder.names),
        unsettled=recorder.unsettled,
    )
    return with_places(graph)


def _constant(aval: Any) -> np.ndarray:
    return np.full((1,) * len(aval.shape), CONSTANT)


class _Walk:
    """One walk; the values of a program live as long as its own part of the walk."""

    def __init__(self, recorder: Recorder) -> None:
        self.recorder = recorder

    def closed(self, inner: Any, inputs: Sequence[Value]) -> list[Value]:
        closed = isinstance(inner, ClosedJaxpr)
        consts = [known(const) for const in inner.consts] if closed else []
        return self.program(inner.jaxpr if closed else inner, consts, inputs)

    def program(self, jaxpr: Any, consts: Sequence[Value], inputs: Sequence[Value]) -> list[Value]:
        values: dict[Any, Value] = dict(zip([*jaxpr.constvars, *jaxpr.invars], [*consts, *inputs], strict=True))

        def value(atom: Any) -> Value:
            return known(atom.val) if isinstance(atom, Literal) else values[atom]

        for equation in jaxpr.eqns:
            outputs = self.step(equation, [value(atom) for atom in equation.invars])
            values.update(zip(equation.outvars, outputs, strict=True))
        return [value(atom) for atom in jaxpr.outvars]

    def step(self, equation: Any, inputs: list[Value]) -> list[Value]:
        name, params = equation.primitive.name, equation.params
        if not (name == "scan" and too_large(params, inputs)) and (program := called(equation)) is not None:
            return self.closed(program, inputs)
        if (found := computed(equation, inputs)) is not None:
            return found
        if (program := self.written(equation, inputs)) is not None:
            return self.closed(program, inputs)
        if name in ELEMENTWISE:
            return [read_elementwise(self.recorder, name, params, inputs)]
        shapes = [tuple(atom.aval.shape) for atom in equation.invars]
        if len(inputs) == 1 and len(equation.outvars) == 1:
            new = tuple(equation.outvars[0].aval.shape)
            move = movement.of_one(name, params, shapes[0], new)
            if move is not None:
                return [_moved(inputs[0], move, movement.sources(name, params, shapes[0], new), params.get("permutation"))]
        if name in PRIMITIVES:
            self.product(equation, inputs)
        elif name != "scan" and not _settled(name, inputs) and any(map(_has_products, jaxprs_in_params(params))):
            self.recorder.unsettled = name
        found = self.rest(name, params, inputs, shapes)
        if found is None:
            return opaque(self.recorder, name, inputs, [len(variable.aval.shape) for variable in equation.outvars])
        return found

    def written(self, equation: Any, inputs: list[Value]) -> Any:
        """The same at places that are known, or of weights, by operations that say where each entry goes; else None."""
        name, avals = equation.primitive.name, [atom.aval for atom in equation.invars]
        if name not in WRITTEN or (name in ALONG_AN_AXIS and not isinstance(inputs[0], Weights)):
            return None  # a running sum of signals is one, whose terms are merged
        pairs = zip(inputs, avals, strict=True)
        known = [value.numbers(aval.shape, aval.dtype) if isinstance(value, Signals) else None for value, aval in pairs]
        return simpler(equation, known)

    def rest(self, name: str, params: Any, inputs: list[Value], shapes: list[tuple[int, ...]]) -> list[Value] | None:
        """What is neither entry by entry nor a mere movement of one array; None: it is not followed."""
        recorder = self.recorder
        if name == "dot_general":
            return [read_product(recorder, params, *inputs)]
        if name == "conv_general_dilated" and params["batch_group_count"] == 1:
            data, kernel = inputs
            if isinstance(data, Signals) and isinstance(kernel, Weights):
                return [read_convolution(recorder, params, data, kernel, shapes[1])]
        if name == "gather":
            made = read_gather(recorder, params, inputs[0], inputs[1], shapes[0])
            return None if made is None else [made]
        if name in REDUCTIONS:
            return [self.merged(inputs[0], movement.integers(params["axes"]), name, drop=True)]
        if name in ALONG_AN_AXIS:
            return [self.merged(inputs[0], (int(params["axis"]),), name)]
        if name in WINDOWS:
            moving = tuple(axis for axis, size in enumerate(params["window_dimensions"]) if size > 1)
            return [self.merged(inputs[0], moving, name)]
        if name == "concatenate":
            return [self.concatenated(inputs, shapes, int(params["dimension"]))]
        if name == "split":
            return _split(inputs[0], movement.integers(params["sizes"]), int(params["axis"]))
        if name == "pad":
            return self.padded(inputs, shapes[0], params["padding_config"])
        if name == "dynamic_slice":
            return self.sliced(inputs, shapes[0], params["slice_sizes"])
        if name == "cond":
            return self.branches(params["branches"], inputs)
        before, recorder.turns = recorder.turns, (*recorder.turns, params.get("length", 1))
        read_roles(name, params, inputs, self.closed)
        recorder.turns = before
        return None

    def product(self, equation: Any, inputs: list[Value]) -> None:
        """Note what a product costs. In a loop that is read but once it must be plain what later turns multiply."""
        recorder = self.recorder
        strides = (0, *(value.stride for value in inputs if isinstance(value, Weights)))
        made_anew = any(isinstance(value, Signals) and value.of_weights and not value.steady for value in inputs)
        if recorder.turns and (made_anew or None in strides or (any(strides) and len(recorder.turns) > 1)):
            recorder.unsettled = "scan"
        shapes = tuple(tuple(atom.aval.shape) for atom in (*equation.invars, *equation.outvars))
        factors = (inputs[0], inputs[1])
        recorder.products.append(Product(equation.primitive.name, equation.params, shapes, factors, math.prod(recorder.turns)))

    def signals(self, value: Value, reason: str) -> Signals:
        return self.recorder.as_signals(value, reason) if isinstance(value, Weights) else value

    def merged(self, value: Value, axes: tuple[int, ...], name: str, drop: bool = False) -> Signals:
        """A sum or maximum along axes. Of weights, it is a number that the net is the same as long as they are."""
        if isinstance(value, Weights):
            value = self.recorder.pin(value, f"{name} of weights")
        labels = self.recorder.merge(value.labels, axes, tie=False)
        value = value.labelled(labels.squeeze(axes) if drop else labels)
        return replace(value, literal=None, form="", scaled_by=0)

    def concatenated(self, inputs: list[Value], shapes: list[tuple[int, ...]], axis: int) -> Value:
        if all(isinstance(value, Weights) for value in inputs):
            return _joined_weights(inputs, shapes, axis)  # type: ignore[arg-type]
        parts = [self.signals(value, "concatenated with data") for value in inputs]
        result = Signals(self.side_by_side(parts, shapes, axis))
        for part in parts:
            result = replace(
                result,
                of_rows=result.of_rows or part.of_rows,
                upstream=result.upstream | part.upstream,
                heads=result.heads | part.heads,
            )
        return result

    def side_by_side(self, parts: Sequence[Signals], shapes: list[tuple[int, ...]], axis: int) -> np.ndarray:
        """Labels of a concatenation; maps that are joined at their positions, as a class token to many others, become one."""
        labels = [part.labels for part in parts]
        maps = any(one.shape[axis] == 1 < shape[axis] and one.size != 1 for one, shape in zip(labels, shapes, strict=True))
        size = sum(shape[axis] * one.size // one.shape[axis] for one, shape in zip(labels, shapes, strict=True))
        if maps and size > MANY:
            ones = [self.recorder.merge(one, (axis,), tie=True) for one in labels]
            joined = movement.concatenate(ones, [(*s[:axis], 1, *s[axis + 1 :]) for s in shapes], axis)
            return self.recorder.merge(joined, (axis,), tie=True)
        return movement.concatenate(labels, shapes, axis)

    def padded(self, inputs: list[Value], shape: tuple[int, ...], config: Any) -> list[Value] | None:
        value, filler = inputs
        if not isinstance(filler, Signals) or not filler.constant or (isinstance(value, Weights) and not filler.zero):
            return None
        label = int(filler.labels.reshape(-1)[0])
        config = [movement.integers(sides) for sides in config]
        same = [(axis,) for axis in range(len(shape))]
        return [_moved(value, lambda labels: movement.pad(labels, shape, label, config), same)]

    def sliced(self, inputs: list[Value], shape: tuple[int, ...], sizes: Sequence[int]) -> list[Value] | None:
        value, *starts = inputs
        choosers = [start for start in starts if isinstance(start, Signals)]
        axes = [axis for axis, size in enumerate(sizes) if size != shape[axis]]
        if isinstance(value, Weights) or len(choosers) < len(starts):
            return None
        labels = self.recorder.merge(value.labels, axes, tie=False)
        moving = [start for start in choosers if not start.constant]
        return [value.labelled(depending_on(self.recorder, labels, moving) if moving else labels)]

    def branches(self, branches: Sequence[Any], inputs: list[Value]) -> list[Value]:
        """A choice between programs: its results are those of any of them."""
        chooser, *rest = inputs
        if isinstance(chooser, Signals) and chooser.literal is not None:
            return self.closed(branches[min(max(int(chooser.literal), 0), len(branches) - 1)], rest)
        made = [self.closed(branch, rest) for branch in branches]
        chooser = self.signals(chooser, "chooses a branch")
        if all(len({id(value) for value in column}) == 1 for column in zip(*made, strict=True)) or len(branches) == 1:
            return made[0]
        columns = zip(*made, strict=True)
        params: dict[str, Any] = {}
        return [
            read_elementwise(
                self.recorder, "select_n", params, [chooser, *(self.signals(value, "given by a branch") for value in column)]
            )
            for column in columns
        ]


def _settled(name: str, inputs: Sequence[Value]) -> bool:
    """Whether it is known which branch is taken."""
    return name == "cond" and isinstance(inputs[0], Signals) and inputs[0].literal is not None


def _has_products(jaxpr: Any) -> bool:
    inner = getattr(jaxpr, "jaxpr", jaxpr)
    return any(e.primitive.name in PRIMITIVES or any(map(_has_products, jaxprs_in_params(e.params))) for e in inner.eqns)


def _moved(
    value: Value, move: Callable[[np.ndarray], np.ndarray], sources: Sequence[tuple[int, ...]], permutation: Any = None
) -> Value:
    if isinstance(value, Signals):
        return value.labelled(move(value.labels))
    axes = tuple(_bits(value.axes[axis] for axis in of_one) for of_one in sources)
    if value.whole is not None and permutation is not None:
        order = tuple(value.whole.order[axis] for axis in permutation)
        return replace(value, axes=axes, whole=value.whole._replace(order=order))
    return value.showing(move(value.entries), axes)


def _bits(sets: Iterable[int]) -> int:
    bits = 0
    for one in sets:
        bits |= one
    return bits


def _split(value: Value, sizes: Sequence[int], axis: int) -> list[Value]:
    if isinstance(value, Signals):
        return [value.labelled(part) for part in movement.split(value.labels, sizes, axis)]
    return [value.showing(part) for part in movement.split(value.entries, sizes, axis)]


def _joined_weights(inputs: list[Weights], shapes: list[tuple[int, ...]], axis: int) -> Weights:
    entries = movement.concatenate([value.entries for value in inputs], shapes, axis)
    sites = tuple(dict.fromkeys(site for value in inputs for site in value.sites))
    axes = tuple(_bits(column) for column in zip(*(value.axes for value in inputs), strict=True))
    strides = {value.stride for value in inputs}
    stride = strides.pop() if len(strides) == 1 else None
    return Weights(sites, axes, listed=entries, solid=any(value.solid for value in inputs), stride=stride)
