"""Feature importance and selection by Gaussian spike-and-slab networks: experiments 1 to 3 of Saha, Liu & Liang (2024).

    python benchmarks/reproduce_sbnn.py run                                 # what is not in runs/sbnn.jsonl yet
    python benchmarks/reproduce_sbnn.py run --only experiment=influence     # one experiment
    python benchmarks/reproduce_sbnn.py table                               # from the results kept here; draw: the figures

Networks with hidden layers of 20 and 10 ReLU units, inputs and targets standardised by the training rows, noise learned.
Importance is (6.3). All data sets of one shape are fitted side by side, and so are all folds of the cross-validation.
`--seeds` moves all data sets: settings were chosen at seed 1000, the results are of seed 0.
"""

import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import flax.linen as nn
import jax
import numpy as np
import optax
from sbnn_report import FUNCTIONS, RULES, draw, experiments

import bayesprune as bp
from bayesprune import cells
from bayesprune.model.families import MeanFieldFamily

ALPHAS = tuple(range(1, 11))
SHARES = (0.1, 0.3, 0.5, 0.7, 0.9)
ACTIVE = (0.1, 0.3, 0.5, 0.7, 0.9)


@dataclass(frozen=True)
class Cell:
    """An experiment and how its networks are fitted. ``init_scale``: what every weight's posterior scale starts with."""

    experiment: str
    num_features: int = 0  # 0: the experiment's own
    seed: int = 0
    steps: int = 2000
    batch: int = 100
    rate: float = 1e-2
    spike_scale: float = 0.05
    slab_scale: float = 1.0
    init_scale: float = 0.02
    folds: int = 3


CELLS = (
    Cell("influence", spike_scale=0.3),  # a spike wide enough for p* to be graded
    Cell("graded", 100),
    Cell("graded", 20, spike_scale=0.3),
    *(Cell("selection", d) for d in (100, 20, 50, 200)),
    Cell("threshold", steps=1000),
)


def fit(seed: int, x: np.ndarray, y: np.ndarray, cell: Cell) -> tuple[bp.BNN, dict[str, Any]]:
    """One network for each data set of (sets, rows, inputs) and (sets, rows)."""
    bnn = bp.BNN(
        bp.nets.MLP(hidden=(20, 10), num_outputs=1, activation=nn.relu),
        prior=bp.priors.GaussianSlab(spike_scale=cell.spike_scale, slab_scale=cell.slab_scale),
        likelihood=bp.likelihoods.Normal(),
        input_shape=x.shape[2:],
        posterior=MeanFieldFamily(init_scale=cell.init_scale / cell.slab_scale, init_loc="he", unit=cell.slab_scale),
    )
    optimizer = optax.chain(optax.clip_by_global_norm(10.0), optax.adam(optax.cosine_decay_schedule(cell.rate, cell.steps)))
    fits = bp.fit_replicates(
        jax.random.key(seed),
        bnn,
        bp.Dataset(x, y),
        num_steps=cell.steps,
        batch_size=cell.batch,
        optimizer=optimizer,
        estimator="local",
        kl_weight=bp.schedules.LinearWarmup(0, 0.3 * cell.steps),
        progress=False,
    )
    return bnn, fits.params


def importance(bnn: bp.BNN, params: dict[str, Any]) -> tuple[np.ndarray, np.ndarray]:
    """Scaled importances and log psi of every network, (sets, inputs)."""
    kernels = lambda one: [node for site, node in bnn.posterior(one).items() if site.endswith("kernel")]  # noqa: E731
    found = jax.vmap(lambda one: bp.features.importance(kernels(one)))(params)
    return np.asarray(found.scaled, np.float64), np.asarray(found.log_raw, np.float64)


def together(made: list[Any]) -> dict[str, np.ndarray]:
    """Simulations of one shape, standardised one by one; test parts, if they are wanted, in the training rows' units."""
    pairs = [bp.data.standardise(one.train, one.test, targets=True) for one in made]
    stacked = {"x": 0, "y": 0, "test_x": 1, "test_y": 1}
    return {
        name: np.stack([getattr(pair[part], name[-1]) for pair in pairs]).astype(np.float32) for name, part in stacked.items()
    }


def test_rmse(bnn: bp.BNN, params: dict[str, Any], x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """(sets,), in units of the targets' standard deviation."""
    mean = bp.predict_replicates(jax.random.key(9), bnn, params, x, num_samples=20).mean(axis=1)
    return np.sqrt(np.mean((mean - y) ** 2, axis=1))


def linear_rmse(data: dict[str, np.ndarray]) -> np.ndarray:
    """Least squares, as the paper's linear model."""
    found = [np.linalg.lstsq(x, y, rcond=None)[0] for x, y in zip(data["x"], data["y"], strict=True)]
    residual = [t @ w - y for t, y, w in zip(data["test_x"], data["test_y"], found, strict=True)]
    return np.sqrt(np.mean(np.square(residual), axis=1))


def influence(cell: Cell, repetitions: int = 5) -> cells.Record:
    """Experiment 1: psi of two inputs as one takes over from the other.

    Several sets for each alpha; correlations of every series by itself, and of the mean over sets.
    """
    alphas = np.round(np.arange(0, 1.0001, 0.05), 2)
    made = [bp.data.saha_1(seed=cell.seed + s, alpha=float(a)) for s in range(repetitions) for a in alphas]
    data = together(made)
    _, log_psi = importance(*fit(cell.seed, data["x"], data["y"], cell))
    psi = np.exp(log_psi).reshape(repetitions, len(alphas), 2)
    share = np.array([bp.data.saha_influence(one) for one in made]).reshape(repetitions, len(alphas))
    relative = psi / psi.sum(axis=2, keepdims=True)
    correlate = lambda one, other: [np.corrcoef(one, other[:, j])[0, 1] for j in (0, 1)]  # noqa: E731
    return {
        "influence": share,
        "psi": psi,
        "correlations": correlate(share.mean(0), psi.mean(0)),
        "correlations_relative": correlate(share.mean(0), relative.mean(0)),
        "each_relative": [correlate(s, r) for s, r in zip(share, relative, strict=True)],
    }


def graded(cell: Cell) -> cells.Record:
    """Experiment 2: importance against effect size where every input matters."""
    repetitions = range(2 if cell.num_features > 50 else 1)
    sets = [(function, alpha, r) for function in FUNCTIONS for alpha in ALPHAS for r in repetitions]
    made = [
        bp.data.saha_2(seed=cell.seed + 100 * r + alpha, alpha=float(alpha), num_features=cell.num_features, function=function)
        for function, alpha, r in sets
    ]
    data = together(made)
    bnn, params = fit(cell.seed, data["x"], data["y"], cell)
    scaled, _ = importance(bnn, params)
    correlations = [np.corrcoef(phi, one.weights)[0, 1] for phi, one in zip(scaled, made, strict=True)]
    rmse = test_rmse(bnn, params, data["test_x"], data["test_y"])
    return {"sets": sets, "correlations": correlations, "scaled": np.round(scaled, 4), "test_rmse": rmse}


def selection(cell: Cell) -> cells.Record:
    """Experiment 3, the fixed rule: the top fifth of the inputs where each is active with probability 1/5."""
    alphas = ALPHAS[::2] if cell.num_features == 100 else (2,)
    sets = [(alpha, r) for alpha in alphas for r in range(3)]
    made = [
        bp.data.saha_3(seed=cell.seed + 100 * r + alpha, alpha=float(alpha), num_features=cell.num_features)
        for alpha, r in sets
    ]
    data = together(made)
    bnn, params = fit(cell.seed, data["x"], data["y"], cell)
    _, log_psi = importance(bnn, params)
    keep = np.stack([bp.features.top_fraction(one, 0.2) for one in log_psi])
    return {"sets": sets, **_judged(cell, data, made, keep, (bnn, params))}


def _judged(cell: Cell, data: dict[str, np.ndarray], made: list[Any], keep: np.ndarray, full: tuple[Any, Any]) -> cells.Record:
    """A selection's accuracy, and the test errors of networks with all inputs, with those kept, and of the linear model."""
    truth = np.stack([one.relevant for one in made])
    kept_x, kept_test = (data[name] * keep[:, None, :].astype(np.float32) for name in ("x", "test_x"))
    small = fit(cell.seed + 1, kept_x, data["y"], cell)
    rmse = {
        "all inputs": test_rmse(*full, data["test_x"], data["test_y"]),
        "selected": test_rmse(*small, kept_test, data["test_y"]),
        "linear model": linear_rmse(data),
    }
    return {
        "accuracy": (keep == truth).mean(axis=1),
        "best_accuracy_of_the_count": 1 - np.abs(keep.sum(axis=1) - truth.sum(axis=1)) / truth.shape[1],
        "true_share": truth.mean(axis=1),
        "kept_share": keep.mean(axis=1),
        **cells.flat({"test_rmse": rmse}),
    }


def threshold(cell: Cell) -> cells.Record:
    """Experiment 3, the share of inputs by cross-validation: `features.choose_fraction` for all data sets at once."""
    made = [bp.data.saha_3(seed=cell.seed + i, active=active) for i, active in enumerate(ACTIVE)]
    data = together(made)
    losses = held_out_losses(cell, data)
    full = fit(cell.seed, data["x"], data["y"], cell)
    _, log_psi = importance(*full)
    result: cells.Record = {"active": ACTIVE, "losses": losses}
    for rule in RULES:
        detected = np.array([_chosen(one, rule) for one in losses])
        keep = np.stack([bp.features.top_fraction(one, float(share)) for one, share in zip(log_psi, detected, strict=True)])
        result |= cells.flat({rule: {"detected": detected, **_judged(cell, data, made, keep, full)}})
    return result


def held_out_losses(cell: Cell, data: dict[str, np.ndarray]) -> np.ndarray:
    """(sets, folds, shares): mean square error on the fold held out, of a network on the share ranked first by the others."""
    count, folds = len(data["y"]), _folds(len(data["y"][0]), cell.folds)
    train = [(s, rows) for s in range(count) for rows, _ in folds]
    held = [(s, rows) for s in range(count) for _, rows in folds]
    stack = lambda pairs, name: np.stack([data[name][s][rows] for s, rows in pairs])  # noqa: E731
    x, y = stack(train, "x"), stack(train, "y")
    _, ranks = importance(*fit(cell.seed, x, y, cell))
    say("ranked within the folds")
    keeps = np.stack([[bp.features.top_fraction(one, share) for share in SHARES] for one in ranks]).astype(np.float32)
    losses = []
    for chosen in np.moveaxis(keeps, 1, 0):
        bnn, params = fit(cell.seed + 2, x * chosen[:, None, :], y, cell)
        losses.append(test_rmse(bnn, params, stack(held, "x") * chosen[:, None, :], stack(held, "y")) ** 2)
        say(f"share {SHARES[len(losses) - 1]} fitted")
    return np.array(losses).T.reshape(count, cell.folds, len(SHARES))


def _folds(rows: int, folds: int) -> list[tuple[np.ndarray, np.ndarray]]:
    order, held = np.random.default_rng(0).permutation(rows), rows // folds
    return [(np.delete(order, np.s_[f * held : (f + 1) * held]), order[f * held : (f + 1) * held]) for f in range(folds)]


def _chosen(losses: np.ndarray, rule: str) -> float:
    """The share with the lowest mean loss, or the smallest one within a standard error of it."""
    mean = losses.mean(axis=0)
    best = int(mean.argmin())
    slack = losses[:, best].std(ddof=1) / np.sqrt(len(losses)) if rule == "one_standard_error" else 0.0
    return SHARES[int(np.flatnonzero(mean <= mean[best] + slack)[0])]


def say(words: str) -> None:
    print(time.strftime("%H:%M:%S"), words, flush=True)


def run(cell: Cell, folder: Path) -> cells.Record:
    """One experiment, all its data sets."""
    of = {"influence": influence, "graded": graded, "selection": selection, "threshold": threshold}
    return of[cell.experiment](cell)


STUDY = cells.Study("sbnn", CELLS, run, {"experiments": experiments}, draw)

if __name__ == "__main__":
    cells.main(STUDY)
