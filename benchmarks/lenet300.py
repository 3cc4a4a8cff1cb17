"""LeNet-300-100 on MNIST, cut as far as it goes: sparse variational dropout, lottery tickets, and the standard course.

    python benchmarks/lenet300.py run                            # what is not in runs/lenet300.jsonl yet
    python benchmarks/lenet300.py run --only method=sparse_vd    # one method
    python benchmarks/lenet300.py table                          # from the results kept here

"sparse_vd" (Molchanov et al. 2017, settings of the authors' code): the divergence's fit (13.5), Adam 1e-3, constant for the
first half and then falling to 0, batches of 100, kernels from N(0, .01²) with log variance -10, biases as points, the weight of
the divergence 0 until epoch 5 and 1 from epoch 20 on; cut once, at log alpha > 3. The code has the means of such weights at 0
in training already; here they are cut at the end alone. "lottery" (Frankle & Carbin 2019): Adam 1.2e-3, batches of 60; rounds
that each cut a fifth of the smallest weights of either hidden array and go back to the start, He's here, Glorot's there. The
paper cuts a tenth of the output array as well, 1,000 of 266,200 weights; here it is whole, and counts. Each round is the
network where its validation loss was lowest; "fresh" is one of the same mask and another start, the paper's control.
"standard": this package's default, `fit_svi` with ``BMR()`` under `Flat`.

Pixels are divided by 255. 5,000 training images are held back by "lottery", none by the others; the test images decide nothing.
"at the mean" is the error of the posterior's mean weights, which is what Molchanov et al. print; the others are of 30 draws.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import flax.linen as nn
import jax
import numpy as np
import optax

import bayesprune as bp
from bayesprune import cells
from bayesprune.model.families import MapFamily, MeanFieldFamily

HELD_BACK, ROUNDS = 5_000, 18
LOG_ALPHA = 3.0


@dataclass(frozen=True)
class Cell:
    method: str
    epochs: int
    seed: int = 0


LENGTHS = {"sparse_vd": 200, "standard": 60}
CELLS = (*(Cell(method, epochs, seed) for method, epochs in LENGTHS.items() for seed in range(3)), Cell("lottery", 20))


def run(cell: Cell, folder: Path) -> cells.Record:
    """Train one cell, or go on with it: figures of each of its networks, in lists."""
    train, test = bp.data.load("mnist", standardise=False)
    rows = METHODS[cell.method](cell, train, test, folder)
    return {name: [row[name] for row in rows] for name in rows[0]}


def network(prior: Any, **settings: Any) -> bp.BNN:
    """784-300-100-10 with ReLU."""
    net = bp.nets.MLP((300, 100), 10, activation=nn.relu)
    return bp.BNN(net, prior=prior, likelihood=bp.likelihoods.Categorical(), input_shape=(28, 28, 1), **settings)


def sparse_vd(cell: Cell, train: bp.Dataset, test: bp.Dataset, folder: Path) -> list[cells.Record]:
    """Whole, and cut at log alpha > 3."""
    bnn = network(
        bp.priors.LogUniform("fit"),
        bayesian=bp.select.kernels,
        posterior=MeanFieldFamily(init_range=0.01, init_loc="normal", init_scale=math.exp(-5.0)),
    )
    epoch = math.ceil(len(train.y) / 100)
    steps, half = cell.epochs * epoch, cell.epochs * epoch // 2
    settings = {
        "optimizer": optax.adam(optax.linear_schedule(1e-3, 0.0, half, transition_begin=half)),
        "batch_size": 100,
        "course": bp.courses.Plain(),
        "estimator": "local",
        "kl_weight": bp.schedules.LinearWarmup(5 * epoch, 20 * epoch),
    }
    params = _fit(cell, bnn, train, folder / "checkpoints", steps, settings).params
    cut = bp.prune_once(params, bp.methods.Cut("snr", threshold=math.exp(-LOG_ALPHA / 2)), program=bnn)
    return [_judged(bnn, params, _whole(cut.mask), test), _judged(bnn, cut.params, cut.mask, test)]


def standard(cell: Cell, train: bp.Dataset, test: bp.Dataset, folder: Path) -> list[cells.Record]:
    """The default."""
    bnn = network(bp.priors.Flat())
    settings = {"sparsifier": bp.methods.BMR(), "batch_size": 128}
    fit = _fit(cell, bnn, train, folder / "checkpoints", cell.epochs * math.ceil(len(train.y) / 128), settings)
    return [_judged(bnn, fit.params, fit.mask, test)]


def lottery(cell: Cell, train: bp.Dataset, test: bp.Dataset, folder: Path) -> list[cells.Record]:
    """Every round where its validation loss was lowest; "fresh": from another start, under the mask that the ticket has."""
    bnn = network(bp.priors.Gaussian(1.0), posterior=MapFamily(init_loc="he"), prunable=bp.select.hidden_kernels)
    train, held = _parts(train)
    key, steps = jax.random.key(cell.seed), cell.epochs * math.ceil(len(train.y) / 60)
    settings = {
        "optimizer": optax.adam(1.2e-3),
        "course": bp.courses.Plain(),
        "batch_size": 60,
        "num_steps": steps,
        "eval_data": held,
        "eval_every": 500,
        "early_stop": bp.EarlyStop("nll", patience=steps, restore="best"),
        "progress": False,
    }
    magnitude = lambda density: bp.methods.Magnitude(density=density, scope="layer")  # noqa: E731
    tickets = bp.fit_rewound(
        key, bnn, train, method=magnitude, rounds=ROUNDS, checkpoint=folder / "checkpoints", **settings
    ).fits
    rows = [_at_best(bnn, tickets[0], _whole(tickets[1].mask), test)]
    for number, (ticket, other) in enumerate(zip(tickets[1:], jax.random.split(key, ROUNDS), strict=True), start=1):
        fresh = bp.fit_svi(other, bnn, train, mask=ticket.mask, checkpoint=folder / f"fresh_{number}", **settings)
        beside = {f"fresh {name}": value for name, value in _at_best(bnn, fresh, ticket.mask, test).items()}
        rows.append(_at_best(bnn, ticket, ticket.mask, test) | beside)
        print(f"round {number} of {ROUNDS}: {rows[-1]}", flush=True)
    return [{f"fresh {name}": value for name, value in rows[0].items()} | rows[0], *rows[1:]]


METHODS: dict[str, Callable[..., list[cells.Record]]] = {
    "sparse_vd": sparse_vd,
    "standard": standard,
    "lottery": lottery,
}


def _fit(cell: Cell, bnn: bp.BNN, train: bp.Dataset, checkpoint: Path, num_steps: int, settings: dict[str, Any]) -> Any:
    def say(moment: Any) -> None:
        print(f"{cells.key(cell)} step {moment.step} of {num_steps}, loss {moment.loss:.0f}", flush=True)

    key = jax.random.key(cell.seed)
    where = {"checkpoint": checkpoint, "callbacks": [say], "progress": False}
    return bp.fit_svi(key, bnn, train, num_steps=num_steps, **where, **settings)


def _parts(train: bp.Dataset) -> tuple[bp.Dataset, bp.Dataset]:
    """What is trained with, and what is held back."""
    order = np.random.default_rng(0).permutation(len(train.y))
    return tuple(bp.Dataset(train.x[at], train.y[at]) for at in (order[HELD_BACK:], order[:HELD_BACK]))  # type: ignore[return-value]


def _whole(mask: Any) -> dict[str, Any]:
    return {path: np.ones(alive.shape, bool) for path, alive in mask.items()}


def _judged(bnn: bp.BNN, params: Any, mask: Any, test: bp.Dataset) -> cells.Record:
    """Test figures, and the shares of all kernels' weights that are alive, and alive and connected."""
    kernels = {str(spec.path): spec.shape for spec in bnn.layout if bp.select.kernels(spec.path, spec.shape)}
    left = lambda alive: sum(int(np.sum(alive[path])) if path in alive else math.prod(shape) for path, shape in kernels.items())  # noqa: E731
    size = sum(map(math.prod, kernels.values()))
    key = jax.random.key(1)
    said = bp.evaluate(key, bnn, params, test, mask=mask, num_samples=30)
    mean = bp.evaluate(key, bp.compact(bnn, params, mask, keep="mean"), None, test)
    return {
        "error": 100 * (1 - said["accuracy"]),
        "error at the mean": 100 * (1 - mean["accuracy"]),
        "nll": said["nll"],
        "ece": said["ece"],
        "left": left(mask) / size,
        "connected": left(bp.connected(bnn, mask)) / size,
    }


def _at_best(bnn: bp.BNN, fit: Any, mask: Any, test: bp.Dataset) -> cells.Record:
    return {"step": int(fit.history["returned/step"][0]), **_judged(bnn, fit.params, mask, test)}


ROWS = (("sparse VD, whole", "sparse_vd", 0), ("sparse VD, cut", "sparse_vd", 1), ("standard", "standard", 0))
COLUMNS = {"error": (2, 1), "error at the mean": (2, 1), "nll": (3, 1), "ece": (3, 1), "left": (2, 100), "connected": (2, 100)}


def networks(found: cells.Found) -> str:
    """Means over seeds of the methods that are cut once or on the way; shares in per cent."""
    rows = []
    for name, method, number in ROWS:
        planned = [cell for cell in CELLS if cell.method == method]
        have = [found[cell] for cell in planned if cell in found]
        figures = [
            cells.mean_and_spread([one[what][number] for one in have], digits, factor)
            for what, (digits, factor) in COLUMNS.items()
        ]
        rows.append([name, str(planned[0].epochs), cells.count(have, planned), *figures])
    return cells.table(["method", "epochs", "seeds", *COLUMNS], rows, "lr" + "r" * (len(COLUMNS) + 1))


def tickets(found: cells.Found) -> str:
    """A row for each round: error, and the step at which the validation loss was lowest, beside those of another start."""
    rows = []
    for cell in (cell for cell in CELLS if cell.method == "lottery" and cell in found):
        record = found[cell]
        for number, left in enumerate(record["left"]):
            rows.append([str(number), f"{100 * left:.2f}", *_ticket(record, number, ""), *_ticket(record, number, "fresh ")])
    head = ["round", "left %", "error %", "NLL", "step", "fresh: error %", "NLL", "step"]
    return cells.table(head, rows or [[cells.MISSING] * len(head)], "r" * len(head))


def _ticket(record: cells.Record, number: int, which: str) -> list[str]:
    error, nll, step = (record[which + name][number] for name in ("error", "nll", "step"))
    return [f"{error:.2f}", f"{nll:.3f}", str(step)]


STUDY = cells.Study("lenet300", CELLS, run, {"networks": networks, "tickets": tickets})

if __name__ == "__main__":
    cells.main(STUDY)
