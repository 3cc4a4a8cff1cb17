"""The simulations of the SVBNN paper (its Tables 1 and 2), every replication of a cell in one vectorised program.

    python benchmarks/reproduce_svbnn.py run                                            # what is not in runs/svbnn.jsonl yet
    python benchmarks/reproduce_svbnn.py run --only simulation=code_x method=svbnn      # one simulation, one method
    python benchmarks/reproduce_svbnn.py table                                          # from the results kept here

Settings of the paper and its code: Adam 5e-3, batches of 512 (all 500 rows in simulation B), 7000 epochs, one draw a step,
lambda_opt, noise of standard deviation 1 taken as known, 30 draws for a prediction, 10,000 test rows. Simulation II comes with
the inputs of the code, U(-1, 1), and of the paper's text, N(0, 1). The rows beside it: VBNN, the same network with a Gaussian
prior and no gates; magnitude, a MAP fit cut along the cubic schedule to the share that the paper found best for it (its AGP).
Oracle: a MAP fit, rate decayed from 1e-2 by a cosine, that is given the relevant inputs alone. Test rows decide nothing.
"""

import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import optax

import bayesprune as bp
from bayesprune import cells
from bayesprune.prune.cutting import expected_density


class Setting(NamedTuple):
    """A simulation: how it is drawn, the network that learns it, and how long."""

    draw: Any
    hidden: tuple[int, ...]
    activation: Any
    batch_size: int | None
    num_steps: int
    magnitude_density: float


def _simulated(name: str) -> Any:
    return lambda seed: bp.data.simulate(name, seed=seed)


def _taught(name: str) -> Any:
    return lambda seed: bp.data.teacher_student(name, seed=seed)


SETTINGS = {
    "teacher_a": Setting(_taught("teacher_a"), (6, 6), nn.sigmoid, 512, 42_000, 0.3),
    "teacher_b": Setting(_taught("teacher_b"), (6, 6), nn.tanh, None, 7_000, 0.05),
    "code_x": Setting(_simulated("simulation_svbnn"), (7, 7, 7), nn.relu, 512, 42_000, 0.3),
    "paper_x": Setting(_simulated("simulation_svbnn_normal"), (7, 7, 7), nn.relu, 512, 42_000, 0.3),
}
POINTS = ("magnitude", "oracle")
METHODS = ("svbnn", "vbnn", "magnitude", "oracle")
# Test RMSE, FPR, FNR (%), coverage (%), sparsity (%: share of weights left) as published.
PUBLISHED = {
    ("teacher_a", "svbnn"): "1.01 / - / - / 97.5 / 6.45",
    ("teacher_a", "vbnn"): "1.00 / - / - / 91.4 / 100",
    ("teacher_a", "magnitude"): "1.01 / - / - / - / 30 (AGP)",
    ("teacher_b", "svbnn"): "1.00 / 0 / 0 / 96.4 / 2.15",
    ("teacher_b", "vbnn"): "1.53 / 100 / 0 / 90.7 / 100",
    ("teacher_b", "magnitude"): "1.02 / 16.9 / 0 / - / 5 (AGP)",
    ("code_x", "svbnn"): "1.186 / 0 / 0 / - / 2.97 (one run of the released code)",
    ("paper_x", "svbnn"): "1.21 / 0 / 16.0 / - / 2.97",
    ("paper_x", "vbnn"): "1.99 / 100 / 0 / - / 100",
    ("paper_x", "magnitude"): "1.58 / 82.7 / 1.33 / - / 30 (AGP)",
}


@dataclass(frozen=True)
class Cell:
    simulation: str
    method: str
    steps: int
    replications: int = 10  # data sets and starts


# All inputs of teacher A matter: its oracle would be the dense network again.
CELLS = tuple(
    Cell(name, method, setting.num_steps)
    for name, setting in SETTINGS.items()
    for method in METHODS
    if (name, method) != ("teacher_a", "oracle")
)


def build(setting: Setting, method: str, num_inputs: int, form: str) -> bp.BNN:
    """The student network with the method's prior; every weight and bias is the method's own."""
    slab = 1.3 if form == "optimal_code" else 2.0**0.5
    prior = bp.priors.DiracSlab(form, slab_scale=slab) if method == "svbnn" else bp.priors.Gaussian(scale=slab)
    start = bp.priors.DiracSlab(form, slab_scale=slab).family
    return bp.BNN(
        bp.nets.MLP(setting.hidden, 1, activation=setting.activation),
        prior=prior,
        likelihood=bp.likelihoods.Normal(1.0),
        input_shape=(num_inputs,),
        posterior=bp.model.families.MapFamily(start.init_range) if method in POINTS else start,
        prunable=bp.select.everything,
    )


def run(cell: Cell, folder: Path) -> cells.Record:
    """Train and judge all replications of one cell."""
    setting = SETTINGS[cell.simulation]
    train, test, relevant = drawn(setting, cell.replications)
    if cell.method == "oracle":
        train, test = (bp.Dataset(d.x[..., relevant[0]], d.y) for d in (train, test))
    form = "optimal" if cell.simulation == "paper_x" else "optimal_code"
    bnn = build(setting, cell.method, train.x.shape[-1], form)
    fit = {"num_steps": cell.steps, "batch_size": setting.batch_size, "optimizer": optax.adam(5e-3)}
    begin = time.perf_counter()
    if cell.method == "oracle":
        fit["optimizer"] = optax.adam(optax.cosine_decay_schedule(1e-2, cell.steps))
    mask: dict[str, Any] = {}
    if cell.method == "magnitude":
        params, mask = gradual_magnitude(setting, bnn, train, fit)
    else:
        params, _ = bp.fit_replicates(jax.random.key(0), bnn, train, estimator="weight", kl_weight=1.0, progress=False, **fit)
    seconds = time.perf_counter() - begin
    figures = judge(bnn, params, mask, train, test, relevant, 1 if cell.method in POINTS else 30)
    return {**figures, "training_seconds": seconds}


def drawn(setting: Setting, replications: int) -> tuple[bp.Dataset, bp.Dataset, np.ndarray]:
    """Training and test rows of all replications, and which inputs are relevant, (replications, inputs)."""
    made = [setting.draw(seed) for seed in range(replications)]
    train, test = (
        bp.Dataset(*(np.stack([getattr(getattr(s, part), field) for s in made]) for field in ("x", "y")))
        for part in ("train", "test")
    )
    return train, test, np.stack([s.relevant for s in made])


def gradual_magnitude(setting: Setting, bnn: bp.BNN, train: bp.Dataset, fit: dict[str, Any]) -> tuple[Any, Any]:
    """Replications one by one (they prune on the way): cut every twentieth of the training along the cubic, then train on."""
    cubic = bp.schedules.Cubic(setting.magnitude_density, begin=3, end=14)
    every = max(1, fit["num_steps"] // 20)
    results = [
        bp.fit_svi(
            key,
            bnn,
            bp.Dataset(x, y),
            course=bp.courses.Plain(),
            sparsifier=bp.methods.Magnitude(density=cubic),
            every=every,
            progress=False,
            **fit,
        )
        for key, x, y in zip(jax.random.split(jax.random.key(0), len(train.y)), train.x, train.y, strict=True)
    ]
    stack = lambda *leaves: jnp.stack(leaves)  # noqa: E731
    params, mask = (jax.tree.map(stack, *[getattr(r, name) for r in results]) for name in ("params", "mask"))
    return params, mask


def judge(bnn: Any, params: Any, mask: Any, train: Any, test: Any, relevant: np.ndarray, num_samples: int) -> dict[str, Any]:
    """The figures of each replication, as lists."""
    nodes = bnn.posterior(params)
    result: dict[str, Any] = {}
    for part, data in (("train", train), ("test", test)):
        draws = bp.predict_replicates(jax.random.key(2), bnn, params, data.x, mask=mask, num_samples=num_samples)
        result[f"{part}_rmse"] = [float(np.sqrt(np.mean((d.mean(0) - y) ** 2))) for d, y in zip(draws, data.y, strict=True)]
    summaries = [bp.metrics.regression_summary(d[..., None], y, 1.0) for d, y in zip(draws, test.y, strict=True)]
    result["coverage"] = [s["coverage"] for s in summaries] if num_samples > 1 else []
    first = nodes["Dense_0.kernel"]
    if isinstance(first, bp.SpikeSlab):
        used = np.asarray(first.logit > 0).any(-1)
        result["sparsity"] = np.asarray(jax.vmap(lambda one: expected_density(bnn.posterior(one)))(params)).tolist()
        cut = [np.asarray(node.logit > 0).reshape(len(relevant), -1) for node in nodes.values()]
        result["median_model_sparsity"] = np.concatenate(cut, 1).mean(1).tolist()
    elif mask:
        used = np.asarray(mask["Dense_0.kernel"]).any(-1)
        result["sparsity"] = (
            np.concatenate([np.asarray(m).reshape(len(relevant), -1) for m in mask.values()], 1).mean(1).tolist()
        )
    else:
        used, result["sparsity"] = np.ones_like(relevant), [1.0] * len(relevant)
    if first.loc.shape[1] < relevant.shape[1]:  # the oracle was told what is relevant: that is no selection
        return result | {"fpr": [], "fnr": []}
    result["fpr"] = [bp.metrics.fpr(s, r) for s, r in zip(used, relevant, strict=True)]
    result["fnr"] = [bp.metrics.fnr(s, r) for s, r in zip(used, relevant, strict=True)]
    return result


def simulations(found: cells.Found) -> str:
    """Mean and standard deviation over replications, beside the published figures."""
    head = ["simulation", "method", "replications", "train RMSE", "test RMSE", "FPR %", "FNR %", "coverage %", "weights left %"]
    head += ["published: test RMSE / FPR / FNR / coverage / left", "s per replication"]
    rows = []
    for cell in CELLS:
        record, beside = found.get(cell), PUBLISHED.get((cell.simulation, cell.method), "-")
        if record is None:
            rows.append([cell.simulation, cell.method, f"0 of {cell.replications}", *["missing"] * 6, beside, "-"])
            continue
        figures = [_spread(record[name], 1, 3) for name in ("train_rmse", "test_rmse")]
        figures += [_spread(record[name], 100, 1) for name in ("fpr", "fnr", "coverage", "sparsity")]
        seconds = f"{record['training_seconds'] / cell.replications:.0f}"
        rows.append([cell.simulation, cell.method, str(cell.replications), *figures, beside, seconds])
    return cells.table(head, rows, "l" * len(head))


def _spread(values: list[float | None], factor: float, digits: int) -> str:
    known = [v for v in values if v is not None]
    return cells.mean_and_spread(known, digits, factor) if known else "-"


STUDY = cells.Study("svbnn", CELLS, run, {"simulations": simulations})

if __name__ == "__main__":
    cells.main(STUDY)
