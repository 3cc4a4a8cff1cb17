"""What moves the BMR paper's figures: the last layer's scale, the divergence, the estimator, the start; one at a time.

    python benchmarks/bmr_ablation.py run                       # what is not in runs/bmr_ablation.jsonl yet
    python benchmarks/bmr_ablation.py run --only method=flat    # one method
    python benchmarks/bmr_ablation.py table                     # from the results kept here

Fashion-MNIST, settings of `bayesprune.reproduce.bmr` (LeNet-5 for fewer epochs than the paper's 50, its MLP under MAP for all),
and one thing changed: "last_gamma": gamma0 = .1 for the last layer too, as the paper's text has it, where the code has 1;
"sampled": the divergence by NumPyro's `Trace_ELBO`, from the densities at the draw, as in the authors' code, where ours is in
closed form; "local": local reparameterisation; "he": kernels start as He's do and biases at zero, in the network's units, where
everything starts at U(-2, 2) in the prior's. 100 draws, or one under MAP; the test set decides nothing.
"""

import dataclasses
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jax
from numpyro.infer import Trace_ELBO

import bayesprune as bp
from bayesprune import cells
from bayesprune.model.families import MapFamily, MeanFieldFamily
from bayesprune.reproduce import bmr
from bayesprune.reproduce.bmr import COURSES, EPOCH, published

CHANGES = ("nothing", "last_gamma", "sampled", "local", "he")
ESTIMATORS: dict[str, Any] = {"sampled": Trace_ELBO(), "local": "local"}


@dataclass(frozen=True)
class Cell:
    """One fit. ``change``: what is not as in the comparison."""

    net: str
    method: str
    change: str = "nothing"
    epochs: int = 20
    seed: int = 0


CELLS = (
    *(Cell("lenet5", method, change) for method in ("flat", "bmr") for change in CHANGES),
    *(Cell("lenet5", "map", change) for change in ("nothing", "he")),
    *(Cell("mlp", "map", change, epochs=50) for change in ("nothing", "he")),
)


def build(cell: Cell, input_shape: tuple[int, ...]) -> bp.BNN:
    """The comparison's network, prior and guide, or one of them changed."""
    prior, posterior = bp.priors.Flat(), None
    if cell.change == "last_gamma":
        prior = dataclasses.replace(prior, last_gamma=prior.gamma0)
    if cell.change == "he":  # in the unit of all layers but the last: where c = 1, a weight is gamma0 times its loc
        posterior = (MapFamily if cell.method == "map" else MeanFieldFamily)(init_loc="he", unit=prior.gamma0)
    return bmr.build(bmr.PaperCell(cell.net, cell.method, cell.seed), input_shape, prior, posterior)


def run(cell: Cell, folder: Path) -> cells.Record:
    """Train one cell, or go on with it."""
    train, test = bp.data.load("fashion_mnist", pad=32 if cell.net == "lenet5" else 0)
    bnn = build(cell, train.x.shape[1:])
    fit = bp.fit_svi(
        jax.random.key(cell.seed),
        bnn,
        train,
        num_steps=cell.epochs * EPOCH,
        batch_size=bmr.BATCH,
        course=COURSES[cell.method],
        estimator=ESTIMATORS.get(cell.change, "weight"),
        checkpoint=folder / "checkpoints",
        checkpoint_every=2 * EPOCH,
        progress=False,
        on_interrupt="raise",
        **({"sparsifier": bp.methods.BMR(), "every": EPOCH} if cell.method == "bmr" else {}),
    )
    draws = 1 if cell.method == "map" else 100
    figures = bp.evaluate(jax.random.key(1000 + cell.seed), bnn, fit.params, test, mask=fit.mask, num_samples=draws)
    return {**figures, **bmr.sparsity(bnn, fit.mask)}


def effects(found: cells.Found) -> str:
    """The figures of each change beside those of none."""
    names = {"accuracy": "accuracy", "ece_quantile": "ece_quantile", "nll": "NLL", "pruned": "pruned", "connected": "connected"}
    rows = []
    for cell in CELLS:
        record = found.get(cell)
        values = ["missing" if record is None else f"{record[name]:.4f}" if record.get(name) else "-" for name in names]
        rows.append(
            [cell.net, cell.method, cell.change, str(cell.epochs), *values, published("fashion_mnist", cell.net, cell.method)]
        )
    head = ["net", "method", "change", "epochs", *names.values(), "published, 50 epochs"]
    return cells.table(head, rows, "lllrrrrrrl")


STUDY = cells.Study("bmr_ablation", CELLS, run, {"effects": effects})

if __name__ == "__main__":
    cells.main(STUDY)
