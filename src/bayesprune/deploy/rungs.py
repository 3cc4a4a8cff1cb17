"""Networks of fewer and fewer weights of a fit, in the order of what each is worth for its cost: made, timed, judged."""

import math
import os
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import numpy as np

from bayesprune.core.given import GivenRows, RandomKey
from bayesprune.core.masks import gone
from bayesprune.core.types import ArrayTree
from bayesprune.deploy.compact import Compact, compact
from bayesprune.deploy.engines.measure import milliseconds
from bayesprune.deploy.program.laws import factorised, task_of
from bayesprune.infer.evaluate import evaluate
from bayesprune.infer.predict import check_sites
from bayesprune.model.bnn import BNN
from bayesprune.prune.needs import has_spread
from bayesprune.prune.scores import evidence
from bayesprune.report.connected import connected
from bayesprune.structure import flops_of_entries, flops_of_units, has_path

TIE = 1e-12  # what is drawn up to, beside a worth, to tell equal ones apart


class Rung(NamedTuple):
    """One network of the frontier: how many weights it ``kept`` alive, what it costs, and its ``figures`` on held-out rows.

    ``rank``: of how many best weights it is what living paths need; ``mask(rank)`` of its `Ladder` is its mask.
    """

    kept: int
    density: float
    bytes: int
    flops: int
    latency_ms: float
    spread_ms: float
    figures: Mapping[str, float]
    nll_increase: float
    rank: int

    def of(self, budget: str) -> float:
        """What a budget limits."""
        return float(self.figures[budget]) if budget == "ece" else float(getattr(self, budget))


@dataclass(eq=False)
class Ladder:
    """Networks of the best so many weights, each made and measured once; fields as of `prune_to`.

    ``rank``: a network of so many best weights. Networks are stored by the number of their alive weights: the mask of a higher
    rank contains that of a lower one, so that two ranks with equally many alive weights have the same mask.
    """

    bnn: BNN
    fit: Any
    data: GivenRows
    budget: str
    engine: str
    rows: int
    rng_key: RandomKey | None
    num_samples: int
    values: str

    def __post_init__(self) -> None:
        self.params = dict(self.fit.params)
        given = {site: np.asarray(alive) for site, alive in (getattr(self.fit, "mask", None) or {}).items()}
        check_sites(self.bnn, self.params, given)
        _check_held(self.bnn, self.params, given)
        if self.rng_key is None and task_of(self.bnn) == "other":
            raise ValueError(
                f"a compact network does not hold the law of {type(self.bnn.likelihood).__name__}'s targets, so that rows are "
                "judged by drawn networks: give rng_key=."
            )
        self.order = _order(self.bnn, self.params, given, self.budget, self.engine)
        self.total = sum(math.prod(alive.shape) for alive in self.order.values())
        ranks = np.concatenate([rank.ravel() for rank in self.order.values()])
        self.sorted = np.sort(ranks[np.isfinite(ranks)])[::-1]
        self.count = len(self.sorted)
        self.rungs: dict[int, Rung] = {}
        self.made: dict[int, Compact] = {}
        self.masks: dict[int, dict[str, np.ndarray]] = {}

    def mask(self, rank: int) -> dict[str, np.ndarray]:
        """The mask of the best so many weights, to the end of a unit, without those that no living path needs."""
        if rank not in self.masks:
            best = {site: order >= self.sorted[rank - 1] for site, order in self.order.items()}
            self.masks[rank] = {site: np.asarray(alive) for site, alive in connected(self.bnn, best).items()}
        return self.masks[rank]

    def kept(self, rank: int) -> int:
        """How many weights are alive in it."""
        return sum(int(np.sum(alive)) for alive in self.mask(rank).values())

    def leads(self, rank: int) -> bool:
        """Whether a path leads from the rows to the outputs: a network without one is constant, and keeps to any price."""
        return has_path(self.bnn.graph, self.mask(rank))

    def small(self, rank: int) -> Compact:
        kept = self.kept(rank)
        if kept not in self.made:
            self.made[kept] = compact(self.bnn, self.params, self.mask(rank))
        return self.made[kept]

    def rung(self, rank: int) -> Rung:
        """Made, saved, timed and judged."""
        kept = self.kept(rank)
        if kept not in self.rungs:
            small = self.small(rank)
            figures = self._figures(rank)
            middle, spread = self._time(small)
            work = small.cost.theoretical if self.engine == "numpy" else small.cost.executed
            size, before = _bytes(small, self.values), self.rungs.get(self.kept(self.count))
            more = float(figures["nll"]) - (float(figures["nll"]) if before is None else before.figures["nll"])
            self.rungs[kept] = Rung(kept, kept / self.total, size, work, middle, spread, figures, more, rank)
        return self.rungs[kept]

    def _figures(self, rank: int) -> dict[str, float]:
        """On the held-out rows, of networks drawn with ``rng_key`` or of that at the mean.

        By the masked network where a compact one does not know the law of its targets.
        """
        small, many = self.small(rank), self.num_samples
        if self.rng_key is None:  # of the mean nothing is drawn
            at_mean = compact(self.bnn, self.params, self.mask(rank), keep="mean")
            found = evaluate(jax.random.key(0), at_mean, None, self.data, num_samples=many)
        elif small.task == "other":
            mask: dict[str, Any] = {**self.mask(rank)}
            found = evaluate(self.rng_key, self.bnn, self.params, self.data, mask=mask, num_samples=many)
        else:
            found = evaluate(self.rng_key, small, None, self.data, num_samples=many)
        if self.budget == "ece" and "ece" not in found:
            raise ValueError(
                f"ece is a figure of classes, and those of {type(self.bnn.likelihood).__name__} are {', '.join(found)}: give "
                "nll_increase, or a budget of cost."
            )
        return found

    def timed(self, rank: int) -> Rung:
        """The same, timed once more."""
        middle, spread = self._time(self.small(rank))
        return self.rung(rank)._replace(latency_ms=middle, spread_ms=spread)

    def _time(self, small: Compact) -> tuple[float, float]:
        """The median of calls, and the distance between their quartiles, in milliseconds."""
        predict = predictor(small, self.engine)
        x = np.asarray(self.data.x) if small.inputs.is_one else self.data.x  # of one array also nested lists
        part = jax.tree.map(lambda leaf: np.resize(np.asarray(leaf)[: self.rows], (self.rows, *np.shape(leaf)[1:])), x)
        return milliseconds(lambda: predict(part))


def _check_held(bnn: BNN, params: dict[str, Any], mask: Mapping[str, np.ndarray]) -> None:
    """Refuse dead weights that live in ``params`` and may not be pruned: the masks of a ladder do not hold them."""
    prunable = {str(spec.path) for spec in bnn.layout if spec.prunable}
    for site in (site for site, alive in mask.items() if site not in prunable and not alive.all()):
        if (~mask[site] & ~np.asarray(gone(bnn.posterior(params)[site]))).any():
            raise ValueError(
                f"fit.mask has dead weights at {site!r}, where nothing may be pruned, and in fit.params they live: prune_to "
                "would take them for alive. Build the BNN with prunable= that takes it too."
            )


def _order(bnn: BNN, params: dict[str, Any], mask: Mapping[str, Any], budget: str, engine: str) -> dict[str, np.ndarray]:
    """By site, what each weight is worth for what it costs; minus infinity where it is dead."""
    prunable = {str(spec.path): spec.shape for spec in bnn.layout if spec.prunable}
    nodes = {site: node for site, node in bnn.posterior(params).items() if site in prunable}
    named = f"{type(bnn.prior).__name__} with {type(bnn.family).__name__}"
    if not factorised(bnn, params):
        raise ValueError(
            f"prune_to makes networks of independent Gaussian weights, and those of {named} are none: prune by bp.bmr_prune or "
            "bp.prune_once, and keep drawn networks, bp.compact(..., rng_key=, num_draws=)."
        )
    if not has_spread(nodes):
        raise ValueError(
            "prune_to takes weights in the order of their evidence, which points do not have: fit with posterior='mean_field', "
            "put a posterior around this fit by bp.laplace(rng_key, bnn, fit, train) and give that, or cut by "
            "bp.prune_once(fit.params, bp.methods.Magnitude(density)) and compact."
        )
    if any(node.prior_scale is None for node in nodes.values()):
        raise ValueError(
            f"prune_to takes weights in the order of their evidence, which those of {named} do not have: fit with "
            "priors.Gaussian or priors.Flat, or cut by another score, bp.prune_once(fit.params, bp.methods.SNR(density))."
        )
    worth = {site: np.asarray(score, np.float64) for site, score in evidence(nodes).items()}
    alive = {site: np.broadcast_to(np.asarray(mask.get(site, True)), shape) for site, shape in prunable.items()}
    alive = {site: alive[site] & ~np.asarray(gone(nodes[site])) for site in prunable}
    tie = np.random.default_rng(0)  # equal worths would fall all together
    if budget in ("latency_ms", "flops") and engine != "numpy":
        worth = _by_unit(bnn, worth, alive, tie)
    else:
        prices = flops_of_entries(bnn.graph) if budget in ("latency_ms", "flops") else dict.fromkeys(worth, np.ones(()))
        worth = {site: value / np.maximum(prices[site], 1) + TIE * tie.random(value.shape) for site, value in worth.items()}
    return {site: np.where(alive[site], value, -np.inf) for site, value in worth.items()}


def _by_unit(
    bnn: BNN, worth: Mapping[str, np.ndarray], alive: Mapping[str, np.ndarray], tie: np.random.Generator
) -> dict[str, np.ndarray]:
    """Every weight has the worth of its unit: the sum over all weights that make it, for the FLOPs that go with it.

    ``tie`` is drawn once for each unit: weights of one have the same worth to the last bit, so that no cut parts them.
    """
    units = bnn.units
    total = np.zeros(units.count + 1)
    makes = {site: np.where(units.producers[site] < 0, units.count, units.producers[site]) for site in worth}
    own = {site: np.where(alive[site], value, 0.0) for site, value in worth.items()}
    for site, value in own.items():
        np.add.at(total, makes[site].ravel(), value.ravel())
    each = total[:-1] / np.maximum(flops_of_units(bnn.graph, units), 1) + TIE * tie.random(units.count)
    least = min((float(value.min(initial=0.0)) for value in own.values()), default=0.0)
    above = 1 + np.abs(each).max(initial=1.0) - least
    each = np.append(each, 0.0)
    return {  # what makes no unit, as the last layer, stays to the end, and falls by its own worth
        site: np.where(makes[site] < units.count, each[makes[site]], above + value + TIE * tie.random(value.shape))
        for site, value in own.items()
    }


def predictor(small: Compact, engine: str) -> Callable[[Any], Any]:
    """A function of rows: the network at the posterior mean, on an engine."""
    if engine != "onnx":
        return lambda x: small.predict(x, engine={"numpy": "kernels"}.get(engine, engine))
    try:
        import onnxruntime
    except ImportError as error:
        raise ImportError('engine="onnx" needs onnxruntime: pip install "bayesprune[export]".') from error
    with tempfile.TemporaryDirectory() as folder:
        small.save(os.path.join(folder, "net.onnx"))
        session = onnxruntime.InferenceSession(os.path.join(folder, "net.onnx"), providers=["CPUExecutionProvider"])
    takes = small.inputs.leaves

    def predict(x: ArrayTree) -> Any:
        rows = zip(takes, jax.tree.leaves(x), strict=True)
        return session.run(["mean"], {leaf.name: np.asarray(part, leaf.dtype) for leaf, part in rows})

    return predict


def _bytes(small: Compact, values: str) -> int:
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "net.bayesprune")
        small.save(path, values)
        return os.path.getsize(path)
