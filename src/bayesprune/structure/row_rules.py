"""What every operation does to the axis of the rows: it keeps them apart, moves the axis, or mixes them."""

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

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


def spread(name: str, params: Any, place: int) -> State:
    """What is made for all rows of what has none."""
    if name in ("broadcast_in_dim", "full") or (name == "iota" and params["dimension"] != place):
        return Rows(place, uniform=True)
    return Mixed(f"{name}, which tells rows apart")


def joined(states: Sequence[State], name: str) -> State:
    """Rows that meet entry by entry must be in one place."""
    found = {state[:3] for state in states if isinstance(state, Rows) and not state.uniform}
    axes = {state.axis for state in states if isinstance(state, Rows)}
    if len(found) > 1 or len(axes) > 1:
        return Mixed(name)
    own = next((state for state in states if isinstance(state, Rows) and not state.uniform), None)
    return own or next((state for state in states if isinstance(state, Rows)), None)


def each(one: Any, inputs: list[State], places: list[int | None]) -> list[State]:
    """Entry by entry."""
    return [joined(inputs, one.primitive.name)] * len(places)


def unknown(one: Any, inputs: list[State], places: list[int | None]) -> list[State]:
    """What cannot be followed keeps the rows where they were, as far as its shapes say."""
    state = joined(inputs, one.primitive.name)
    if isinstance(state, Mixed):
        return [state] * len(places)
    return [Rows(place) if place is not None else Mixed(one.primitive.name) for place in places]


def _first(inputs: Sequence[State]) -> Rows:
    return next(state for state in inputs if isinstance(state, Rows))


def _unless(touches: Callable[[Any, Rows], bool], moves: Callable[[Any, Rows], Rows] = lambda params, state: state) -> Any:
    """The rule of an operation that mixes where it ``touches`` the axis, and else ``moves`` it."""

    def rule(one: Any, inputs: list[State], places: list[int | None]) -> list[State]:
        state = joined(inputs, one.primitive.name)
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
    state = joined(inputs[:2], one.primitive.name)
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
    return [mixed or joined(moved, "dot_general")]


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
    return [Mixed(one.primitive.name) if inner else joined(inputs, one.primitive.name)] * len(places)


def _transposed(params: Any, state: Rows) -> Rows:
    return state._replace(axis=[int(axis) for axis in params["permutation"]].index(state.axis))


def _never(params: Any, state: Rows) -> bool:
    return False


def _at(key: str) -> Callable[[Any, Rows], bool]:
    """Whether the rows' axis is the one of a parameter."""
    return lambda params, state: bool(state.axis == params[key])


def _among(key: str) -> Callable[[Any, Rows], bool]:
    return lambda params, state: state.axis in params[key]


def _without(key: str) -> Callable[[Any, Rows], Rows]:
    return lambda params, state: _dropped(integers(params[key]), state)


RULES: dict[str, Any] = {
    "reshape": _reshape,
    "broadcast_in_dim": _broadcast,
    "transpose": _unless(_never, _transposed),
    "squeeze": _unless(_among("dimensions"), _without("dimensions")),
    "expand_dims": _unless(_never, _expanded),
    "rev": _unless(_among("dimensions")),
    "slice": _sliced,
    "dynamic_slice": _sliced,
    "dynamic_update_slice": _updated,
    "concatenate": _unless(_at("dimension")),
    "pad": _unless(lambda p, s: tuple(p["padding_config"][s.axis]) != (0, 0, 0)),
    "split": _unless(_at("axis")),
    "dot_general": _dot,
    "conv_general_dilated": _convolution,
    "gather": _gather,
    "top_k": _unless(lambda p, s: s.axis == p.get("axis", s.axis)),
    "fft": lambda one, inputs, places: [
        Mixed("fft") if _first(inputs).axis >= len(one.invars[0].aval.shape) - len(one.params["fft_lengths"]) else inputs[0]
    ],
}
RULES |= {name: _unless(_at(key)) for name, key in _ALONG.items()}
RULES |= {name: _matrices for name in _MATRICES}
for _name in _REDUCING:
    _key = "dimensions" if _name == "reduce" else "axes"
    RULES[_name] = _unless(_among(_key), _without(_key))
for _name in ("sum", "max", "min"):
    RULES[f"reduce_window_{_name}"] = _unless(_window)
RULES |= {name: _unless(_window) for name in ("reduce_window", "select_and_gather_add", "select_and_scatter_add")}
RULES |= {f"scatter{rest}": _scatter for rest in ("", "_add", "-add", "_mul", "-mul", "_max", "-max", "_min", "-min")}


def rule_of(name: str) -> Any:
    """The rule of an operation: (equation, states, axes of the results that differ) -> states."""
    return RULES.get(name, each if name in _EACH else unknown)


def joined_all(states: Sequence[State], name: str) -> State:
    """What may be any of these."""
    mixed = next((state for state in states if isinstance(state, Mixed)), None)
    return mixed or joined(states, name)
