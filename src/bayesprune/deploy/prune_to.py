"""Prune a fit to a budget in the user's unit: milliseconds, bytes, FLOPs, nats on held-out rows, or calibration."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import jax
import numpy as np

from bayesprune.core.checks import check_integer, check_name, check_positive, check_within
from bayesprune.core.given import GivenRows, RandomKey
from bayesprune.core.types import Pruned
from bayesprune.deploy.compact import Compact
from bayesprune.deploy.rungs import Ladder, Rung
from bayesprune.infer.predict import check_bnn
from bayesprune.model.bnn import BNN
from bayesprune.prune.keep_all import KeepAll
from bayesprune.prune.needs import nothing_to_prune
from bayesprune.prune.one_shot import prune_once
from bayesprune.train.result import FitResult

BUDGETS = ("latency_ms", "bytes", "flops", "nll_increase", "ece")
COSTS = BUDGETS[:3]  # fall with the weights; the others rise as weights fall
ENGINES = ("numpy", "onnx", "jax")
NEAR = 1.02  # numbers of weights whose ratio is less count as one
FIRST = 8  # rungs of a ladder before the search


@dataclass(frozen=True, eq=False)
class ToBudget:
    """A network within its budget, and all that were measured on the way.

    ``pruned``: as of `bayesprune.bmr_prune`, to go on from; ``compact``: the network made smaller; ``rung``: its line, timed
    anew; ``budget``, ``most``: what was asked; ``frontier``: every network that was measured, largest first.
    """

    pruned: Pruned
    compact: Compact
    rung: Rung
    budget: str
    most: float
    frontier: tuple[Rung, ...]

    @property
    def params(self) -> dict[str, Any]:
        """Dead weights at loc = scale = 0."""
        params: dict[str, Any] = self.pruned.params
        return params

    @property
    def mask(self) -> dict[str, np.ndarray]:
        """Site -> booleans, True = alive."""
        return {site: np.asarray(alive) for site, alive in self.pruned.mask.items()}

    def table(self) -> str:
        """The frontier in markdown, the network that was taken in bold."""
        names = list(self.rung.figures)
        head = ["weights", "density", "bytes", "FLOPs a row", "ms", "their spread", *names, "nats more"]
        lines = [f"| {' | '.join(head)} |", f"|{' ---: |' * len(head)}"]
        for rung in self.frontier:
            values = [f"{rung.kept:,}", f"{rung.density:.4f}", f"{rung.bytes:,}", f"{rung.flops:,}", f"{rung.latency_ms:.3g}"]
            values += [f"{rung.spread_ms:.2g}", *(f"{rung.figures[name]:.4g}" for name in names), f"{rung.nll_increase:+.4f}"]
            bold = "**" if rung.kept == self.rung.kept else ""
            lines.append(f"| {' | '.join(f'{bold}{value}{bold}' for value in values)} |")
        return "\n".join(lines)

    def figure(self) -> Any:
        """The frontier as a figure: what the budget limits, and NLL, over the density. Needs the extra "plots"."""
        from bayesprune.report.plots_compared import frontier

        return frontier(
            [rung.density for rung in self.frontier],
            [rung.of(self.budget) for rung in self.frontier],
            [rung.figures["nll"] for rung in self.frontier],
            (self.rung.density, self.most),
            self.budget,
        )


def prune_to(
    fit: FitResult | Any,
    program: BNN | Any,
    data: GivenRows,
    *,
    latency_ms: float | None = None,
    bytes: int | None = None,
    flops: int | None = None,
    nll_increase: float | None = None,
    ece: float | None = None,
    engine: str = "numpy",
    rows: int = 1,
    rng_key: RandomKey | None = None,
    num_samples: int = 100,
    values: str = "float32",
) -> ToBudget:
    """Prune a fit until it keeps to a budget, by evidence for each unit of cost; checked on the engine and on held-out rows.

    Weights fall in the order of dF0 / c, the evidence (2.5) that their removal loses for the FLOPs c that go with them; with
    ``nll_increase``, ``ece`` and ``bytes`` every weight costs the same. ONNX Runtime and JAX multiply zeros as other numbers,
    so that with ``engine="onnx"`` and "jax" a budget of time or FLOPs is paid in whole units, in the order of the sums over
    each; what makes no unit falls last, one by one. How many fall is found by bisection over networks that are made, saved,
    timed and judged: a model of their cost is not asked.

    Args:
        fit: a `FitResult`, or a `Pruned`: ``params``, and the ``mask`` of what is alive.
        program: the `BNN` that was fitted.
        data: held-out rows (x, y). The network is chosen by them, so that its figures on them flatter it a little.
        latency_ms: milliseconds for one call with ``rows`` rows at the posterior mean, the median of as many calls as go into a
            tenth of a second, on this machine with what else it does.
        bytes: of the file that `Compact.save` writes with ``values``.
        flops: for one row: with ``engine="numpy"``, which leaves zeros out, of the weights that are left; else of dense arrays.
        nll_increase: nats a row on ``data``, more than of the network as it came. Of networks that keep to it the smallest is
            taken; so with ``ece``, the expected calibration error itself.
        engine: "numpy", kernels on the CPU; "onnx", ONNX Runtime, which needs the extra "export"; "jax".
        rows: how many rows a call has that is timed.
        rng_key: a JAX random key: figures on ``data`` are then averaged over ``num_samples`` networks, else they are of the
            network at the posterior mean. Of a likelihood whose law a compact network does not hold, all but classes, bits and
            Gaussian noise of one size, they are of drawn networks alone, and it is needed.
        num_samples, values: see above.

    Returns:
        A `ToBudget`: ``pruned``, its ``params`` and ``mask``, ``compact``, and the ``frontier``, with `table` and `figure`.

    Raises:
        TypeError: ``program`` is no `BNN`.
        ValueError: no budget, or more than one; one that no network keeps to, with the best that was found; an unknown engine;
            points, a prior without evidence in closed form, weights that are no independent Gaussians; a mask of living weights
            that may not be pruned; ``ece`` of no classes.
        ImportError: "onnx", and onnxruntime is not installed.

    Example:
        >>> import jax, bayesprune as bp
        >>> train, test = bp.data.load("digits")
        >>> bnn = bp.BNN(bp.nets.MLP((16,), 10), prior=bp.priors.Gaussian(), likelihood=bp.likelihoods.Categorical(),
        ...              input_shape=(8, 8, 1))
        >>> fit = bp.fit_svi(jax.random.key(0), bnn, train, num_steps=30, batch_size=64, progress=False)
        >>> found = bp.prune_to(fit, bnn, test, flops=800)
        >>> found.rung.flops <= 800, found.mask["Dense_0.kernel"].shape
        (True, (64, 16))

    Source: evidence of a removal after Marković, Friston & Kiebel (2024), section II-G.
    """
    check_bnn(program)
    given = dict(zip(BUDGETS, (latency_ms, bytes, flops, nll_increase, ece), strict=True))
    asked = {name: value for name, value in given.items() if value is not None}
    if len(asked) != 1:
        raise ValueError(f"give one budget of {', '.join(BUDGETS)}, got {', '.join(asked) or 'none'}.")
    check_name("engine", engine, ENGINES)
    ((budget, most),) = asked.items()
    check_positive(most, budget)
    if budget == "ece":
        check_within(most, budget, "(0, 1)", "it is a share, so that 0.05 stands for 5 %, and no network's is above 1")
    check_integer(rows, "rows")
    if not any(spec.prunable and spec.bayesian for spec in program.layout):
        raise nothing_to_prune("params have", program)
    with jax.transfer_guard_host_to_device("allow"):  # ranks and searches are the host's work
        ladder = Ladder(program, fit, data, budget, engine, rows, rng_key, num_samples, values)
        rung = _search(ladder, budget, float(most))
        mask, rungs = ladder.mask(rung.rank), tuple(ladder.rungs[kept] for kept in sorted(ladder.rungs, reverse=True))
        pruned = prune_once(dict(fit.params), KeepAll(), program=program, mask=mask)
        return ToBudget(pruned, ladder.small(rung.rank), rung, budget, float(most), rungs)


def _search(ladder: Ladder, budget: str, most: float) -> Rung:
    """The network that is taken: of a cost that with the most weights that keep to it, of a loss that with the fewest.

    Down a ladder of even ratios to the rung where it changes, then by bisection. A calibration error does not fall evenly: if
    no rung keeps to it, one between two of them may. A network through which no path leads costs next to nothing, and is none.
    What was timed is timed anew before it is taken.
    """

    def holds(rank: int) -> bool:
        return ladder.leads(rank) and ladder.rung(rank).of(budget) <= most

    cost, good, bad, dead = budget in COSTS, 0, 0, 0
    first = list(dict.fromkeys(max(1, round(ladder.count / 4**power)) for power in range(FIRST)))
    for rank in first:
        if holds(rank):
            good = rank
        elif cost and not ladder.leads(rank):
            dead = rank
        elif cost or good:  # a calibration error may fall as weights go: what is too large above what holds says nothing
            bad = rank
        changes_here = good or dead if cost else bad
        if changes_here:
            break
    if dead and bad:
        good, bad = _living(ladder, holds, dead, bad)
    if not (good or cost):
        between = ((round(math.sqrt(larger * smaller)), smaller) for larger, smaller in pairwise(first))
        good, bad = next((pair for pair in between if holds(pair[0])), (0, 0))
    if not good:
        raise _none(ladder, budget, most)
    while good != ladder.count or not cost:
        low, high = sorted((good, bad))
        middle = round(math.sqrt(max(1, low) * high))
        if high <= NEAR * low or middle in (good, bad):
            break
        good, bad = (middle, bad) if holds(middle) else (good, middle)
    if budget != "latency_ms":
        return ladder.timed(good)
    for kept in sorted((kept for kept in ladder.rungs if kept <= ladder.kept(good)), reverse=True):
        if (again := ladder.timed(ladder.rungs[kept].rank)).latency_ms <= most:
            return again
    raise _none(ladder, budget, most)


def _living(ladder: Ladder, holds: Callable[[int], bool], dead: int, bad: int) -> tuple[int, int]:
    """Between a network of too few weights, through which no path leads, and one of too many: one that holds, 0 for none, and
    one of too many."""
    while bad > NEAR * dead and (middle := round(math.sqrt(dead * bad))) not in (dead, bad):
        if not ladder.leads(middle):
            dead = middle
        elif holds(middle):
            return middle, bad
        else:
            bad = middle
    return 0, bad


def _none(ladder: Ladder, budget: str, most: float) -> ValueError:
    if not ladder.rungs:  # networks through which no path leads are not measured
        return ValueError("the fit predicts the same for every row: no path leads from its input to its output. Fit it anew.")
    best = min(ladder.rungs.values(), key=lambda rung: rung.of(budget))
    return ValueError(
        f"{budget}={most:g} is kept to by none of {len(ladder.rungs)} networks of this fit that were tried: the least is "
        f"{best.of(budget):.4g}, of {best.kept:,} weights. Give more room, or fit a smaller architecture."
    )
