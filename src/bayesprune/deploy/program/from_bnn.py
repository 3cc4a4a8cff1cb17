"""The operations of a `BNN`: of its network, and from that one's outputs to the mean of y; refused where rows meet."""

import functools
import math
import os
import traceback
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from bayesprune.core.compiling import quickly
from bayesprune.core.tracing import by_one_thread
from bayesprune.core.types import ArrayTree, PyTree
from bayesprune.deploy import reader
from bayesprune.deploy.program.ops import OpProgram
from bayesprune.deploy.program.packing import Packing, random_rows, taken
from bayesprune.deploy.program.run import run
from bayesprune.deploy.program.trace import trace
from bayesprune.infer.predict import part_of
from bayesprune.model.bnn import BNN
from bayesprune.model.likelihoods.protocol import sites_of_mean
from bayesprune.structure.independence import mixing
from bayesprune.structure.jaxprs import JaxprLike, called
from bayesprune.structure.ops import record_of

HALF = ("bfloat16", "float16")


def network(bnn: BNN, state: Mapping[str, Any]) -> OpProgram:
    """The operations of the network itself. Raises ``ValueError`` where it does not treat every row alike."""
    return _network(bnn, state) if state else _without_state(bnn)


@functools.lru_cache(maxsize=32)
def _without_state(bnn: BNN) -> OpProgram:
    return _network(bnn, {})


def _network(bnn: BNN, state: Mapping[str, Any]) -> OpProgram:
    inputs, outputs = Packing.of_inputs(bnn.inputs), Packing.of_shapes(bnn.output_shape)
    sites = [str(spec.path) for spec in bnn.layout]
    # Weights that a prior samples are float32, whatever the net would have initialised.
    own = [jax.ShapeDtypeStruct(spec.shape, jnp.float32 if spec.bayesian else spec.dtype) for spec in bnn.layout]
    single = [jax.ShapeDtypeStruct(one.shape, jnp.float32 if one.dtype in HALF else one.dtype) for one in own]
    leaves, tree = jax.tree.flatten(dict(state))

    def net(weights: list[Any], state: list[Any], x: ArrayTree) -> jax.Array:
        return outputs.together(bnn.forward(dict(zip(sites, weights, strict=True)), jax.tree.unflatten(tree, state), x))

    def asked(weights: list[Any], state: list[Any], x: ArrayTree) -> jax.Array:
        return net(weights, state, bnn.inputs.as_rows(x))

    def of_numbers(weights: list[Any], state: list[Any], x: jax.Array) -> jax.Array:
        # Operations get rows in float32, whatever is asked for: `taken` sees that it holds whole numbers exactly.
        if bnn.inputs.scaling is not None:
            return net(weights, state, bnn.inputs.scaling.by_arithmetic(x))
        typed = [part.astype(leaf.dtype) for part, leaf in zip(jax.tree.leaves(inputs.apart(x)), inputs.leaves, strict=True)]
        return net(weights, state, inputs.tree(typed))

    def jaxpr(rows: Any, arrays: PyTree = single) -> Any:  # their number, or a symbol of it
        return jax.make_jaxpr(of_numbers)(arrays, leaves, jax.ShapeDtypeStruct((rows, *inputs.row_shape), jnp.float32))

    if short := sorted(_computes_in(jaxpr(1, own).jaxpr)):
        raise ValueError(
            f"the network computes in {', '.join(short)}, which no smaller program does: give the same network with "
            "dtype=float32; its parameters are the same. Those that it keeps shorter (param_dtype=) it makes float32 first."
        )
    check_alone(jaxpr)
    program = trace(jaxpr, sites, [np.asarray(leaf) for leaf in leaves])
    _check_rows(program, asked, own, leaves, inputs)
    return program


def _computes_in(jaxpr: JaxprLike) -> set[str]:
    """The half precisions in which a program computes. Numbers that were kept in one may move, and become float32, exactly."""
    found = set[str]()
    for equation in jaxpr.eqns:
        if (inner := called(equation)) is not None:
            found |= _computes_in(getattr(inner, "jaxpr", inner))
            continue
        before, after = ({str(getattr(a.aval, "dtype", "")) for a in atoms} for atoms in (equation.invars, equation.outvars))
        reads, makes = before & {*HALF}, after & {*HALF}
        is_cast = equation.primitive.name == "convert_element_type"
        exact = not makes if is_cast else record_of(equation).keeps and reads == makes
        found |= set() if exact else reads | makes
    return found


def _check_rows(program: OpProgram, net: Callable[..., Any], own: list[Any], state: list[Any], inputs: Packing) -> None:
    """Compare the network on three rows with itself on each, and with its operations; weights at random."""
    rng = np.random.default_rng(0)
    scales = [1 / math.sqrt(max(1, math.prod(array.shape[:-1]))) for array in own]
    draws = [(scale * rng.standard_normal(array.shape)).astype(np.float32) for scale, array in zip(scales, own, strict=True)]
    draws = [draw.astype(array.dtype) if array.dtype in HALF else draw for draw, array in zip(draws, own, strict=True)]
    weights = {site: draw.astype(np.float32) for site, draw in zip(program.weights, draws, strict=True)}
    x = random_rows(rng, inputs, program.vocabulary, 3)
    rows = np.asarray(taken(inputs, x), np.float32)
    with jax.default_matmul_precision("float32"):
        outputs = jax.jit(net, compiler_options=quickly())  # for four calls of three rows
        together = np.asarray(outputs(draws, state, x))
        apart = np.concatenate([np.asarray(outputs(draws, state, part_of(x, slice(i, i + 1)))) for i in range(3)])
        if program.one_by_one:
            ours = np.asarray(run(program, weights, rows))
        else:
            given = {**program.constants, **{program.weights[site]: value for site, value in weights.items()}}
            ours = reader.run(program.ops, {**given, program.rows: rows}, 3)[program.output]
    if not _close(together, apart):
        raise ValueError(
            "the network's outputs for a row depend on the rows beside it, as by statistics of the batch: a smaller network "
            "would not be the same function. Let each row stand for itself."
        )
    if not _close(together, ours):
        raise ValueError("the network's operations give other outputs than the network itself: report the network, please.")


def _close(one: np.ndarray, other: np.ndarray) -> bool:
    """Equal to a thousandth of the largest, and as finite."""
    finite = np.isfinite(one)
    if one.shape != other.shape or not np.array_equal(finite, np.isfinite(other)):
        return False
    return bool(np.max(np.abs(one - other)[finite], initial=0) <= 1e-3 * np.max(np.abs(one)[finite], initial=1e-3))


def head(bnn: BNN) -> OpProgram:
    """From the network's outputs to the mean of y. Raises ``ValueError`` where that asks for more than the outputs."""
    if asked := sites_of_mean(bnn.likelihood, bnn.output_shape):
        raise ValueError(
            f"the mean of {type(bnn.likelihood).__name__} asks for {', '.join(asked)}, drawn with the network, which a compact "
            "one does not hold: predict with the BNN and its parameters."
        )

    outputs = Packing.of_shapes(bnn.output_shape)

    @by_one_thread
    def jaxpr(rows: Any) -> Any:  # their number, or a symbol of it
        of_rows = jax.ShapeDtypeStruct((rows, *outputs.row_shape), jnp.float32)
        return jax.make_jaxpr(lambda array: bnn.likelihood.mean(outputs.apart(array)))(of_rows)

    try:
        check_alone(jaxpr)
        return trace(jaxpr, [], [])
    except jax.errors.TracerArrayConversionError:
        raise TypeError(f"{type(bnn.likelihood).__name__}.mean is no function of JAX: write it with jax.numpy.") from None


MANY = (8, 1025)  # numbers of rows beside two and three: `rows // 4` is the same for both of these
Traced = Callable[[Any], Any]


def check_alone(jaxpr: Traced) -> None:
    """Refuse a network by which rows meet, or which is another for another number of rows.

    ``jaxpr``: the network's, of so many rows; its last input are the rows. It is traced for two rows and for three, whose sizes
    say where the rows are; for a number that is only a name: code that compares it (``if len(x) > 7``) fails there; and for a
    few more: a name is never equal to a number, and code like ``len(x) // 4`` gives another one only there.

    Raises ``ValueError`` with the operation, or the line of code.
    """
    two = jaxpr(2)
    _refuse(mixing(two, jaxpr(3)))
    _check_for_any_number(jaxpr)
    for rows in MANY:
        _refuse(mixing(two, jaxpr(rows)))


def _refuse(by: str) -> None:
    if by:
        raise ValueError(
            f"the network's outputs for a row depend on the rows beside it, or on how many there are, by {by}: a smaller "
            "network would not be the same function. Let each row stand for itself."
        )


def _check_for_any_number(jaxpr: Traced) -> None:
    """Refuse code of the user's that compares the number of rows; what cannot be traced for a name says nothing."""
    try:
        jaxpr(jax.export.symbolic_shape("rows")[0])
    except jax.errors.InconclusiveDimensionOperation as error:
        if line := _line(error):
            _refuse(f"a comparison with their number ({line})")
    except Exception:  # what does not work with a name says nothing of the network
        return


def _line(error: BaseException) -> str:
    """The line that compared, "" where it is one of a library's."""
    libraries = os.sep + "site-packages" + os.sep
    own = str(Path(jax.__file__).parent)
    for frame in reversed(traceback.extract_tb(error.__traceback__)):
        if frame.filename.startswith(own):
            continue
        return "" if libraries in frame.filename else f"{Path(frame.filename).name}, line {frame.lineno}"
    return ""
