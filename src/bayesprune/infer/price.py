"""`price`: what a fit costs, in memory, seconds and bytes on disk, from its compiled program and a few of its steps."""

import dataclasses
import functools
import inspect
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np

from bayesprune.core.checks import check_positive, got
from bayesprune.core.given import GivenData, RandomKey
from bayesprune.core.send import send
from bayesprune.core.shown import line
from bayesprune.core.types import PyTree
from bayesprune.infer.chains import chain_starts
from bayesprune.infer.laid_out import SEQUENTIAL, lay_out, lay_out_chains
from bayesprune.infer.predict import blocks_of, check_inputs, mean_over, networks
from bayesprune.infer.sgmcmc import fit_sgmcmc
from bayesprune.infer.svi import fit_svi
from bayesprune.model.bnn import BNN
from bayesprune.model.program import Program
from bayesprune.train.feed import WholeFeed
from bayesprune.train.result import FitResult
from bayesprune.train.run import Laid, run
from bayesprune.train.start import start
from bayesprune.train.state import CHUNK
from bayesprune.train.stopping import NeverStop
from bayesprune.train.training import Periods

FEW = 9  # steps of a first look, with two acts among them
EVERY = 3  # steps from act to act in it, or fewer, so that a fit of two steps has one too


@dataclasses.dataclass(frozen=True)
class Price:
    """What a run costs. Seconds are those of this machine as busy as it is now, bytes those of one device.

    ``seconds``: of all: ``compile_seconds``, once, ``start_seconds``, and ``step_seconds``, ``act_seconds`` and
    ``eval_seconds`` for each of ``steps``, ``acts`` and ``evaluations``. ``memory_bytes``: held at once by the training
    loop, or by an evaluation; ``data_bytes`` of them by arrays of data. ``file_bytes``: of ``fit.save``, where no weight has
    fallen: zeros are left out of it.
    """

    compile_seconds: float
    start_seconds: float
    step_seconds: float
    steps: int
    act_seconds: float
    acts: int
    eval_seconds: float
    evaluations: int
    memory_bytes: int
    data_bytes: int
    file_bytes: int

    @property
    def seconds(self) -> float:
        """Of the whole run, compilation included."""
        once = self.compile_seconds + self.start_seconds
        return once + self.steps * self.step_seconds + self.acts * self.act_seconds + self.evaluations * self.eval_seconds

    def __repr__(self) -> str:
        return line(
            "Price",
            f"{_seconds(self.seconds)}, {_bytes(self.memory_bytes)} at once, {_bytes(self.file_bytes)} on disk: "
            f"compiling {_seconds(self.compile_seconds)}",
            f"{self.steps:,} steps of {_seconds(self.step_seconds)}",
            f"{self.acts:,} acts of {_seconds(self.act_seconds)}" if self.acts else "",
            f"{self.evaluations:,} evaluations of {_seconds(self.eval_seconds)}" if self.evaluations else "",
        )


def price(
    rng_key: RandomKey,
    program: BNN | Program | Any,
    data: GivenData,
    *,
    of: Callable[..., FitResult] | Any = fit_svi,
    probe_seconds: float | int = 1.0,
    **arguments: object,
) -> Price:
    """What ``fit_svi(rng_key, program, data, **arguments)`` will cost, before it runs; or `fit_sgmcmc`, as ``of`` says.

    The fit is checked and compiled as it will be, and its steps, acts and evaluations are tried: a few of each. Memory is what
    the compiled loop says of itself, and the copy of the parameters that is kept for the day the loss is not finite; or, where
    that is more, what is kept between steps and what the mean over networks takes of a block of held-out rows. Nothing is
    written, no callback is called; the fit that follows in this process compiles nothing anew, and takes that much less.

    Args:
        rng_key, program, data, arguments: of the fit. With ``early_stop`` the price is that of all steps.
        of: `fit_svi`; or `fit_sgmcmc`, of chains one after another: steps, acts and evaluations of all, and the networks that
            they keep are among the bytes held and in the file.
        probe_seconds: how long steps are tried, at least; a busy machine needs more for the same certainty.

    Returns:
        A `Price`, whose ``seconds`` is the sum.

    Raises:
        TypeError: an argument that the fit does not have. ValueError: ``of`` is another function, or of chains at once.
            ValueError, TypeError, DivergedError: as of the fit.

    Example:
        >>> import jax, bayesprune as bp
        >>> train, test = bp.data.load("digits")
        >>> bnn = bp.BNN(bp.nets.MLP((16,), 10), prior=bp.priors.Flat(), likelihood=bp.likelihoods.Categorical(),
        ...              input_shape=(8, 8, 1))
        >>> price = bp.price(jax.random.key(0), bnn, train, num_steps=1_000, batch_size=64, probe_seconds=0.01)
        >>> price.steps, price.seconds > 1_000 * price.step_seconds, price.file_bytes > 8 * 1_210
        (1000, True, True)
    """
    check_positive(probe_seconds, "probe_seconds")
    laid, chains, networks_kept = _laid_out(of, rng_key, program, data, arguments)
    few = min(FEW, laid.periods.num_steps)
    cold, _ = _timed(lambda: _fit(laid, few))
    warm, tried = _timed(lambda: _fit(laid, few))
    memory_bytes, kept_bytes, data_bytes, step_seconds = _of_loop(laid, probe_seconds)
    step_seconds = step_seconds or _by_differences(laid, few, warm, probe_seconds)
    acts, evaluations = _acts(laid, few, warm), _evaluations(laid, tried)
    samples_bytes = networks_kept * _size(tried.params)
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
        (samples_bytes or _file_bytes(tried)) + losses_bytes + acts.file_bytes + evaluations.file_bytes,
    )


def _laid_out(
    of: object, rng_key: RandomKey, program: object, data: GivenData, arguments: dict[str, Any]
) -> tuple[Laid, int, int]:
    """The run, of the first of several chains; how many there are, and how many networks all keep: none of a fit by SVI."""
    if of not in (fit_svi, fit_sgmcmc):
        raise ValueError(f"of must be bp.fit_svi or bp.fit_sgmcmc, got {got(of)}: other calls have no price.")
    bound = inspect.signature(of).bind(rng_key, program, data, **arguments)  # type: ignore[arg-type]
    bound.apply_defaults()
    asked = bound.arguments | {"checkpoint": None, "checkpoint_every": None, "callbacks": (), "callback_every": None}
    if of is fit_svi:
        return lay_out(asked), 1, 0
    if asked["chain_method"] != SEQUENTIAL:
        raise ValueError(
            f"price is of chains one after another, and chain_method={asked['chain_method']!r} runs all at once: leave it out; "
            "memory is then about that of one chain times their number."
        )
    laid, _ = lay_out_chains(asked)
    starts = chain_starts(laid, asked["bnn"], asked["init"], asked["init_params"], 1)
    return laid._replace(given=starts[0]), asked["num_chains"], asked["num_chains"] * asked["num_samples"]


def _of_loop(laid: Laid, probe_seconds: float) -> tuple[int, int, int, float]:
    """Bytes that the compiled loop holds at once, that are kept when it has run, and of the data; seconds of a step, or 0."""
    loop, carry, sparse, _ = start(laid.recipe, laid.rng_key, laid.feed, laid.given)
    data, mask, run_steps = laid.feed.alike, sparse.mask, loop.run
    said: Any = run_steps.lower(carry, data, mask, send(0, np.int32)).compile().memory_analysis()
    copied = _size(carry.params)  # for the day the loss is not finite
    kept_bytes = int(said.argument_size_in_bytes) + copied
    of_steps = said.output_size_in_bytes + said.temp_size_in_bytes - said.alias_size_in_bytes
    sizes = kept_bytes + int(of_steps), kept_bytes, _size(data)
    if not isinstance(laid.feed, WholeFeed):
        return *sizes, 0.0
    some = lambda carry, steps: jax.block_until_ready(run_steps(carry, data, mask, send(steps, np.int32)))  # noqa: E731
    (carry, _, _), steps, count, seconds = some(carry, 1), 16, 0, 0.0
    while seconds < probe_seconds:
        taken, (carry, _, done) = _timed(functools.partial(some, carry, steps))
        count, seconds, steps = count + int(done), seconds + taken, min(CHUNK, 4 * steps)
        if not int(done):  # it diverges, which is for the fit to say
            break
    return *sizes, seconds / max(count, 1)


def _size(tree: PyTree) -> int:
    return sum(int(leaf.nbytes) for leaf in jax.tree.leaves(tree))


def _fit(laid: Laid, num_steps: int, every: int = 0) -> FitResult:
    """The first ``num_steps`` of the fit alone; with an act after every ``every`` of them, if that is not 0."""
    periods = Periods(num_steps, every, 0, 0)
    watch = laid.watch._replace(data=None, early_stop=NeverStop(), callbacks=())
    fit = run(laid._replace(periods=periods, watch=watch, progress=False, returns=False))
    jax.block_until_ready(fit.params)
    return fit


def _timed(call: Callable[[], Any]) -> tuple[float, Any]:
    begin = time.perf_counter()
    result = call()
    return time.perf_counter() - begin, result


def _by_differences(laid: Laid, few: int, warm: float, probe_seconds: float) -> float:
    """Seconds of a step, its reading of data included, from runs of more and more of them."""
    most = laid.periods.num_steps
    steps, taken = few, warm
    while taken < warm + probe_seconds and steps < most:
        steps = min(most, 4 * steps, steps + CHUNK * 8)
        taken = _timed(lambda steps=steps: _fit(laid, steps))[0]  # type: ignore[misc]
    return warm / few if steps == few else max(taken - warm, 0.0) / (steps - few)


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
    cold, _ = _timed(lambda: _fit(laid, few, every))
    again, fit = _timed(lambda: _fit(laid, few, every))
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
    (cold, _), (again, figures) = _timed(see), _timed(see)
    left = 8 * (len(figures) + 1) * number  # and the step of each
    return _Between(again, max(cold - again, 0.0), number, left, _of_evaluation(laid, tried))


def _of_evaluation(laid: Laid, tried: FitResult) -> int:
    """Bytes of a block of held-out rows, twice, as it is cut on the host, and of what the mean over networks takes of it."""
    program, watch = laid.recipe.program, laid.watch
    if not isinstance(program, BNN) or watch.data is None:
        return 0
    key, x, mask = check_inputs(laid.rng_key, program, tried.params, watch.data.x, tried.mask, watch.num_samples)
    params, number = networks(tried.params, watch.num_samples)
    block = next(iter(blocks_of(x)))
    compiled = mean_over(program, False).lower(key, params, mask, block, send(number)).compile()
    said: Any = compiled.memory_analysis()
    return 2 * _size(block) + int(said.temp_size_in_bytes + said.output_size_in_bytes)


def _file_bytes(tried: FitResult) -> int:
    """Bytes of a saved fit but for its losses."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "fit.safetensors"
        tried.save(path)
        return path.stat().st_size - np.asarray(tried.losses).nbytes


def _seconds(value: float) -> str:
    """Three digits of seconds, in words that suit.

    >>> _seconds(0.00123), _seconds(2.5), _seconds(185.0), _seconds(8000.0)
    ('1.23 ms', '2.5 s', '3.1 min', '2.2 h')
    """
    if value < 1.0:
        return f"{1000 * value:.3g} ms"
    if value < 120.0:
        return f"{value:.3g} s"
    return f"{value / 60:.1f} min" if value < 7200.0 else f"{value / 3600:.1f} h"


def _bytes(value: float | int) -> str:
    """
    >>> _bytes(512), _bytes(20_480), _bytes(3e9)
    ('512 B', '20.5 kB', '3 GB')
    """
    for unit, factor in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if value >= factor:
            return f"{value / factor:.3g} {unit}"
    return f"{value:.0f} B"
