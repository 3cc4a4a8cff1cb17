"""Reading a network: one walk through its jaxpr, in which every array is known by its signals or its weights alone."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

import jax
import numpy as np
from jax.extend.core import ClosedJaxpr, jaxprs_in_params
from jax.typing import ArrayLike

from bayesprune.structure.graph import CONSTANT, NOTHING, Graph, Role, Signals, Terms, Value, Weights, bits_of, made_of
from bayesprune.structure.jaxprs import Equation, JaxprLike, called, computed, followed, somewhere
from bayesprune.structure.ops import record_of, written_out
from bayesprune.structure.ops.control import too_large
from bayesprune.structure.primitive import numbers_of
from bayesprune.structure.recorder import LARGEST, Recorder
from bayesprune.structure.units import with_places

COUNTED = frozenset(["iota", "platform_index"])  # operations without operands whose results are plain numbers


def read(jaxpr: ClosedJaxpr, sites: Mapping[str, tuple[int, ...]], num_inputs: int = 1) -> Graph:
    """The graph of a network.

    ``jaxpr``: of a function of (weights, state, rows), flattened; its first inputs are the weights, in the order of ``sites``
    ({name: shape}), its last ``num_inputs`` are the rows, and what lies between is state, such as the averages of a batch norm.
    Nothing is computed: only shapes are looked at.

    Followed are matrix products, convolutions, look-ups, everything entry by entry, everything that moves entries, sums and
    maxima over axes and windows, branches, short scans, and calls. What is not is named in ``graph.unfollowed``.
    """
    avals = [variable.aval for variable in jaxpr.jaxpr.invars]
    given = avals[-num_inputs:]
    recorder = Recorder(list(sites), list(sites.values()), [aval.shape[1:] for aval in given])
    weights: list[Value] = [recorder.view(site) for site in range(len(sites))]
    state = [Signals(_constant(aval)) for aval in avals[len(sites) : -num_inputs]]
    rows = [Signals(_constant(aval), of_rows=True, heads=bit) for aval, bit in zip(given, recorder.before.rows, strict=True)]
    results = _Walk(recorder).closed(jaxpr, [*weights, *state, *rows])
    outputs = [recorder.as_signals(one, "given out") for one in results]
    graph = Graph(
        roles=roles(recorder, bits_of(output.heads for output in outputs)),
        terms=tuple(recorder.terms),
        outputs=np.unique(np.concatenate([output.labels.ravel() for output in outputs])),
        ties=np.concatenate([np.zeros((0, 2), np.int64), *recorder.ties]),
        loose=np.concatenate([np.zeros((0, 2), np.int64), *recorder.loose]),
        blend=recorder.blend(np.arange(recorder.num_signals)),
        unfollowed=dict(recorder.unfollowed),
        products=tuple(recorder.products),
        sites=tuple(recorder.names),
        unsettled=recorder.unsettled,
    )
    return with_places(graph)


def _constant(aval: jax.core.ShapedArray) -> np.ndarray:
    return np.full((1,) * len(aval.shape), CONSTANT)


class _Walk:
    """One walk; the values of a program live as long as its own part of the walk."""

    def __init__(self, recorder: Recorder) -> None:
        self.recorder = recorder

    def closed(self, inner: JaxprLike, inputs: Sequence[Value]) -> list[Value]:
        return followed(inner, inputs, self.step, _known)

    def step(self, equation: Equation, inputs: list[Value]) -> list[Value]:
        made = self._made(equation, inputs)
        return [self._moved(one) for one in made] if record_of(equation).reorders(equation) else made

    def _moved(self, value: Value) -> Value:
        return value if isinstance(value, Weights) else replace(value, heads=self.recorder.before.moved(value.heads))

    def _made(self, equation: Equation, inputs: list[Value]) -> list[Value]:
        name, params, record = equation.primitive.name, equation.params, record_of(equation)
        if not (name == "scan" and too_large(params, inputs)) and (program := called(equation)) is not None:
            return self.closed(program, inputs)
        if (found := _computed(equation, inputs)) is not None:
            return found
        if not _settled(name, inputs) and any(somewhere(inner, _is_product) for inner in jaxprs_in_params(params)):
            self.recorder.unsettled = name
        if record.read is not None and (made := record.read(self, equation, inputs)) is not None:
            return made
        if (program := written_out(equation, numbers_of(equation, inputs))) is not None:
            return self.closed(program, inputs)
        return _opaque(self.recorder, name, inputs, [len(variable.aval.shape) for variable in equation.outvars])


def _settled(name: str, inputs: Sequence[Value]) -> bool:
    """Whether it is known how often a loop turns, or which branch is taken."""
    return name == "scan" or (name == "cond" and isinstance(inputs[0], Signals) and inputs[0].literal is not None)


def _is_product(equation: Equation) -> bool:
    return record_of(equation).uses is not None


def _opaque(recorder: Recorder, name: str, operands: Sequence[Value], ranks: Sequence[int]) -> list[Value]:
    """The results of an operation that is not followed: everything enters, and they are always there."""
    if all(isinstance(value, Signals) and value.constant for value in operands):
        return [Signals(np.full((1,) * rank, CONSTANT)) for rank in ranks]
    recorder.unfollowed.setdefault(name, "not followed: all that it reads is kept")
    signals = [
        recorder.pin(value, f"enters {name}, which is not followed") if isinstance(value, Weights) else value
        for value in operands
    ]
    target = recorder.new((1,), True)
    recorder.terms.append(Terms(target, np.array([CONSTANT])))
    recorder.terms += [Terms(target, np.unique(value.labels)) for value in signals]
    made = made_of(target, signals)
    made = replace(made, heads=recorder.before.moved(made.heads))
    return [replace(made, labels=target.reshape((1,) * rank)) for rank in ranks]


# ---- constants: what is known of them, and what is computed from them alone
def _known(value: ArrayLike) -> Signals:
    """A constant of the program: zero, or taken for nonzero everywhere."""
    if jax.dtypes.issubdtype(getattr(value, "dtype", np.asarray(0).dtype), jax.dtypes.extended):
        return Signals(np.full((1,) * np.ndim(value), CONSTANT))
    array = np.asarray(value)
    label = CONSTANT if array.any() else NOTHING
    plain = array.dtype.kind in "biuf" and array.size <= LARGEST
    literal = float(array) if plain and array.ndim == 0 else None
    return Signals(np.full((1,) * array.ndim, label), literal=literal, array=array if plain and array.ndim else None)


def _computed(equation: Equation, inputs: Sequence[Value]) -> list[Value] | None:
    """The results where all operands are known arrays, as masks that a net is written with, or counters; None: they are not."""
    name, params = equation.primitive.name, equation.params
    avals = [atom.aval for atom in equation.invars]
    known_array = any(isinstance(value, Signals) and value.array is not None for value in inputs)
    is_counter = all(getattr(getattr(aval, "dtype", None), "kind", "none") in "iub" for aval in avals)
    if not (known_array or (avals and is_counter) or name in COUNTED):
        return None
    if _is_product(equation) or equation.effects or any(jaxprs_in_params(params)):
        return None
    numbers = numbers_of(equation, inputs)
    if any(array is None for array in numbers) or max(math.prod(v.aval.shape) for v in equation.outvars) > LARGEST:
        return None
    return list(map(_known, computed(equation, numbers)))


def roles(recorder: Recorder, heads: int) -> dict[str, Role]:
    """Roles by site, in the order of first use, unused sites first. ``heads``: bits of the kernels next to the outputs."""
    last = _last(recorder, heads)
    unused = [site for site in range(len(recorder.names)) if site not in recorder.order]
    found = {}
    for site in (*unused, *recorder.order):
        shape = recorder.shapes[site]
        axes = recorder.axes.get(site) or _unseen(recorder, site)
        before = recorder.trailing.get(site, 0)
        is_norm = bool(recorder.norms >> site & 1)
        trails = site not in recorder.axes and not is_norm and before != 0 and not before & ~last
        found[recorder.names[site]] = Role(
            shape=shape,
            **axes,
            looked_up=site in recorder.looked_up,
            channel_groups=recorder.channel_groups.get(site, 1),
            is_norm=is_norm,
            is_last=bool(last >> site & 1) or trails,
            used=site in recorder.order,
            reads=_reads(recorder, site, bool(axes.get("inputs"))),
            beside=recorder.before.named(heads, recorder.names) if heads >> site & 1 else (),
        )
    return found


def _reads(recorder: Recorder, site: int, is_kernel: bool) -> tuple[str, ...] | None:
    """What lies directly before a kernel; None: it is not known, for the kernel is not followed."""
    if not is_kernel or site not in recorder.order:
        return ()
    if recorder.names[site] in recorder.unfollowed or site not in recorder.before.of:
        return None
    return recorder.before.named(recorder.before.of[site], recorder.names)


def _unseen(recorder: Recorder, site: int) -> dict[str, tuple[int, ...]]:
    """The axes of an array that was seen in no product: all outputs, as of a bias; of what is not followed, by Flax's order."""
    axes = tuple(range(len(recorder.shapes[site])))
    followed = site in recorder.order and recorder.names[site] not in recorder.unfollowed
    return {"outputs": axes} if followed or len(axes) < 2 else {"inputs": axes[:-1], "outputs": axes[-1:]}


def _last(recorder: Recorder, heads: int) -> int:
    """Bits of the last kernels: next to the outputs, and not on the way to another that is.

    So of residual branches that are summed to the outputs only the last counts, and of parallel heads each.
    """
    near = [site for site in recorder.axes if heads >> site & 1]
    on_the_way = bits_of(recorder.behind.get(site, 0) & ~(1 << site) for site in near)
    last = bits_of(1 << site for site in near) & ~on_the_way
    if not last and recorder.order:
        last = 1 << list(recorder.order)[-1]
    return last
