"""Whether a network treats every row by itself: decided by its operations, through which the axis of the rows is followed."""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from jax.extend.core import ClosedJaxpr, Literal

from bayesprune.structure.jaxprs import Equation, JaxprLike, as_often, called, followed_twice, scan_parts
from bayesprune.structure.ops import record_of
from bayesprune.structure.row_states import Mixed, Never, Own, RowAxis, State, axis_of, constant, fault, folded, numbered, wide

ANOTHER = "the program, which is another for another number of rows"
BY_PARTS = f"{ANOTHER}, perhaps a loop over some of them at a time (of jax.lax.map(..., batch_size=...): leave batch_size out)"


def mixing(one: ClosedJaxpr, other: ClosedJaxpr) -> str:
    """The operation by which an output for one row comes to depend on others, or on how many there are; "" for none.

    ``one``, ``other``: the same function for two numbers of rows, the last input being the rows, (rows, ...). The axis of the
    rows is the one that differs in size. What cannot be followed is taken for kept apart: `compare` by numbers, too. Nothing is
    computed.

    >>> import jax
    >>> import jax.numpy as jnp
    >>> def of(net):
    ...     return mixing(*(jax.make_jaxpr(net)(jnp.ones((rows, 3))) for rows in (2, 3)))
    >>> of(lambda x: x / x.sum(1, keepdims=True)), of(lambda x: x - x.max(0)), of(lambda x: x[::-1])
    ('', 'reduce_max', 'rev')
    """
    inputs: list[State] = [None] * (len(one.jaxpr.invars) - 1)
    return next(filter(None, map(fault, _closed(one, other, [*inputs, RowAxis(0)]))), "")


def _closed(one: JaxprLike, other: JaxprLike, inputs: Sequence[State]) -> list[State]:
    if [e.primitive.name for e in one.eqns] != [e.primitive.name for e in other.eqns]:
        loops = {"scan", "while"} & {e.primitive.name for e in (*one.eqns, *other.eqns)}
        return [Mixed(BY_PARTS if loops else ANOTHER)] * len(getattr(one, "jaxpr", one).outvars)
    known: dict[Any, Any] = {}

    def step(equation: Equation, second: Equation, given: list[State]) -> list[State]:
        if len(equation.invars) != len(second.invars):
            return _copies(equation, second, given)
        numbers = folded(equation, second, known)
        return _step(equation, second, given) if numbers is None else [constant(*numbers)]

    return followed_twice(one, other, inputs, step, constant)


def _copies(one: Equation, other: Equation, given: list[State]) -> list[State]:
    """What is given as often as there are rows: one constant for each of them, as `jnp.tile` joins it, or more than that."""
    name, first = one.primitive.name, one.invars[0]
    same = all(len({id(atom) for atom in equation.invars}) == 1 for equation in (one, other))
    known = same and name == "concatenate" and not isinstance(first, Literal) and given[0] is None
    if known and first.aval.shape[one.params["dimension"]] == 1:
        return [RowAxis(one.params["dimension"], uniform=True)]
    return [Mixed(f"{name}, of as many arrays as there are rows")] * len(one.outvars)


def _step(one: Equation, other: Equation, inputs: list[State]) -> list[State]:
    name, outs = one.primitive.name, list(zip(one.outvars, other.outvars, strict=True))
    if name == "select_n" and isinstance(inputs[0], Never):
        return [inputs[1]]
    inputs = [RowAxis(state.axis, uniform=True) if isinstance(state, Never) else state for state in inputs]
    if mixed := next((state for state in inputs if isinstance(state, Mixed)), None):
        return [mixed] * len(outs)
    if not as_often(one, other):
        return _one_by_one(one, other, inputs)
    if name == "concatenate":
        full = [
            state for state, *atoms in zip(inputs, one.invars, other.invars, strict=True) if any(a.aval.size for a in atoms)
        ]
        if len(full) == 1:
            return full
    if (program := called(one)) is not None:
        return _closed(program, called(other), inputs)
    if any(isinstance(state, Own) for state in inputs):
        return [numbered(one, inputs)] * len(outs)
    places = [axis_of(a.aval.shape, b.aval.shape) for a, b in outs]
    if any(sum(n != m for n, m in zip(a.aval.shape, b.aval.shape, strict=True)) > 1 for a, b in outs):
        return [Mixed(name)] * len(outs)
    rows = [state for state in inputs if isinstance(state, RowAxis)]
    if not rows:
        return [None if place is None else _spread(name, one.params, place) for place in places]
    if name in ("cond", "while", "scan"):
        return _inner(one, other, inputs)
    if name == "optimization_barrier":
        return list(inputs)
    made = _states_after(one, inputs, places)
    uniform = all(state.uniform for state in rows)
    # An array without rows in its shape that rows have gone into is of all of them.
    pairs = zip(made, places, strict=True)
    made = [Mixed(name) if place is None and not isinstance(state, Mixed) else state for state, place in pairs]
    return [state._replace(uniform=uniform) if isinstance(state, RowAxis) else state for state in made]


def _inner(one: Equation, other: Equation, inputs: list[State]) -> list[State]:
    """Branches, and loops that are not written out: what is carried is of all that it ever was made of."""
    name, params, twins = one.primitive.name, one.params, other.params
    if name == "cond":
        if inputs[0] is not None:
            return [Mixed("a branch that rows choose")] * len(one.outvars)
        made = [_closed(*pair, inputs[1:]) for pair in zip(params["branches"], twins["branches"], strict=True)]
        return [_joined(column, "cond") for column in zip(*made, strict=True)]
    if name == "while":
        first, last = params["cond_nconsts"], params["cond_nconsts"] + params["body_nconsts"]
        bodies = params["body_jaxpr"], twins["body_jaxpr"]
        carry, _ = _settled(lambda now: _closed(*bodies, [*inputs[first:last], *now]), inputs[last:])
        asked = _closed(params["cond_jaxpr"], twins["cond_jaxpr"], [*inputs[:first], *carry])
        # Mapped over rows it asks them one by one, and each stays as it is from the turn on that it says no.
        each = all(isinstance(state, RowAxis) and state[:3] == (0, 1, 1) for state in (*asked, *carry))
        return list(carry) if each or asked == [None] else [Mixed("a loop that ends by the rows")] * len(carry)
    fixed, carry, slices = scan_parts(params, inputs)
    if any(isinstance(state, RowAxis) and state.axis == 0 for state in slices):
        return [Mixed("scan over the rows")] * len(one.outvars)
    of_turn = [state._replace(axis=state.axis - 1) if isinstance(state, RowAxis) else state for state in slices]
    carry, kept = _settled(lambda now: _closed(params["jaxpr"], twins["jaxpr"], [*fixed, *now, *of_turn]), carry)
    return [*carry, *(state._replace(axis=state.axis + 1) if isinstance(state, RowAxis) else state for state in kept)]


def _one_by_one(one: Equation, other: Equation, inputs: list[State]) -> list[State]:
    """A loop whose turns are the rows: apart only where nothing is carried and each turn is given its own row alone."""
    fixed, carry, slices = scan_parts(one.params, inputs)
    alone = not carry and all(state is None for state in fixed) and slices
    if alone and all(isinstance(state, RowAxis) and state == RowAxis(0, uniform=state.uniform) for state in slices):
        turn = _closed(one.params["jaxpr"], other.params["jaxpr"], [None] * len(inputs))
        return [state if isinstance(state, Mixed) else RowAxis(0) for state in turn]
    return [Mixed("scan over the rows")] * len(one.outvars)


def _settled(turn: Callable[[list[State]], list[State]], carry: Sequence[State]) -> tuple[list[State], list[State]]:
    """What is carried once it stays so, and what a ``turn`` gives beside it."""
    now = list(carry)
    while True:
        made = turn(now)
        after = [_joined(pair, "a loop") for pair in zip(now, made[: len(now)], strict=True)]
        if after == now:
            return now, made[len(now) :]
        now = after


# ---- what an operation does to the axis of the rows: it keeps them apart, moves the axis, or mixes them
def _spread(name: str, params: Mapping[str, Any], place: int) -> State:
    """What is made for all rows of what has none."""
    if name in ("broadcast_in_dim", "full") or (name == "iota" and params["dimension"] != place):
        return RowAxis(place, uniform=True)
    if name == "iota" and wide(params["dtype"]):
        return Own(place)
    return Mixed(f"{name}, which tells rows apart")


def _joined(states: Sequence[State], name: str) -> State:
    """What may be any of these; rows that meet entry by entry must be in one place."""
    if mixed := next((state for state in states if isinstance(state, Mixed)), None):
        return mixed
    rows = [state for state in states if isinstance(state, RowAxis)]
    own = [state for state in rows if not state.uniform]
    if len({state[:3] for state in own}) > 1 or len({state.axis for state in rows}) > 1:
        return Mixed(name)
    return next(iter([*own, *rows]), None)


def _states_after(one: Equation, inputs: list[State], places: list[int | None]) -> list[State]:
    """The states of an equation's results. ``places``: the axes of the results that differ with the rows."""
    name, record = one.primitive.name, record_of(one)
    for prefix, rule in _RULES.items():
        if name.startswith(prefix):
            return rule(one, inputs, places)
    if record.axis is None:
        return _unknown(one, inputs, places)
    moved: list[State] = []
    for operand, state in enumerate(inputs):
        if isinstance(state, RowAxis):
            axis = record.moved(one, operand, state.axis)
            moved.append(Mixed(name) if axis is None else state._replace(axis=axis))
    return [_joined(moved, name)] * len(places)


def _unknown(one: Equation, inputs: list[State], places: list[int | None]) -> list[State]:
    """What cannot be followed keeps the rows where they were, as far as its shapes say."""
    state = _joined(inputs, one.primitive.name)
    if isinstance(state, Mixed):
        return [state] * len(places)
    return [RowAxis(place) if place is not None else Mixed(one.primitive.name) for place in places]


def _reshape(one: Equation, inputs: list[State], places: list[int | None]) -> list[State]:
    (state, *_), (place,) = inputs, places
    assert isinstance(state, RowAxis)
    if one.params.get("dimensions") is not None or place is None:
        return [Mixed("reshape")]
    old, new = one.invars[0].aval.shape, one.outvars[0].aval.shape
    rows = old[state.axis] // (state.before * state.after)
    before = math.prod(old[: state.axis]) * state.before
    outside, times = math.prod(new[:place]), new[place] // rows
    if state.uniform:
        return [RowAxis(place, uniform=True)]
    if before % outside or times % (before // outside):
        return [Mixed("reshape")]
    return [RowAxis(place, before // outside, times // (before // outside))]


def _updated(one: Equation, inputs: list[State], places: list[int | None]) -> list[State]:
    state = _joined(inputs[:2], one.primitive.name)
    if any(isinstance(index, RowAxis) for index in inputs[2:]):
        return [Mixed(one.primitive.name)]
    shapes = [atom.aval.shape for atom in one.invars[:2]]
    whole = isinstance(state, RowAxis) and shapes[0][state.axis] == shapes[1][state.axis]
    return [state if whole else Mixed(one.primitive.name)]


def _scatter(one: Equation, inputs: list[State], places: list[int | None]) -> list[State]:
    numbers, name = one.params["dimension_numbers"], one.primitive.name
    table, index, updates = inputs
    (place,) = places
    pairs = dict(zip(numbers.operand_batching_dims, numbers.scatter_indices_batching_dims, strict=True))
    if place is None or place in (*numbers.scatter_dims_to_operand_dims, *numbers.inserted_window_dims):
        return [Mixed(name)]
    if isinstance(index, RowAxis) and pairs.get(place) != index.axis:
        return [Mixed(name)]
    layouts = {state[1:3] for state in (table, index, updates) if isinstance(state, RowAxis) and not state.uniform}
    placed = not isinstance(table, RowAxis) or table.axis == place
    return [RowAxis(place, *layouts.pop()) if len(layouts) == 1 and placed else Mixed(name)]


# Of which it is not enough to say where the axis of an operand goes.
_RULES = {"reshape": _reshape, "dynamic_update_slice": _updated, "scatter": _scatter}
