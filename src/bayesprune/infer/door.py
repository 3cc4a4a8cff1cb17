"""The door of `fit_svi`: data and settings are checked once, before anything is compiled."""

import inspect
import math
import warnings
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from bayesprune.core.checks import check_object, got
from bayesprune.core.numbers import numbers_of, real_numbers
from bayesprune.core.same import array_digest
from bayesprune.core.schedules import Constant
from bayesprune.core.send import send, send_all
from bayesprune.core.types import Dataset
from bayesprune.infer.predict import check_bnn
from bayesprune.model.program import Trainable
from bayesprune.prune.needs import warm_up_of
from bayesprune.train.kernel import Kernel
from bayesprune.train.kernels.optimizer import Optax
from bayesprune.train.processes import check_same, of_mesh
from bayesprune.train.share import everywhere
from bayesprune.train.stopping import EarlyStop, NeverStop

_LOOKED_AT = 33  # steps of a schedule


def check_data(data: Any, name: str = "data") -> Dataset:
    """A data set of device arrays, floats as float32, or an error that says what is wrong with it."""
    return send_all(_numbers(data, name))  # type: ignore[no-any-return]


def check_program_data(program: Any, data: Any, name: str) -> Dataset:
    """`check_data`; and for a `BNN`, rows of the network's input shape and targets that its likelihood understands."""
    return send_all(check_rows(program, data, name))  # type: ignore[no-any-return]


def check_rows(program: Any, data: Any, name: str) -> Dataset:
    """`check_program_data` of arrays that stay where they are."""
    trainable: bool = isinstance(program, Trainable)
    if not trainable:
        raise TypeError(f"program must be a bp.BNN or a bp.Program(model, guide), got {type(program).__name__}.")
    network = hasattr(program, "likelihood")
    data = _numbers(data, name, bytes_stay=network, takes_nan=network and takes_nan(program))
    if not network:
        return data
    program.inputs.check(data.x, f"{name}.x")
    program.likelihood.check(np.asarray(data.y), program.output_shape)
    return data


def check_same_length(x: Any, y: Any, name: str) -> None:
    """Refuse inputs, an array or a tree of them, and targets without rows or of different numbers of rows."""
    *inputs, targets = (tuple(np.shape(leaf)) for leaf in jax.tree.leaves((x, y)))
    for shape in inputs:
        if not shape or not targets or shape[0] != targets[0]:
            raise ValueError(
                f"{name}.x and {name}.y must have one row per example, got {shape} and {targets}: the first sizes must agree."
            )
    check_not_empty(targets[0], name)


def check_not_empty(num_rows: int, name: str) -> None:
    """Refuse data without rows."""
    if num_rows == 0:
        raise ValueError(f"{name} is empty: it has no rows. Check the selection or the split that made it.")


def check_fields(data: Any, name: str) -> None:
    """Refuse data without fields x and y."""
    if isinstance(data, type) or not (hasattr(data, "x") and hasattr(data, "y")):
        kind = f"the class {data.__name__}" if isinstance(data, type) else type(data).__name__
        raise TypeError(f"{name} must have fields x and y, got {kind}: wrap your arrays as bp.Dataset(x, y).")


def takes_nan(program: Any) -> bool:
    """Whether NaN among targets means something: that they are missing."""
    return bool(getattr(program.likelihood, "takes_nan", False))


def _numbers(data: Any, name: str, bytes_stay: bool = False, takes_nan: bool = False) -> Dataset:
    check_fields(data, name)
    found = Dataset(numbers_of(data.x, f"{name}.x", bytes_stay), real_numbers(data.y, f"{name}.y", takes_nan))
    check_same_length(*found, name)
    for path, leaf in jax.tree_util.tree_leaves_with_path(found):
        _check_squares(leaf, name + jax.tree_util.keystr(path))
    return found


def _check_squares(array: Any, name: str) -> None:
    """Refuse numbers whose squares overflow: of one such the gradient's moments are infinite, and its weights stand still."""
    if not jnp.issubdtype(array.dtype, jnp.floating) or not array.size:
        return
    of = jnp if isinstance(array, jax.Array) else np
    largest, most = float(of.nanmax(of.abs(array), initial=0.0)), math.sqrt(float(jnp.finfo(array.dtype).max))
    if largest > most:
        raise ValueError(
            f"{name} holds a value of size {largest:.3g}, whose square is beyond {array.dtype}: look for a mark of "
            "missing values among its numbers, or standardise, bp.data.fit_scaling(x).apply(x)."
        )


def check_eval_data(program: Any, data: Any, early_stop: EarlyStop | NeverStop) -> Dataset | None:
    """`check_program_data` for what a fit is evaluated on, if anything; an early stop needs it."""
    if data is not None:
        check_bnn(program)
        return check_program_data(program, data, "eval_data")
    if not isinstance(early_stop, NeverStop):
        raise ValueError("early_stop watches the evaluation on eval_data, and there is none: give eval_data=Dataset(x, y).")
    return None


def check_parts(program: Any, sparsifier: Any, early_stop: Any) -> None:
    """Refuse classes, names and numbers where objects belong."""
    missing = [
        name for name in ("model", "guide", "keywords", "read", "describe") if not callable(getattr(program, name, None))
    ]
    if isinstance(program, type) or missing:
        got = f"the class {program.__name__}: call it" if isinstance(program, type) else type(program).__name__
        raise TypeError(f"program must be a bp.BNN or a bp.Program(model, guide), got {got}.")
    check_object(sparsifier, "sparsifier", ("init", "step"), "bp.methods.BMR()")
    if isinstance(early_stop, type) or not (callable(early_stop) and hasattr(early_stop, "keeps")):
        got = f"the class {early_stop.__name__}" if isinstance(early_stop, type) else repr(early_stop)
        raise TypeError(
            f"early_stop must be an object, got {got}: write bp.EarlyStop('nll', patience=5) to stop after five evaluations "
            "without a new best."
        )


def as_schedule(kl_weight: Any, num_steps: int) -> Callable[[jax.Array], Any]:
    """The divergence's weight as a function of the step; a number is a constant one. Of a function some steps are looked at."""
    if callable(kl_weight) and not isinstance(kl_weight, type):
        _check_weights(kl_weight, np.unique(np.linspace(0, num_steps - 1, _LOOKED_AT).astype(np.int32)))
        return kl_weight  # type: ignore[no-any-return]
    number = np.ndim(kl_weight) == 0 and jnp.issubdtype(np.asarray(kl_weight).dtype, np.number)
    if not number or not 0 <= float(kl_weight) < np.inf:
        raise TypeError(
            f"kl_weight must be a function of the step, or one number that is not negative, got {kl_weight!r}: give "
            "bp.schedules.LinearWarmup(0, 1000), or 1.0."
        )
    return Constant(float(kl_weight))


def _check_weights(kl_weight: Callable[[jax.Array], Any], steps: np.ndarray) -> None:
    """Refuse a schedule that is below zero, or no number, at one of these steps."""
    try:
        # A schedule's own numbers may be sent: compiled, which would spare that, each would be a program of its own.
        with jax.transfer_guard_host_to_device("allow"):
            weights = np.asarray(jax.vmap(lambda step: jnp.asarray(kl_weight(step), float))(send(steps)))
    except (TypeError, ValueError) as error:
        raise TypeError(f"kl_weight must give one number for each step: {error}") from error
    if weights.shape != steps.shape:
        raise ValueError(f"kl_weight must give one number for each step, got shape {weights.shape[1:]}.")
    wrong = ~(np.isfinite(weights) & (weights >= 0))
    if wrong.any():
        raise ValueError(
            f"kl_weight must be finite and not negative at every step, got {weights[wrong][0]} at step {steps[wrong][0]}: "
            "give bp.schedules.LinearWarmup(0, 1000), or 1.0."
        )


def check_optimizer(optimizer: Any) -> None:
    """Refuse what is neither an optax transformation nor a kernel; say what to write where that is plain."""
    kind = type(optimizer)
    if isinstance(optimizer, type):
        got = f"the class {optimizer.__name__}: call it with its settings"
    elif isinstance(optimizer, int | float | np.number):
        got = f"{optimizer!r}: write optax.adam({optimizer!r})"
    elif isinstance(optimizer, str):
        got = f"{optimizer!r}: write optax.{optimizer}(1e-3)"
    elif kind.__module__.startswith("numpyro."):
        got = f"NumPyro's {kind.__name__}: write optax.{kind.__name__.lower()}(1e-3)"
    elif inspect.isfunction(optimizer):
        got = f"the function {optimizer.__name__}: call it, {optimizer.__name__}(1e-3)"
    elif not all(callable(getattr(optimizer, name, None)) for name in ("init", "update")) and not isinstance(optimizer, Kernel):
        got = f"{kind.__name__}: give one such as optax.adam(1e-3)"
    elif is_sampler(optimizer):
        got = f"the sampler {kind.__name__}: sample by bp.fit_sgmcmc(..., kernel=...)"
    else:
        return
    raise TypeError(f"optimizer must be an optax transformation or a kernel of bp.kernels, got {got}.")


def is_sampler(kernel: Any) -> bool:
    """Whether a kernel draws from a posterior, in cycles or without: a fit would take its noise for an optimum.

    >>> from bayesprune.train.kernels import sghmc
    >>> is_sampler(sghmc.SGHMC())
    True
    """
    return hasattr(kernel, "num_cycles")


def check_sampler(kernel: Any) -> None:
    """Refuse what is no kernel, or one that descends: an optax transformation, bare or wrapped."""
    if isinstance(kernel, type) or not isinstance(kernel, Kernel) or isinstance(kernel, Optax):
        raise TypeError(
            f"kernel must be a sampler such as bp.kernels.SGHMC(), got {got(kernel)}; an optimizer belongs to "
            "bp.fit_svi(..., optimizer=...)."
        )


def standing_mask(program: Any, mask: Any) -> Any:
    """The mask given; None becomes that of a prior which knows of dead weights, `priors.Posterior`."""
    dead = getattr(getattr(program, "prior", None), "mask", None)
    if mask is not None or not dead:
        return mask
    prunable = {str(spec.path) for spec in program.layout if spec.prunable}
    if lost := [site for site in dead if site not in prunable]:
        raise ValueError(
            f"prior has pruned weights at {lost[0]!r}, which may not be pruned in this network: give prunable= of the BNN as "
            "it was for that fit, or mask={} to train them again."
        )
    return dict(dead)


def check_acts(sparsifier: Any, every: int, num_steps: int) -> None:
    """Warn of a sparsifier whose first pruning comes too late; ``every``: 0 where there is none."""
    if not every or num_steps == 1:
        return
    acts, warm_up = (num_steps - 1) // every, warm_up_of(sparsifier)
    if acts > warm_up:
        return
    period = f"every={every} (one epoch, if not given)"
    told = f"{period} in num_steps={num_steps}. Give every= of less than num_steps"
    if acts:
        told = f"{period} calls it {acts}x in num_steps={num_steps}, and at the first warm_up={warm_up} calls it does nothing"
        told += f". Give it a warm_up= of less than {acts}, a smaller every="
    warnings.warn(f"the sparsifier never acts: {told}, or call bp.prune_once on the fit.", UserWarning, stacklevel=3)


def check_replicated(bnn: Any, data: Any) -> Dataset:
    """Data of several fits, with a leading axis of replications: each as `check_program_data` has it."""
    bnn.inputs.check_array()
    if not (hasattr(data, "x") and hasattr(data, "y")):
        raise TypeError(
            f"data must have fields x and y, arrays (replications, rows, ...), got {type(data).__name__}: replicates train "
            "side by side on arrays; fit one after another by bp.fit_svi, which takes files, rows and batches."
        )
    data = send_all(_numbers(data, "data", bytes_stay=True, takes_nan=takes_nan(bnn)))
    if data.x.ndim < 2 or data.y.ndim < 2 or data.x.shape[1] != data.y.shape[1] or data.x.shape[1] == 0:
        raise ValueError(
            "data.x and data.y must have shapes (replications, rows, ...) with as many rows, at least one, got "
            f"{data.x.shape} and {data.y.shape}: stack the data sets, which must be of one size."
        )
    check_program_data(bnn, Dataset(data.x[0], data.y[0]), "data[0]")
    bnn.likelihood.check(np.asarray(data.y).reshape((-1, *data.y.shape[2:])), bnn.output_shape)
    return data


def check_batch(batch_size: Any, num_rows: int) -> int:
    """The number of rows of a batch: all of them for None."""
    if batch_size is None:
        return num_rows
    if isinstance(batch_size, bool) or not isinstance(batch_size, int | np.integer) or batch_size < 1:
        raise ValueError(f"batch_size must be a positive integer, or None for all rows at once; got {batch_size!r}.")
    if batch_size > num_rows:
        raise ValueError(
            f"batch_size={batch_size} is larger than the data set of {num_rows} rows: choose at most {num_rows}, or None for "
            "all rows at once."
        )
    return int(batch_size)


def automatic(mesh: jax.sharding.Mesh | None) -> jax.sharding.Mesh | None:
    """The same devices with automatic axes: the compiler finds the layout of everything but the batch."""
    return None if mesh is None else jax.sharding.Mesh(mesh.devices, mesh.axis_names)


def spread(data: Dataset, batch_size: int, mesh: jax.sharding.Mesh | None) -> Dataset:
    """The data on every device of the mesh, whose first axis must divide the batch, and of every process that shares it."""
    check_spread(batch_size, mesh)
    if (processes := of_mesh(mesh)).count > 1:
        check_same(processes, {"data": list(map(array_digest, jax.tree.leaves(data)))})
    return data if mesh is None else everywhere(data, mesh)


def check_spread(batch_size: int, mesh: jax.sharding.Mesh | None) -> None:
    """Refuse a batch that the devices along the mesh's first axis cannot share evenly."""
    devices = 1 if mesh is None else mesh.shape[mesh.axis_names[0]]
    if batch_size % devices:
        raise ValueError(
            f"batch_size={batch_size} cannot be spread evenly over the {devices} devices of mesh: make it a multiple of "
            f"{devices}."
        )
