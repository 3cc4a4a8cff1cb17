"""Which engine a network predicts with: a given one, the quickest of a measurement, or one that suits its layers."""

from collections.abc import Callable, Hashable, Iterable, Mapping
from typing import Any, TypeVar

import jax

from bayesprune.core.checks import check_name
from bayesprune.deploy.engines.by_jax import ByBCSR
from bayesprune.deploy.engines.draws_engine import DrawsEngine
from bayesprune.deploy.engines.engine import DENSE, Engine
from bayesprune.deploy.engines.measure import Choice
from bayesprune.deploy.program.linear import MOVES
from bayesprune.deploy.program.ops import OpProgram, reached
from bayesprune.deploy.program.weights import Weighted
from bayesprune.deploy.sparse.fusing import Segment
from bayesprune.deploy.sparse.kernels import has_numba
from bayesprune.deploy.sparse.segments import Step

ENGINES = ("auto", "jax", "kernels")
MANY = 100  # rows from which JAX gains more by its dense products than it takes to be called
T = TypeVar("T")
MEETING = ("add", "mul", "concatenate", "dot", "conv", "select")


class Engines:
    """The engines of one network, each made when it is first asked for.

    "jax": the program compiled by JAX, on its device. "kernels": `Engine` and `DrawsEngine`, on the CPU. "auto": for the
    network at the mean what was quickest when it was measured on such a machine; else, where numba is installed, JAX runs on
    the CPU, and one layer follows upon another, kernels, but of many rows only where most products are convolutions or
    sparse. What is done to the rows before any weight, as to frame or to scale them, costs either little. Where draws are given
    one by one it does not depend on the rows, so that one key means the same networks for all of them.
    """

    def __init__(self, network: Weighted, choice: Choice | None) -> None:
        self.network, self.choice = network, choice if choice is not None and choice.holds_here() else None
        self.made: dict[Any, Any] = {}

    def at_mean(self, name: str, rows: int) -> Engine | ByBCSR | None:
        """The engine of the network at the posterior mean, for so many rows; None: JAX."""
        if not self._allowed(name):
            return None
        choice = self.choice if name == "auto" else None
        kernels: Mapping[int, str] | str = "auto"
        if choice is not None:
            match choice.at(rows)["engine"]:
                case "jax":
                    return None
                case "bcsr":
                    return self._made("bcsr", lambda: ByBCSR(self.network))
            kernels = choice.kernels(rows)
        network = self.network
        make = lambda: Engine(network.program, network.head, network.law.mean(), kernels)  # noqa: E731
        engine = self._made(("mean", repr(kernels)), make)
        if name == "kernels" or choice is not None or self._suits("mean", engine, engine.segments.values(), rows >= MANY):
            return engine
        return None

    def of_draws(self, name: str, rows: int = 1) -> DrawsEngine | None:
        """The engine of many networks; None: JAX. ``rows``: of which the mean is asked, given where only that is."""
        if not self._allowed(name):
            return None
        engine = self._made("draws", lambda: DrawsEngine(self.network))
        return engine if name == "kernels" or self._suits("draws", engine, engine.segments, rows >= MANY) else None

    # ---- inside
    def _allowed(self, name: str) -> bool:
        check_name("engine", name, ENGINES)
        if name != "auto":
            return name == "kernels"
        return has_numba() and jax.default_backend() == "cpu" and self._made("chained", self._chained)

    def _chained(self) -> bool:
        """Whether one layer follows upon another: seen at once, while the matrices of a large network take long to make."""
        return not self.network.head.opaque and chained(self.network.program)

    def _suits(self, what: str, engine: Engine | DrawsEngine, segments: Iterable[Segment], sparse: bool) -> bool:
        def judged() -> bool:
            # What does not depend on the draw is computed once for all networks; what is done before any weight costs little.
            before, drawn = of_rows_alone(engine.program), engine.drawn if isinstance(engine, DrawsEngine) else None
            steps = [step for step in engine.steps if (step.output not in before if drawn is None else step.output in drawn)]
            return suit(engine.program, segments, steps, sparse)

        return self._made((what, sparse), judged)

    def _made(self, key: Hashable, make: Callable[[], T]) -> T:
        if key not in self.made:
            self.made[key] = make()
        found: T = self.made[key]
        return found


def of_rows_alone(program: OpProgram) -> set[int]:
    """The arrays that the rows make, and no weight."""
    return reached(program.halves[0], [program.rows])


def chained(program: OpProgram) -> bool:
    """Whether no two arrays that depend on the rows meet, but in a gate, a * sigmoid(a), a softmax, or before any weight; and
    nothing is pinned.

    >>> from bayesprune.deploy.program.ops import Op
    >>> op = lambda name, inputs, output: Op(name, inputs, (output,), {})
    >>> layer, after = op("dot", (0, 9), 1), [op("logistic", (1,), 2), op("mul", (1, 2), 3)]
    >>> residual, framed = [op("exp", (1,), 2), op("add", (1, 2), 3)], [op("slice", (0,), 1), op("sub", (0, 1), 2)]
    >>> [chained(OpProgram(tuple(ops), {}, {}, {"w": 9}, 0, 3)) for ops in ([layer, *after], [layer, *residual], framed)]
    [True, False, True]
    """
    if program.opaque:
        return False
    before, of_rows, gates = of_rows_alone(program), reached(program.ops, [program.rows]), set[int]()
    for op in program.ops:
        meet = op.name in MEETING and len(of_rows & set(op.inputs)) > 1 and not before.issuperset(op.outputs)
        if meet and not (op.name == "mul" and gates & set(op.inputs)):
            return False
        if op.name == "logistic":
            gates.update(op.outputs)
    return True


def suit(program: OpProgram, segments: Iterable[Segment], steps: Iterable[Step], mostly_sparse: bool) -> bool:
    """Whether kernels are likely quicker than JAX: nothing but products and moves; and most products sparse, or convolutions,
    where that is asked for."""
    dense = sparse = 0
    for segment in segments:
        if segment.pattern is None:
            return False
        entries = len(segment.pattern.columns)
        if segment.op.name == "dot" and entries >= DENSE * segment.pattern.height * segment.pattern.width:
            dense += entries
        else:
            sparse += entries
    return (dense <= sparse or not mostly_sparse) and all(
        step.segment is not None or program.ops[step.index].name in MOVES for step in steps
    )
