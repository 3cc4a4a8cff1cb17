"""Feature importance and selection by Gaussian spike-and-slab networks: experiments 1 to 3 of Saha, Liu & Liang (2024).

    python benchmarks/reproduce_sbnn.py run --out runs/sbnn                    # everything that is not there yet
    python benchmarks/reproduce_sbnn.py run --out runs/sbnn --only influence   # one experiment
    python benchmarks/reproduce_sbnn.py table --out benchmarks/results/sbnn    # tables and figures, from what is there

Networks with hidden layers of 20 and 10 ReLU units, inputs and targets standardised by the training rows, noise learned.
Importance is (6.3). All data sets of one shape are fitted side by side, and so are all folds of the cross-validation.
`--seed` moves all data sets: settings were chosen at seed 1000, the results are of seed 0.
"""

import argparse
import dataclasses
import json
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import flax.linen as nn
import jax
import numpy as np
import optax

import bayesprune as bp
from bayesprune.model.families import MeanFieldFamily

ALPHAS = tuple(range(1, 11))
SHARES = (0.1, 0.3, 0.5, 0.7, 0.9)
ACTIVE = (0.1, 0.3, 0.5, 0.7, 0.9)
FUNCTIONS = ("linear", "nonlinear")


@dataclass(frozen=True)
class Setting:
    """How the networks are fitted. ``init_scale``: standard deviation that every weight's posterior starts with."""

    steps: int = 2000
    batch: int = 100
    rate: float = 1e-2
    spike_scale: float = 0.05
    slab_scale: float = 1.0
    init_scale: float = 0.02
    folds: int = 3


def fit(seed: int, x: np.ndarray, y: np.ndarray, setting: Setting) -> tuple[bp.BNN, dict[str, Any]]:
    """One network for each data set of (sets, rows, inputs) and (sets, rows)."""
    bnn = bp.BNN(
        bp.nets.MLP(hidden=(20, 10), num_outputs=1, activation=nn.relu),
        prior=bp.priors.GaussianSlab(spike_scale=setting.spike_scale, slab_scale=setting.slab_scale),
        likelihood=bp.likelihoods.Normal(),
        input_shape=x.shape[2:],
        posterior=MeanFieldFamily(init_scale=setting.init_scale / setting.slab_scale, init_loc="he", unit=setting.slab_scale),
    )
    optimizer = optax.chain(
        optax.clip_by_global_norm(10.0), optax.adam(optax.cosine_decay_schedule(setting.rate, setting.steps))
    )
    fits = bp.fit_replicates(
        jax.random.key(seed),
        bnn,
        bp.Dataset(x, y),
        num_steps=setting.steps,
        batch_size=setting.batch,
        optimizer=optimizer,
        estimator="local",
        kl_weight=bp.schedules.LinearWarmup(0, 0.3 * setting.steps),
        progress=False,
    )
    return bnn, fits.params


def importance(bnn: bp.BNN, params: dict[str, Any]) -> tuple[np.ndarray, np.ndarray]:
    """Scaled importances and log psi of every network, (sets, inputs)."""
    nodes = bnn.posterior(params)
    kernels = [node for site, node in nodes.items() if site.endswith("kernel")]
    found = jax.vmap(bp.features.importance)(kernels)
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


def influence(seed: int, setting: Setting, repetitions: int = 5) -> dict[str, Any]:
    """Experiment 1: psi of two inputs as one takes over from the other, with a spike wide enough for p* to be graded.

    Several sets for each alpha; correlations of every series by itself, and of the mean over sets.
    """
    setting = dataclasses.replace(setting, spike_scale=0.3)
    alphas = np.round(np.arange(0, 1.0001, 0.05), 2)
    made = [bp.data.saha_1(seed=seed + s, alpha=float(a)) for s in range(repetitions) for a in alphas]
    data = together(made)
    _, log_psi = importance(*fit(seed, data["x"], data["y"], setting))
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


def graded(seed: int, setting: Setting, num_features: int = 100) -> dict[str, Any]:
    """Experiment 2: importance against effect size where every input matters."""
    cells = [(function, alpha, r) for function in FUNCTIONS for alpha in ALPHAS for r in range(2 if num_features > 50 else 1)]
    made = [
        bp.data.saha_2(seed=seed + 100 * r + alpha, alpha=float(alpha), num_features=num_features, function=function)
        for function, alpha, r in cells
    ]
    data = together(made)
    bnn, params = fit(seed, data["x"], data["y"], setting)
    scaled, _ = importance(bnn, params)
    correlations = [np.corrcoef(phi, one.weights)[0, 1] for phi, one in zip(scaled, made, strict=True)]
    rmse = test_rmse(bnn, params, data["test_x"], data["test_y"])
    return {
        "cells": cells,
        "num_features": num_features,
        "correlations": correlations,
        "scaled": np.round(scaled, 4),
        "test_rmse": rmse,
    }


def selection(seed: int, setting: Setting, alphas: tuple[float, ...], num_features: int) -> dict[str, Any]:
    """Experiment 3, the fixed rule: the top fifth of the inputs where each is active with probability 1/5."""
    cells = [(alpha, r) for alpha in alphas for r in range(3)]
    made = [bp.data.saha_3(seed=seed + 100 * r + int(a), alpha=float(a), num_features=num_features) for a, r in cells]
    data = together(made)
    bnn, params = fit(seed, data["x"], data["y"], setting)
    _, log_psi = importance(bnn, params)
    keep = np.stack([bp.features.top_fraction(one, 0.2) for one in log_psi])
    return {"cells": cells, "num_features": num_features, **_judged(seed, setting, data, made, keep, (bnn, params))}


def _judged(
    seed: int, setting: Setting, data: dict[str, np.ndarray], made: list[Any], keep: np.ndarray, full: tuple[Any, Any]
) -> dict[str, Any]:
    """A selection's accuracy, and the test errors of networks with all inputs, with those kept, and of the linear model."""
    truth = np.stack([one.relevant for one in made])
    kept_x, kept_test = (data[name] * keep[:, None, :].astype(np.float32) for name in ("x", "test_x"))
    small = fit(seed + 1, kept_x, data["y"], setting)
    return {
        "accuracy": (keep == truth).mean(axis=1),
        "best_accuracy_of_the_count": 1 - np.abs(keep.sum(axis=1) - truth.sum(axis=1)) / truth.shape[1],
        "true_share": truth.mean(axis=1),
        "kept_share": keep.mean(axis=1),
        "test_rmse": {
            "all inputs": test_rmse(*full, data["test_x"], data["test_y"]),
            "selected": test_rmse(*small, kept_test, data["test_y"]),
            "linear model": linear_rmse(data),
        },
    }


def threshold(seed: int, setting: Setting) -> dict[str, Any]:
    """Experiment 3, the share of inputs by cross-validation: `features.choose_fraction` for all data sets at once."""
    setting = dataclasses.replace(setting, steps=1000)
    made = [bp.data.saha_3(seed=seed + i, active=active) for i, active in enumerate(ACTIVE)]
    data = together(made)
    folds = _folds(len(data["y"][0]), setting.folds)
    train = [(s, rows) for s in range(len(made)) for rows, _ in folds]
    stack = lambda pairs, name: np.stack([data[name][s][rows] for s, rows in pairs])  # noqa: E731
    x, y = stack(train, "x"), stack(train, "y")
    _, ranks = importance(*fit(seed, x, y, setting))
    say("ranked within the folds")
    keeps = np.stack([[bp.features.top_fraction(one, share) for share in SHARES] for one in ranks]).astype(np.float32)
    held = [(s, rows) for s in range(len(made)) for _, rows in folds]
    losses = []
    for chosen in np.moveaxis(keeps, 1, 0):
        bnn, params = fit(seed + 2, x * chosen[:, None, :], y, setting)
        losses.append(test_rmse(bnn, params, stack(held, "x") * chosen[:, None, :], stack(held, "y")) ** 2)
        say(f"share {SHARES[len(losses) - 1]} fitted")
    losses = np.array(losses).T.reshape(len(made), setting.folds, len(SHARES))
    shares = {rule: np.array([_chosen(one, rule) for one in losses]) for rule in ("min", "one_standard_error")}
    full = fit(seed, data["x"], data["y"], setting)
    _, log_psi = importance(*full)
    result: dict[str, Any] = {"active": ACTIVE, "losses": losses}
    for rule, detected in shares.items():
        keep = np.stack([bp.features.top_fraction(one, float(share)) for one, share in zip(log_psi, detected, strict=True)])
        result[rule] = {"detected": detected, **_judged(seed, setting, data, made, keep, full)}
    return result


def _folds(rows: int, folds: int) -> list[tuple[np.ndarray, np.ndarray]]:
    order, held = np.random.default_rng(0).permutation(rows), rows // folds
    return [(np.delete(order, np.s_[f * held : (f + 1) * held]), order[f * held : (f + 1) * held]) for f in range(folds)]


def _chosen(losses: np.ndarray, rule: str) -> float:
    """The share with the lowest mean loss, or the smallest one within a standard error of it."""
    mean = losses.mean(axis=0)
    best = int(mean.argmin())
    slack = losses[:, best].std(ddof=1) / np.sqrt(len(losses)) if rule == "one_standard_error" else 0.0
    return SHARES[int(np.flatnonzero(mean <= mean[best] + slack)[0])]


EXPERIMENTS = {
    "influence": influence,
    "graded": graded,
    "graded-wide": lambda seed, setting: graded(seed, dataclasses.replace(setting, spike_scale=0.3), 20),
    "selection-alpha": lambda seed, setting: selection(seed, setting, ALPHAS[::2], 100),
    **{f"selection-{d}": lambda seed, setting, d=d: selection(seed, setting, (2,), d) for d in (20, 50, 200)},
    "threshold": threshold,
}


def say(words: str) -> None:
    print(time.strftime("%H:%M:%S"), words, flush=True)


def table(out: Path) -> str:
    found = {name: json.loads((out / f"{name}.json").read_text()) for name in EXPERIMENTS if (out / f"{name}.json").exists()}
    lines = ["| experiment | what | ours | paper |", "| --- | --- | --- | --- |"]
    if "influence" in found:
        r = found["influence"]
        words = ", ".join(f"{value:+.3f}" for value in r["correlations"])
        relative = ", ".join(f"{value:+.3f}" for value in r["correlations_relative"])
        each = ", ".join(f"{pair[1]:+.2f}" for pair in r["each_relative"])
        what = f"correlation of I with psi_1, psi_2 (with psi_j / sum), mean of {len(r['psi'])} sets"
        lines.append(f"| 1 | {what} | {words} ({relative}; psi_2 / sum set by set {each}) | almost linear |")
    for name, what in (("graded", "D = 100, spike .05"), ("graded-wide", "D = 20, spike .3")):
        r = found.get(name)
        for function in FUNCTIONS if r else ():
            of = [c for cell, c in zip(r["cells"], r["correlations"], strict=True) if cell[0] == function]
            figures = f"{np.mean(of):.3f} ({min(of):.3f} to {max(of):.3f}, {len(of)} sets)"
            lines.append(f"| 2 | correlation of importance with effect, {function}, {what} | {figures} | .90 to .95 |")
    for name in (n for n in EXPERIMENTS if n.startswith("selection") and n in found):
        r = found[name]
        alphas = sorted({cell[0] for cell in r["cells"]})
        what = f"accuracy of the top fifth, D = {r['num_features']}, alpha {', '.join(map(str, alphas))}"
        best, errors = np.mean(r["best_accuracy_of_the_count"]), _errors(r)
        figures = f"{100 * np.mean(r['accuracy']):.1f} % (at most {100 * best:.1f} % with that count); {errors}"
        lines.append(f"| 3 | {what} | {figures} | about 90 % |")
    if "threshold" in found:
        for rule in ("min", "one_standard_error"):
            r = found["threshold"][rule]
            pairs = ", ".join(f"{t:.2f} → {d:.1f}" for t, d in zip(r["true_share"], r["detected"], strict=True))
            accuracy = ", ".join(f"{100 * a:.0f}" for a in r["accuracy"])
            lines.append(f"| 3 | true share → by cross-validation ({rule}) | {pairs} | near the diagonal |")
            lines.append(f"| 3 | accuracy with it, % | {accuracy}; {_errors(r)} | above 80 % |")
    return "\n".join(lines)


def _errors(r: dict[str, Any]) -> str:
    return "test RMSE " + ", ".join(f"{name} {np.mean(values):.3f}" for name, values in r["test_rmse"].items())


def draw(out: Path) -> None:
    """importance.png: experiments 1 and 2; share.png: detected against true share."""
    found = {name: json.loads((out / f"{name}.json").read_text()) for name in EXPERIMENTS if (out / f"{name}.json").exists()}
    plots = bp.plots
    if {"influence", "graded-wide"} <= found.keys():
        fig = plots.figure(9.0, 3.6)
        left, right = fig.subplots(1, 2)
        shares, psi = np.array(found["influence"]["influence"]), np.array(found["influence"]["psi"])
        relative = psi / psi.sum(axis=2, keepdims=True)
        for j, colour in enumerate(plots.PALETTE[:2]):
            left.plot(shares.ravel(), relative[..., j].ravel(), "o", markersize=2.5, alpha=0.35, color=colour)
            left.plot(shares.mean(0), relative[..., j].mean(0), "-", color=colour, label=f"$\\psi_{j + 1}$ / sum, mean of sets")
        left.legend(frameon=False)
        plots.style(left, "influence I of the second input", "share of the importance")
        r = found["graded-wide"]
        for function, colour, shift in zip(FUNCTIONS, plots.PALETTE, (-0.12, 0.12), strict=False):
            of = [(cell[1] + shift, c) for cell, c in zip(r["cells"], r["correlations"], strict=True) if cell[0] == function]
            right.plot(*zip(*of, strict=True), "o", markersize=4, color=colour, label=function)
        right.axhline(0.9, color=plots.GREY, linewidth=0.8)
        right.set_ylim(0, 1)
        right.legend(frameon=False, loc="lower left")
        plots.style(right, "α (larger: less signal)", "correlation with the effects")
        plots.save(fig, out / "importance.png")
    if "threshold" in found:
        fig = plots.figure(4.4, 3.8)
        ax = fig.subplots()
        ax.plot((0, 1), (0, 1), color=plots.GREY, linewidth=0.8)
        for rule, colour, mark in (("min", plots.PALETTE[0], "o"), ("one_standard_error", plots.PALETTE[1], "s")):
            r = found["threshold"][rule]
            ax.plot(r["true_share"], r["detected"], mark, color=colour, label=rule.replace("_", " "))
        ax.legend(frameon=False)
        plots.style(ax, "true share of active inputs", "share by cross-validation")
        plots.save(fig, out / "share.png")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("action", choices=("run", "table"))
    parser.add_argument("--out", type=Path, default=Path("runs/sbnn"))
    parser.add_argument("--only", nargs="*", default=list(EXPERIMENTS))
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--set", nargs="*", default=[], metavar="FIELD=VALUE")
    arguments = parser.parse_args()
    pairs = dict(change.split("=") for change in arguments.set)
    kinds = {name: type(value) for name, value in vars(Setting()).items()}
    setting = Setting(**{name: kinds[name](value) for name, value in pairs.items()})
    if arguments.action == "run":
        for name in arguments.only:
            path = arguments.out / f"{name}.json"
            if not path.exists():
                begin = time.perf_counter()
                result = EXPERIMENTS[name](arguments.seed, setting)
                more = {"seed": arguments.seed, "setting": vars(setting), "seconds": time.perf_counter() - begin}
                bp.report.write_json(path, {**result, **more})
                say(f"{name} {more['seconds']:.0f} s")
    draw(arguments.out)
    print(table(arguments.out))


if __name__ == "__main__":
    main()
