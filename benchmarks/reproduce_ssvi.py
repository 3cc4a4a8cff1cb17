"""Sparse from the first step: SSVI against dense VI, RigL, SET and one-shot SNR, by density, on MNIST and Fashion-MNIST.

    python benchmarks/reproduce_ssvi.py run --out runs/ssvi                     # every cell that is not there yet
    python benchmarks/reproduce_ssvi.py run --out runs/ssvi --only fashion_mnist-lenet300
    python benchmarks/reproduce_ssvi.py table --out runs/ssvi                   # the tables and the figure

All methods: the same network, batches of 128, Adam with a cosine from 3e-3 to 0, weights from He's start, prior N(0, 1) on
every weight, kernels prunable, 30 posterior draws for the figures (LeNet-5: ten; MAP, RigL, SET: one). VI and SSVI: local
reparameterisation, scales from 0.01. Their divergence has the paper's weight, 0.01 min(2 epoch/epochs, 1): a COLD POSTERIOR;
"vi_full" and "ssvi_full" have it with full weight at every step. SSVI, RigL, SET: an exchange every 100 steps until three
quarters of the training, 30 % of the alive weights at first, densities by Erdős-Rényi (one for all in "ssvi_uniform"). SNR
one-shot cuts the dense VI fit of the same seed, with no training after. Epochs are few, the table names them. Prior and rate
were chosen by dense VI with full weight, the distribution by SSVI, on 10,000 training images of Fashion-MNIST held back
(`tune`); the test set decided nothing.
"""

import argparse
import json
import time
from pathlib import Path
from typing import Any

import flax.linen as nn
import jax
import numpy as np
import optax

import bayesprune as bp
from bayesprune.model.families import MapFamily, MeanFieldFamily

BATCH, EVERY, COLD = 128, 100, 0.01
DENSITIES = (0.5, 0.2, 0.1, 0.05, 0.02, 0.01)
DATASETS = ("fashion_mnist", "mnist")
NETS = {"lenet300": lambda: bp.nets.MLP((300, 100), 10, activation=nn.relu), "lenet5": lambda: bp.nets.LeNet5(10)}
EPOCHS = {"lenet300": 5, "lenet5": 3}
DRAWS = {"lenet300": 30, "lenet5": 10}
SPARSIFIERS = {
    "ssvi": lambda density: bp.methods.SSVI(density, distribution="erdos_renyi"),
    "rigl": lambda density: bp.methods.SSVI(density, distribution="erdos_renyi", removal="magnitude"),
    "set": lambda density: bp.methods.SSVI(density, distribution="erdos_renyi", removal="magnitude", addition="random"),
    "ssvi_uniform": lambda density: bp.methods.SSVI(density),
}
METHODS = [
    ("vi", 1.0),
    ("map", 1.0),
    *((method, density) for density in DENSITIES for method in ("ssvi", "rigl", "set")),
    ("vi_full", 1.0),
    ("ssvi_full", 0.1),
    ("ssvi_uniform", 0.1),
]
SCORES = ("magnitude", "snr", "expected_abs", "expected_abs_over_std", "log_expected_exp", "log_expected_exp_over_std")
FIGURES = ("accuracy", "nll", "ece", "ece_quantile", "calibration_marginal", "brier")


def build(
    net: str, point: bool, shape: tuple[int, ...], prior: float = 1.0, init_scale: float = 0.01, widen: float = 1.0
) -> bp.BNN:
    """The network under N(0, prior²); ``init_scale``: where the posterior's scales start, in the network's units.

    ``widen``: the start's standard deviation over He's.
    """
    start = {"init_loc": "he", "unit": prior / widen}
    return bp.BNN(
        NETS[net](),
        prior=bp.priors.Gaussian(prior),
        likelihood=bp.likelihoods.Categorical(),
        input_shape=shape,
        posterior=MapFamily(**start) if point else MeanFieldFamily(init_scale=init_scale / prior, **start),
        prunable=bp.select.kernels,
    )


def load(dataset: str, net: str) -> tuple[bp.Dataset, bp.Dataset]:
    return bp.data.load(dataset, pad=32 if net == "lenet5" else 0)


def train(net: str, method: str, density: float, seed: int, data: bp.Dataset, epochs: int, **changes: Any) -> Any:
    """One training; returns (bnn, fit, seconds)."""
    sparsifier = changes.pop("sparsifier", None)
    rate = changes.pop("rate", 3e-3)
    point = method in ("map", "rigl", "set")
    bnn = build(net, point, data.x.shape[1:], **changes)
    num_steps = epochs * -(-len(data.y) // BATCH)
    full = method.endswith("_full") or point
    kl_weight = bp.schedules.Constant(1.0) if full else bp.schedules.LinearWarmup(0, num_steps / 2, peak=COLD)
    pruning: dict[str, Any] = {}
    if method.removesuffix("_full") in SPARSIFIERS:
        pruning = {"sparsifier": sparsifier or SPARSIFIERS[method.removesuffix("_full")](density), "every": EVERY}
    begin = time.perf_counter()
    fit = bp.fit_svi(
        jax.random.key(seed),
        bnn,
        data,
        num_steps=num_steps,
        batch_size=BATCH,
        optimizer=optax.adam(optax.cosine_decay_schedule(rate, num_steps)),
        estimator="weight" if point else "local",
        kl_weight=kl_weight,
        progress=False,
        **pruning,
    )
    return bnn, fit, time.perf_counter() - begin


def judge(bnn: bp.BNN, params: Any, mask: Any, data: bp.Dataset, seed: int, draws: int = 30) -> dict[str, float]:
    draws = 1 if isinstance(bnn.family, MapFamily) else draws
    figures = bp.evaluate(jax.random.key(1000 + seed), bnn, params, data, mask=mask, num_samples=draws)
    return {name: float(figures[name]) for name in FIGURES}


def cell(dataset: str, net: str, method: str, density: float, seed: int, out: Path, epochs: int) -> None:
    """One row; the dense VI fit of a seed also gives the one-shot SNR rows of all densities."""
    path = out / f"{dataset}-{net}-{method}-{density:g}-{seed}.json"
    if path.exists():
        return
    data, test = load(dataset, net)
    bnn, fit, seconds = train(net, method, density, seed, data, epochs)
    row = {"dataset": dataset, "net": net, "seed": seed, "epochs": epochs, "seconds": seconds}
    if method == "vi":
        for cut in DENSITIES:
            pruned = bp.prune_once(fit.params, bp.methods.SNR(cut), read=bnn.read)
            figures = judge(bnn, pruned.params, pruned.mask, test, seed, DRAWS[net])
            name = f"{dataset}-{net}-snr-{cut:g}-{seed}.json"
            bp.report.write_json(out / name, row | {"method": "snr", "density": cut, "figures": figures})
    figures = judge(bnn, fit.params, fit.mask, test, seed, DRAWS[net])
    bp.report.write_json(path, row | {"method": method, "density": density, "figures": figures})
    print(time.strftime("%H:%M:%S"), path.stem, {k: round(v, 4) for k, v in figures.items()}, f"{seconds:.0f} s", flush=True)


def ablation(kind: str, seed: int, out: Path, epochs: int) -> None:
    """ "sigma": initial scales against methods; "criteria": the six removal scores. Fashion-MNIST, LeNet-300-100."""
    data, test = load("fashion_mnist", "lenet300")
    cells: list[tuple[str, str, float, dict[str, Any]]] = []
    if kind == "sigma":
        for sigma in (0.001, 0.01, 0.03, 0.1):
            cells += [(f"{m}-{sigma:g}", m, density, {"init_scale": sigma}) for m, density in (("vi", 1.0), ("ssvi", 0.1))]
    else:
        for density in (0.1, 0.01):
            for score in SCORES:
                sparsifier = bp.methods.SSVI(density, distribution="erdos_renyi", removal=score)
                cells.append((f"{score}-{density:g}", "ssvi", density, {"sparsifier": sparsifier}))
    masks: dict[str, Any] = {}
    for name, method, density, changes in cells:
        path = out / f"{kind}-{name}-{seed}.json"
        if path.exists():
            continue
        bnn, fit, seconds = train("lenet300", method, density, seed, data, epochs, **changes)
        masks[name] = {site: np.asarray(alive) for site, alive in fit.mask.items()}
        row = {"kind": kind, "name": name, "method": method, "density": density, "seed": seed, "epochs": epochs}
        row |= {"seconds": seconds, "figures": judge(bnn, fit.params, fit.mask, test, seed)}
        if name.startswith("expected_abs_over_std") and f"snr-{density:g}" in masks:
            snr = masks[f"snr-{density:g}"]
            row["differs_from_snr_in"] = int(sum((snr[s] != m).sum() for s, m in masks[name].items()))
        bp.report.write_json(path, row)
        print(time.strftime("%H:%M:%S"), path.stem, {k: round(v, 4) for k, v in row["figures"].items()}, flush=True)


def tune(out: Path) -> None:
    """On 50,000 images of Fashion-MNIST, judged on the other 10,000 training images, LeNet-300-100, three epochs.

    Prior, rate and scale by dense VI; distribution and width of the start by SSVI at density 0.1.
    """
    data, _ = load("fashion_mnist", "lenet300")
    order = np.random.default_rng(0).permutation(len(data.y))
    x, y = np.asarray(data.x), np.asarray(data.y)
    held, kept = (bp.Dataset(x[rows], y[rows]) for rows in (order[:10_000], order[10_000:]))
    dense = [(p, r, 0.01) for p in (0.05, 0.1, 0.3) for r in (1e-3, 3e-3)] + [(0.1, 3e-3, 0.03), (1.0, 3e-3, 0.01)]
    trials = [(f"tune-{p:g}-{r:g}-{s:g}", "vi_full", 1.0, {"prior": p, "rate": r, "init_scale": s}) for p, r, s in dense]
    for distribution in ("uniform", "erdos_renyi"):
        for widen in (1.0, 2.0):
            changes = {"sparsifier": bp.methods.SSVI(0.1, distribution=distribution), "widen": widen}
            trials.append((f"tune-ssvi-{distribution}-{widen:g}", "ssvi", 0.1, changes))
    for name, method, density, changes in trials:
        if (out / f"{name}.json").exists():
            continue
        bnn, fit, _ = train("lenet300", method, density, 0, kept, 3, **changes)
        figures = judge(bnn, fit.params, fit.mask, held, 0)
        bp.report.write_json(out / f"{name}.json", {"name": name, "figures": figures})
        print(name, {k: round(v, 4) for k, v in figures.items()}, flush=True)


def table(out: Path) -> str:
    """Markdown tables: methods by density, the ablations; mean over seeds, and the range where there are several."""
    rows = [json.loads(path.read_text()) for path in sorted(out.glob("*.json")) if not path.stem.startswith("tune")]
    lines = []
    for dataset in DATASETS:
        for net in NETS:
            cells = [row for row in rows if (row.get("dataset"), row.get("net")) == (dataset, net)]
            if cells:
                epochs = sorted({row["epochs"] for row in cells})
                lines += ["", f"### {dataset}, {net}, {', '.join(map(str, epochs))} epochs", "", *_header("density")]
                order = ["map", "vi", "vi_full", "ssvi", "ssvi_full", "ssvi_uniform", "rigl", "set", "snr"]
                keys = {(row["method"], row["density"]) for row in cells}
                for method, density in sorted(keys, key=lambda key: (order.index(key[0]), -key[1])):
                    same = [row for row in cells if (row["method"], row["density"]) == (method, density)]
                    lines.append(_line(f"{method} | {density:g}", same))
    for kind, what in (("sigma", "initial scale"), ("criteria", "removal score and density")):
        cells = [row for row in rows if row.get("kind") == kind]
        if cells:
            lines += ["", f"### By {what}: Fashion-MNIST, lenet300, {cells[0]['epochs']} epochs", "", *_header("density")]
            for name in dict.fromkeys(row["name"] for row in cells):
                same = [row for row in cells if row["name"] == name]
                lines.append(_line(f"{name} | {same[0]['density']:g}", same))
    return "\n".join(lines)


def _header(second: str) -> list[str]:
    return [
        f"| method | {second} | seeds | {' | '.join(FIGURES)} |",
        "| --- " + "| ---: " * (len(FIGURES) + 2) + "|",
    ]


def _line(label: str, rows: list[dict[str, Any]]) -> str:
    values = [[row["figures"][name] for row in rows] for name in FIGURES]
    spread = lambda v: f"{np.mean(v):.4f}" + (f" ({min(v):.4f} to {max(v):.4f})" if len(v) > 1 else "")  # noqa: E731
    return f"| {label} | {len(rows)} | " + " | ".join(spread(v) for v in values) + " |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("action", choices=("run", "sigma", "criteria", "tune", "table"))
    parser.add_argument("--out", type=Path, default=Path("runs/ssvi"))
    parser.add_argument("--only", default="", help="data set and net, such as fashion_mnist-lenet300")
    parser.add_argument("--seeds", type=int, nargs="*", default=[0, 1, 2])
    parser.add_argument("--epochs", type=int, default=0, help="0: the net's own")
    parser.add_argument("--methods", nargs="*", default=[], help="names with densities, such as vi-1 ssvi-0.1; all if left out")
    arguments = parser.parse_args()
    if arguments.action == "tune":
        tune(arguments.out)
    if arguments.action == "table":
        print(table(arguments.out))
    for seed in arguments.seeds:
        if arguments.action in ("sigma", "criteria"):
            ablation(arguments.action, seed, arguments.out, arguments.epochs or EPOCHS["lenet300"])
        if arguments.action != "run":
            continue
        for net in NETS:
            for dataset in DATASETS:
                if arguments.only not in ("", f"{dataset}-{net}"):
                    continue
                epochs = arguments.epochs or EPOCHS[net]
                for method, density in METHODS:
                    if arguments.methods and f"{method}-{density:g}" not in arguments.methods:
                        continue
                    cell(dataset, net, method, density, seed, arguments.out, epochs)


if __name__ == "__main__":
    main()
