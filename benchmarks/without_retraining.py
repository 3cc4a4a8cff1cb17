"""Cut without training again: what trained networks can do without, by each way of asking, at each share of zeros.

    python benchmarks/without_retraining.py run                 # into runs/without_retraining.jsonl, what is not there
    python benchmarks/without_retraining.py run --only net=vit
    python benchmarks/without_retraining.py table               # from the results kept here

LeNet-5, a residual net with group norm and a vision transformer are trained on Fashion-MNIST by the standard course, as points
under N(0, 1): ten epochs the first, five the others. SpaM's LeNet (Dhahri et al. 2024) had a hundred epochs of SGD at .1 in
which it ascended the evidence in its prior's precisions; ours gets them afterwards, by `bp.laplace`; "lenet5_ascended" on the
way, in six rounds of four epochs: `evidence_ascent.py`. "magika" was trained by others: `file_kinds.py`.

Then one cut at each share of zeros, of all weights and biases together, by each score; Wanda and SparseGPT cut kernels alone,
as much of each output. The curvature is the diagonal of the generalised Gauss-Newton matrix, one random direction for each
training row. Nothing is chosen: the test rows judge each cut, at the mean.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import course
import file_kinds
import jax
import jax.numpy as jnp
import numpy as np
from evidence_ascent import ascend
from fits_judged import watched

import bayesprune as bp
from bayesprune import cells

ZEROS = (0.2, 0.5, 0.7, 0.8, 0.9, 0.95, 0.99)
SCORES = ("magnitude", "obd", "opd", "evidence")
PRECISIONS = ("scalar", "layer", "unit")
RULES = ("wanda", "sparsegpt")
BATCH, CALIBRATION, AT_ONCE = 128, 512, 200
SPAM = {0.2: 0.8925, 0.7: 0.8927, 0.8: 0.8923, 0.9: 0.8909, 0.95: 0.8798, 0.99: 0.266}  # LeNet, figures of its notebook


@dataclass(frozen=True)
class Cell:
    net: str
    seed: int


CELLS = tuple(Cell(net, 0) for net in ("lenet5", "lenet5_ascended", "resnet", "vit", "magika"))
NETS: dict[str, Any] = {
    "lenet5": course.NETS["lenet5"],
    "lenet5_ascended": course.NETS["lenet5"],
    "resnet": course.NETS["resnet"],
    "vit": course.NETS["vit"],
    "magika": file_kinds.Magika(),
}
EPOCHS = {"lenet5": 10, "lenet5_ascended": 4, "resnet": 5, "vit": 5}
ROUNDS = 6


def trained(cell: Cell) -> tuple[bp.BNN, Any, bp.Dataset, bp.Dataset]:
    """A network of points, with the rows it was trained on, of "magika" such as it was, and those that judge."""
    theirs = cell.net == "magika"
    train, test = file_kinds.load() if theirs else bp.data.load("fashion_mnist", pad=32 if "lenet5" in cell.net else 0)

    def under(prior: Any) -> bp.BNN:
        return bp.BNN(
            NETS[cell.net],
            prior=prior,
            likelihood=bp.likelihoods.Categorical(),
            posterior="map",
            prunable=bp.select.everything,
            **({"example": train.x[:1]} if theirs else {"input_shape": train.x.shape[1:]}),
        )

    bnn = under(bp.priors.Gaussian())
    if theirs:
        variables = file_kinds.weights()
        if (apart := file_kinds.agrees(variables, train.x[:32])) > 1e-3:
            raise AssertionError(f"the module and the package's own file differ by {apart:.1e}")
        return bnn, variables, train, test
    steps = EPOCHS[cell.net] * len(train.x) // BATCH
    how = {"num_steps": steps, "batch_size": BATCH, "progress": False}
    if cell.net == "lenet5_ascended":
        return *ascend(jax.random.key(cell.seed), under, train, ROUNDS, **how), train, test
    return bnn, bp.fit_svi(jax.random.key(cell.seed), bnn, train, **how), train, test


def run(cell: Cell, folder: Path) -> cells.Record:
    """Accuracy, NLL and ECE on the rows that judge, of the whole network and of every cut."""
    with watched() as told:
        bnn, fit, train, test = trained(cell)
        around = {share: _around(cell, bnn, fit, train, share) for share in PRECISIONS}
    figures = _figures(bnn, NETS[cell.net], test)
    grid = {"whole 0": figures(around["layer"].params, None)}
    for zeros in ZEROS:
        for name, cut in _cuts(bnn, fit, around, np.asarray(train.x[:CALIBRATION]), 1 - zeros):
            grid[f"{name} {zeros:g}"] = figures(cut.params, cut.mask) | {"zeros": _zeros(cut.mask)}
    weights = sum(math.prod(spec.shape) for spec in bnn.layout)
    return {"weights": weights, "rows": len(train.x), **cells.flat(grid), **told}


def _around(cell: Cell, bnn: bp.BNN, fit: Any, train: bp.Dataset, share: str) -> Any:
    return bp.laplace(jax.random.key(cell.seed), bnn, fit, train, prior_precision=share, num_draws=1, excess=None)


def _cuts(bnn: bp.BNN, fit: Any, around: dict[str, Any], rows: np.ndarray, density: float) -> Any:
    """Name and cut; the precision of each layer where a score has no other in its name."""
    once = lambda share, score: bp.prune_once(around[share].params, bp.methods.Cut(score, density), program=bnn)  # noqa: E731
    yield from ((score, once("layer", score)) for score in SCORES)
    yield from ((f"opd-{share}", once(share, "opd")) for share in ("scalar", "unit"))
    yield from ((rule, bp.prune_layers(bnn, fit, rows, density=density, rule=rule)) for rule in RULES)


def _figures(bnn: bp.BNN, net: Any, test: bp.Dataset) -> Callable[..., dict[str, float]]:
    probs = jax.jit(lambda variables, x: jax.nn.softmax(net.apply(variables, x)))

    def figures(params: Any, mask: Any) -> dict[str, float]:
        variables = bnn.net_params(params, mask)
        found = [probs(variables, jnp.asarray(test.x[at : at + AT_ONCE])) for at in range(0, len(test.x), AT_ONCE)]
        summary = bp.metrics.classification_summary(np.concatenate(found), np.asarray(test.y))
        return {name: float(summary[name]) for name in ("accuracy", "nll", "ece")}

    return figures


def _zeros(mask: Any) -> float:
    alive = [np.asarray(one) for one in mask.values()]
    return 1 - sum(int(one.sum()) for one in alive) / sum(one.size for one in alive)


WAYS = ("magnitude", "wanda", "sparsegpt", "obd", "opd-scalar", "opd", "opd-unit", "evidence")


def _table(net: str, figure: str, digits: int) -> Callable[[cells.Found], str]:
    """A row for each way of asking, a column for each share of zeros."""

    def table(found: cells.Found) -> str:
        planned = [cell for cell in CELLS if cell.net == net]
        have = [found[cell] for cell in planned if cell in found]
        of = lambda name: cells.mean_and_spread([one[f"{name}/{figure}"] for one in have], digits) if have else cells.MISSING  # noqa: E731
        rows = [[name, of("whole 0"), *(of(f"{name} {zeros:g}") for zeros in ZEROS)] for name in WAYS]
        if "lenet5" in net and figure == "accuracy":
            rows.append(["SpaM", "", *(f"{SPAM[zeros]:.4f}" if zeros in SPAM else "" for zeros in ZEROS)])
        return cells.table(
            [f"{figure}, {cells.count(have, planned)} seed(s)", "0 %", *(f"{100 * z:g} %" for z in ZEROS)], rows, "l" + "r" * 8
        )

    return table


TABLES = {
    f"{net}_{figure}": _table(net, figure, 4 if figure == "accuracy" else 3)
    for net in NETS
    for figure in ("accuracy", "nll", "ece")
}
STUDY = cells.Study("without_retraining", CELLS, run, TABLES)

if __name__ == "__main__":
    cells.main(STUDY)
