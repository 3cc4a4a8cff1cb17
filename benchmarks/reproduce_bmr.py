"""The comparison of the BMR paper on Fashion-MNIST: MAP, flat and tiered mean-field, stochastic BMR; LeNet-5 and the MLP.

    python benchmarks/reproduce_bmr.py run                                              # what is not in runs/bmr.jsonl yet
    python benchmarks/reproduce_bmr.py run --only net=lenet5 method=bmr --seeds 0       # one net, method and seed
    python benchmarks/reproduce_bmr.py table                                            # from the results kept here

Settings of the paper: 50 epochs of 500 steps, batches of 128, AdaBelief (1e-3 for MAP, with dropout 0.2; 5e-3 for flat
and tiered; 1e-2 for BMR), pruning before every epoch but the first, 100 posterior draws for the final figures, all 60,000 training images. The
figures on the way are of 10 draws, every fifth epoch. A killed run goes on from its last checkpoint, in runs/bmr/.
The test set is looked at after training and along the way, and decides nothing.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bayesprune import cells
import jax
import optax

import bayesprune as bp

EPOCH, BATCH = 500, 128
RATES = {"bmr": 1e-2, "flat": 5e-3, "map": 1e-3, "tiered": 5e-3}
# Accuracy, ECE of 20 equal-mass bins, NLL and pruned share at the last epoch, read off the paper's figures 1 and 2.
PUBLISHED = {
    ("lenet5", "map"): (0.887, 0.064, 0.438, None),
    ("lenet5", "flat"): (0.884, 0.041, 0.335, None),
    ("lenet5", "tiered"): (0.889, 0.008, 0.313, None),
    ("lenet5", "bmr"): (0.902, 0.014, 0.283, 0.811),
    ("mlp", "map"): (0.898, 0.060, 0.430, None),
    ("mlp", "flat"): (0.843, 0.040, 0.444, None),
    ("mlp", "tiered"): (0.860, 0.032, 0.394, None),
    ("mlp", "bmr"): (0.869, 0.009, 0.358, 0.99),
}


@dataclass(frozen=True)
class Cell:
    net: str
    method: str
    seed: int
    epochs: int = 50


CELLS = (
    *(Cell("lenet5", method, 0) for method in RATES),
    *(Cell("mlp", method, 0) for method in RATES),
    *(Cell("lenet5", method, seed) for seed in (1, 2) for method in RATES),
)


def build(net: str, method: str, input_shape: tuple[int, ...]) -> bp.BNN:
    """The network and its prior, as the paper has them."""
    dropout = 0.2 if method == "map" else 0.0
    nets = {
        "lenet5": lambda: bp.nets.LeNet5(num_outputs=10, dropout=dropout),
        "mlp": lambda: bp.nets.MLP(hidden=(400,) * 5, num_outputs=10, dropout=dropout),
    }
    return bp.BNN(
        nets[net](),
        prior=bp.priors.Horseshoe() if method == "tiered" else bp.priors.Flat(),
        likelihood=bp.likelihoods.Categorical(),
        input_shape=input_shape,
        posterior="map" if method == "map" else "mean_field",
    )


def run(cell: Cell, folder: Path) -> cells.Record:
    """Train one cell, or go on with it."""
    train, test = bp.data.load("fashion_mnist", pad=32 if cell.net == "lenet5" else 0)
    bnn = build(cell.net, cell.method, train.x.shape[1:])
    pruning = {"sparsifier": bp.methods.BMR(), "every": EPOCH} if cell.method == "bmr" else {}
    point = cell.method == "map"

    def say(moment: Any) -> None:
        if moment.step % (5 * EPOCH) == 0:
            latest = {k: round(v[-1], 4) for k, v in moment.history.items() if k in ("eval/accuracy", "eval/nll")}
            print(f"{cells.key(cell)} step {moment.step} density {moment.density:.4f} {latest}", flush=True)

    fit = bp.fit_svi(
        jax.random.key(cell.seed),
        bnn,
        train,
        num_steps=cell.epochs * EPOCH,
        batch_size=BATCH,
        optimizer=optax.adabelief(RATES[cell.method]),
        eval_data=test,
        eval_every=5 * EPOCH,
        eval_samples=1 if point else 10,
        checkpoint=str(folder / "checkpoints"),
        checkpoint_every=EPOCH,
        callbacks=[say],
        progress=False,
        **pruning,
    )
    draws = 1 if point else 100
    figures = bp.evaluate(jax.random.key(1000 + cell.seed), bnn, fit.params, test, mask=fit.mask, num_samples=draws)
    alive = {site: int(mask.sum()) for site, mask in fit.mask.items()}
    sizes = {site: int(mask.size) for site, mask in fit.mask.items()}
    return {
        **figures,
        "pruned": 1 - sum(alive.values()) / sum(sizes.values()) if sizes else 0.0,
        **cells.flat({"alive": alive, "sizes": sizes, "history": dict(fit.history)}),
    }


def comparison(found: cells.Found) -> str:
    """Mean and spread over seeds, beside the published figures."""
    head = ["net", "method", "seeds", "accuracy", "ece_quantile", "NLL", "pruned of prunable"]
    rows = []
    for (net, method), published in PUBLISHED.items():
        planned = cells.select(CELLS, [f"net={net}", f"method={method}"])
        have = [found[cell] for cell in planned if cell in found]
        values = lambda name, of=have: cells.mean_and_spread([record[name] for record in of])  # noqa: E731
        figures = [values(name) for name in ("accuracy", "ece_quantile", "nll")]
        beside = " / ".join("-" if value is None else f"{value:g}" for value in published)
        share = values("pruned") if method == "bmr" else "-"
        rows.append([net, method, cells.count(have, planned), *figures, share, beside])
    return cells.table([*head, "published acc / ece / NLL / pruned"], rows, "llrlllll")


STUDY = cells.Study("bmr", CELLS, run, {"fashion_mnist": comparison})

if __name__ == "__main__":
    cells.main(STUDY)
