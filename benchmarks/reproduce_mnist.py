"""MNIST with spike-and-slab networks: Tables 4, 5, 7 and 8 of the sBNN paper, the MNIST figure of the SVBNN paper.

    python benchmarks/reproduce_mnist.py run                        # what is not in runs/mnist.jsonl yet
    python benchmarks/reproduce_mnist.py run --only name=lenet300   # one cell
    python benchmarks/reproduce_mnist.py table                      # from the results kept here

Each cell trains once and is then cut to several shares without any training after the cut, as the papers do: sBNN by p*, Bayes
by Backprop by signal to noise, SVBNN by phi. Batches of 128, Adam with a cosine from 3e-3, the whole divergence at every step,
local reparameterisation (convolutional nets: sampled weights). The papers train 300 epochs, here they are few (the table names
them). Pixels are divided by 126. Priors are the papers', which chose them on the test set. The start (0.4 times He's weights,
scale 0.003) and the learning rate were chosen by LeNet-300-100 on 10,000 images held back from training: a weight that starts
in the slab and is not needed stays there, wide, and ranks high. A killed run goes on.
"""

import math
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import flax.linen as nn
import jax
import numpy as np
import optax

import bayesprune as bp
from bayesprune import cells
from bayesprune.model.families import MeanFieldFamily
from bayesprune.prune.cutting import expected_density

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


class Setting(NamedTuple):
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
SETTINGS = {
    "lenet300": Setting(_mlp(300, 100), _slab(-1.0, -5.0), bp.methods.SBNN, 15, (0.0, 0.9, 0.95, 0.98), {0.95: 1.94}),
    "lenet5_set1": Setting(
        CaffeLeNet5,
        _slab(0.0, -5.0),
        bp.methods.SBNN,
        5,
        CONV,
        {0.0: 0.70, 0.96: 0.69, 0.97: 0.87, 0.98: 1.56, 0.985: 2.64, 0.99: 4.46, 0.992: 9.99, 0.995: 24.93, 0.997: 63.82},
    ),
    "lenet5_set2": Setting(
        CaffeLeNet5,
        _slab(-1.0, -3.0),
        bp.methods.SBNN,
        5,
        CONV,
        {0.0: 1.03, 0.96: 1.01, 0.97: 1.01, 0.98: 1.01, 0.985: 1.00, 0.99: 1.03, 0.992: 1.06, 0.995: 1.30, 0.997: 1.78},
    ),
    "mlp1200_sbnn": Setting(
        _mlp(1200, 1200),
        bp.priors.GaussianSlab(0.007, 0.375, 0.5),
        bp.methods.SBNN,
        4,
        WIDE,
        {0.0: 1.58, 0.5: 1.57, 0.75: 1.52, 0.95: 1.54, 0.98: 1.61},
    ),
    "mlp1200_bbb": Setting(
        _mlp(1200, 1200),
        bp.priors.Gaussian(0.375),
        bp.methods.SNR,
        4,
        WIDE,
        {0.0: 1.24, 0.5: 1.24, 0.75: 1.24, 0.95: 1.29, 0.98: 1.39},
    ),
    "mlp512_svbnn": Setting(_mlp(512, 512), bp.priors.DiracSlab("optimal"), bp.methods.SVBNN, 8, (0.0, 0.9, 0.95, 0.98), {}),
}


@dataclass(frozen=True)
class Cell:
    name: str
    epochs: int
    seed: int = 0


CELLS = tuple(Cell(name, setting.epochs) for name, setting in SETTINGS.items())
FIGURES = ("removed", "error", "nll", "ece")


def run(cell: Cell, folder: Path) -> cells.Record:
    """Train one cell, or go on with it, and cut it; lists are by share removed."""
    setting = SETTINGS[cell.name]
    train, test = (bp.Dataset(np.asarray(d.x) * (255 / 126), d.y) for d in bp.data.load("mnist", standardise=False))
    bnn = bp.BNN(
        setting.net(),
        prior=setting.prior,
        likelihood=bp.likelihoods.Categorical(),
        input_shape=(28, 28, 1),
        prunable=bp.select.everything,
        posterior=start(setting.prior),
    )
    num_steps = cell.epochs * math.ceil(len(train.y) / BATCH)
    begin = time.perf_counter()

    def say(moment: Any) -> None:
        print(f"{cells.key(cell)} step {moment.step} of {num_steps}, loss {moment.loss:.0f}", flush=True)

    fit = bp.fit_svi(
        jax.random.key(cell.seed),
        bnn,
        train,
        num_steps=num_steps,
        batch_size=BATCH,
        course=bp.courses.Plain(),
        optimizer=optax.adam(optax.cosine_decay_schedule(3e-3, num_steps)),
        # On a CPU a sampled kernel is convolved several times faster than a Gaussian one.
        estimator="weight" if setting.net is CaffeLeNet5 else "local",
        checkpoint=folder / "checkpoints",
        callbacks=[say],
        progress=False,
    )
    seconds = time.perf_counter() - begin
    return {"passes": num_steps * BATCH / len(train.y), "training_seconds": seconds, **cuts(setting, bnn, fit.params, test)}


def cuts(setting: Setting, bnn: bp.BNN, params: Any, test: bp.Dataset) -> cells.Record:
    """Whole, cut to each share and, where weights have an inclusion, cut at 1/2 ("median")."""
    rows = [judge(bnn, params, None, test, 0.0)]
    for removed in setting.removed[1:]:
        pruned = bp.prune_once(params, setting.method(density=1 - removed), read=bnn.read)
        rows.append(judge(bnn, pruned.params, pruned.mask, test, removed))
    result: cells.Record = {name: [row[name] for row in rows] for name in FIGURES}
    nodes = bnn.read(params)
    if all(isinstance(node, bp.SpikeSlab) for node in nodes.values()):
        median = bp.prune_once(params, setting.method(), read=bnn.read)
        figures = judge(bnn, median.params, median.mask, test, 1 - float(median.info.density))
        result |= {"mean_inclusion": float(expected_density(nodes)), **cells.flat({"median": figures})}
    return result


def start(prior: Any) -> MeanFieldFamily:
    """Weights at 0.4 times He's, of scale 0.003, in the network's units."""
    unit = prior.scale if isinstance(prior, bp.priors.Gaussian) else prior.slab_scale
    return MeanFieldFamily(init_scale=0.003 / unit, init_loc="he", unit=unit / 0.4)


def judge(bnn: Any, params: Any, mask: Any, test: Any, removed: float) -> dict[str, float]:
    """Test figures of 30 draws."""
    figures = bp.evaluate(jax.random.key(1), bnn, params, test, mask=mask, num_samples=30)
    return {"removed": removed, "error": 100 * (1 - figures["accuracy"]), "nll": figures["nll"], "ece": figures["ece"]}


def errors(found: cells.Found) -> str:
    """A row for each cell and share."""
    rows = []
    for cell in CELLS:
        setting, record = SETTINGS[cell.name], found.get(cell)
        if record is None:
            rows.append([cell.name, str(cell.epochs), *["missing"] * 3, "-"])
            continue
        shares = [dict(zip(FIGURES, row, strict=True)) for row in zip(*(record[name] for name in FIGURES), strict=True)]
        labels = [f"{100 * share['removed']:.1f}" for share in shares]
        if "median/removed" in record:
            shares.append({name: record[f"median/{name}"] for name in FIGURES})
            labels.append(f"{100 * shares[-1]['removed']:.1f} (p = 1/2)")
        for label, share in zip(labels, shares, strict=True):
            beside = setting.published.get(share["removed"], "-")
            rows.append([cell.name, str(cell.epochs), label, f"{share['error']:.2f}", f"{share['nll']:.3f}", str(beside)])
    return cells.table(["cell", "epochs", "removed %", "test error %", "NLL", "published error %"], rows, "lrrrrr")


STUDY = cells.Study("mnist", CELLS, run, {"errors": errors})

if __name__ == "__main__":
    cells.main(STUDY)
