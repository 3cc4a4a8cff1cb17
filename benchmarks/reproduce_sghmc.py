"""SGHMC-SPL: the simulations E1 to E3 with known inputs, and LeNet-5 beside a dense ensemble.

    python benchmarks/reproduce_sghmc.py run                                # what is not in runs/sghmc.jsonl yet
    python benchmarks/reproduce_sghmc.py run --only data=e1 --seeds 0 1     # one simulation, two seeds
    python benchmarks/reproduce_sghmc.py table                              # from the results kept here

Simulations: the authors' settings (decays, thresholds, 50 epochs of warm-up, six cycles, Temp = n^(-1/2), batches of 1,024;
loss: the mean square, so that the noise counts as half of what it is), groups are the inputs of the network, for the
authors' shares of zeros are those of nets whose first layer alone was cut; weights and biases start as PyTorch's do.
"switch" is the released rule, "em" (7.4) and (7.5) with the same threshold of cutting, "em_alone" cuts where p < 1/2 and
has no threshold set by hand, "em_cycle" the same after a whole cycle of warming up. 30 networks of the last three cycles
predict; inputs are those of all 30, zeros those of the last step, out of all parameters. Before the first act each rule's
records have the mean squares of the inputs' weights, and beside them the one at which p = 1/2 (7.7).

LeNet-5 (tanh, the BMR paper's): 50 epochs of 500 steps of 128 rows, all training images. "switch": C² = .5, four cycles,
ten warm-up epochs, slab N(0, 1) about weights that start as He's, a spike 1,000 times as precise, thresholds .01 (soft) and
.002 (hard) on slices and inputs, the last of seven settings that were tried for 4,000 to 6,000 steps on 50,000 training
images and judged on the other 10,000: the six before cut next to nothing. "early": with three warm-up epochs. 20 networks
of the last two cycles. "ensemble": five MAP fits of a fifth of the steps each, AdaBelief 1e-3, so that both cost as much.
The test set decides nothing.
"""

import math
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import flax.linen as nn
import jax
import numpy as np

import bayesprune as bp
from bayesprune import cells
from bayesprune.formulas import sghmc_spl
from bayesprune.model.families import MapFamily

HARD, SPIKE, WARM_UP, CYCLES = 1e-3, 1e-2, 50, 6
FIRST = "Dense_0.kernel"


class Setting(NamedTuple):
    """Of a simulation: hidden layers, wd1, the soft threshold, C² at a cycle's start, epochs; and what the authors have."""

    hidden: tuple[int, ...]
    slab: float
    soft: float
    squared_step: float
    epochs: int
    inputs: int
    published: str


SIMULATIONS = {
    "e1": Setting((5, 3), 2e-4, 1e-2, 0.01, 3000, 5, "x1..x5, 98.97 %, MSE 1.11 to 1.18; 19 min"),
    "e2": Setting((6, 4, 3), 5e-4, 1e-2, 0.01, 6000, 5, "x1..x5, 99.31 %, MSE 2.49"),
    "e3": Setting((6, 4, 3), 5e-4, 2e-2, 0.1, 3000, 4, "x1..x4, 98.8 %, 95 to 96 %; 14 min"),
}
STEPS, BATCH, MEMBERS = 25_000, 128, 5


@dataclass(frozen=True)
class Cell:
    """One chain, or one ensemble. ``share``: of the steps, for a trial."""

    data: str
    rule: str = "switch"
    seed: int = 0
    share: float = 1.0


CELLS = (
    *(Cell(data, "switch", seed) for data in ("e1", "e3", "e2") for seed in range(10)),
    *(Cell(data, rule, seed) for data in ("e1", "e3") for rule in ("em", "em_alone", "em_cycle") for seed in range(3)),
    *(Cell(data, rule, seed) for data in ("e1", "e3") for rule in ("em", "em_cycle") for seed in range(3, 10)),
    *(Cell("e2", "em", seed) for seed in range(10)),
    *(Cell("fashion_mnist", rule) for rule in ("switch", "early", "ensemble")),
)


def run(cell: Cell, folder: Path) -> cells.Record:
    """One chain, or one ensemble."""
    if cell.data in SIMULATIONS:
        begin = time.process_time()
        return _simulate(cell, folder) | {"cpu_seconds": time.process_time() - begin}
    pad = 32
    train, test = bp.data.load(cell.data, pad=pad)
    return (_ensemble if cell.rule == "ensemble" else _chain)(cell, folder, train, test)


def rule(name: str, **settings: Any) -> bp.methods.SGHMCSPL:
    """The method of a cell's rule."""
    if name in ("em_alone", "em_cycle"):
        settings["hard"] = None
    if name.startswith("early"):
        settings["warm_up"] = 3
    if name == "early_channels":  # .2 is the range of 25 to 150 normal weights of mean square .002
        settings |= {"scope": "unit", "size": "range", "hard": 0.2}
    return bp.methods.SGHMCSPL("em" if name.startswith("em") else "switch", **settings)


def _simulate(cell: Cell, folder: Path) -> cells.Record:
    setting = SIMULATIONS[cell.data]
    simulated = bp.data.simulate(f"simulation_{cell.data}", seed=cell.seed)
    rows = len(simulated.train.y)
    noise = bp.likelihoods.Normal(math.sqrt(0.5))  # the loss is the mean square
    bnn = bp.BNN(
        bp.nets.MLP(setting.hidden, 1, activation=nn.relu),
        prior=bp.priors.Gaussian(1.0 / math.sqrt(rows * setting.slab), centred=True),
        likelihood=bp.likelihoods.Bernoulli() if cell.data == "e3" else noise,
        input_shape=simulated.train.x.shape[1:],
        prunable=lambda path, shape: path == FIRST,
        posterior="map",
    )
    epoch = math.ceil(rows / 1024)
    num_steps, begin = int(setting.epochs * epoch * cell.share), time.perf_counter()
    warm_up = setting.epochs // CYCLES if cell.rule == "em_cycle" else WARM_UP
    first_act, seen = epoch * (warm_up + 1), []

    def see(moment: bp.Moment) -> None:
        if moment.step == first_act:
            seen.append(_sizes_of_inputs(moment.params(), setting, rows))

    fit = bp.fit_sgmcmc(
        jax.random.key(cell.seed),
        bnn,
        simulated.train,
        num_steps=num_steps,
        batch_size=1024,
        kernel=bp.kernels.SGHMCSPL(step_size=setting.squared_step, num_cycles=CYCLES),
        sparsifier=rule(cell.rule, ratio=SPIKE / setting.slab, soft=setting.soft, hard=HARD, warm_up=warm_up),
        num_samples=30,
        burn_in=num_steps // 2,
        init_params=as_pytorch_does(bnn, cell.seed),
        callbacks=see,
        callback_every=first_act,
        checkpoint=folder / "checkpoints",
        checkpoint_every=5000,
        progress=False,
    )
    seconds = time.perf_counter() - begin
    chosen = np.flatnonzero(np.asarray(fit.mask[FIRST]).any(1))
    figures = bp.evaluate(jax.random.key(1), bnn, fit.params, simulated.test)
    sizes = {str(spec.path): math.prod(spec.shape) for spec in bnn.layout}
    first = sizes[FIRST]
    score = 100 * figures["accuracy"] if "accuracy" in figures else figures["rmse"] ** 2
    return {
        "inputs": chosen.tolist(),
        "exact": bool(np.array_equal(chosen, np.arange(setting.inputs))),
        "zeros": 100 * (1 - float(fit.history["prune/density"][-1])) * first / sum(sizes.values()),
        "score": score,
        "training_seconds": seconds,
        "tau": _tau(fit),
        "density": np.asarray(fit.history["prune/density"])[warm_up :: setting.epochs // CYCLES].tolist(),
        "before_first_act": seen[0] if seen else None,  # None: resumed after it
    }


def _sizes_of_inputs(params: dict[str, Any], setting: Setting, rows: int) -> dict[str, float]:
    """Mean squares of the weights of the inputs that matter and of the others, and that at which p = 1/2 with theta = 1/2."""
    sizes = np.mean(np.square(np.asarray(params[f"{FIRST}_map_loc"])), axis=1)
    true, null = sizes[: setting.inputs], sizes[setting.inputs :]
    implied = sghmc_spl.threshold(setting.hidden[0], 0.5, rows * setting.slab, rows * SPIKE)
    return {
        "least_true": float(true.min()),
        "null": float(np.median(null)),
        "most_null": float(null.max()),
        "implied": float(implied),
    }


def as_pytorch_does(bnn: bp.BNN, seed: int) -> dict[str, np.ndarray]:
    """Kernels and biases from U(-1/sqrt(fan-in), 1/sqrt(fan-in)), fan-in that of the layer."""
    rng = np.random.default_rng(seed)
    fans = {spec.path.layer: spec.fan_in for spec in bnn.layout if spec.inputs}
    start = {}
    for spec in bnn.layout:
        bound = fans[spec.path.layer] ** -0.5
        start[f"{spec.path}_{'map' if spec.prunable else 'dense_map'}_loc"] = rng.uniform(-bound, bound, spec.shape).astype(
            np.float32
        )
    return start


def _tau(fit: Any) -> float:
    """The mean of tau = sigmoid(rho) over the weights at the last step."""
    rho = np.concatenate([np.asarray(leaf).reshape(-1) for leaf in jax.tree.leaves(fit.state.optim_state[1][1].rho)])
    return float(np.mean(1 / (1 + np.exp(-rho))))


def _lenet(train: bp.Dataset, **settings: Any) -> bp.BNN:
    return bp.BNN(
        bp.nets.LeNet5(num_outputs=10),
        likelihood=bp.likelihoods.Categorical(),
        input_shape=train.x.shape[1:],
        **settings,
    )


def chain(cell: Cell, folder: Path, train: bp.Dataset, **settings: Any) -> tuple[bp.BNN, Any]:
    """The network and its fit; ``settings`` of the fit beside those of the cell."""
    bnn = _lenet(
        train,
        prior=bp.priors.Gaussian(1.0, centred=True),
        prunable=bp.select.hidden_kernels,
        posterior=MapFamily(init_loc="he"),
    )
    fit = bp.fit_sgmcmc(
        jax.random.key(cell.seed),
        bnn,
        train,
        num_steps=int(STEPS * cell.share),
        batch_size=BATCH,
        kernel=bp.kernels.SGHMCSPL(step_size=0.5, num_cycles=4),
        sparsifier=rule(cell.rule, ratio=1000.0, soft=0.01, hard=0.002, scope="per_slice", warm_up=10),
        every=500,
        num_samples=20,
        burn_in=int(STEPS * cell.share) // 2,
        checkpoint=folder / "checkpoints",
        checkpoint_every=2500,
        progress=False,
        **settings,
    )
    return bnn, fit


def _chain(cell: Cell, folder: Path, train: bp.Dataset, test: bp.Dataset) -> cells.Record:
    begin = time.perf_counter()
    bnn, fit = chain(cell, folder, train, eval_data=test, eval_every=2500)
    seconds = time.perf_counter() - begin
    figures = bp.evaluate(jax.random.key(1), bnn, fit.params, test)
    used = sum(int(np.sum(alive)) for alive in bp.connected(bnn, fit.mask).values())
    return {
        **figures,
        "pruned": 1 - float(fit.history["prune/density"][-1]),
        "pruned_in_all": 1 - sum(int(m.sum()) for m in fit.mask.values()) / sum(m.size for m in fit.mask.values()),
        "in_use": used / sum(m.size for m in fit.mask.values()),
        "training_seconds": seconds,
        "tau": _tau(fit),
    }


def ensemble(cell: Cell, folder: Path, train: bp.Dataset, test: bp.Dataset) -> np.ndarray:
    """The members' mean probabilities of the test rows."""
    bnn = _lenet(train, prior=bp.priors.Gaussian(1.0), posterior=MapFamily(init_loc="he"))
    probs = np.zeros((len(test.y), 10))
    for member in range(MEMBERS):
        fit = bp.fit_svi(
            jax.random.fold_in(jax.random.key(cell.seed), member),
            bnn,
            train,
            num_steps=int(STEPS * cell.share) // MEMBERS,
            batch_size=BATCH,
            course=bp.courses.Plain(rate=1e-3),
            checkpoint=folder / f"member_{member}",
            progress=False,
        )
        probs += bp.predict(jax.random.key(1), bnn, fit.params, test.x, num_samples=1) / MEMBERS
    return probs


def _ensemble(cell: Cell, folder: Path, train: bp.Dataset, test: bp.Dataset) -> cells.Record:
    begin = time.perf_counter()
    probs = ensemble(cell, folder, train, test)
    seconds = time.perf_counter() - begin
    return {**bp.metrics.classification_summary(probs, np.asarray(test.y)), "pruned": 0.0, "training_seconds": seconds}


def _range(records: list[cells.Record], name: str, unit: float = 1.0) -> str:
    """Mean and range of a figure, where it is a number."""
    return cells.mean_and_range([record[name] / unit for record in records if record.get(name) is not None])


def simulations(found: cells.Found) -> str:
    """Inputs, zeros and test scores by simulation and rule."""
    head = [
        "data",
        "rule",
        "seeds",
        "exact inputs",
        "zeros %",
        "MSE, or accuracy %",
        "minutes",
        "CPU minutes",
        "tau",
        "authors",
    ]
    rows = []
    for data, name in dict.fromkeys((cell.data, cell.rule) for cell in CELLS if cell.data in SIMULATIONS):
        planned = [cell for cell in CELLS if (cell.data, cell.rule) == (data, name)]
        have = [found[cell] for cell in planned if cell in found]
        rows.append(
            [
                data,
                name,
                cells.count(have, planned),
                f"{sum(record['exact'] for record in have)} of {len(have)}",
                _range(have, "zeros"),
                _range(have, "score"),
                _range(have, "training_seconds", 60.0),
                _range(have, "cpu_seconds", 60.0),
                _range(have, "tau"),
                SIMULATIONS[data].published,
            ]
        )
    return cells.table(head, rows, "lllrllllll")


def thresholds(found: cells.Found) -> str:
    """What the E-step's rules compare before their first act: mean squares of the inputs' weights, and that of p = 1/2."""
    columns = ("least_true", "null", "most_null", "implied")
    rows = []
    for data, name in dict.fromkeys((cell.data, cell.rule) for cell in CELLS if cell.rule.startswith("em")):
        planned = [cell for cell in CELLS if (cell.data, cell.rule) == (data, name)]
        have = [found[cell]["before_first_act"] for cell in planned if cell in found and found[cell]["before_first_act"]]
        rows.append([data, name, cells.count(have, planned), *(_range(have, column) for column in columns)])
    head = ["data", "rule", "seeds", "least that matters", "null, median", "largest null", "where p = 1/2"]
    return cells.table(head, rows, "lll" + "r" * 4)


def images(found: cells.Found) -> str:
    """Accuracy, calibration and sparsity of LeNet-5 by data set and rule."""
    names = ("accuracy", "nll", "ece", "ece_quantile", "calibration_marginal")
    rows = []
    for data, name in dict.fromkeys((cell.data, cell.rule) for cell in CELLS if cell.data not in SIMULATIONS):
        planned = [cell for cell in CELLS if (cell.data, cell.rule) == (data, name)]
        have = [found[cell] for cell in planned if cell in found]
        values = [cells.mean_and_spread([record[key] for record in have]) for key in names]
        shares = ", ".join(f"{record['pruned']:.3f}" for record in have) or "-"
        minutes = cells.mean_and_spread([record["training_seconds"] / 60 for record in have])
        rows.append([data, name, cells.count(have, planned), *values, shares, minutes])
    return cells.table(["data", "rule", "seeds", *names, "pruned, by seed", "minutes"], rows, "lll" + "l" * 7)


STUDY = cells.Study("sghmc", CELLS, run, {"simulations": simulations, "thresholds": thresholds, "images": images})

if __name__ == "__main__":
    cells.main(STUDY)
