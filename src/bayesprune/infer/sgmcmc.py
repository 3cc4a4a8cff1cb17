"""`fit_sgmcmc`: sample a network's posterior by gradients of minibatches, with or without pruning on the way."""

import functools
import warnings
from collections.abc import Callable, Sequence
from os import PathLike
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from bayesprune.core.given import GivenData, RandomKey
from bayesprune.core.keys import Key
from bayesprune.core.send import send
from bayesprune.core.types import Dataset, Pruned, Sparsifier
from bayesprune.infer.chains import KeptNetworks, at_once, begun, chain_starts, sequential
from bayesprune.infer.end_of_fit import baseline, in_memory
from bayesprune.infer.evaluate import evaluate
from bayesprune.infer.laid_out import SEQUENTIAL, check_begun, lay_out_chains
from bayesprune.infer.settings import check_acts, warn_of_frozen
from bayesprune.model.bnn import BNN
from bayesprune.model.program import Trainable
from bayesprune.model.samples import values_of
from bayesprune.posteriors.samples import DRAWS
from bayesprune.prune.keep_all import KeepAll
from bayesprune.report.health import FEWEST_STEPS
from bayesprune.train.kernel import Kernel
from bayesprune.train.kernels.sghmc import SGHMC
from bayesprune.train.result import FitResult, Moment
from bayesprune.train.snapshots import stacked
from bayesprune.train.state import as_it_is


def fit_sgmcmc(
    rng_key: RandomKey,
    bnn: BNN | Any,
    data: GivenData,
    *,
    num_steps: int,
    kernel: Kernel | Any = SGHMC(),
    num_samples: int = 20,
    sample_every: int | None = None,
    burn_in: int = 0,
    num_chains: int = 1,
    chain_method: str = "sequential",
    batch_size: int | None = None,
    num_rows: int | None = None,
    sparsifier: Sparsifier | Any = KeepAll(),
    every: int | None = None,
    mask: dict[str, Any] | Any = None,
    init: FitResult | Pruned | Any = None,
    init_params: dict[str, Any] | Any = None,
    eval_data: GivenData | None = None,
    eval_every: int | None = None,
    callbacks: Sequence[Callable[[Moment], Any]] | Callable[[Moment], Any] | Any = (),
    callback_every: int | None = None,
    checkpoint: str | PathLike[str] | None = None,
    checkpoint_every: int | None = None,
    on_interrupt: str | Any = None,
    progress: bool | Any = None,
    mesh: jax.sharding.Mesh | Any = None,
    remat: bool | Any = False,
    augment: Callable[[jax.Array, jax.Array], jax.Array] | Any = as_it_is,
) -> FitResult:
    """Draw networks from the posterior by a stochastic gradient sampler, and keep some of them.

    The kernel moves every weight, every scale of the prior (as its logarithm, with that change's density) and every parameter
    that is no weight by the gradient of  U = -log p(y, w),  its likelihood estimated by a minibatch. All is that of `fit_svi`
    otherwise: the compiled loop, masks and sparsifiers, callbacks, checkpoints and resumption to the same bits.

    Args:
        rng_key: a JAX random key.
        bnn: a `BNN` of any prior with a density; its ``posterior=`` says where weights start, and nothing else. By name: at the
            sound start (2.11), a share of He's spread whatever the prior's scale, or where the prior's authors have it, as
            those of `GaussianSlab` and of the groups of Bayesian compression do. At He's own spread by
            ``posterior=MapFamily(init_loc="he")`` of `bayesprune.model.families`; from where a fit ended, one with
            ``posterior="map"``, by init=, or parameters by init_params=.
        data: whatever `fit_svi` takes: arrays, memory-mapped ones, rows by number, batches; chains all at once take arrays.
        num_steps: steps of each chain.
        kernel: of `bayesprune.kernels`: `SGLD`, `SGHMC`, `SGHMCSPL`, `BlackJAX`, or one of your own.
        num_samples: networks that each chain keeps, the same number at the end of each of the kernel's cycles.
        burn_in: steps in which none is kept: cycles that end by then have none. With a sparsifier the first networks are dense.
        sample_every: steps between two of a cycle; None: evenly over the last half of it, with a sparsifier at most an epoch,
            for networks of before a cut are denser.
        num_chains: chains, each from its own start.
        chain_method: "sequential", one after another through one compiled program; "vectorized", all at once in one, for
            nets that leave a machine idle; or "parallel", all at once with as many on each device of ``mesh`` (None: on each
            device). The last two are without sparsifier, mask, evaluation, callbacks and checkpoints.
        batch_size, num_rows: as of `fit_svi`: rows of a minibatch, None for all at every step; rows of data in batches.
        sparsifier, every: a method of `bayesprune.methods`, that acts before step ``every``, 2 ``every``, ... (an epoch if
            None). It reads points: `SGHMCSPL`, `Magnitude`, `SSVI` (RigL's exchanges), `MBNN` (births and
            deaths of units, moves of the chain itself), and under `GaussianSlab` also `SBNN`.
        init: a fit to start from, or a pruned one, of the same network and prior, with its mask: its mean, or for each of
            several chains a draw of its own (with ``posterior="map"`` it has one point). Samples: every chain goes on from its
            last network; a single one, as it was returned, with momentum, batches and noise too, so that with the same key and
            settings, no pruning and no cycles, 10 steps and 10 more are the 20 of one run, bit by bit; with cycles it goes on
            where one of the call's begins, and is refused elsewhere. The others begin a kernel anew: give them another key, or
            their noise and minibatches are those of the first run. Where a kernel goes on, so do the decays that `SGHMCSPL` has
            set; a sparsifier begins anew under the mask, with its theta and its warm-up.
        mask, init_params: to start from, as of `fit_svi`; parameters such as a fit with ``posterior="map"`` has.
        eval_data, eval_every: held-out data, on which the network of the moment is evaluated.
        callbacks, callback_every, checkpoint, checkpoint_every, progress, mesh, remat, augment: as of `fit_svi`; over the
            mesh's first axis are spread a minibatch's rows, or parallel chains. Samples lie in the folder of the checkpoints,
            each in a file without its dead weights. A callback that returns True ends the sampling: the chains that are whole
            are the result, or what the first one had kept by then.
        on_interrupt: as of `fit_svi`; the result is as where a callback ends the sampling. Chains all at once always raise.

    Returns:
        A `FitResult`. ``params``: ``"<site>$draws"``, (chains, draws, ...), which `predict`, `evaluate`, `bmr_prune` (by the
        draws' means and standard deviations) and `report.save_fit` take. ``mask``: dead in every sample; a weight that was cut
        on the way is zero in the samples since. ``losses``: U, nats, (steps,), or (chains, steps). ``state``, ``history``: of
        the last chain.

    Raises:
        ValueError, TypeError: bad data or settings, by name; a prior without a density; more samples than a cycle has room for.
        InterruptedFit, DivergedError, OSError: as of `fit_svi`.

    Warns:
        UserWarning: the kept networks predict the data no better than a prediction without inputs does.

    Example:
        >>> import jax, bayesprune as bp
        >>> train, test = bp.data.load("digits")
        >>> bnn = bp.BNN(bp.nets.MLP((16,), 10), prior=bp.priors.Gaussian(), likelihood=bp.likelihoods.Categorical(),
        ...              input_shape=(8, 8, 1))
        >>> fit = bp.fit_sgmcmc(jax.random.key(0), bnn, train, num_steps=8, batch_size=64, num_samples=2, sample_every=2)
        >>> fit.params["Dense_0.kernel$draws"].shape
        (1, 2, 64, 16)

    Source: Welling & Teh (2011); Chen, Fox & Guestrin (2014); Zhang et al. (2020) for the cycles.
    """
    laid, devices = lay_out_chains(dict(locals()))
    warn_of_frozen(bnn, init if init is not None else init_params)
    check_acts(laid.recipe.sparsifier, laid.periods)
    if chain_method == SEQUENTIAL:
        with jax.transfer_guard_host_to_device("allow"):  # the host's work, done once
            starts = chain_starts(laid, bnn, init, init_params, num_chains)
        check_begun(laid.recipe.kernel, num_steps, begun(starts))
        found = sequential(laid, starts)
    else:
        found = at_once(laid, num_chains, devices)
    fit = _result(bnn, laid.recipe.program, *found)
    warn_of_no_learning(laid.rng_key, fit, bnn, data, not isinstance(laid.recipe.sparsifier, KeepAll))
    return fit


@functools.partial(jax.jit, static_argnums=0)
def _networks(moving: Trainable, params: dict[str, Any]) -> dict[str, Any]:
    """The values of the networks of one chain, along a first axis."""
    return jax.vmap(functools.partial(values_of, moving.guide))(params)


def _result(bnn: BNN, moving: Trainable, last: FitResult, chains: list[KeptNetworks]) -> FitResult:
    """The result of all chains: their samples, what is dead in every one of them, and the rest as ``last`` has it."""
    draws = [_networks(moving, stacked([params for params, _ in kept])) for kept in chains]
    params = {f"{name}{DRAWS}": value for name, value in stacked(draws).items()}
    masks = [mask for kept in chains for _, mask in kept]
    alive = {site: jnp.any(jnp.stack([send(mask[site]) for mask in masks]), 0) for site in masks[0]}
    return last._replace(params=params | bnn.describe(params), mask=alive)


ROWS = 1_000  # of the data, spread evenly, that are predicted
LEAST = 5.0  # nats of the whole data: a smaller gain may be chance
SHARE = 0.1  # of the baseline: a potential that has fallen by more has learnt


def warn_of_no_learning(rng_key: Key, fit: FitResult, bnn: BNN, data: object, acted: bool) -> None:
    """Warn where the kept networks predict the data no better than constants do.

    The potential alone does not show it: it rises as a chain that starts near zero spreads, and falls when weights are cut. So
    rows are predicted, unless the potential has clearly fallen and no sparsifier has ``acted``. Only for data in memory, and
    for likelihoods with a `baseline`.
    """
    y, steps = getattr(data, "y", None), fit.losses.shape[-1]
    if fit.interrupted or steps < FEWEST_STEPS or not in_memory(y):
        return
    with jax.transfer_guard("allow"):  # rows at a stride, for one message
        rows = np.linspace(0, len(y) - 1, min(ROWS, len(y))).astype(int)
        shown = jax.tree.map(lambda leaf: np.asarray(leaf)[rows], Dataset(data.x, y))  # type: ignore[attr-defined]
        blind = baseline(bnn.likelihood, shown.y)
        if blind is None:
            return
        losses, twentieth = np.asarray(fit.losses).reshape(-1, steps), max(1, steps // 20)
        fell = (losses[:, :twentieth].mean(1) - losses[:, -twentieth:].mean(1)).min()
        if fell > SHARE * abs(blind) * len(y) / len(rows) and not acted:
            return
        nll = float(evaluate(rng_key, bnn, fit.params, shown, mask=fit.mask or None)["nll"])
    if (blind / len(rows) - nll) * len(y) < LEAST:
        warnings.warn(
            f"The networks that were kept predict the data with {nll:.4g} nats a row, no better than predicting without the "
            f"inputs, {blind / len(rows):.4g}: the chain has not learnt, or has died. Give the kernel a larger step_size=, or "
            "start from a trained network, init=fit_svi(...) with posterior='map'; cut later or less, or take a wider prior.",
            UserWarning,
            stacklevel=3,
        )
