"""Which weights are drawn once: passes over a traced network that note what becomes of its weights and of their noise.

A pass gives every variable a `Dependence`, what it owes to the rows of the data and to the noises made there, or calls it an
`Image` of a weight. Noise that is made anew for every row has the law of one sampled weight as long as two things hold of
whatever comes of it:

* nothing but a linear map (at last the sum of a loss over the rows) sees the noises of several rows together;
* nothing but a linear map sees two noises of one weight together.

Under linear maps the mean stays right, and that is all that is asked of a sum over rows. A weight for which either fails is
drawn once: the `Ledger` writes it down, and the pass is repeated without it.

In an operation a Gaussian weight stays one, or it meets data and makes noise, or it must be drawn (`meet`). Noise is exact
where every element of the weight reaches one number of each row's result. With data x of rows n:

  x_nc W_cf          yes: a dense layer on a matrix of rows        x_npc W_cf  (tokens p)      no
  h_nf + b_f         yes                                           h_npf + b_f (positions p)   no
  convolution        with one position of its output, else by the custom that its positions have noises of their own
"""

import itertools
import math
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import jax.numpy as jnp
from jax.extend.core import ClosedJaxpr
from jax.extend.core import primitives as prims

from bayesprune.structure.jaxprs import Atom, Equation, JaxprLike, followed
from bayesprune.structure.ops import record_of


class Use(NamedTuple):
    """One place where a weight met data and noise was made. ``customary``: positions of a convolution, taken for rows."""

    site: int
    number: int
    customary: bool = False


class Dependence(NamedTuple):
    """A value that is no weight: its axis of rows, the noises in it, and those of them that only linear maps may see."""

    axis: int | None = None
    uses: frozenset[Use] = frozenset()
    mixed: frozenset[Use] = frozenset()


class Image(NamedTuple):
    """A linear image of a Gaussian weight, its elements independent and no two of them of one element of the weight."""

    site: int


Kind = Dependence | Image


@dataclass
class Ledger:
    """One pass's notes: which weights are drawn once, and numbers for the noises of the others."""

    shared: str
    drawn: set[int] = field(default_factory=set)
    numbers: Iterator[int] = field(default_factory=lambda: itertools.count(1))

    def draw(self, uses: Iterable[Use]) -> None:
        """Have the weights of these noises drawn."""
        self.drawn |= {use.site for use in uses}

    def left(self, uses: frozenset[Use]) -> frozenset[Use]:
        """Noises whose weights are not drawn."""
        return frozenset(use for use in uses if use.site not in self.drawn)

    def join(self, parts: list[Dependence], linear: bool) -> Dependence:
        """What comes of several values under one operation; their axes are already those of the result."""
        carried = [part for part in parts if part.uses]
        uses = frozenset[Use]().union(*(part.uses for part in carried))
        mixed = frozenset[Use]().union(*(part.mixed for part in carried)) | several_of_one_weight(uses)
        if len({part.axis for part in carried} - {None}) > 1:  # different rows meet
            mixed |= strict(uses)
        axis = next((part.axis for part in [*carried, *parts] if part.axis is not None), None)
        if linear:
            return Dependence(axis, uses, mixed)
        self.draw(mixed)
        return Dependence(axis, self.left(uses))

    def finish(self, outputs: list[Kind]) -> None:
        """At the end, what still has rows must have the right law, all of it together; of sums over rows, the mean is right."""
        by_row = [kind for kind in outputs if isinstance(kind, Dependence) and kind.axis is not None]
        uses = frozenset[Use]().union(*(kind.uses for kind in by_row))
        self.draw(several_of_one_weight(uses).union(*(kind.mixed for kind in by_row)))
        self.drawn |= {kind.site for kind in outputs if isinstance(kind, Image)}


def strict(uses: frozenset[Use]) -> frozenset[Use]:
    """Without those for which noises of different positions, and so of different rows, count as independent by custom."""
    return frozenset(use for use in uses if not use.customary)


def several_of_one_weight(uses: frozenset[Use]) -> frozenset[Use]:
    """Noises beside another noise of the same weight."""
    counts = Counter(use.site for use in uses)
    return frozenset(use for use in uses if counts[use.site] > 1)


CALLS = (prims.jit_p, prims.remat_p)  # equations that are short for a program
_REDUCTIONS = ("argmax", "argmin", *(f"reduce_{kind}" for kind in ("and", "max", "min", "or", "prod", "sum")))
_DERIVATIVES = (prims.custom_jvp_call_p, prims.custom_vjp_call_p)  # of a function that brings its own


def settle(program: JaxprLike, kinds: list[Kind], shared: str) -> set[int]:
    """The weights to be drawn once: passes over the trace until one finds no more of them."""
    drawn: set[int] = set()
    while True:
        ledger = Ledger(shared, set(drawn))
        ledger.finish(_look(ledger, program, kinds))
        if ledger.drawn == drawn:
            return drawn
        drawn = ledger.drawn


def _look(ledger: Ledger, program: JaxprLike, kinds: Sequence[Kind]) -> list[Kind]:
    """The kinds of a program's results, from those of its arguments."""
    step = lambda equation, given: kinds_of(ledger, equation, less_drawn(ledger, given))  # noqa: E731
    return less_drawn(ledger, followed(program, kinds, step, lambda constant: Dependence()))


def less_drawn(ledger: Ledger, kinds: Sequence[Kind]) -> list[Kind]:
    """The kinds, drawn weights being constants."""
    return [Dependence() if isinstance(k, Image) and k.site in ledger.drawn else k for k in kinds]


def kinds_of(ledger: Ledger, equation: Equation, kinds: list[Kind]) -> list[Kind]:
    """The kinds of an equation's results."""
    images = [place for place, kind in enumerate(kinds) if isinstance(kind, Image)]
    if equation.primitive in CALLS or (equation.primitive in _DERIVATIVES and not images):
        return _look(ledger, program_of(equation), kinds)
    if not images:
        return _of_rows(ledger, equation, kinds)
    if len(images) == 1 and (result := meet(ledger, equation, kinds, images[0])) is not None:
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


def program_of(equation: Equation) -> ClosedJaxpr:
    """The program that an equation is short for."""
    inner = equation.params["jaxpr" if "jaxpr" in equation.params else "call_jaxpr"]
    return inner if isinstance(inner, ClosedJaxpr) else ClosedJaxpr(inner, ())


_SUMS = frozenset(("add", "sub"))


def meet(ledger: Ledger, equation: Equation, kinds: list[Kind], place: int) -> Kind | None:
    """What the operation gives whose operand number ``place`` is a weight's image and no other is; None: draw the weight."""
    name, others = equation.primitive.name, [kind for i, kind in enumerate(kinds) if i != place]
    shape, out = (tuple(variable.aval.shape) for variable in (equation.invars[place], equation.outvars[0]))
    record = record_of(equation)
    if record.keeps and record.linear and len(equation.invars) == 1:  # every element moves as a whole
        floats = jnp.issubdtype(equation.outvars[0].aval.dtype, jnp.inexact)
        return kinds[place] if math.prod(shape) == math.prod(out) and floats else None
    if all(kind == Dependence() for kind in others):  # constants
        if _lays_out(equation, place):
            return kinds[place]
        return kinds[place] if _keeps(name, place) and _padded(shape, out) == out else None
    if _makes_noise(name, place) and len(others) == 1:
        return _noise(ledger, equation, kinds, place)
    return None


def _lays_out(equation: Equation, place: int) -> bool:
    """Whether every element of the weight is put in a place of its own."""
    if equation.primitive.name != "scatter" or place != 2 or not equation.params["unique_indices"]:
        return False
    return not equation.params["dimension_numbers"].update_window_dims


def _keeps(name: str, place: int) -> bool:
    """Whether a weight beside constants, element by element, stays Gaussian."""
    return name in _SUMS | {"mul"} or (name == "div" and place == 0) or (name == "select_n" and place > 0)


def _makes_noise(name: str, place: int) -> bool:
    at = {"div": 0, "conv_general_dilated": 1}
    return name in _SUMS | {"mul", "dot_general"} or at.get(name) == place


def _noise(ledger: Ledger, equation: Equation, kinds: list[Kind], place: int) -> Dependence | None:
    """Noise for every output, if the other operand has rows and the weight reaches each row's outputs but once."""
    weight, data = kinds[place], kinds[1 - place]
    assert isinstance(weight, Image) and isinstance(data, Dependence)
    axis = None if data.axis is None else record_of(equation).moved(equation, 1 - place, data.axis)
    if axis is None or any(use.site == weight.site for use in data.uses):
        return None
    reached = _reached(equation, place, axis)
    customary = reached > 1 and equation.primitive.name == "conv_general_dilated" and ledger.shared == "convolutions"
    if reached > 1 and not customary:
        return None
    found = ledger.join([data._replace(axis=axis)], linear=equation.primitive.name in _SUMS)
    return found._replace(uses=found.uses | {Use(weight.site, next(ledger.numbers), customary)})


def _reached(equation: Equation, place: int, axis: int) -> int:
    """How many numbers of one row's result an element of the weight enters."""
    shapes = [tuple(variable.aval.shape) for variable in equation.invars]
    out, params = tuple(equation.outvars[0].aval.shape), equation.params
    if equation.primitive.name == "dot_general":
        contracted, batch = (sides[1 - place] for sides in params["dimension_numbers"])
        free = [a for a in range(len(shapes[1 - place])) if a not in (*contracted, *batch)]
        rows_are_free = axis >= len(batch)
        return math.prod(shapes[1 - place][a] for a in free) // (out[axis] if rows_are_free else 1)
    if equation.primitive.name == "conv_general_dilated":
        return math.prod(out[a] for a in params["dimension_numbers"].out_spec[2:])
    weight = _padded(shapes[place], out)
    return math.prod(size for a, size in enumerate(out) if a != axis and weight[a] != size)


def _padded(shape: tuple[int, ...], out: tuple[int, ...]) -> tuple[int, ...]:
    return (1,) * (len(out) - len(shape)) + shape
