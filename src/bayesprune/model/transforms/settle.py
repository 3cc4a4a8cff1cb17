"""Which weights are drawn once: passes over a traced network that note what becomes of its weights (see `dependence`)."""

from collections.abc import Sequence
from typing import Any

from jax.extend.core import Literal
from jax.extend.core import primitives as prims

from bayesprune.model.transforms import weight_rules
from bayesprune.model.transforms.dependence import Dependence, Image, Kind, Ledger, Use, strict
from bayesprune.structure.jaxprs import Atom, Equation, JaxprLike
from bayesprune.structure.ops import record_of

CALLS = (prims.jit_p, prims.remat_p)  # equations that are short for a program
_REDUCTIONS = ("argmax", "argmin", *(f"reduce_{kind}" for kind in ("and", "max", "min", "or", "prod", "sum")))
_DERIVATIVES = (prims.custom_jvp_call_p, prims.custom_vjp_call_p)  # of a function that brings its own


def settle(jaxpr: JaxprLike, kinds: list[Kind], shared: str) -> set[int]:
    """The weights to be drawn once: passes over the trace until one finds no more of them."""
    drawn: set[int] = set()
    while True:
        ledger = Ledger(shared, set(drawn))
        ledger.finish(_look(ledger, jaxpr, kinds))
        if ledger.drawn == drawn:
            return drawn
        drawn = ledger.drawn


def _look(ledger: Ledger, jaxpr: JaxprLike, kinds: Sequence[Kind]) -> list[Kind]:
    """The kinds of a program's results, from those of its arguments."""
    known: dict[Any, Kind] = dict(zip(jaxpr.invars, kinds, strict=True))
    for equation in jaxpr.eqns:
        known |= zip(equation.outvars, kinds_of(ledger, equation, read_kinds(ledger, known, equation.invars)), strict=True)
    return read_kinds(ledger, known, jaxpr.outvars)


def read_kinds(ledger: Ledger, known: dict[Any, Kind], variables: Sequence[Any]) -> list[Kind]:
    """What is known of variables; literals, a closed program's constants and drawn weights are constants."""
    kinds = [Dependence() if isinstance(v, Literal) else known.get(v, Dependence()) for v in variables]
    return [Dependence() if isinstance(k, Image) and k.site in ledger.drawn else k for k in kinds]


def kinds_of(ledger: Ledger, equation: Equation, kinds: list[Kind]) -> list[Kind]:
    """The kinds of an equation's results."""
    images = [place for place, kind in enumerate(kinds) if isinstance(kind, Image)]
    if equation.primitive in CALLS or (equation.primitive in _DERIVATIVES and not images):
        return _look(ledger, program_of(equation)[0], kinds)
    if not images:
        return _of_rows(ledger, equation, kinds)
    if len(images) == 1 and (result := weight_rules.meet(ledger, equation, kinds, images[0])) is not None:
        return [result]
    # Of two weights the smaller one is drawn, a layer's scale rather than its kernel.
    least = min(images, key=lambda place: equation.invars[place].aval.size)
    weight = kinds[least]
    assert isinstance(weight, Image)
    ledger.drawn.add(weight.site)
    return kinds_of(ledger, equation, [Dependence() if kind == weight else kind for kind in kinds])


def _of_rows(ledger: Ledger, equation: Equation, kinds: Sequence[Any]) -> list[Kind]:
    """The kinds of the results of an equation without weights."""
    record = record_of(equation)
    if record.axis is None:  # such as a loop
        for kind in kinds:
            ledger.draw(strict(kind.uses) | kind.mixed)
        uses = frozenset[Use]().union(*(ledger.left(kind.uses) for kind in kinds))
        return [Dependence(_guess(equation, kinds, variable), uses) for variable in equation.outvars]
    parts = []
    for place, kind in enumerate(kinds):
        axis = None if kind.axis is None else record.moved(equation, place, kind.axis)
        parts.append(Dependence(axis, kind.uses, kind.mixed | strict(kind.uses) if axis is None else kind.mixed))
    found = ledger.join(parts, record.is_linear(equation.params, [bool(kind.uses) for kind in kinds]))
    if found == Dependence():
        found = Dependence(_guess(equation, kinds, equation.outvars[0]))
    return [found] * len(equation.outvars)


def _guess(equation: Equation, kinds: Sequence[Any], result: Atom) -> int | None:
    """The likely axis of rows of a result without noise, where its record knows none.

    A wrong guess costs noise, never rightness: what holds of noises is only ever concluded by the rules.
    """
    given = [(v.aval.shape, kind.axis) for v, kind in zip(equation.invars, kinds, strict=True) if kind.axis is not None]
    shape = getattr(result.aval, "shape", ())
    if not given:
        return None
    if equation.primitive.name == "gather":  # rows picked by an index are rows
        offsets = equation.params["dimension_numbers"].offset_dims
        return next((axis for axis in range(len(shape)) if axis not in offsets), None)
    (operand, axis), *_ = given
    if equation.primitive.name in _REDUCTIONS:
        return None
    likely = [axis, *range(len(shape))] if axis < len(shape) else range(len(shape))
    return next((a for a in likely if shape[a] == operand[axis]), None)


def program_of(equation: Equation) -> tuple[Any, Sequence[Any]]:
    """The program that an equation is short for, and its constants."""
    inner = next(equation.params[name] for name in ("jaxpr", "call_jaxpr") if name in equation.params)
    return (inner.jaxpr, inner.consts) if hasattr(inner, "jaxpr") else (inner, ())
