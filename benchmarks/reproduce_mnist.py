"""MNIST with spike-and-slab networks: Tables 4, 5, 7 and 8 of the sBNN paper, the MNIST figure of the SVBNN paper.

    python benchmarks/reproduce_mnist.py run --out runs/mnist                     # every cell that is not there yet
    python benchmarks/reproduce_mnist.py run --out runs/mnist --only lenet300     # one cell
    python benchmarks/reproduce_mnist.py table --out runs/mnist                   # test errors by share of weights removed

Each cell trains once and is then cut to several shares without any training after the cut, as the papers do: sBNN by p*, Bayes
by Backprop by signal to noise, SVBNN by phi. Batches of 128, Adam with a cosine from 3e-3, the whole divergence at every step,
local reparameterisation (convolutional nets: sampled weights). The papers train 300 epochs, here they are few (the table names
them). Pixels are divided by 126. Priors are the papers', which chose them on the test set. The start (0.4 times He's weights,
scale 0.003) and the learning rate were chosen by LeNet-300-100 on 10,000 images held back from training: a weight that starts
in the slab and is not needed stays there, wide, and ranks high. A killed run goes on.
"""

import argparse
import json
import math
import time
from pathlib import Path
from typing import Any, NamedTuple

import flax.linen as nn
import jax
import numpy as np
import optax

import bayesprune as bp
from bayesprune.model.families import MeanFieldFamily
from bayesprune.prune.by_inclusion import expected_density

BATCH = 128


class CaffeLeNet5(nn.Module):
    """The LeNet-5 of the compression papers: convolutions of 20 and 50 channels, 500 hidden units, ReLU, 431,080 weights."""

    @nn.compact
    def __call__(self, x: jax.Array) -> jax.Array:
        for channels in (20, 50):
            x = nn.max_pool(nn.Conv(channels, (5, 5), padding="VALID")(x), (2, 2), strides=(2, 2))
        x = nn.relu(nn.Dense(500)(x.reshape((x.shape[0], -1))))
        return nn.Dense(10)(x)


def _mlp(*hidden: int) -> Any:
    return lambda: bp.nets.MLP(hidden, 10, activation=nn.relu)


class Cell(NamedTuple):
    """One training: network, prior, how it is cut, for how long, at which shares removed; and what the paper has there."""

    net: Any
    prior: Any
    method: Any
    epochs: int
    removed: tuple[float, ...]
    published: dict[float, float]


def _slab(log_slab: float, log_spike: float) -> bp.priors.GaussianSlab:
    return bp.priors.GaussianSlab(math.exp(log_spike), math.exp(log_slab), 0.5)


WIDE = (0.0, 0.5, 0.75, 0.95, 0.98)
CONV = (0.0, 0.96, 0.97, 0.98, 0.985, 0.99, 0.992, 0.995, 0.997)
CELLS = {
    "lenet300": Cell(_mlp(300, 100), _slab(-1.0, -5.0), bp.methods.SBNN, 15, (0.0, 0.9, 0.95, 0.98), {0.95: 1.94}),
    "lenet5_set1": Cell(
        CaffeLeNet5,
        _slab(0.0, -5.0),
        bp.methods.SBNN,
        5,
        CONV,
        {0.0: 0.70, 0.96: 0.69, 0.97: 0.87, 0.98: 1.56, 0.985: 2.64, 0.99: 4.46, 0.992: 9.99, 0.995: 24.93, 0.997: 63.82},
    ),
    "lenet5_set2": Cell(
        CaffeLeNet5,
        _slab(-1.0, -3.0),
        bp.methods.SBNN,
        5,
        CONV,
        {0.0: 1.03, 0.96: 1.01, 0.97: 1.01, 0.98: 1.01, 0.985: 1.00, 0.99: 1.03, 0.992: 1.06, 0.995: 1.30, 0.997: 1.78},
    ),
    "mlp1200_sbnn": Cell(
        _mlp(1200, 1200),
        bp.priors.GaussianSlab(0.007, 0.375, 0.5),
        bp.methods.SBNN,
        4,
        WIDE,
        {0.0: 1.58, 0.5: 1.57, 0.75: 1.52, 0.95: 1.54, 0.98: 1.61},
    ),
    "mlp1200_bbb": Cell(
        _mlp(1200, 1200),
        bp.priors.Gaussian(0.375),
        bp.methods.SNR,
        4,
        WIDE,
        {0.0: 1.24, 0.5: 1.24, 0.75: 1.24, 0.95: 1.29, 0.98: 1.39},
    ),
    "mlp512_svbnn": Cell(_mlp(512, 512), bp.priors.DiracSlab("optimal"), bp.methods.SVBNN, 8, (0.0, 0.9, 0.95, 0.98), {}),
}


def run(name: str, folder: Path, epochs: int) -> None:
    """Train one cell, or go on with it, and cut it; writes result.json."""
    cell = CELLS[name]
    shape = (28, 28, 1)
    train, test = (bp.Dataset(np.asarray(d.x) * (255 / 126), d.y) for d in bp.data.load("mnist", standardise=False))
    bnn = bp.BNN(
        cell.net(),
        prior=cell.prior,
        likelihood=bp.likelihoods.Categorical(),
        input_shape=shape,
        prunable=bp.select.everything,
        posterior=start(cell.prior),
    )
    num_steps = (epochs or cell.epochs) * math.ceil(len(train.y) / BATCH)
    begin = time.perf_counter()

    def say(moment: Any) -> None:
        print(f"{name} step {moment.step} of {num_steps}, loss {moment.loss:.0f}", flush=True)

    fit = bp.fit_svi(
        jax.random.key(0),
        bnn,
        train,
        num_steps=num_steps,
        batch_size=BATCH,
        optimizer=optax.adam(optax.cosine_decay_schedule(3e-3, num_steps)),
        # On a CPU a sampled kernel is convolved several times faster than a Gaussian one.
        estimator="weight" if cell.net is CaffeLeNet5 else "local",
        checkpoint=folder / "checkpoints",
        callbacks=[say],
        progress=False,
    )
    seconds = time.perf_counter() - begin
    rows = [judge(bnn, fit.params, None, test, 0.0)]
    for removed in cell.removed[1:]:
        pruned = bp.prune_once(fit.params, cell.method(density=1 - removed), read=bnn.read)
        rows.append(judge(bnn, pruned.params, pruned.mask, test, removed))
    nodes = bnn.read(fit.params)
    result: dict[str, Any] = {"name": name, "epochs": num_steps * BATCH / len(train.y), "seconds": seconds, "rows": rows}
    if all(isinstance(node, bp.SpikeSlab) for node in nodes.values()):
        result["mean_inclusion"] = float(expected_density(nodes))
        median = bp.prune_once(fit.params, type(cell.method())(), read=bnn.read)
        result["median_model"] = judge(bnn, median.params, median.mask, test, 1 - float(median.info.density))
    bp.report.write_json(folder / "result.json", result)


def start(prior: Any) -> MeanFieldFamily:
    """Weights at 0.4 times He's, of scale 0.003, in the network's units."""
    unit = prior.scale if isinstance(prior, bp.priors.Gaussian) else prior.slab_scale
    return MeanFieldFamily(init_scale=0.003 / unit, init_loc="he", unit=unit / 0.4)


def judge(bnn: Any, params: Any, mask: Any, test: Any, removed: float) -> dict[str, float]:
    """Test figures of 30 draws."""
    figures = bp.evaluate(jax.random.key(1), bnn, params, test, mask=mask, num_samples=30)
    return {"removed": removed, "error": 100 * (1 - figures["accuracy"]), "nll": figures["nll"], "ece": figures["ece"]}


def table(out: Path) -> str:
    """Markdown: one row for each cell and share."""
    lines = [
        "| cell | epochs | removed % | test error % | NLL | published error % |",
        "| --- | ---: | ---: | ---: | ---: | ---: |",
    ]
    for name, cell in CELLS.items():
        path = out / name / "result.json"
        if not path.exists():
            continue
        r = json.loads(path.read_text())
        median = [r["median_model"] | {"label": " (p = 1/2)"}] if "median_model" in r else []
        for row in [*r["rows"], *median]:
            beside = cell.published.get(row["removed"], "-")
            share = f"{100 * row['removed']:.1f}{row.get('label', '')}"
            lines.append(f"| {name} | {r['epochs']:.0f} | {share} | {row['error']:.2f} | {row['nll']:.3f} | {beside} |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("action", choices=("run", "table"))
    parser.add_argument("--out", type=Path, default=Path("runs/mnist"))
    parser.add_argument("--epochs", type=int, default=0, help="0: the cell's own")
    parser.add_argument("--only", choices=CELLS)
    arguments = parser.parse_args()
    if arguments.action == "run":
        for name in [arguments.only] if arguments.only else CELLS:
            if not (arguments.out / name / "result.json").exists():
                run(name, arguments.out / name, arguments.epochs)
    print(table(arguments.out))


if __name__ == "__main__":
    main()
