"""UCI regressions by Gaussian spike-and-slab networks, pruned by inclusion: Table 2 and 3 of Saha, Liu & Liang (2024).

    python benchmarks/reproduce_uci.py run                                                  # what is not in runs/uci.jsonl yet
    python benchmarks/reproduce_uci.py run --only name=yacht                                # one set
    python benchmarks/reproduce_uci.py run --only name=yacht --set rows=validation rate=.02 # one trial on validation rows
    python benchmarks/reproduce_uci.py table                                                # from the results kept here

The protocol of Hernández-Lobato & Adams (2015): their published splits (90 : 10), inputs and targets standardised with the
training rows, one hidden layer of 50 ReLU units. All splits of a set are trained side by side in one program. Weights and
biases together are ranked by their inclusion p* and the least are cut; once as they are, and once refitted under the mask.
With ``rows=validation`` 90 % of the training rows of the first three splits are trained on and the rest of them is scored;
test rows are not looked at.
"""

import functools
import math
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import optax

import bayesprune as bp
from bayesprune import cells
from bayesprune.model.families import MeanFieldFamily
from bayesprune.posteriors.params import cut
from bayesprune.prune.choose import keep_density
from bayesprune.prune.keep_all import KeepAll
from bayesprune.train.kernels.optimizer import Optax
from bayesprune.train.objective import make_elbo
from bayesprune.train.progress import progress as make_progress
from bayesprune.train.side_by_side import advance, side_by_side
from bayesprune.train.sites import Example, sites_of
from bayesprune.train.start import start_params
from bayesprune.train.state import Recipe

DENSITIES = (0.5, 0.25, 0.1)
DRAWS = 50


@dataclass(frozen=True)
class Cell:
    """How one set is fitted. ``warm``: share of the steps over which the penalty's weight rises to 1."""

    name: str
    steps: int = 6000
    batch: int = 100
    rate: float = 1e-2
    refit: int = 1000
    warm: float = 0.3
    init_scale: float = 0.05
    log_slab: float = 0.0
    log_spike: float = -2.0
    noise: str = "vague"
    estimator: str = "local"
    splits: int = 20
    rows: str = "test"


CELLS = (
    Cell("boston_housing"),
    Cell("concrete"),
    Cell("naval_propulsion_plant", steps=5000, batch=200, splits=3),
    Cell("power_plant", steps=8000, batch=200),
    Cell("protein_tertiary_structure", steps=12_000, batch=200, refit=500, splits=3),
    Cell("wine_quality_red"),
    Cell("yacht"),
)
# The paper's Table 3 (full sBNN; best of sBNN, SVBNN, HS-BNN, Dropout, PBP) and its Table 2 at drop rates of 50, 75 and 90 %.
PUBLISHED = {
    "boston_housing": (3.07, 2.97, (3.07, 3.69, 6.22)),
    "concrete": (5.54, 5.23, (5.54, 16.39, 14.98)),
    "naval_propulsion_plant": (0.00, 0.00, (0.01, 0.02, 0.04)),
    "power_plant": (4.00, 4.00, (8.77, 16.74, 17.08)),
    "protein_tertiary_structure": (4.48, 4.30, (4.84, 5.05, 11.15)),
    "wine_quality_red": (0.62, 0.62, (0.62, 0.73, 0.79)),
    "yacht": (0.94, 0.94, (0.94, 1.01, 4.27)),
}


# Gamma(6, 6), the house's prior of the noise's precision, keeps its scale above sqrt(12 / (rows + 10)); this one does not.
VAGUE_NOISE = bp.likelihoods.Normal(noise_shape=1.0, noise_rate=1e-3)


def build(cell: Cell, num_inputs: int) -> bp.BNN:
    """One hidden layer of 50 ReLU units under the spike and slab."""
    slab = math.exp(cell.log_slab)
    return bp.BNN(
        bp.nets.MLP(hidden=(50,), num_outputs=1, activation=nn.relu),
        prior=bp.priors.GaussianSlab(spike_scale=math.exp(cell.log_spike), slab_scale=slab),
        likelihood=VAGUE_NOISE if cell.noise == "vague" else bp.likelihoods.Normal(),
        input_shape=(num_inputs,),
        posterior=MeanFieldFamily(init_scale=cell.init_scale / slab, init_loc="he", unit=slab),
    )


def standardise(train: bp.Dataset, test: bp.Dataset) -> tuple[bp.Dataset, bp.Dataset, np.ndarray, np.ndarray]:
    """Every split by its own training rows; also the targets' location and scale, (splits,). Constant columns become 0."""
    pairs = [bp.data.standardise(bp.Dataset(*a), bp.Dataset(*b), targets=True) for a, b in _each(train, test)]
    scalings = [bp.data.fit_scaling(y) for y in train.y]
    parts = [bp.Dataset(*(np.stack(field) for field in zip(*part, strict=True))) for part in zip(*pairs, strict=True)]
    return parts[0], parts[1], np.array([s.loc for s in scalings]), np.array([s.scale for s in scalings])


def say(words: str) -> None:
    print(time.strftime("%H:%M:%S"), words, flush=True)


def _each(train: bp.Dataset, test: bp.Dataset) -> list[tuple[Any, Any]]:
    return list(zip(zip(train.x, train.y, strict=True), zip(test.x, test.y, strict=True), strict=True))


def recipe(bnn: bp.BNN, cell: Cell, num_rows: int) -> Recipe:
    """What a fit is made of: one for the fit and its refits, so that all of them share a compilation."""
    kl_weight = bp.schedules.LinearWarmup(0, cell.warm * cell.steps) if cell.warm else bp.schedules.Constant(1.0)
    rate = optax.cosine_decay_schedule(cell.rate, cell.steps)
    steps = optax.chain(optax.clip_by_global_norm(10.0), optax.adam(rate))
    keywords = (("train", True), ("num_rows", num_rows))
    return Recipe(bnn, make_elbo(cell.estimator, 1), Optax(steps), KeepAll(), kl_weight, cell.batch, keywords, None)


def everything(bnn: bp.BNN, splits: int) -> dict[str, Any]:
    return {str(spec.path): jnp.ones((splits, *spec.shape), bool) for spec in bnn.layout}


def refit(
    key: jax.Array, how: Recipe, params: dict[str, Any], mask: dict[str, Any], data: bp.Dataset, cell: Cell
) -> dict[str, Any]:
    """Train on from ``params`` under a mask, all splits side by side: the last ``cell.refit`` steps once more.

    The schedules are wound back by so many steps (Renda, Frankle & Carbin 2020), the moments of Adam start anew.
    """
    data = bp.Dataset(jnp.asarray(data.x), jnp.asarray(data.y))
    example = Example.of(bp.Dataset(data.x[0], data.y[0]))
    fits = side_by_side(how, example, shared=False)
    carry = fits.init(jax.random.split(key, len(data.x)), data)
    sites = sites_of(how.program, example)
    begin = jax.vmap(lambda fresh, given: start_params(carry._replace(params=fresh, mutable={}), given, sites).params)
    first = jnp.asarray(cell.steps - cell.refit, jnp.int32)
    moved = lambda s: s._replace(count=jnp.full_like(s.count, first)) if isinstance(s, optax.ScaleByScheduleState) else s  # noqa: E731
    opt_state = jax.tree.map(moved, carry.opt_state, is_leaf=lambda s: isinstance(s, optax.ScaleByScheduleState))
    # A copy: the loop gives its first state's memory away.
    carry = carry._replace(params=jax.tree.map(jnp.copy, begin(carry.params, params)), opt_state=opt_state, step=first)
    with make_progress(cell.refit, False, initial=0) as bar:
        carry, _ = advance(fits, carry, data, mask, 0, cell.refit, "split", bar)
    return cut(fits.constrain(carry.params, carry.opt_state), mask)


@functools.lru_cache(maxsize=4)
def cutter(bnn: bp.BNN) -> Any:
    """(params, density) -> the masks of all splits, each split's weights and biases ranked together by p*."""
    one = lambda params, density: keep_density(bp.scores.inclusion(bnn.read(params)), density)  # noqa: E731
    return jax.jit(jax.vmap(one, in_axes=(0, None)))


def score(
    key: jax.Array, bnn: bp.BNN, params: dict[str, Any], test: bp.Dataset, units: Any, num_draws: int = DRAWS
) -> dict[str, list[float]]:
    """RMSE, NLL, coverage and interval width in the target's units, one number per split; beside them the noise."""
    loc, scale = units
    draws = bp.predict_replicates(key, bnn, params, test.x, num_samples=num_draws)
    noise = np.exp(-0.5 * np.asarray(params["noise_precision_log_loc"]))
    rows = [
        bp.metrics.regression_summary(
            draws[r].astype(np.float64) * scale[r] + loc[r],
            test.y[r].astype(np.float64) * scale[r] + loc[r],
            noise[r] * scale[r],
        )
        | {"noise_scale": float(noise[r] * scale[r])}
        for r in range(len(draws))
    ]
    return {name: [row[name] for row in rows] for name in rows[0]}


def fit_and_score(
    train: bp.Dataset, test: bp.Dataset, cell: Cell, seed: int = 0, densities: tuple[float, ...] = DENSITIES
) -> cells.Record:
    """Raw splits (splits, rows, ...) in; figures of every split out, under ``drop rate/cut or refit/metric``."""
    begin = time.perf_counter()
    train, test, *units = standardise(train, test)
    bnn = build(cell, train.x.shape[-1])
    keys = iter(jax.random.split(jax.random.key(seed), 20))
    how = recipe(bnn, cell, train.x.shape[1])
    fits = bp.fit_replicates(
        next(keys),
        bnn,
        train,
        num_steps=cell.steps,
        batch_size=cell.batch,
        optimizer=how.kernel,
        estimator=cell.estimator,
        kl_weight=how.kl_weight,
        mask=everything(bnn, len(train.x)),
        progress=False,
    )
    say(f"fitted in {time.perf_counter() - begin:.0f} s")
    odds = [np.asarray(node.logit) for node in bnn.read(fits.params).values()]
    included = np.concatenate([o.reshape(len(o), -1) > 0 for o in odds], axis=1).mean(axis=1)
    figures: dict[str, Any] = {"0": {"cut": score(next(keys), bnn, fits.params, test, units)}}
    for density in densities:
        mask = cutter(bnn)(fits.params, density)
        dropped = {"cut": score(next(keys), bnn, cut(fits.params, mask), test, units)}
        if cell.refit:
            dropped["refit"] = score(next(keys), bnn, refit(next(keys), how, fits.params, mask, train, cell), test, units)
        figures[f"{100 * (1 - density):.0f}"] = dropped
        say(f"{100 * (1 - density):.0f} % cut after {time.perf_counter() - begin:.0f} s")
    mean_rmse = np.sqrt(np.mean(test.y.astype(np.float64) ** 2, axis=1)) * units[1]
    return {**cells.flat(figures), "mean_rmse": mean_rmse.tolist(), "included": included.tolist()}


def validation(train: bp.Dataset, splits: int = 3, share: float = 0.1) -> tuple[bp.Dataset, bp.Dataset]:
    """The first splits' training rows, cut again; the same shuffle for all of them."""
    rows = train.x.shape[1]
    order = np.random.default_rng(0).permutation(rows)
    held = int(share * rows)
    pick = lambda index: bp.Dataset(train.x[:splits, index], train.y[:splits, index])  # noqa: E731
    return pick(order[held:]), pick(order[:held])


def run(cell: Cell, folder: Path) -> cells.Record:
    """All splits of one set."""
    train, test = bp.data.uci_splits(cell.name, standardise=False)
    if cell.rows == "validation":
        return fit_and_score(*validation(train), cell, seed=100)
    first = (bp.Dataset(*(field[: cell.splits] for field in part)) for part in (train, test))
    return fit_and_score(*first, cell)


def whole(found: cells.Found) -> str:
    """Without a cut: mean and standard error over splits, beside the published figures."""
    head = [
        "set",
        "splits",
        "RMSE",
        "NLL",
        "coverage of 95 %",
        "p* > 1/2",
        "sBNN paper",
        "best published",
        "predicting the mean",
    ]
    rows = []
    for cell in CELLS:
        record, (paper, best, _) = found.get(cell, {}), PUBLISHED[cell.name]
        figures = [cells.mean_and_error(record.get(f"0/cut/{metric}", [])) for metric in ("rmse", "nll", "coverage")]
        share = f"{100 * np.mean(record['included']):.0f} %" if record else "missing"
        mean = f"{np.mean(record['mean_rmse']):.4g}" if record else "missing"
        rows.append([cell.name, str(cell.splits if record else 0), *figures, share, f"{paper:.2f}", f"{best:.2f}", mean])
    return cells.table(head, rows, "lrlllrrrr")


def by_drop_rate(found: cells.Found) -> str:
    """RMSE by drop rate, cut and refitted, beside the paper's."""
    head = ["set"] + [f"RMSE, {d} % cut: as it is / refitted / paper" for d in (50, 75, 90)]
    rows = []
    for cell in CELLS:
        record, columns = found.get(cell, {}), []
        for drop, paper in zip(("50", "75", "90"), PUBLISHED[cell.name][2], strict=True):
            figures = [cells.mean_and_error(record.get(f"{drop}/{how}/rmse", [])) for how in ("cut", "refit")]
            columns.append(" / ".join([*figures, f"{paper:.2f}"]))
        rows.append([cell.name, *columns])
    return cells.table(head, rows, "llll")


STUDY = cells.Study("uci", CELLS, run, {"whole": whole, "dropped": by_drop_rate})

if __name__ == "__main__":
    cells.main(STUDY)
