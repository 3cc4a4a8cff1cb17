"""Is an ill fit found, and a sound one left alone? Twelve planted illnesses and twenty fits by default, by `bp.diagnose`.

    python benchmarks/health.py run       # every cell that is not in runs/health.jsonl yet
    python benchmarks/health.py table     # from the results kept here

An illness is planted by what a user may do: a wrong unit, too few steps, a noise that is fixed too small. "found": one of the
findings has its name; a sound fit is the standard course on a set as it comes, standardised, another key each.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jax
import numpy as np

import bayesprune as bp
from bayesprune import cells

# Name of the illness -> names of findings that count as having found it.
PLANTED = {
    "too few steps": ("end of training",),
    "not learnt": ("end of training",),
    "NaN": ("not finite",),
    "dead layer": ("dead layer",),
    "x in other units": ("unit scale",),
    "y in other units": ("unit scale",),
    "one point": ("one point",),
    "noise too small": ("noise",),
    "noise too large": ("noise",),
    "signal shrunk": ("signal",),
    "labels wrong": ("labels",),
    "chains apart": ("chains apart",),
}
SOUND = ("digits", "diabetes", "sine", "noisy sine")
ROWS = 400


@dataclass(frozen=True)
class Cell:
    """A planted illness, or a sound fit of a set."""

    what: str
    seed: int = 0
    sound: bool = False


CELLS = (*(Cell(what) for what in PLANTED), *(Cell(what, seed, True) for what in SOUND for seed in range(5)))


def made(slope: float = 1.0, noise: float = 0.3, rows: int = 2 * ROWS, seed: int = 0) -> tuple[bp.Dataset, bp.Dataset]:
    """A signal of two inputs of five with Gaussian noise: half of the rows to train, half held out."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(rows, 5)).astype(np.float32)
    y = (slope * (np.sin(x[:, 0]) + 0.5 * x[:, 1]) + noise * rng.normal(size=rows)).astype(np.float32)
    return bp.Dataset(x[: rows // 2], y[: rows // 2]), bp.Dataset(x[rows // 2 :], y[rows // 2 :])


def regression(noise: Any = None, prior: Any = None) -> bp.BNN:
    likelihood = bp.likelihoods.Normal() if noise is None else bp.likelihoods.Normal(noise)
    return bp.BNN(bp.nets.MLP((20,), 1), prior=prior or bp.priors.Flat(), likelihood=likelihood, input_shape=(5,))


def digits(units: int = 50) -> bp.BNN:
    net = bp.nets.MLP((units,), 10)
    return bp.BNN(net, prior=bp.priors.Flat(), likelihood=bp.likelihoods.Categorical(), input_shape=(8, 8, 1))


def fitted(bnn: bp.BNN, data: bp.Dataset, steps: int = 2000, seed: int = 0, **more: Any) -> Any:
    return bp.fit_svi(jax.random.key(seed), bnn, data, num_steps=steps, batch_size=100, progress=False, **more)


def planted(what: str) -> tuple[bp.BNN, Any, bp.Dataset, bp.Dataset]:
    """The network, its fit, the rows it saw and those it did not."""
    train, held = made()
    wild = np.random.default_rng(1)
    match what:
        case "too few steps":
            return (bnn := regression()), fitted(bnn, train, 300, course=bp.courses.Plain(), kl_weight=1.0), train, held
        case "not learnt":
            bnn, (train, held) = digits(), bp.data.load("digits")
            return bnn, fitted(bnn, train, 400, course=bp.courses.Plain()), train, held
        case "NaN":
            fit = fitted(bnn := regression(), train)
            name = next(iter(fit.params))
            return bnn, fit._replace(params=fit.params | {name: np.asarray(fit.params[name]) * np.nan}), train, held
        case "dead layer":
            fit = fitted(bnn := regression(), train, sparsifier=bp.methods.BMR())
            site = next(site for site, alive in fit.mask.items() if alive.ndim > 1)
            return bnn, fit._replace(mask=fit.mask | {site: np.zeros_like(fit.mask[site])}), train, held
        case "x in other units":
            train, held = (one._replace(x=1e4 * one.x) for one in (train, held))
            return (bnn := regression()), fitted(bnn, train), train, held
        case "y in other units":
            train, held = (one._replace(y=1e5 * one.y) for one in (train, held))
            return (bnn := regression()), fitted(bnn, train), train, held
        case "one point":
            fit = fitted(bnn := regression(), train)
            return (
                bnn,
                fit._replace(params={n: 0 * v if n.endswith("_scale") else v for n, v in fit.params.items()}),
                train,
                held,
            )
        case "noise too small":
            return (bnn := regression(0.005)), fitted(bnn, train), train, held
        case "noise too large":
            return (bnn := regression(3.0)), fitted(bnn, train), train, held
        case "signal shrunk":
            return (bnn := regression(prior=bp.priors.Gaussian(0.065))), fitted(bnn, train), train, held
        case "labels wrong":
            bnn, (train, held) = digits(), bp.data.load("digits")
            wrong = wild.random(len(held.y)) < 0.15
            return (
                bnn,
                fitted(bnn, train),
                train,
                held._replace(y=np.where(wrong, (held.y + 3) % 10, held.y).astype(held.y.dtype)),
            )
        case _:
            bnn = regression()
            fit = bp.fit_sgmcmc(jax.random.key(0), bnn, train, num_steps=60, num_samples=20, num_chains=4, batch_size=100)
            return bnn, fit, train, held


def sound(what: str, seed: int) -> tuple[bp.BNN, Any, bp.Dataset, bp.Dataset]:
    """A fit by the defaults."""
    if what == "digits":
        bnn, (train, held) = digits(), bp.data.load("digits")
    elif what == "diabetes":
        train, held = bp.data.load("diabetes")
        of_x, of_y = bp.data.fit_scaling(train.x), bp.data.fit_scaling(train.y)
        train, held = (bp.Dataset(of_x.apply(one.x), of_y.apply(one.y)) for one in (train, held))
        net = bp.nets.MLP((20,), 1)
        bnn = bp.BNN(net, prior=bp.priors.Flat(), likelihood=bp.likelihoods.Normal(), input_shape=train.x.shape[1:])
    else:
        train, held = made(seed=seed) if what == "sine" else made(slope=2.0, noise=1.0, seed=seed)
        bnn = regression()
    return bnn, fitted(bnn, train, 4000, seed, sparsifier=bp.methods.BMR()), train, held


def run(cell: Cell, folder: Path) -> cells.Record:
    """Make one fit and judge it."""
    bnn, fit, train, held = sound(cell.what, cell.seed) if cell.sound else planted(cell.what)
    health = bp.diagnose(jax.random.key(7), bnn, fit, train, held_out=held)
    names = [one.name for one in health.findings]
    return {"findings": names, "says": [one.says for one in health.findings], "checks": list(health.checks)}


def table(found: cells.Found) -> str:
    """What was planted, and what was found; the sound ones in one row a set."""
    rows = []
    for what, wanted in PLANTED.items():
        record = found.get(Cell(what))
        names = record["findings"] if record else None
        says = "missing" if names is None else ", ".join(names) or "nothing"
        rows.append([what, "planted", "-" if names is None else "yes" if set(names) & set(wanted) else "**no**", says])
    for what in SOUND:
        records = [found[Cell(what, seed, True)] for seed in range(5) if Cell(what, seed, True) in found]
        names = sorted({name for record in records for name in record["findings"]})
        silent = sum(not record["findings"] for record in records)
        rows.append(
            [f"{what}, {len(records)} keys", "sound", f"{silent} of {len(records)} silent", ", ".join(names) or "nothing"]
        )
    return cells.table(["fit", "is", "found", "findings"], rows, "llll")


STUDY = cells.Study("health", CELLS, run, {"found": table})

if __name__ == "__main__":
    cells.main(STUDY)
