"""Are inclusion probabilities right? Small linear regressions, where all 2^k subsets of the inputs can be summed exactly.

    python benchmarks/calibrated_inclusion.py run       # what is not in runs/inclusion.jsonl yet
    python benchmarks/calibrated_inclusion.py table     # from the results kept here

Data sets are drawn from the model itself (k inputs, each active with probability 1/2, its coefficient from N(0, 1), noise of
known scale 1), with independent inputs and with correlated ones (0.8^|i - j|). Every approximation is held against the exact
posterior of its own model: a spike at zero; a narrow Gaussian for the spike; and, for Bayesian model reduction, which learns
the rate of inclusion, a spike at zero with a uniform prior on that rate. All data sets are fitted side by side.
"""

import itertools
import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import flax.linen as nn
import jax
import numpy as np
import optax
from scipy.special import betaln, expit, logsumexp

import bayesprune as bp
from bayesprune import cells
from bayesprune.formulas.inclusion import inclusion
from bayesprune.model.families import MeanFieldFamily

INPUTS, ROWS, SETS, STEPS, PARTICLES = 6, 40, 20, 3000, 16
SPIKE = 0.1
KINDS = {"independent": 0.0, "correlated": 0.8}
GATES = ("hard", "inverse_cdf", "relaxed")
NAMES = {
    "coordinate": "spike at zero, mean field, coordinate ascent",
    **{gate: f'DiracSlab(gate="{gate}")' for gate in GATES},
    "gaussian_slab": "GaussianSlab, p*",
    "bmr": "BMR, q",
}


@dataclass(frozen=True)
class Cell:
    method: str
    inputs: str
    steps: int = STEPS
    seed: int = 0  # of the data sets


CELLS = tuple(Cell(method, kind) for method, kind in itertools.product(NAMES, KINDS))


def simulate(seed: int, correlation: float) -> tuple[np.ndarray, np.ndarray]:
    """``SETS`` data sets: x (sets, rows, inputs), y (sets, rows)."""
    rng = np.random.default_rng(seed)
    root = np.linalg.cholesky(correlation ** np.abs(np.subtract.outer(np.arange(INPUTS), np.arange(INPUTS))))
    x = rng.standard_normal((SETS, ROWS, INPUTS)) @ root.T
    weights = rng.standard_normal((SETS, INPUTS)) * (rng.random((SETS, INPUTS)) < 0.5)
    y = np.einsum("rni,ri->rn", x, weights) + rng.standard_normal((SETS, ROWS))
    return x.astype(np.float32), y.astype(np.float32)


def exact_inclusion(x: np.ndarray, y: np.ndarray, spike_scale: float = 0.0, rate: float | None = 0.5) -> np.ndarray:
    """P(z_j = 1 | y) by the sum over all z, for w_j ~ N(0, 1) or N(0, spike²), noise 1; ``rate=None``: uniform on (0, 1)."""
    x, y, k = np.asarray(x, np.float64), np.asarray(y, np.float64), x.shape[1]
    subsets = np.array(list(itertools.product((False, True), repeat=k)))
    sizes = subsets.sum(axis=1)
    prior = betaln(1 + sizes, 1 + k - sizes) if rate is None else sizes * math.log(rate) + (k - sizes) * math.log1p(-rate)
    log_evidence = np.empty(len(subsets))
    for index, active in enumerate(subsets):
        covariance = np.eye(len(y)) + (x * np.where(active, 1.0, spike_scale**2)) @ x.T
        log_evidence[index] = -0.5 * (np.linalg.slogdet(covariance)[1] + y @ np.linalg.solve(covariance, y))
    log_posterior = prior + log_evidence
    return np.exp(log_posterior - logsumexp(log_posterior)) @ subsets


def coordinate_ascent(x: np.ndarray, y: np.ndarray, sweeps: int = 500) -> np.ndarray:
    """The mean-field optimum itself, without gates or gradients (Carbonetto & Stephens 2012, eq. 8 to 10), from phi = 1/2."""
    x, y = np.asarray(x, np.float64), np.asarray(y, np.float64)
    gram, projected = x.T @ x, x.T @ y
    spread = 1.0 / (np.diag(gram) + 1.0)
    phi, loc = np.full(x.shape[1], 0.5), np.zeros(x.shape[1])
    for _ in range(sweeps):
        for j in range(len(phi)):
            others = gram[j] @ (phi * loc) - gram[j, j] * phi[j] * loc[j]
            loc[j] = spread[j] * (projected[j] - others)
            phi[j] = expit(0.5 * math.log(spread[j]) + loc[j] ** 2 / (2 * spread[j]))
    return phi


def fitted(method: str, x: np.ndarray, y: np.ndarray, steps: int) -> np.ndarray:
    """Inclusion probabilities (sets, inputs) by stochastic variational inference, all sets side by side."""
    prior: Any = {
        "gaussian_slab": bp.priors.GaussianSlab(spike_scale=SPIKE, slab_scale=1.0),
        "bmr": bp.priors.Gaussian(),
    }.get(method)
    if prior is None:
        prior = bp.priors.DiracSlab(log_inclusion=math.log(0.5), slab_scale=1.0, gate=method, init_inclusion=0.5)
    bnn = bp.BNN(
        nn.Dense(1, use_bias=False),
        prior=prior,
        likelihood=bp.likelihoods.Normal(1.0),
        input_shape=(x.shape[-1],),
        posterior=MeanFieldFamily(init_range=0.5, init_scale=0.1),
        prunable=bp.select.everything,
    )
    optimizer = optax.adam(optax.cosine_decay_schedule(2e-2, steps))
    fits = bp.fit_replicates(
        jax.random.key(0),
        bnn,
        bp.Dataset(x, y),
        num_steps=steps,
        optimizer=optimizer,
        estimator="weight",
        num_particles=PARTICLES,
        kl_weight=1.0,
        progress=False,
    )
    (node,) = bnn.read(fits.params).values()
    if method != "bmr":
        return expit(np.asarray(node.logit, np.float64)[..., 0])
    gain = -bp.scores.evidence({"w": node}, {"w": 1.0})["w"]
    return np.asarray(jax.vmap(lambda one: inclusion(one)[0])(gain), np.float64)[..., 0]


def errors(approximate: np.ndarray, exact: np.ndarray) -> dict[str, float]:
    """``too_sure``: how much further than the exact ones the approximations are from 1/2, on average."""
    gap = approximate - exact
    return {
        "mean_error": float(gap.mean()),
        "mean_absolute_error": float(np.abs(gap).mean()),
        "too_sure": float((np.abs(approximate - 0.5) - np.abs(exact - 0.5)).mean()),
        "correlation": float(np.corrcoef(approximate.ravel(), exact.ravel())[0, 1]),
    }


def run(cell: Cell, folder: Path) -> cells.Record:
    """Exact and approximate probabilities, (sets, inputs), and how far apart they are."""
    x, y = simulate(cell.seed, KINDS[cell.inputs])
    model = {"gaussian_slab": {"spike_scale": SPIKE}, "bmr": {"rate": None}}.get(cell.method, {})
    exact = np.stack([exact_inclusion(a, b, **model) for a, b in zip(x, y, strict=True)])
    if cell.method == "coordinate":
        approximate = np.stack([coordinate_ascent(a, b) for a, b in zip(x, y, strict=True)])
    else:
        approximate = fitted(cell.method, x, y, cell.steps)
    return {**errors(approximate, exact), "exact": exact, "approximate": approximate}


def biases(found: cells.Found) -> str:
    """How far each approximation is off."""
    head = ["approximation", "inputs", "mean error", "mean absolute error", "too sure by", "correlation"]
    forms = {"mean_error": "+.3f", "mean_absolute_error": ".3f", "too_sure": "+.3f", "correlation": ".3f"}
    rows = [
        [NAMES[cell.method], cell.inputs]
        + [f"{found[cell][name]:{form}}" if cell in found else "missing" for name, form in forms.items()]
        for cell in CELLS
    ]
    return cells.table(head, rows, "llrrrr")


STUDY = cells.Study("inclusion", CELLS, run, {"biases": biases})

if __name__ == "__main__":
    cells.main(STUDY)
