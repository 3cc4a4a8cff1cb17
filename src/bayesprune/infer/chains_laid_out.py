"""The arguments of `fit_sgmcmc`, checked and laid out as the parts of its chains."""

import dataclasses
from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any, NamedTuple

import jax
from jax.sharding import Mesh
from numpyro.handlers import seed

from bayesprune.core.checks import check_integer, check_key, got, unknown_name
from bayesprune.core.tracing import by_one_thread
from bayesprune.infer.chains import PARALLEL, check_plain, devices_of_chains
from bayesprune.infer.data import feed_of, held_out
from bayesprune.infer.evaluate import evaluate
from bayesprune.infer.sampling_plan import plan
from bayesprune.infer.settings import (
    as_callbacks,
    as_schedule,
    check_parts,
    check_sampler,
    check_surroundings,
    returns_when_interrupted,
    standing_mask,
)
from bayesprune.model.bnn import BNN
from bayesprune.model.samples import current_sample
from bayesprune.prune.keep_all import KeepAll
from bayesprune.train.feed import Stream, WholeFeed
from bayesprune.train.recipe import make_recipe
from bayesprune.train.share import automatic
from bayesprune.train.state import Recipe
from bayesprune.train.stopping import NeverStop
from bayesprune.train.training import Periods
from bayesprune.train.watch import Watchers

SEQUENTIAL = "sequential"
METHODS = (SEQUENTIAL, "vectorized", PARALLEL)


class LaidChains(NamedTuple):
    """The parts of all chains. ``moving``: the network with a guide of points; ``mask``: what they start from; ``devices``:
    those over which chains at once are spread; ``returns``: whether Ctrl-C ends them with what there is."""

    recipe: Recipe
    rng_key: jax.Array
    feed: WholeFeed | Stream
    periods: Periods
    watch: Watchers
    moving: BNN
    mask: Any
    devices: Mesh | None
    returns: bool


def lay_out_chains(arguments: Mapping[str, Any]) -> LaidChains:
    """The chains that arguments of `fit_sgmcmc`, all of them by name, ask for; nothing is compiled.

    Raises `ValueError` and `TypeError` as of `fit_sgmcmc`, whose caller is the one that warnings name.
    """
    a = SimpleNamespace(**arguments)
    a.sparsifier = KeepAll() if a.sparsifier is None else a.sparsifier
    rng_key = check_key(a.rng_key)
    for name in ("num_steps", "num_samples", "num_chains"):
        check_integer(getattr(a, name), name)
    _check_bnn(a.bnn)
    check_sampler(a.kernel)
    check_surroundings(a.augment, a.checkpoint, a.mesh, progress=a.progress, remat=a.remat)
    callbacks, returns = as_callbacks(a.callbacks), returns_when_interrupted(a.on_interrupt)
    if a.chain_method not in METHODS:
        raise unknown_name("chain_method", a.chain_method, METHODS)
    mask = standing_mask(a.bnn, a.mask) if a.init is None else a.mask
    if a.chain_method != SEQUENTIAL:
        check_plain(a.chain_method, a.sparsifier, callbacks, mask, a.init, a.init_params, a.eval_data, a.checkpoint)
    check_parts(a.bnn, a.sparsifier, NeverStop())
    devices, mesh = None, automatic(a.mesh)
    if a.chain_method == PARALLEL:
        devices, mesh = devices_of_chains(mesh, a.num_chains), None
    feed, batch = feed_of(a.bnn, a.data, a.num_rows, a.batch_size, mesh)
    num_rows = feed.example.num_rows
    kernel = _completed(a.kernel, "the kernel", num_rows, a.num_steps)
    sparsifier = _completed(a.sparsifier, "the sparsifier", num_rows, a.num_steps)
    moving, epoch = _moving(a.bnn), -(-num_rows // batch)
    periods = Periods.of(
        a.num_steps,
        epoch=epoch,
        stacklevel=4,
        every=(not isinstance(sparsifier, KeepAll), a.every),
        eval_every=(a.eval_data is not None, a.eval_every),
        checkpoint_every=(a.checkpoint is not None, a.checkpoint_every),
        callback_every=a.callback_every,
    )._replace(stops=plan(kernel, a.num_steps, a.burn_in, a.num_samples, a.sample_every, epoch))
    watch = Watchers(evaluate, held_out(a.bnn, a.eval_data, NeverStop()), 1, NeverStop(), callbacks)
    recipe = make_recipe(
        moving, feed.example, batch, optimizer=kernel, sparsifier=sparsifier, kl_weight=as_schedule(1.0, a.num_steps),
        estimator="weight", num_particles=1, mesh=mesh, augment=a.augment, remat=a.remat,
    )  # fmt: skip
    return LaidChains(recipe, rng_key, feed, periods, watch, moving, mask, devices, returns)


def _check_bnn(bnn: object) -> None:
    if not isinstance(bnn, BNN):
        raise TypeError(f"bnn must be a bp.BNN, got {got(bnn)}. Sample a NumPyro program of your own by numpyro.infer.MCMC.")


def _completed(part: Any, name: str, num_rows: int, num_steps: int) -> Any:
    """The kernel or sparsifier with what it does not know yet: the rows of the data, and the steps of the run.

    `ValueError` where it knows another number of rows: a kernel's temperature and decays are parts of that.
    """
    known = getattr(part, "num_rows", 0)
    if known not in (0, num_rows):
        raise ValueError(
            f"{name}'s num_rows must be the data's {num_rows}, got {known}: leave it out of {name}, fit_sgmcmc says it."
        )
    facts = {"num_rows": num_rows, "num_steps": num_steps}
    if not dataclasses.is_dataclass(part) or isinstance(part, type):
        return part
    unknown = {name: value for name, value in facts.items() if getattr(part, name, None) == 0}
    return dataclasses.replace(part, **unknown) if unknown else part


@by_one_thread
def _moving(bnn: BNN) -> BNN:
    """The network with a guide of points that a sampler can move. `ValueError` for a prior without a density at points."""
    moving = bnn.under(current_sample(bnn.family))
    try:
        jax.eval_shape(lambda: seed(moving.guide, jax.random.key(0))())
    except ValueError as error:
        raise ValueError(
            f"priors.{type(bnn.prior).__name__} cannot be sampled, for a sampler needs a density at every point: take "
            "Gaussian, Cauchy, Flat, Horseshoe, ScaleMixture or GaussianSlab, or fit it by bp.fit_svi."
        ) from error
    return moving
