"""Whether a network treats every row by itself: decided by its operations, through which the axis of the rows is followed."""

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import numpy as np
from jax.extend.core import ClosedJaxpr, Literal

from bayesprune.structure.jaxprs import called, scan_parts
from bayesprune.structure.monomials import ELEMENTWISE
from bayesprune.structure.movement import integers

# What goes entry by entry beside what `ELEMENTWISE` has, and what passes arrays on.
_ALSO = """
acos acosh add_any asin asinh atan atan2 atanh bessel_i0e bessel_i1e bitcast_convert_type cbrt ceil clamp clz complex conj copy
copy_p cos cosh digamma eq erf erfc erf_inv exp2 floor ge gt igamma igammac imag is_finite le lgamma lt ne nextafter not and or
polygamma population_count pow real reduce_precision regularized_incomplete_beta rem round select_n shift_left sign
shift_right_arithmetic shift_right_logical sin sinh square stop_gradient tan xor zeta
"""
_EACH = ELEMENTWISE | frozenset(_ALSO.split())
_ALONG = {"cumsum": "axis", "cumprod": "axis", "cummax": "axis", "cummin": "axis", "cumlogsumexp": "axis", "sort": "dimension"}
_REDUCTIONS = ("reduce_sum", "reduce_max", "reduce_min", "reduce_prod", "reduce_and", "reduce_or", "reduce_xor")
_REDUCING = (*_REDUCTIONS, "argmax", "argmin", "reduce")
_MATRICES = ("cholesky", "eig", "eigh", "householder_product", "lu", "qr", "svd", "triangular_solve", "tridiagonal_solve")


class Rows(NamedTuple):
    """Where the rows are: along ``axis``, whose entries are ``before`` times the rows, each ``after`` times.

    ``uniform``: it is the same for every row, whatever the rows hold.
    """

    axis: int
    before: int = 1
    after: int = 1
    uniform: bool = False


class Mixed(NamedTuple):
    """What is of several rows, and the operation by which it is."""

    by: str


State = Rows | Mixed | None  # None: it has no rows


def mixing(one: ClosedJaxpr, other: ClosedJaxpr) -> str:
    """The operation by which an output for one row comes to depend on others, or on how many there are; "" for none.

    ``one``, ``other``: the same function for two numbers of rows, the last input being the rows, (rows, ...). The axis of the
    rows is the one that differs in size. What cannot be followed is taken for kept apart: `compare` by numbers, too. Nothing is
    computed.

    >>> import jax.numpy as jnp
    >>> def of(net):
    ...     return mixing(*(jax.make_jaxpr(net)(jnp.ones((rows, 3))) for rows in (2, 3)))
    >>> of(lambda x: x / x.sum(1, keepdims=True)), of(lambda x: x - x.max(0)), of(lambda x: x[::-1])
    ('', 'reduce_max', 'rev')
    """
    inputs: list[State] = [None] * (len(one.jaxpr.invars) - 1)
    results = _closed(one, other, [*inputs, Rows(0)])
    for result in results:
        if isinstance(result, Mixed):
            return result.by
        if isinstance(result, Rows) and (result.axis, result.before) != (0, 1):
            return "the order of the outputs' axes"
    return ""


def _closed(one: Any, other: Any, inputs: Sequence[State]) -> list[State]:
    inner, twin = (getattr(program, "jaxpr", program) for program in (one, other))
    if [e.primitive.name for e in inner.eqns] != [e.primitive.name for e in twin.eqns]:
        return [Mixed("the program, which is another for another number of rows")] * len(inner.outvars)
    pairs = zip(getattr(one, "consts", ()), getattr(other, "consts", ()), strict=True)
    states: dict[Any, State] = dict(zip(inner.constvars, [_constant(*pair) for pair in pairs], strict=False))
    states.update(zip(inner.invars, inputs, strict=True))
    read = lambda atom, pair: _constant(atom.val, pair.val) if isinstance(atom, Literal) else states[atom]  # noqa: E731
    for equation, second in zip(inner.eqns, twin.eqns, strict=True):
        given = [read(*pair) for pair in zip(equation.invars, second.invars, strict=True)]
        made = _step(equation, second, given)
        states.update(zip(equation.outvars, made, strict=True))
    return [read(*pair) for pair in zip(inner.outvars, twin.outvars, strict=True)]


def _constant(one: Any, other: Any) -> State:
    """A constant, the same for any number of rows, or with the same for each of them."""
    if jax.dtypes.issubdtype(getattr(one, "dtype", np.dtype(float)), jax.dtypes.prng_key):
        one, other = jax.random.key_data(one), jax.random.key_data(other)
    one, other = np.asarray(one), np.asarray(other)
    axis = _axis(one, other)
    if axis is None:
        same = one.shape == other.shape and bool(((one == other) | ((one != one) & (other != other))).all())
        return None if same else Mixed("the number of rows, which is counted with")
    first = one.take([0], axis)
    alike = all(bool((array == first).all()) for array in (one, other))
    return Rows(axis, uniform=True) if alike else Mixed("a constant that is another for each row")


def _axis(one: Any, other: Any) -> int | None:
    """The one axis that differs in size."""
    differ = [axis for axis, (n, m) in enumerate(zip(one.shape, other.shape, strict=True)) if n != m]
    return differ[0] if differ else None


def _step(one: Any, other: Any, inputs: list[State]) -> list[State]:
    name, outs = one.primitive.name, list(zip(one.outvars, other.outvars, strict=True))
    if mixed := next((state for state in inputs if isinstance(state, Mixed)), None):
        return [mixed] * len(outs)
    if name == "scan" and one.params["length"] != other.params["length"]:
        return [Mixed("scan over the rows")] * len(outs)
    if (program := called(one)) is not None:
        return _closed(program, called(other), inputs)
    places = [_axis(a.aval, b.aval) for a, b in outs]
    if any(sum(n != m for n, m in zip(a.aval.shape, b.aval.shape, strict=True)) > 1 for a, b in outs):
        return [Mixed(name)] * len(outs)
    rows = [state for state in inputs if isinstance(state, Rows)]
    if not rows:
        return [None if place is None else _spread(name, one.params, place) for place in places]
    if name in ("cond", "while", "scan"):
        return _inner(one, other, inputs)
    if name == "optimization_barrier":
        return list(inputs)
    made = _RULES.get(name, _each if name in _EACH else _unknown)(one, inputs, places)
    uniform = all(state.uniform for state in rows)
    # An array without rows in its shape that rows have gone into is of all of them.
    return [
        (state._replace(uniform=uniform) if isinstance(state, Rows) else state) if place is not None else _whole(state, name)
        for state, place in zip(made, places, strict=True)
    ]


def _whole(state: State, name: str) -> State:
    return state if isinstance(state, Mixed) else Mixed(name)


def _spread(name: str, params: Any, place: int) -> State:
    """What is made for all rows of what has none."""
    if name in ("broadcast_in_dim", "full") or (name == "iota" and params["dimension"] != place):
        return Rows(place, uniform=True)
    return Mixed(f"{name}, which tells rows apart")


def _joined(states: Sequence[State], name: str) -> State:
    """Rows that meet entry by entry must be in one place."""
    found = {state[:3] for state in states if isinstance(state, Rows) and not state.uniform}
    axes = {state.axis for state in states if isinstance(state, Rows)}
    if len(found) > 1 or len(axes) > 1:
        return Mixed(name)
    own = next((state for state in states if isinstance(state, Rows) and not state.uniform), None)
    return own or next((state for state in states if isinstance(state, Rows)), None)


def _each(one: Any, inputs: list[State], places: list[int | None]) -> list[State]:
    return [_joined(inputs, one.primitive.name)] * len(places)


def _unknown(one: Any, inputs: list[State], places: list[int | None]) -> list[State]:
    """What cannot be followed keeps the rows where they were, as far as its shapes say."""
    state = _joined(inputs, one.primitive.name)
    if isinstance(state, Mixed):
        return [state] * len(places)
    return [Rows(place) if place is not None else Mixed(one.primitive.name) for place in places]


def _first(inputs: Sequence[State]) -> Rows:
    return next(state for state in inputs if isinstance(state, Rows))


def _unless(touches: Callable[[Any, Rows], bool], moves: Callable[[Any, Rows], Rows] = lambda params, state: state) -> Any:
    """The rule of an operation that mixes where it ``touches`` the axis, and else ``moves`` it."""

    def rule(one: Any, inputs: list[State], places: list[int | None]) -> list[State]:
        state = _joined(inputs, one.primitive.name)
        if isinstance(state, Mixed) or state is None:
            return [state] * len(places)
        mixes = touches(one.params, state)
        return [Mixed(one.primitive.name) if mixes else moves(one.params, state)] * len(places)

    return rule


def _dropped(axes: Sequence[int], state: Rows) -> Rows:
    return state._replace(axis=state.axis - sum(int(axis) < state.axis for axis in axes))


def _expanded(params: Any, state: Rows) -> Rows:
    return state._replace(axis=[n for n in range(99) if n not in params["dimensions"]][state.axis])


def _reshape(one: Any, inputs: list[State], places: list[int | None]) -> list[State]:
    (state, *_), (place,) = inputs, places
    assert isinstance(state, Rows)
    if one.params.get("dimensions") is not None or place is None:
        return [Mixed("reshape")]
    old, new = one.invars[0].aval.shape, one.outvars[0].aval.shape
    rows = old[state.axis] // (state.before * state.after)
    before = math.prod(old[: state.axis]) * state.before
    outside, times = math.prod(new[:place]), new[place] // rows
    if state.uniform:
        return [Rows(place, uniform=True)]
    if before % outside or times % (before // outside):
        return [Mixed("reshape")]
    return [Rows(place, before // outside, times // (before // outside))]


def _broadcast(one: Any, inputs: list[State], places: list[int | None]) -> list[State]:
    (state, *_), (place,) = inputs, places
    assert isinstance(state, Rows)
    moved = state._replace(axis=int(one.params["broadcast_dimensions"][state.axis]))
    return [moved if moved.axis == place else Mixed("broadcast_in_dim")]


def _sliced(one: Any, inputs: list[State], places: list[int | None]) -> list[State]:
    """A part of every array, all rows of it."""
    state, whole, part = inputs[0], one.invars[0].aval.shape, one.outvars[0].aval.shape
    if not isinstance(state, Rows) or any(isinstance(index, Rows) for index in inputs[1:]):
        return [Mixed(one.primitive.name)]
    strided = (one.params.get("strides") or [1] * len(whole))[state.axis] != 1
    return [Mixed(one.primitive.name) if strided or whole[state.axis] != part[state.axis] else state]


def _updated(one: Any, inputs: list[State], places: list[int | None]) -> list[State]:
    state = _joined(inputs[:2], one.primitive.name)
    if any(isinstance(index, Rows) for index in inputs[2:]):
        return [Mixed(one.primitive.name)]
    shapes = [atom.aval.shape for atom in one.invars[:2]]
    whole = isinstance(state, Rows) and shapes[0][state.axis] == shapes[1][state.axis]
    return [state if whole else Mixed(one.primitive.name)]


def _dot(one: Any, inputs: list[State], places: list[int | None]) -> list[State]:
    contracted, batch = one.params["dimension_numbers"]
    free: list[list[int]] = []
    for side, atom in enumerate(one.invars):
        free.append([a for a in range(len(atom.aval.shape)) if a not in contracted[side] and a not in batch[side]])
    orders = [[*batch[0], *free[0]], [*batch[1], *([None] * len(free[0])), *free[1]]]
    moved: list[State] = []
    for state, order in zip(inputs, orders, strict=True):
        if isinstance(state, Rows):
            moved.append(state._replace(axis=order.index(state.axis)) if state.axis in order else Mixed("dot_general"))
    mixed = next((state for state in moved if isinstance(state, Mixed)), None)
    return [mixed or _joined(moved, "dot_general")]


def _convolution(one: Any, inputs: list[State], places: list[int | None]) -> list[State]:
    numbers, state = one.params["dimension_numbers"], inputs[0]
    plain = inputs[1] is None and one.params["batch_group_count"] == 1
    if not plain or not isinstance(state, Rows) or state.axis != numbers.lhs_spec[0]:
        return [Mixed("conv_general_dilated")]
    return [state._replace(axis=numbers.out_spec[0])]


def _window(params: Any, state: Rows) -> bool:
    ones = ("window_dimensions", "window_strides", "base_dilation", "window_dilation")
    sides = params.get("padding", [(0, 0)] * 99)[state.axis]
    return any(params[key][state.axis] != 1 for key in ones if key in params) or tuple(sides) != (0, 0)


def _gather(one: Any, inputs: list[State], places: list[int | None]) -> list[State]:
    numbers, table, index = one.params["dimension_numbers"], inputs[0], inputs[1]
    batch = [axis for axis in range(len(one.outvars[0].aval.shape)) if axis not in numbers.offset_dims]
    if isinstance(index, Rows):
        pairs = dict(zip(numbers.start_indices_batching_dims, numbers.operand_batching_dims, strict=True))
        beside = table is None or (isinstance(table, Rows) and table[1:3] == index[1:3] and pairs.get(index.axis) == table.axis)
        return [index._replace(axis=batch[index.axis]) if beside and index.axis < len(batch) else Mixed("gather")]
    assert isinstance(table, Rows)
    kept = [
        a
        for a in range(len(one.invars[0].aval.shape))
        if a not in (*numbers.collapsed_slice_dims, *numbers.operand_batching_dims)
    ]
    whole = one.params["slice_sizes"][table.axis] == one.invars[0].aval.shape[table.axis]
    if table.axis not in kept or not whole:
        return [Mixed("gather")]
    return [table._replace(axis=numbers.offset_dims[kept.index(table.axis)])]


def _scatter(one: Any, inputs: list[State], places: list[int | None]) -> list[State]:
    numbers, name = one.params["dimension_numbers"], one.primitive.name
    table, index, updates = inputs
    (place,) = places
    pairs = dict(zip(numbers.operand_batching_dims, numbers.scatter_indices_batching_dims, strict=True))
    if place is None or place in (*numbers.scatter_dims_to_operand_dims, *numbers.inserted_window_dims):
        return [Mixed(name)]
    if isinstance(index, Rows) and pairs.get(place) != index.axis:
        return [Mixed(name)]
    layouts = {state[1:3] for state in (table, index, updates) if isinstance(state, Rows) and not state.uniform}
    placed = not isinstance(table, Rows) or table.axis == place
    return [Rows(place, *layouts.pop()) if len(layouts) == 1 and placed else Mixed(name)]


def _matrices(one: Any, inputs: list[State], places: list[int | None]) -> list[State]:
    """Over the last two axes of each array, or the last of a vector."""
    inner = any(isinstance(s, Rows) and s.axis >= len(a.aval.shape) - 2 for s, a in zip(inputs, one.invars, strict=True))
    return [Mixed(one.primitive.name) if inner else _joined(inputs, one.primitive.name)] * len(places)


def _transposed(params: Any, state: Rows) -> Rows:
    return state._replace(axis=[int(axis) for axis in params["permutation"]].index(state.axis))


_never = lambda params, state: False  # noqa: E731
_RULES: dict[str, Any] = {
    "reshape": _reshape,
    "broadcast_in_dim": _broadcast,
    "transpose": _unless(_never, _transposed),
    "squeeze": _unless(lambda p, s: s.axis in p["dimensions"], lambda p, s: _dropped(integers(p["dimensions"]), s)),
    "expand_dims": _unless(_never, _expanded),
    "rev": _unless(lambda p, s: s.axis in p["dimensions"]),
    "slice": _sliced,
    "dynamic_slice": _sliced,
    "dynamic_update_slice": _updated,
    "concatenate": _unless(lambda p, s: s.axis == p["dimension"]),
    "pad": _unless(lambda p, s: tuple(p["padding_config"][s.axis]) != (0, 0, 0)),
    "split": _unless(lambda p, s: s.axis == p["axis"]),
    "dot_general": _dot,
    "conv_general_dilated": _convolution,
    "gather": _gather,
    "top_k": _unless(lambda p, s: s.axis == p.get("axis", s.axis)),
    "fft": lambda one, inputs, places: [
        Mixed("fft") if _first(inputs).axis >= len(one.invars[0].aval.shape) - len(one.params["fft_lengths"]) else inputs[0]
    ],
}
_RULES |= {name: _unless(lambda p, s, key=key: s.axis == p[key]) for name, key in _ALONG.items()}
_RULES |= {name: _matrices for name in _MATRICES}
for _name in _REDUCING:
    _key = "dimensions" if _name == "reduce" else "axes"
    _RULES[_name] = _unless(lambda p, s, key=_key: s.axis in p[key], lambda p, s, key=_key: _dropped(integers(p[key]), s))
for _name in ("sum", "max", "min"):
    _RULES[f"reduce_window_{_name}"] = _unless(_window)
_RULES |= {name: _unless(_window) for name in ("reduce_window", "select_and_gather_add", "select_and_scatter_add")}
_RULES |= {f"scatter{rest}": _scatter for rest in ("", "_add", "-add", "_mul", "-mul", "_max", "-max", "_min", "-min")}


def _inner(one: Any, other: Any, inputs: list[State]) -> list[State]:
    """Branches, and loops that are not written out: what is carried is of all that it ever was made of."""
    name, params, twins = one.primitive.name, one.params, other.params
    if name == "cond":
        if inputs[0] is not None:
            return [Mixed("a branch that rows choose")] * len(one.outvars)
        made = [_closed(*pair, inputs[1:]) for pair in zip(params["branches"], twins["branches"], strict=True)]
        return [_joined_all(column, "cond") for column in zip(*made, strict=True)]
    if name == "while":
        first, last = params["cond_nconsts"], params["cond_nconsts"] + params["body_nconsts"]
        carry = _settled(params["body_jaxpr"], twins["body_jaxpr"], inputs[first:last], inputs[last:], [])[0]
        asked = _closed(params["cond_jaxpr"], twins["cond_jaxpr"], [*inputs[:first], *carry])
        return list(carry) if asked == [None] else [Mixed("a loop that ends by the rows")] * len(carry)
    fixed, carry, slices = scan_parts(params, inputs)
    if any(isinstance(state, Rows) and state.axis == 0 for state in slices):
        return [Mixed("scan over the rows")] * len(one.outvars)
    of_turn = [state._replace(axis=state.axis - 1) if isinstance(state, Rows) else state for state in slices]
    carry, kept = _settled(params["jaxpr"], twins["jaxpr"], fixed, carry, of_turn)
    return [*carry, *(state._replace(axis=state.axis + 1) if isinstance(state, Rows) else state for state in kept)]


def _settled(
    body: Any, twin: Any, fixed: Sequence[State], carry: Sequence[State], slices: Sequence[State]
) -> tuple[list[State], list[State]]:
    """What is carried once it stays so, and what a turn gives beside it."""
    now = list(carry)
    while True:
        made = _closed(body, twin, [*fixed, *now, *slices])
        after = [_joined_all(pair, "a loop") for pair in zip(now, made[: len(now)], strict=True)]
        if after == now:
            return now, made[len(now) :]
        now = after


def _joined_all(states: Sequence[State], name: str) -> State:
    mixed = next((state for state in states if isinstance(state, Mixed)), None)
    return mixed or _joined(states, name)
