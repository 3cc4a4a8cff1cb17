"""The price of a fit: from its compiled loop, and from a few of its steps, acts and evaluations."""

import functools
from collections.abc import Mapping
from typing import Any, NamedTuple

import jax
import numpy as np

from bayesprune.core.send import send
from bayesprune.infer.chains import chain_starts
from bayesprune.infer.laid_out import SEQUENTIAL, lay_out, lay_out_chains
from bayesprune.infer.predict import check_inputs
from bayesprune.infer.pricing.predictions import bytes_of_a_block
from bayesprune.infer.pricing.record import Price, fit_bytes, of_one_more, size_of, timed
from bayesprune.model.bnn import BNN
from bayesprune.train.feed import WholeFeed
from bayesprune.train.result import FitResult
from bayesprune.train.run import Laid, run
from bayesprune.train.start import start
from bayesprune.train.state import CHUNK
from bayesprune.train.stopping import NeverStop
from bayesprune.train.training import Periods

FEW = 9  # steps of a first look, with two acts among them
EVERY = 3  # steps from act to act in it, or fewer, so that a fit of two steps has one too
UNSEEN: dict[str, Any] = {"checkpoint": None, "checkpoint_every": None, "callbacks": (), "callback_every": None}


def of_svi(arguments: Mapping[str, Any], probe_seconds: float) -> Price:
    """Of `fit_svi` with these arguments."""
    return _of_run(lay_out({**arguments, **UNSEEN}), probe_seconds, chains=1, networks_kept=0)


def of_chains(arguments: Mapping[str, Any], probe_seconds: float) -> Price:
    """Of `fit_sgmcmc` with these arguments: of its first chain, times their number."""
    if arguments["chain_method"] != SEQUENTIAL:
        raise ValueError(
            f"price is of chains one after another, and chain_method={arguments['chain_method']!r} runs all at once: leave it "
            "out; memory is then about that of one chain times their number."
        )
    laid, _ = lay_out_chains({**arguments, **UNSEEN})
    starts = chain_starts(laid, arguments["bnn"], arguments["init"], arguments["init_params"], 1)
    chains = arguments["num_chains"]
    return _of_run(laid._replace(given=starts[0]), probe_seconds, chains, chains * arguments["num_samples"])


def _of_run(laid: Laid, probe_seconds: float, chains: int, networks_kept: int) -> Price:
    """``networks_kept``: by all chains; none of a fit by SVI."""
    few = min(FEW, laid.periods.num_steps)
    cold, _ = timed(lambda: _fit(laid, few))
    warm, tried = timed(lambda: _fit(laid, few))
    memory_bytes, kept_bytes, data_bytes, step_seconds = _of_loop(laid, probe_seconds)
    if not step_seconds:  # its reading of data is a part of a step
        seconds = lambda steps: timed(lambda: _fit(laid, steps))[0]  # noqa: E731
        step_seconds = of_one_more(seconds, few, warm, laid.periods.num_steps, probe_seconds, jump=8 * CHUNK)
    acts, evaluations = _acts(laid, few, warm), _evaluations(laid, tried)
    samples_bytes = networks_kept * size_of(tried.params)
    losses_bytes = chains * laid.periods.num_steps * np.asarray(tried.losses).itemsize
    return Price(
        max(cold - warm, 0.0) + acts.compile_seconds + evaluations.compile_seconds,
        chains * max(warm - few * step_seconds, 0.0),
        step_seconds,
        chains * laid.periods.num_steps,
        acts.seconds,
        chains * acts.number,
        evaluations.seconds,
        chains * evaluations.number,
        max(memory_bytes, kept_bytes + evaluations.memory_bytes) + samples_bytes,
        data_bytes,
        (samples_bytes or fit_bytes(tried) - np.asarray(tried.losses).nbytes)
        + losses_bytes
        + acts.file_bytes
        + evaluations.file_bytes,
    )


def _of_loop(laid: Laid, probe_seconds: float) -> tuple[int, int, int, float]:
    """Bytes that the compiled loop holds at once, that are kept when it has run, and of the data; seconds of a step, or 0."""
    loop, carry, sparse, _ = start(laid.recipe, laid.rng_key, laid.feed, laid.given)
    data, mask, run_steps = laid.feed.alike, sparse.mask, loop.run
    said: Any = run_steps.lower(carry, data, mask, send(0, np.int32)).compile().memory_analysis()
    copied = size_of(carry.params)  # for the day the loss is not finite
    kept_bytes = int(said.argument_size_in_bytes) + copied
    of_steps = said.output_size_in_bytes + said.temp_size_in_bytes - said.alias_size_in_bytes
    sizes = kept_bytes + int(of_steps), kept_bytes, size_of(data)
    if not isinstance(laid.feed, WholeFeed):
        return *sizes, 0.0
    some = lambda carry, steps: jax.block_until_ready(run_steps(carry, data, mask, send(steps, np.int32)))  # noqa: E731
    (carry, _, _), steps, count, seconds = some(carry, 1), 16, 0, 0.0
    while seconds < probe_seconds:
        taken, (carry, _, done) = timed(functools.partial(some, carry, steps))
        count, seconds, steps = count + int(done), seconds + taken, min(CHUNK, 4 * steps)
        if not int(done):  # it diverges, which is for the fit to say
            break
    return *sizes, seconds / max(count, 1)


def _fit(laid: Laid, num_steps: int, every: int = 0) -> FitResult:
    """The first ``num_steps`` of the fit alone; with an act after every ``every`` of them, if that is not 0."""
    periods = Periods(num_steps, every, 0, 0)
    watch = laid.watch._replace(data=None, early_stop=NeverStop(), callbacks=())
    fit = run(laid._replace(periods=periods, watch=watch, progress=False, returns=False))
    jax.block_until_ready(fit.params)
    return fit


class _Between(NamedTuple):
    """What happens between steps: seconds of one, of compiling the first, how many, and the bytes that all leave in a file and
    that one holds at once."""

    seconds: float = 0.0
    compile_seconds: float = 0.0
    number: int = 0
    file_bytes: int = 0
    memory_bytes: int = 0


def _acts(laid: Laid, few: int, warm: float) -> _Between:
    """The acts of the sparsifier, tried within the few steps: a fit that acts has two at least, and acts after the first."""
    acts = laid.periods.num_acts
    if not acts:
        return _Between()
    every = min(EVERY, few - 1)
    cold, _ = timed(lambda: _fit(laid, few, every))
    again, fit = timed(lambda: _fit(laid, few, every))
    in_few = len(range(every, few, every))
    left = sum(np.asarray(values).nbytes for name, values in fit.history.items() if name.startswith("prune/"))
    return _Between(max(again - warm, 0.0) / in_few, max(cold - again, 0.0), acts, left * acts // in_few)


def _evaluations(laid: Laid, tried: FitResult) -> _Between:
    """The evaluations on held-out data."""
    number = laid.periods.num_steps // laid.periods.eval_every if laid.periods.eval_every else 0
    if not number:
        return _Between()
    watch = laid.watch
    see = lambda: watch.evaluate(  # noqa: E731
        laid.rng_key, laid.recipe.program, tried.params, watch.data, mask=tried.mask, num_samples=watch.num_samples
    )
    (cold, _), (again, figures) = timed(see), timed(see)
    left = 8 * (len(figures) + 1) * number  # and the step of each
    return _Between(again, max(cold - again, 0.0), number, left, _of_evaluation(laid, tried))


def _of_evaluation(laid: Laid, tried: FitResult) -> int:
    """Bytes of a block of held-out rows, and of what the mean over networks takes of it."""
    program, watch = laid.recipe.program, laid.watch
    if not isinstance(program, BNN) or watch.data is None:
        return 0
    key, x, mask = check_inputs(laid.rng_key, program, tried.params, watch.data.x, tried.mask, watch.num_samples)
    return bytes_of_a_block(key, program, tried.params, x, mask, watch.num_samples)
