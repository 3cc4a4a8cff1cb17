"""What `bp.laplace` gives around networks that others trained, by who chooses the prior's precision.

    python benchmarks/around_trained.py run                # into runs/around_trained.jsonl, what is not there
    python benchmarks/tables.py                            # from the results kept here, into the page

Plain Flax and optax, 3,000 steps of 128 rows: by Adam without a weight decay, or by SGD with momentum, a cosine and a decay
of 5e-4. Of image sets 10,000 rows, and 2,000 that judge; of every set a fifth of the training rows is not trained on. Then
precisions by the evidence alone (`excess=None`), by the evidence and (25.9), the default, or by that fifth (`eval_data=`). The
test rows judge: NLL of thirty drawn networks, of thirty linearised ones, and of the mean of what `bmr_prune` leaves. The rule
was found on digits, Fashion-MNIST, breast_cancer and wine; on the other sets nothing was chosen.
"""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
from sklearn.model_selection import train_test_split

import bayesprune as bp
from bayesprune import cells
from sklearn import datasets as shipped

STEPS, BATCH, DRAWS, TRAINED_ON, JUDGED_BY = 3000, 128, 30, 10_000, 2_000
CHOICES = ("evidence", "default", "held_out")
# Data set -> hidden units of an MLP; LeNet-5 where there are none.
SEEN = {"digits": (100, 100), "fashion_mnist": (100, 100), "breast_cancer": (50,), "wine": (50,)}
UNSEEN = {
    "mnist": None,
    "iris": (50,),
    "uci/concrete": (50,),
    "uci/boston_housing": (50,),
    "uci/power_plant": (50,),
    "uci/wine_quality_red": (50,),
    "uci/yacht": (50,),
    "diabetes": (50,),
}
HOW = {
    "adam": lambda: optax.adam(1e-3),
    "sgd": lambda: optax.chain(optax.add_decayed_weights(5e-4), optax.sgd(optax.cosine_decay_schedule(0.05, STEPS), 0.9)),
}
TABLES_OF_LABELS = ("breast_cancer", "wine", "iris")


@dataclass(frozen=True)
class Cell:
    data: str
    how: str
    curvature: str = "diag"


CELLS = tuple(Cell(data, how) for data in SEEN | UNSEEN for how in HOW) + tuple(
    Cell(data, how, "kron") for data in ("digits", "fashion_mnist", "iris", "uci/yacht") for how in HOW
)


def parts(name: str) -> tuple[bp.Dataset, bp.Dataset, bp.Dataset]:
    """Rows to train on, rows that were held out, and rows that judge."""
    if name in TABLES_OF_LABELS:
        x, y = getattr(shipped, f"load_{name}")(return_X_y=True)
        x, xt, y, yt = train_test_split(x, y, test_size=1 / 3, random_state=0, stratify=y)
        mean, scale = x.mean(axis=0), x.std(axis=0)
        train, test = (bp.Dataset(((a - mean) / scale).astype(np.float32), b.astype(np.int32)) for a, b in ((x, y), (xt, yt)))
    else:
        train, test = bp.data.load(name, pad=0 if (SEEN | UNSEEN)[name] else 32)
    rng = np.random.default_rng(0)
    rows, judge = rng.permutation(len(train.x))[:TRAINED_ON], rng.permutation(len(test.x))[:JUDGED_BY]
    of = lambda data, part: bp.Dataset(np.asarray(data.x)[part], np.asarray(data.y)[part])  # noqa: E731
    held = len(rows) // 5
    return of(train, rows[held:]), of(train, rows[:held]), of(test, judge)


def trained(net: Any, how: str, train: bp.Dataset, classes: bool) -> Any:
    """The variables that plain training ends with."""
    x, y, optimizer = jnp.asarray(train.x), jnp.asarray(train.y), HOW[how]()

    @jax.jit
    def step(variables: Any, state: Any, rows: jax.Array) -> tuple[Any, Any]:
        def loss(variables: Any) -> jax.Array:
            outputs = net.apply(variables, x[rows])
            if classes:
                return optax.softmax_cross_entropy_with_integer_labels(outputs, y[rows]).mean()
            return 0.5 * jnp.mean((outputs.reshape(len(rows)) - y[rows].reshape(len(rows))) ** 2)

        updates, state = optimizer.update(jax.grad(loss)(variables), state, variables)
        return optax.apply_updates(variables, updates), state

    variables, rng = net.init(jax.random.key(0), x[:1]), np.random.default_rng(0)
    state = optimizer.init(variables)
    for _ in range(STEPS):
        variables, state = step(variables, state, jnp.asarray(rng.integers(0, len(x), BATCH)))
    return variables


def run(cell: Cell, folder: Path) -> cells.Record:
    """Scores of the trained network and of what each choice puts around it."""
    train, held, test = parts(cell.data)
    classes = np.issubdtype(np.asarray(train.y).dtype, np.integer)
    hidden, outputs = (SEEN | UNSEEN)[cell.data], int(np.max(train.y)) + 1 if classes else 1
    net = bp.nets.LeNet5(outputs) if hidden is None else bp.nets.MLP(hidden, outputs)
    likelihood = bp.likelihoods.Categorical() if classes else bp.likelihoods.Normal()
    bnn = bp.BNN(
        net, prior=bp.priors.Gaussian(), likelihood=likelihood, input_shape=train.x.shape[1:], prunable=bp.select.everything
    )
    variables, key = trained(net, cell.how, train, classes), jax.random.key(1)
    points = bp.laplace(key, bnn, variables, train, prior_precision=1e8, excess=None)  # as good as the network alone
    grid = {"trained": judged(bnn, points.params, None, test, 1)}
    choices: dict[str, dict[str, Any]] = {"evidence": {"excess": None}, "default": {}, "held_out": {"eval_data": held}}
    for name, how in choices.items():
        fit = bp.laplace(key, bnn, variables, train, curvature=cell.curvature, **how)
        found = judged(bnn, fit.params, None, test, DRAWS)
        found["linearised"] = judged(bnn, fit.params, None, test, DRAWS, linearised=True)["nll"] if classes else float("nan")
        found["factor"] = float(fit.history["laplace/factor"][0]) if "laplace/factor" in fit.history else 1.0
        if cell.curvature == "diag":
            cut = bp.bmr_prune(fit.params)
            alive = np.concatenate([np.ravel(one) for one in cut.mask.values()])
            left = bp.laplace(key, bnn, cut, train, prior_precision=1e8, excess=None)
            found |= {"density": float(alive.mean()), "pruned": judged(bnn, left.params, cut.mask, test, 1)["nll"]}
        grid[name] = found
    return {"rows": len(train.x), "classes": int(classes), **cells.flat(grid)}


def judged(bnn: bp.BNN, params: Any, mask: Any, test: bp.Dataset, draws: int, linearised: bool = False) -> dict[str, float]:
    """NLL, and accuracy or RMSE, of so many drawn networks."""
    key = jax.random.key(2)
    if linearised:
        probs = bp.predict(key, bnn, params, test.x, mask=mask, num_samples=draws, linearised=True)
        return {"nll": float(bp.metrics.summary(probs, test.y)["nll"])}
    found = bp.evaluate(key, bnn, params, test, mask=mask, num_samples=draws)
    return {"nll": float(found["nll"]), "score": float(found["accuracy"] if "accuracy" in found else found["rmse"])}


def _table(names: Any, curvature: str) -> Callable[[cells.Found], str]:
    """A row for each network."""
    head = [
        "data",
        "trained by",
        "trained alone",
        "by evidence",
        "default",
        "by held-out rows",
        "default, linearised",
        "factor",
    ]
    head += ["evidence: density / NLL cut", "default: density / NLL cut"] if curvature == "diag" else []

    def table(found: cells.Found) -> str:
        planned = [cell for cell in CELLS if cell.data in names and cell.curvature == curvature]
        rows = [[cell.data.removeprefix("uci/"), cell.how, *_figures(found.get(cell), len(head) - 2)] for cell in planned]
        return cells.table(head, rows, "ll" + "r" * (len(head) - 2))

    return table


def _figures(one: cells.Record | None, number: int) -> list[str]:
    """The first so many."""
    if one is None:
        return [cells.MISSING] * number
    shown = [f"{one[f'{name}/nll']:.3f} ({one[f'{name}/score']:.3f})" for name in ("trained", *CHOICES)]
    shown += [f"{one['default/linearised']:.3f}" if one["classes"] else "-", f"{one['default/factor']:,.0f}"]
    cut = [f"{one[f'{name}/density']:.2f} / {one[f'{name}/pruned']:.3f}" for name in CHOICES[:2] if f"{name}/density" in one]
    return (shown + cut)[:number]


TABLES: dict[str, Callable[[cells.Found], str]] = {
    "unseen": _table(UNSEEN, "diag"),
    "seen": _table(SEEN, "diag"),
    "kron": _table(SEEN | UNSEEN, "kron"),
}
STUDY = cells.Study("around_trained", CELLS, run, TABLES)

if __name__ == "__main__":
    cells.main(STUDY)
