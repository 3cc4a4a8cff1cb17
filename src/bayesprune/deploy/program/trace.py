"""From a network's jaxpr to operations as data."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.extend.core import ClosedJaxpr
from jax.lax import RoundingMethod
from jax.typing import ArrayLike

from bayesprune.deploy.program.attributes import DTYPES, OF_PARAMS, NotAsData, chosen_places, integers, lookup
from bayesprune.deploy.program.ops import OPAQUE, Op, OpProgram, alive
from bayesprune.deploy.program.plain import plain
from bayesprune.structure.jaxprs import Atom, Equation, JaxprLike, as_often, called, computed, followed_twice
from bayesprune.structure.ops import record_of, written_out

APART = "the network takes some of the rows apart from the others: its rows are not independent."
Trace = Callable[[int], ClosedJaxpr]


def trace(jaxpr: Trace, sites: Sequence[str], state: Sequence[np.ndarray]) -> OpProgram:
    """The operations of a network, the dead code left out.

    ``jaxpr``: of so many rows, a program of (weights in the order of ``sites``, ``state``, rows) with one output. It is traced
    for two rows and for three: sizes that differ are those of the rows. A network with an operation that has no form as data
    is traced for one row, and so is one that reads at the rows' own numbers, which `alone.check_alone` lets pass.

    Raises ``ValueError`` where the program for three rows is another than that for two.
    """
    two, three = jaxpr(2), jaxpr(3)
    try:
        program = _Writer(2).program(two, three, sites, state)
    except _AnotherNumber:
        return _Writer(1).program(jaxpr(1), jaxpr(1), sites, state)
    if any(op.name == OPAQUE for op in program.ops):
        return _row_by_row(program, _Writer(1).program(jaxpr(1), jaxpr(1), sites, state))
    return program


def _row_by_row(many: OpProgram, one: OpProgram) -> OpProgram:
    """The program of one row, its sizes those of many: what is left when its opaque operations fall away is for any number.

    As it is, where both differ in more than sizes, or places share an axis with rows: there a constant may be another one for
    each place, which one row can have.
    """
    numbers = lambda p: [(op.name, op.inputs, op.outputs) for op in p.ops]  # noqa: E731
    same = numbers(many) == numbers(one) and many.constants.keys() == one.constants.keys()
    same = same and all(np.array_equal(value, one.constants[number]) for number, value in many.constants.items())
    if not same or any(size < -1 for sizes in many.sizes.values() for size in sizes):
        return one
    ops = tuple(alone if alone.name == OPAQUE else op for op, alone in zip(many.ops, one.ops, strict=True))
    return replace(many, ops=ops, one_by_one=True)


class _AnotherNumber(ValueError): ...


class _Writer:
    """``rows``: of the first of the two traces; 1: both are of one row."""

    def __init__(self, rows: int) -> None:
        self.rows = rows
        self.ops: list[Op] = []
        self.known_sizes: dict[int, tuple[int, ...]] = {}
        self.constants: dict[int, np.ndarray] = {}
        self.keys: dict[int, Any] = {}  # random keys that the network closes over
        self.twins: dict[int, np.ndarray] = {}  # whole numbers of the second trace that are others there
        self.count = 0

    def program(self, one: ClosedJaxpr, other: ClosedJaxpr, sites: Sequence[str], state: Sequence[np.ndarray]) -> OpProgram:
        variables = list(zip(one.jaxpr.invars, other.jaxpr.invars, strict=True))
        weights = {site: self.new(*pair) for site, pair in zip(sites, variables, strict=False)}
        kept = [self.constant(value) for value in state]
        rows = self.new(*variables[-1])
        (output,) = self.closed(one, other, [*weights.values(), *kept, rows])
        if output in self.twins:
            raise _differs("a number")
        ops, used = alive(self.ops, output)
        used |= {rows, *weights.values()}
        return OpProgram(
            ops=ops,
            sizes={i: sizes for i, sizes in self.known_sizes.items() if i in used},
            constants={i: value for i, value in self.constants.items() if i in used},
            weights=weights,
            rows=rows,
            output=output,
            one_by_one=self.rows == 1,
        )

    def new(self, one: Atom, other: Atom) -> int:
        self.count += 1
        self.known_sizes[self.count] = tuple(self.sizes(one.aval.shape, other.aval.shape))
        return self.count

    def constant(self, value: ArrayLike) -> int:
        self.count += 1
        self.constants[self.count] = np.asarray(value)
        self.known_sizes[self.count] = self.constants[self.count].shape
        return self.count

    def sizes(self, one: Sequence[int], other: Sequence[int]) -> list[int]:
        """Sizes as data: below zero those that grow with the rows."""
        if len(one) != len(other):
            raise _differs("an array")
        return [self.size(int(n), int(m)) for n, m in zip(one, other, strict=True)]

    def size(self, one: int, other: int) -> int:
        if one == other:
            return one
        if one != self.rows * (other - one):
            raise ValueError(
                f"an array of the network has {one} entries along an axis for 2 rows and {other} for 3: rows must stand in a "
                "multiple of their number, or the network cannot be run on any number of them."
            )
        return one - other

    def closed(self, one: JaxprLike, other: JaxprLike, inputs: list[int]) -> list[int]:
        if len(one.eqns) != len(other.eqns):
            raise _differs("the program")
        return followed_twice(one, other, inputs, self.equation, self.same)

    def same(self, one: ArrayLike, other: ArrayLike) -> int:
        """A constant, which must not be another one for other rows; of whole numbers what reads it must not."""
        if jnp.issubdtype(getattr(one, "dtype", float), jax.dtypes.prng_key):
            number = self.same(*(jax.random.key_data(key) for key in (one, other)))
            if number in self.twins:
                raise _differs("a random key")
            self.keys[number] = one
            return number
        if np.shape(one) == np.shape(other) and np.array_equal(one, other, equal_nan=np.asarray(one).dtype.kind == "f"):
            return self.constant(one)
        if np.shape(one) != np.shape(other) or np.asarray(one).dtype.kind not in "iub":
            raise _differs("a number")
        number = self.constant(one)  # whole numbers, of which the same may be made: JAX looks whether an index is below zero
        self.twins[number] = np.asarray(other)
        return number

    def equation(self, one: Equation, other: Equation, inputs: list[int]) -> list[int]:
        name = one.primitive.name
        if name != other.primitive.name:
            raise _differs(name)
        if len(one.invars) != len(other.invars):
            raise ValueError(
                f"{name} joins as many arrays as there are rows (by jnp.tile, perhaps), which no smaller program does: write "
                "jnp.broadcast_to(array, (x.shape[0], ...)) for one array given to every row."
            )
        known = [None if n in self.keys or n in self.twins else self.constants.get(n) for n in inputs]
        for read in (called, plain, lambda equation: written_out(equation, known)):
            if as_often(one, other) and (program := read(one)) is not None and (twin := read(other)) is not None:
                return self.closed(program, twin, inputs)
        if name == "concatenate":  # nothing is to be kept of what is empty
            inputs = [number for number, atom in zip(inputs, one.invars, strict=True) if atom.aval.size] or inputs[:1]
            if len(inputs) == 1:
                return inputs
        if record_of(one).plan == "same" or (
            name == "convert_element_type" and one.invars[0].aval.dtype == one.outvars[0].aval.dtype
        ):
            return inputs
        is_fixed = one.params == other.params and not one.effects
        if is_fixed and self.counted(inputs):
            return self.computed(one, inputs)
        if not self.twins.keys().isdisjoint(inputs):
            raise _AnotherNumber(str(_differs("a number")))
        try:
            if any(str(getattr(variable.aval, "dtype", "")) not in DTYPES for variable in (*one.invars, *one.outvars)):
                raise NotAsData
            if name == "gather" and (places := chosen_places(one, known[1])) is not None:
                if self.known_sizes[inputs[0]][places["axis"]] < 0:
                    raise ValueError(APART)
                inputs, op, attributes = inputs[:1], "take", places
            else:
                op, attributes = record_of(one).plan, self.as_data(name, one, other)
        except NotAsData:
            if is_fixed and self.constants.keys() >= set(inputs):
                return self.computed(one, inputs)
            op, attributes = OPAQUE, {"primitive": one.primitive, "params": one.params}
            if keys := {place: self.keys[number] for place, number in enumerate(inputs) if number in self.keys}:
                inputs, attributes = [number for number in inputs if number not in self.keys], attributes | {"keys": keys}
        outputs = tuple(self.new(*pair) for pair in zip(one.outvars, other.outvars, strict=True))
        self.ops.append(Op(op, tuple(inputs), outputs, attributes))
        return list(outputs)

    def counted(self, inputs: list[int]) -> bool:
        """Whether all are whole numbers, booleans or random keys that are known now; real ones are folded in float64 later."""
        return all(n in self.constants and self.constants[n].dtype.kind in "iub" for n in inputs)

    def computed(self, equation: Equation, inputs: list[int]) -> list[int]:
        """The results of an operation on constants."""
        first = [self.keys.get(n, self.constants[n]) for n in inputs]
        second = [self.twins.get(n, value) for n, value in zip(inputs, first, strict=True)]
        return [self.same(*pair) for pair in zip(computed(equation, first), computed(equation, second), strict=True)]

    def as_data(self, name: str, one: Equation, other: Equation) -> dict[str, Any]:
        """The attributes of an operation. Raises `NotAsData`."""
        params, record = one.params, record_of(one)
        shapes = [tuple(atom.aval.shape) for atom in one.invars]
        made = lambda: self.sizes(one.outvars[0].aval.shape, other.outvars[0].aval.shape)  # noqa: E731
        if record.kind and any(np.dtype(str(atom.aval.dtype)).kind != record.kind for atom in one.invars):
            raise NotAsData
        match record.plan:
            case "" | "same":
                raise NotAsData
            case "round" if params["rounding_method"] != RoundingMethod.TO_NEAREST_EVEN:
                raise NotAsData
            case "dot" | "conv" if len({atom.aval.dtype for atom in (*one.invars, *one.outvars)}) > 1:  # as of eight bits in 32
                raise NotAsData
            case "select" if len(one.invars) != 3 or one.invars[0].aval.dtype != bool:
                raise NotAsData
            case "lookup":
                if min(self.sizes(shapes[0], other.invars[0].aval.shape), default=0) < 0:
                    raise NotAsData
                return lookup(params, shapes, one.outvars[0].aval.dtype.kind == "f")
            case "reshape":
                if params.get("dimensions") is not None and name == "reshape":
                    raise NotAsData
                return {"sizes": made()}
            case "broadcast":
                return {"sizes": made(), "axes": integers(params["broadcast_dimensions"])}
            case "slice":
                starts, strides = integers(params["start_indices"]), params["strides"] or (1,) * len(shapes[0])
                ends = self.sizes(params["limit_indices"], other.params["limit_indices"])
                limits = self.limits(shapes[0], other.invars[0].aval.shape, ends)
                return {"ranges": [list(r) for r in zip(starts, limits, strides, strict=True)]}
        return OF_PARAMS[record.plan](params) if record.plan in OF_PARAMS else {}  # none entry by entry

    def limits(self, one: Sequence[int], other: Sequence[int], limits: list[int]) -> list[int]:
        """The ends of a slice: below zero only for all of the rows."""
        whole = self.sizes(one, other)
        if any(limit < 0 and limit != size for limit, size in zip(limits, whole, strict=True)):
            raise NotAsData
        if any(size < 0 <= limit for limit, size in zip(limits, whole, strict=True)):
            raise ValueError(APART)
        return limits


def _differs(what: str) -> ValueError:
    return ValueError(
        f"{what} in the network is another for three rows than for two: the network must treat every row alike, whatever rows "
        "stand beside it."
    )
