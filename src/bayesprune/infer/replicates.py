"""Many fits at once: replications, cross-validation folds or UCI splits in one vectorised program.

A small network leaves a machine idle: twenty of them trained side by side cost little more than one.
"""

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax.typing import ArrayLike
from numpyro.infer import ELBO

from bayesprune.core import shown
from bayesprune.core.checks import check_integer, check_key, check_mask, check_object, check_params
from bayesprune.core.given import GivenRows, RandomKey
from bayesprune.core.numbers import numbers_of
from bayesprune.core.send import send_all
from bayesprune.core.tracing import by_one_thread
from bayesprune.core.types import Dataset
from bayesprune.courses import Course, Standard
from bayesprune.infer.data import check_batch, check_program_data, numbers_in, takes_nan
from bayesprune.infer.predict import check_bnn, check_sites, draw_outputs
from bayesprune.infer.settings import (
    check_mesh,
    check_optimizer,
    planned,
    starting_mask,
    warn_of_frozen,
)
from bayesprune.model.bnn import BNN
from bayesprune.posteriors.joint import check_training
from bayesprune.posteriors.params import cut
from bayesprune.prune.keep_all import KeepAll
from bayesprune.train.kernel import Kernel
from bayesprune.train.progress import progress as make_progress
from bayesprune.train.recipe import make_recipe
from bayesprune.train.share import automatic
from bayesprune.train.side_by_side import advance, at_home, check_even, over_devices, side_by_side
from bayesprune.train.sites import Example


class Replicates(NamedTuple):
    """Fits side by side: ``params`` as of `fit_svi`, with a leading axis of replications; ``losses`` (replications, steps)."""

    params: dict[str, Any]
    losses: np.ndarray

    def __repr__(self) -> str:
        """In one line.

        >>> Replicates({}, np.array([[3.0, 1.0], [4.0, 2.0]]))
        Replicates(2 fits of 2 steps, losses 1 to 2)
        """
        number, steps = np.shape(self.losses)
        if not shown.has_values(self.losses) or not np.size(self.losses):
            return f"Replicates({number} fits of {steps:,} steps)"
        ends = np.asarray(self.losses)[:, -1]
        return f"Replicates({number} fits of {steps:,} steps, losses {ends.min():.6g} to {ends.max():.6g})"


def fit_replicates(
    rng_key: RandomKey,
    bnn: BNN | Any,
    data: GivenRows,
    *,
    num_steps: int,
    batch_size: int | None = None,
    course: Course | Any = Standard(),
    optimizer: optax.GradientTransformation | Kernel | Any = None,
    estimator: str | ELBO | None = None,
    num_particles: int = 1,
    kl_weight: Callable[[jax.Array], Any] | float | None = None,
    mask: dict[str, Any] | None = None,
    mesh: jax.sharding.Mesh | Any = None,
    progress: bool | None = None,
) -> Replicates:
    """Fit one network to many data sets of one size, each from its own start, all in one vectorised compiled loop.

    Args:
        rng_key: a JAX random key; replication r trains with the r-th of its splits.
        bnn: a `BNN`, which has the start: its ``posterior=``.
        data: fields x (replications, rows, ...) and y (replications, rows, ...).
        num_steps, batch_size, course, optimizer, estimator, num_particles, kl_weight, progress: as of `fit_svi`; nothing is
            pruned on the way.
        mask: site -> booleans (replications, *shape), True = alive; dead weights are zero throughout.
        mesh: of one axis, over whose devices the replications are spread, as many on each; no device waits for another. None:
            all on one.

    Returns:
        A `Replicates`; `predict_replicates` predicts with it, and ``jax.tree.map(lambda leaf: leaf[r], fits.params)`` are the
        parameters of one network, for everything else.

    Raises:
        ValueError, TypeError: as of `fit_svi`; a mesh of two axes, of several processes, or that does not divide the
            replications.
        DivergedError: a loss stopped being finite; names the replications.

    Example:
        >>> import jax, numpy as np, bayesprune as bp
        >>> x = np.random.default_rng(0).normal(size=(3, 50, 2)).astype(np.float32)
        >>> bnn = bp.BNN(bp.nets.MLP((4,), 1), prior=bp.priors.Gaussian(), likelihood=bp.likelihoods.Normal(1.0),
        ...              input_shape=(2,))
        >>> fits = bp.fit_replicates(jax.random.key(0), bnn, bp.Dataset(x, x[..., 0]), num_steps=5, progress=False)
        >>> fits.losses.shape, fits.params["Dense_0.kernel_auto_loc"].shape
        ((3, 5), (3, 2, 4))
    """
    check_bnn(bnn)
    check_integer(num_steps, "num_steps")
    rows = _check_replicated(bnn, data)
    keys, batch = jax.random.split(check_key(rng_key), rows.x.shape[0]), check_batch(batch_size, rows.x.shape[1])
    if optimizer is not None:
        check_optimizer(optimizer)
    check_object(course, "course", ("begin", "plan"), "bp.courses.Standard()")
    bnn = course.begin(bnn)
    check_mesh(mesh)
    warn_of_frozen(bnn, None)
    if mask is None and (dead := starting_mask(bnn, None)):
        mask = {site: np.broadcast_to(alive, (rows.x.shape[0], *alive.shape)) for site, alive in dead.items()}
    check_training(bnn, mask=mask)
    devices = _devices(mesh, rows.x.shape[0])
    example = Example.of(Dataset(rows.x[0], rows.y[0]))
    plan = course.plan(num_steps)
    kernel, kl_weight, estimator = planned(plan, bnn, example.num_rows, num_steps, optimizer, kl_weight, estimator)
    recipe = make_recipe(
        bnn, example, batch, optimizer=kernel, sparsifier=KeepAll(), kl_weight=kl_weight,
        estimator=estimator, num_particles=num_particles,
    )  # fmt: skip
    fits = side_by_side(recipe, example, shared=False, mesh=devices)
    mask = _check_masks(bnn, mask, rows.x.shape[0], in_training=True)
    keys, rows, mask = over_devices((keys, rows, mask), devices)
    carry = fits.init(keys, rows)
    with make_progress(num_steps, progress, initial=0) as bar:
        carry, losses = advance(fits, carry, rows, mask, 0, num_steps, "replication", bar)
    params = cut(at_home(fits.constrain(carry.params, carry.opt_state) | carry.mutable, devices), at_home(mask, devices))
    return Replicates(params | jax.vmap(bnn.describe)(params), losses)


def predict_replicates(
    rng_key: RandomKey,
    bnn: BNN | Any,
    params: dict[str, Any],
    x: ArrayLike,
    *,
    mask: dict[str, Any] | None = None,
    num_samples: int = 100,
) -> np.ndarray:
    """E[y | x, w] for each of ``num_samples`` networks of each replication: (replications, num_samples, rows, ...).

    ``params``: of `fit_replicates`. ``x``: (replications, rows, ...). ``mask``: site -> booleans (replications, *shape). One
    network is drawn for all rows; the mean over axis 1 is what `predict` gives.

    Raises:
        ValueError: ``x`` has rows of another shape than the network's inputs; ``params`` or ``mask`` are not this network's.
    """
    check_bnn(bnn)
    check_integer(num_samples, "num_samples")
    bnn.inputs.check_given(x, "x")
    x = jnp.asarray(numbers_of(x, "x", bytes_stay=True))
    if x.ndim < 2 or tuple(x.shape[2:]) != bnn.input_shape or not x.size:
        wanted = ", ".join(map(str, bnn.input_shape))
        raise ValueError(f"x must have shape (replications, rows, {wanted}), at least one row, got {x.shape}.")
    bnn.inputs.check(x.reshape((-1, *bnn.input_shape)), "x")
    keys = jax.random.split(check_key(rng_key), x.shape[0])
    mask = _check_masks(bnn, mask, x.shape[0])
    _check_of_replicates(bnn, params, x.shape[0])
    draw = _predictor(bnn)
    columns = [draw(keys, params, mask, x, jnp.asarray(n, jnp.int32)) for n in range(num_samples)]
    return np.stack([np.asarray(column) for column in columns], axis=1)


def _check_of_replicates(bnn: BNN, params: dict[str, Any], replications: int) -> None:
    """Refuse parameters of one network, of another number of them, or of other ones than ``bnn``."""
    check_params(params)
    for path, value in jax.tree_util.tree_leaves_with_path(params):
        if np.shape(value)[:1] != (replications,):
            raise ValueError(
                f"params{jax.tree_util.keystr(path)} has shape {np.shape(value)}, and x is of {replications} replications: "
                "give the params of fit_replicates on as many, or of one network bp.predict."
            )
    check_sites(bnn, jax.tree.map(lambda leaf: leaf[0], params), {})


def _devices(mesh: jax.sharding.Mesh | None, replications: int) -> jax.sharding.Mesh | None:
    """The devices of ``mesh``, over which the replications can be spread."""
    if mesh is None:
        return None
    if any(device.process_index != jax.process_index() for device in mesh.devices.flat):
        raise ValueError(
            "replications are spread over the devices of one process: give a mesh of jax.local_devices(), and each process "
            "replications and a key of its own."
        )
    check_even(mesh, replications, "replications", f"data of {replications} replications", "replications")
    return automatic(mesh)


def _check_masks(bnn: BNN, mask: dict[str, Any] | None, replications: int, in_training: bool = False) -> dict[str, jax.Array]:
    """What `check_mask` asks of one network, of each replication's; in training of what may be pruned alone."""
    asked = [spec for spec in bnn.layout if (spec.prunable if in_training else spec.bayesian)]
    return check_mask(mask or {}, {str(spec.path): (replications, *spec.shape) for spec in asked})


@functools.lru_cache(maxsize=32)
def _predictor(bnn: BNN) -> Callable[..., jax.Array]:
    def draw(key: jax.Array, params: dict[str, Any], mask: dict[str, Any], x: jax.Array, index: jax.Array) -> jax.Array:
        return draw_outputs(bnn, key, index, params, mask, x[None])[0]

    return jax.jit(by_one_thread(jax.vmap(draw, in_axes=(0, 0, 0, 0, None))))


def _check_replicated(bnn: BNN, data: GivenRows) -> Dataset:
    """Data of several fits, with a leading axis of replications: each as `check_program_data` has it."""
    bnn.inputs.check_array()
    if not (hasattr(data, "x") and hasattr(data, "y")):
        raise TypeError(
            f"data must have fields x and y, arrays (replications, rows, ...), got {type(data).__name__}: replicates train "
            "side by side on arrays; fit one after another by bp.fit_svi, which takes files, rows and batches."
        )
    bnn.inputs.check_given(data.x, "data.x")
    rows: Dataset = send_all(numbers_in(data, "data", bytes_stay=True, takes_nan=takes_nan(bnn)))
    if rows.x.ndim < 2 or rows.y.ndim < 2 or rows.x.shape[1] != rows.y.shape[1] or rows.x.shape[1] == 0:
        raise ValueError(
            "data.x and data.y must have shapes (replications, rows, ...) with as many rows, at least one, got "
            f"{rows.x.shape} and {rows.y.shape}: stack the data sets, which must be of one size."
        )
    check_program_data(bnn, Dataset(rows.x[0], rows.y[0]), "data[0]")
    bnn.inputs.check(rows.x.reshape((-1, *bnn.input_shape)), "data.x")
    for number, y in enumerate(np.asarray(rows.y)):
        try:
            bnn.likelihood.check(y, bnn.output_shape)
        except ValueError as error:
            raise ValueError(f"replication {number}: {error}") from error
    return rows
