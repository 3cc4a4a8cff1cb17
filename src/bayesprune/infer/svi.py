"""`fit_svi`: stochastic variational inference in one compiled loop; pruning, evaluation, checkpoints between chunks."""

import os
from collections.abc import Callable, Sequence
from typing import Any

import jax
import optax
from numpyro.infer import ELBO

from bayesprune.core.given import GivenData, RandomKey
from bayesprune.core.types import Pruned, Sparsifier
from bayesprune.courses import Course, Standard
from bayesprune.infer.end_of_fit import warn_at_end
from bayesprune.infer.evaluate import evaluate
from bayesprune.infer.laid_out import lay_out
from bayesprune.infer.scale_of_data import warn_of_scale
from bayesprune.infer.settings import check_acts, check_stop, warn_of_frozen
from bayesprune.model.bnn import BNN
from bayesprune.model.program import Program
from bayesprune.prune.keep_all import KeepAll
from bayesprune.train.kernel import Kernel
from bayesprune.train.result import FitResult, Moment
from bayesprune.train.run import run
from bayesprune.train.state import as_it_is
from bayesprune.train.stopping import EarlyStop, NeverStop


def fit_svi(
    rng_key: RandomKey,
    program: BNN | Program | Any,
    data: GivenData,
    *,
    num_steps: int,
    batch_size: int | None = None,
    num_rows: int | None = None,
    course: Course | Any = Standard(),
    optimizer: optax.GradientTransformation | Kernel | Any = None,
    sparsifier: Sparsifier | Any = KeepAll(),
    every: int | None = None,
    estimator: str | ELBO | Any = None,
    num_particles: int = 1,
    kl_weight: Callable[[jax.Array], Any] | float | Any = None,
    mask: dict[str, Any] | Any = None,
    init: FitResult | Pruned | Any = None,
    init_params: dict[str, Any] | Any = None,
    eval_data: GivenData | None = None,
    eval_every: int | None = None,
    eval_samples: int = 20,
    evaluator: Callable[..., dict[str, float]] | Any = evaluate,
    early_stop: EarlyStop | NeverStop | Any = NeverStop(),
    callbacks: Sequence[Callable[[Moment], Any]] | Callable[[Moment], Any] | Any = (),
    callback_every: int | None = None,
    checkpoint: str | os.PathLike[str] | Any = None,
    checkpoint_every: int | None = None,
    on_interrupt: str | Any = None,
    progress: bool | Any = None,
    mesh: jax.sharding.Mesh | Any = None,
    storage: str = "masked",
    remat: bool | Any = False,
    augment: Callable[[jax.Array, jax.Array], jax.Array] | Any = as_it_is,
) -> FitResult:
    """Fit a guide to its model by stochastic variational inference, with or without pruning on the way.

    Minimises  KL(q || p) - (n / batch) sum_batch E_q log p(y | x, w)  by ``optimizer``, one step for each minibatch; the
    gradient handed to the optimizer is of this loss divided by n. All steps run in one compiled loop; a mask that changes never
    compiles it again. Runs with the same key are equal bit by bit, interrupted or not.

    Args:
        rng_key: a JAX random key.
        program: a `BNN`, or a `Program` of NumPyro callables of (x, y).
        data: a data set with fields x (rows, ...) and y (rows, ...): arrays, which are put into the device's memory, or
            memory-mapped ones, of which rows are read as they are needed, in the same order. Also anything with a length whose
            entries are rows (x, y), such as a tfds data source; and batches (x, y) from a list, a loader of PyTorch's or
            Grain's, a tf.data set, or a function that returns an iterator: of several processes, each has its own share.
        num_steps: optimiser steps.
        batch_size: rows of a minibatch, by permutation each epoch; None takes all rows at every step. Of batches: None keeps
            their size; those of other sizes, ragged last ones too, are cut anew, so that every row counts the same.
        num_rows: rows of the whole data set, by which the likelihood is scaled; for batches, which do not say it.
        course: what the fit does where nothing else is given: start, weight of the divergence, learning rate, when the
            sparsifier acts, and whether its acts are verified on the data. `courses.Standard` by default;
            ``bp.courses.paper("bmr")`` and others are a paper's whole setting, `courses.Plain` changes nothing on the way. What
            is given by ``optimizer``, ``every``, ``kl_weight``, or as an object by ``posterior=`` of the `BNN`, stands.
        optimizer: any optax transformation, or a kernel of `bayesprune.kernels`; clip gradients by chaining
            ``optax.clip_by_global_norm``. A new one that computes the same as one before compiles nothing. None: the course's.
            Those that ask for the loss or a function of it (`optax.contrib.reduce_on_plateau`, `optax.polyak_sgd`, line
            searches) get them, of the minibatch and its draws. Of `optax.lookahead` and `optax.contrib.schedule_free` the
            parameters for evaluation are returned and evaluated; the trained ones are in ``fit.state``. L-BFGS needs a loss
            without noise: ``posterior="map"``, all rows at every step.
        sparsifier: a method of `bayesprune.methods`; it acts before step ``every``, 2 ``every``, ... (not after the last step;
            a warning says so where that is never). An act that leaves no path through the network is refused, with a warning.
            None, as without it: nothing is pruned.
        every: steps between prunings; None: the course says how often, and within which steps.
        estimator: "weight" (sampled weights), "local" (local reparameterisation), "local_where_exact" (the same where it has
            the law of sampled weights, which are drawn elsewhere), or a NumPyro ELBO object; None: the course's. Of a bound
            that is not linear in the divergence's weight, as Rényi's, ``fit.losses`` are right where that is 1.
        num_particles: draws of the latent variables in each step; an ELBO object says its own.
        kl_weight: the divergence's weight, a number, or a function of the step such as `schedules.LinearWarmup`; None: the
            course's. ``fit.losses`` are the bound itself, of weight 1, whatever is minimised.
        mask: site -> booleans to start from, True = alive; dead weights stay dead unless the sparsifier revives them. None:
            all alive, but for what `priors.Posterior` has pruned.
        init: a fit to go on from, as it was returned or loaded: its parameters, mask and optimiser's state; of a pruned one its
            parameters and mask. Steps, schedules and the sparsifier count from 0 again, the optimiser's own counts go on, and
            so do batches and noise: with the same key, optimizer, kl_weight and settings given, and no pruning, 10 steps and 10
            more are the 20 of one fit, bit by bit; what gives batches is read from its beginning again. The standard course,
            whose rate has come to its end, begins its optimiser anew. One of another kind starts anew, with a
            warning. ``mask`` may have more weights dead.
        init_params: parameters to start from, as in ``fit.params``, or the fit; others are initialised. Weights that
            were pruned, at loc = scale = 0, stay dead, with a warning, unless ``mask`` says otherwise.
        eval_data, eval_every, eval_samples: held-out data, evaluated every so many steps (one epoch if None) by so many draws;
            arrays, or as ``data`` what is read as it is needed: in its own order, from the beginning at every evaluation.
        evaluator: a function called as `bayesprune.evaluate`, in its place; `deploy.evaluate_by_kernels` is quicker on CPUs.
        early_stop: `EarlyStop` on a figure of the evaluation; what was evaluated is returned, unpruned since. A warning says
            where no evaluation comes within ``num_steps``.
        callbacks: functions of a `Moment`, or one, called between chunks of steps, before the weights are pruned. One that
            returns True ends the fit there. In a fit resumed from there it is asked again: without it, the fit goes on.
        callback_every: steps between two calls of the callbacks, which also see the last step; None: they are called whenever
            the fit pauses to prune, evaluate or save.
        checkpoint, checkpoint_every: a folder, and steps between checkpoints (one epoch if None); a run finds its last one
            there and goes on from it. With a larger ``num_steps`` it trains on; SSVI's exchanges still end where they did.
        mesh: devices to spread each minibatch over, along the mesh's first axis. Parameters and the optimiser's moments are on
            every device, or cut along the mesh's second axis, if it has one; arrays of data are on every device. Needed where
            `jax.distributed` has several processes: one fit by all of them, or by each on a mesh of its own devices. Callbacks,
            the progress bar and what is written are then those of the first one.
        storage: "masked" keeps whole arrays and a mask; "active" keeps the alive weights only: their parameters, gradients and
            optimiser state are vectors of their number, with the same results to rounding if the optimiser treats every
            entry alone (LAMB and Adafactor do not). For a sparsifier that keeps the counts of every array, such as
            `methods.SSVI`, or a fixed ``mask``; ``fit.state`` then holds such vectors.
            "compact" trains on what is connected: where an act leaves half of a step's work or less, the program goes on with
            the slices of arrays that are in use, units, channels and inputs, and of arrays that are mostly dead with a vector
            of the living entries, which products see as whole slices. The steps are the same to rounding, with the same noise
            for the same weight; results and checkpoints have whole arrays, ``fit.history["shrunk/step"]`` says when, and
            "shrunk/numbers" how many numbers are held. Verified acts leave no slices that nobody needs. For methods that cut
            for good, estimators "weight" and "local", optimizers that treat every entry alone, and priors without numbers for
            units; others are refused with the reason. "auto": the same where it can be and what is left to do is worth the
            compilation, by what both take on a CPU; else, and on other devices, "masked".
        remat: rematerialisation. True keeps for the backward pass only what matrix products and convolutions gave, and makes
            the rest again: less memory at once, the same results to rounding, often slower steps. On a CPU XLA's default order
            of work takes the gain back; XLA_FLAGS=--xla_cpu_enable_concurrency_optimized_scheduler=false has another.
        augment: a function (rng_key, x) -> x of each minibatch's inputs, such as `data.CropFlip`, inside the compiled loop.
        on_interrupt: what Ctrl-C does. "return": the fit ends within about a second and returns what there is, its
            ``interrupted`` True; "raise": it raises. None: the first at a prompt and in a notebook, the second in a script. A
            checkpoint is saved before, where there is a folder. A second Ctrl-C always raises, at once.
        progress: True or False shows a progress bar or not; None shows it in a terminal or a notebook.

    Returns:
        A `FitResult`.

    Raises:
        ValueError, TypeError: bad data or settings, by name, before anything is trained.
        InterruptedFit: Ctrl-C or SIGTERM in a fit with a ``checkpoint`` folder, after its state was saved; a KeyboardInterrupt
            like the one that is raised without a folder. For Ctrl-C see ``on_interrupt``.
        DivergedError: the loss stopped being finite; carries the last finite parameters.
        UnsavedError: a checkpoint cannot be written, as where its folder has gone; carries the fit as it stands.
        OSError: the checkpoint folder cannot be written, or another process, which it names, is at work there.

    Example:
        >>> import jax, bayesprune as bp
        >>> train, test = bp.data.load("digits")
        >>> bnn = bp.BNN(bp.nets.MLP((16,), 10), prior=bp.priors.Flat(), likelihood=bp.likelihoods.Categorical(),
        ...              input_shape=(8, 8, 1))
        >>> fit = bp.fit_svi(jax.random.key(0), bnn, train, num_steps=4, batch_size=64, sparsifier=bp.methods.BMR(), every=2)
        >>> fit.losses.shape, int(fit.history["prune/step"][0])
        ((4,), 2)

    Source: Hoffman et al. (2013) for the stochastic bound; Marković et al. (2024), Algorithm 1, for pruning on the way.
    """
    laid = lay_out(dict(locals()))
    warn_of_scale(laid.recipe.program, data)
    warn_of_frozen(laid.recipe.program, laid.given.params)
    check_acts(laid.recipe.sparsifier, laid.periods)
    check_stop(laid.watch.early_stop, laid.periods)
    fit = run(laid)
    warn_at_end(fit, laid.recipe, data)
    return fit
