"""The comparison of the BMR paper on Fashion-MNIST: MAP, flat mean-field and stochastic BMR, for LeNet-5 and the MLP.

    python benchmarks/reproduce_bmr.py run --out runs/bmr                        # everything that is not there yet
    python benchmarks/reproduce_bmr.py run --out runs/bmr --only lenet5 bmr 0     # one net, method and seed
    python benchmarks/reproduce_bmr.py table --out runs/bmr                      # the table, from what is there

Settings of the paper: 50 epochs of 500 steps, batches of 128, AdaBelief (1e-3 for MAP, with dropout 0.2; 5e-3 for flat; 1e-2
for BMR), pruning before every epoch but the first, 100 posterior draws for the final figures, all 60,000 training images. The
figures on the way are of 10 draws, every fifth epoch. A killed run goes on from its last checkpoint; finished runs are kept.
The test set is looked at after training and along the way, and decides nothing.
"""

import argparse
import json
import time
from pathlib import Path
from typing import Any

import jax
import numpy as np
import optax

import bayesprune as bp

EPOCH, EPOCHS, BATCH = 500, 50, 128
RATES = {"map": 1e-3, "flat": 5e-3, "bmr": 1e-2}
# Accuracy, ECE of 20 equal-mass bins, NLL and pruned share at the last epoch, read off the paper's figures 1 and 2.
PUBLISHED = {
    ("lenet5", "map"): (0.887, 0.064, 0.438, None),
    ("lenet5", "flat"): (0.884, 0.041, 0.335, None),
    ("lenet5", "bmr"): (0.902, 0.014, 0.283, 0.811),
    ("mlp", "map"): (0.898, 0.060, 0.430, None),
    ("mlp", "flat"): (0.843, 0.040, 0.444, None),
    ("mlp", "bmr"): (0.869, 0.009, 0.358, 0.99),
}
RUNS = [
    *[("lenet5", method, 0) for method in ("bmr", "flat", "map")],
    *[("mlp", method, 0) for method in ("bmr", "flat", "map")],
    *[("lenet5", method, seed) for seed in (1, 2) for method in ("bmr", "flat", "map")],
]


def build(net: str, method: str, input_shape: tuple[int, ...]) -> bp.BNN:
    """The network and its prior, as the paper has them."""
    dropout = 0.2 if method == "map" else 0.0
    nets = {
        "lenet5": lambda: bp.nets.LeNet5(num_outputs=10, dropout=dropout),
        "mlp": lambda: bp.nets.MLP(hidden=(400,) * 5, num_outputs=10, dropout=dropout),
    }
    return bp.BNN(
        nets[net](),
        prior=bp.priors.Flat(),
        likelihood=bp.likelihoods.Categorical(),
        input_shape=input_shape,
        posterior="map" if method == "map" else "mean_field",
    )


def run(net: str, method: str, seed: int, folder: Path, epochs: int) -> dict[str, Any]:
    """Train one cell of the table, or go on with it; writes result.json at the end."""
    train, test = bp.data.load("fashion_mnist", pad=32 if net == "lenet5" else 0)
    bnn = build(net, method, train.x.shape[1:])
    pruning = {"sparsifier": bp.methods.BMR(), "every": EPOCH} if method == "bmr" else {}
    begin = time.perf_counter()

    def say(moment: Any) -> None:
        if moment.step % (5 * EPOCH) == 0:
            latest = {k: round(v[-1], 4) for k, v in moment.history.items() if k in ("eval/accuracy", "eval/nll")}
            print(f"{folder.name} step {moment.step} density {moment.density:.4f} {latest}", flush=True)

    fit = bp.fit_svi(
        jax.random.key(seed),
        bnn,
        train,
        num_steps=epochs * EPOCH,
        batch_size=BATCH,
        optimizer=optax.adabelief(RATES[method]),
        eval_data=test,
        eval_every=5 * EPOCH,
        eval_samples=1 if method == "map" else 10,
        checkpoint=str(folder / "checkpoints"),
        checkpoint_every=EPOCH,
        callbacks=[say],
        progress=False,
        **pruning,
    )
    draws = 1 if method == "map" else 100
    figures = bp.evaluate(jax.random.key(1000 + seed), bnn, fit.params, test, mask=fit.mask, num_samples=draws)
    alive = {site: int(mask.sum()) for site, mask in fit.mask.items()}
    sizes = {site: int(mask.size) for site, mask in fit.mask.items()}
    result = {
        "net": net,
        "method": method,
        "seed": seed,
        "epochs": epochs,
        "figures": figures,
        "pruned": 1 - sum(alive.values()) / sum(sizes.values()) if sizes else 0.0,
        "alive": alive,
        "sizes": sizes,
        "history": {name: values.tolist() for name, values in fit.history.items()},
        "seconds_of_this_process": time.perf_counter() - begin,
    }
    bp.report.write_json(folder / "result.json", result)
    return result


def table(out: Path) -> str:
    """Markdown: mean and spread over seeds, beside the published figures."""
    results = [json.loads(path.read_text()) for path in sorted(out.glob("*/result.json"))]
    lines = [
        "| net | method | seeds | accuracy | ece_quantile | NLL | pruned of prunable | published acc / ece / NLL / pruned |",
        "| --- | --- | ---: | --- | --- | --- | --- | --- |",
    ]
    for (net, method), published in PUBLISHED.items():
        cell = [r for r in results if (r["net"], r["method"]) == (net, method)]
        if not cell:
            continue
        figures = [_spread([r["figures"][name] for r in cell]) for name in ("accuracy", "ece_quantile", "nll")]
        share = _spread([r["pruned"] for r in cell]) if method == "bmr" else "-"
        beside = " / ".join("-" if value is None else f"{value:g}" for value in published)
        lines.append(f"| {net} | {method} | {len(cell)} | {' | '.join(figures)} | {share} | {beside} |")
    return "\n".join(lines)


def _spread(values: list[float]) -> str:
    spread = f" ± {np.std(values, ddof=1):.4f}" if len(values) > 1 else ""
    return f"{np.mean(values):.4f}{spread}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("action", choices=("run", "table"))
    parser.add_argument("--out", type=Path, default=Path("runs/bmr"))
    parser.add_argument("--epochs", type=int, default=EPOCHS)
    parser.add_argument("--only", nargs=3, metavar=("NET", "METHOD", "SEED"))
    arguments = parser.parse_args()
    if arguments.action == "run":
        chosen = [(arguments.only[0], arguments.only[1], int(arguments.only[2]))] if arguments.only else RUNS
        for net, method, seed in chosen:
            folder = arguments.out / f"{net}-{method}-{seed}"
            if not (folder / "result.json").exists():
                run(net, method, seed, folder, arguments.epochs)
    print(table(arguments.out))


if __name__ == "__main__":
    main()
