"""Nets of others through every door: some fifty of them, in Flax linen, nnx, Equinox and NumPyro, by what is done with a net.

    python benchmarks/foreign.py run                          # what is not in runs/foreign.jsonl yet; needs the extra `test`
    python benchmarks/foreign.py run --only net=linen/gpt
    python benchmarks/tables.py                               # from the results kept here, into `foreign.md`

The nets (`foreign_linen.py` and its neighbours) are written as public examples write them, small, on 24 rows made up. Fits take
``steps`` steps: nothing is learnt, all is traced, compiled and run. A cell of the table is one of

- ok: it was done, and what it gives agrees with what it must agree with (below);
- refused: an error of this library that says why, in its own words;
- fault: an error from elsewhere, or of a kind that no one is meant to see (`KeyError`, `AssertionError`, ...);
- wrong: done, but with another result than it must have;
- an empty cell: what it needs was not there.

What is checked: a fit's losses are finite; `predict` is the mean of `predict_draws` of the same key; a file predicts what was
saved, bit by bit; a compact network is certified, and the one of the means gives what the module itself gives, called by its
own library with `net_params`; the compact file read by NumPy alone, and the ONNX model in ONNX Runtime, give what JAX does.
"""

import tempfile
import traceback
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import numpy as np
import onnxruntime
import optax
from flax import nnx
from foreign_data import Net
from foreign_equinox import EQUINOX
from foreign_linen import LINEN
from foreign_nnx import NNX
from foreign_numpyro import NUMPYRO
from numpyro.infer import SVI, Predictive

import bayesprune as bp
from bayesprune import cells
from bayesprune.deploy import reader

NETS: dict[str, Net] = LINEN | NNX | EQUINOX | NUMPYRO
KEY, BATCH, DRAWS = jax.random.key(0), 12, 3
OWN = (ValueError, TypeError, RuntimeError, NotImplementedError)  # and what derives from them: what a refusal may be


@dataclass(frozen=True)
class Cell:
    """``steps``: of a fit."""

    net: str
    steps: int = 4


@dataclass
class Case:
    """A net on its way through the doors: what is made at one is there for the next."""

    net: Net
    steps: int
    folder: Path
    made: dict[str, Any] = field(default_factory=dict)

    @property
    def data(self) -> bp.Dataset:
        return self.net.data()

    @property
    def is_bnn(self) -> bool:
        return isinstance(self.made["build"], bp.BNN)

    def fit(self, **settings: Any) -> bp.FitResult:
        """A fit of a few steps, its losses finite."""
        given = {"num_steps": self.steps, "batch_size": BATCH, "progress": False} | settings
        fit = bp.fit_svi(KEY, self.made["build"], self.data, **given)
        check(bool(np.isfinite(fit.losses).all()), "losses that are not finite")
        return fit

    def predicted(self, params: Any, mask: Any = None) -> np.ndarray:
        """Predictive means; of a NumPyro program, draws of y."""
        program = self.made["build"]
        if self.is_bnn:
            return bp.predict(KEY, program, params, self.net.x, mask=mask, num_samples=DRAWS)
        guide = program.guide if mask is None else bp.masked(program.guide, mask)
        draws = Predictive(program.model, guide=guide, params=params, num_samples=DRAWS)(KEY, self.net.x)
        return np.asarray(draws["y"])


class WrongError(Exception):
    """A result that is not what it must be."""


def check(holds: bool, said: str) -> None:
    """Raise `WrongError` where it does not hold."""
    if not holds:
        raise WrongError(said)


def near(one: Any, other: Any, said: str) -> None:
    """Equal but for the rounding of float32."""
    one, other = np.asarray(one), np.asarray(other)
    check(one.shape == other.shape, f"{said}: shapes {one.shape} and {other.shape}")
    gap = float(np.abs(one - other).max() / (1 + np.abs(other).max()))
    check(gap < 1e-4, f"{said}: apart by {gap:.1g}")


def build(case: Case) -> Any:
    """`bp.BNN(net, ...)`."""
    return case.net.program()


def act(case: Case) -> Any:
    """A fit with acts of BMR on the way."""
    return case.fit(sparsifier=bp.methods.BMR(), every=2)


def units(case: Case) -> Any:
    """Half of all units, cut at once."""
    method = bp.methods.Cut(score="snr", density=0.5, scope="unit")
    return bp.prune_once(case.made["act"].params, method, program=case.made["build"], rng_key=KEY)


def own_loop(case: Case) -> Any:
    """NumPyro's SVI with an optimiser of optax, a step of one's own."""
    program = case.made["build"]
    svi = SVI(program.model, program.guide, optax.adam(1e-3), bp.MeanFieldELBO())
    x, y = case.net.x, case.net.y
    _, loss = jax.jit(lambda key: svi.update(svi.init(key, x, y), x, y))(KEY)
    check(bool(np.isfinite(loss)), "a loss that is not finite")
    return True


def prune(case: Case) -> Any:
    """`bmr_prune` of the fit, once more."""
    given = {} if case.is_bnn else {"program": case.made["build"], "data": case.data, "rng_key": KEY}
    return bp.bmr_prune(case.made["act"].params, **given)


def predict(case: Case) -> Any:
    """`predict` and `predict_draws`, pruned."""
    pruned = case.made["prune"]
    mean = case.predicted(pruned.params, pruned.mask)
    check(bool(np.isfinite(mean).all()), "a prediction that is not finite")
    if case.is_bnn:
        draws = bp.predict_draws(KEY, case.made["build"], pruned.params, case.net.x, mask=pruned.mask, num_samples=DRAWS)
        near(mean, draws.mean(0).reshape(mean.shape), "the mean of draws")  # one output keeps its axis in draws alone
    return mean


def evaluate(case: Case) -> Any:
    """`evaluate` and `uncertainty`."""
    program, pruned = case.made["build"], case.made["prune"]
    figures = bp.evaluate(KEY, program, pruned.params, case.data, mask=pruned.mask, num_samples=DRAWS)
    check(all(np.isfinite(value) for value in figures.values()), "a figure that is not finite")
    parts = bp.uncertainty(KEY, program, pruned.params, case.net.x, mask=pruned.mask, num_samples=DRAWS)
    near(parts.total, parts.aleatoric + parts.epistemic, "the parts of uncertainty")
    return True


def connected(case: Case) -> Any:
    """`bp.connected`."""
    mask = case.made["units"].mask
    used = bp.connected(case.made["build"], mask)
    check(all(not (used[site] & ~np.asarray(mask[site])).any() for site in mask), "more is connected than is alive")
    return used


def saved(case: Case) -> Any:
    """`fit.save` and `bp.load`."""
    fit, program = case.made["act"], case.made["build"]
    fit.save(case.folder / "fit")
    params = bp.load(case.folder / "fit").params
    params = params if case.is_bnn else program.take(params, case.data)
    before, after = case.predicted(fit.params, fit.mask), case.predicted(params, fit.mask)
    check(before.tobytes() == after.tobytes(), "the file predicts something else")
    return True


def compact(case: Case) -> Any:
    """`bp.compact`, certified."""
    fit = case.made["units"]
    small = bp.compact(case.made["build"], fit.params, fit.mask)
    check(small.certify().holds, "the certificate does not hold")
    return small


def module(case: Case) -> Any:
    """The module itself, called by its own library at the posterior means."""
    bnn, fit = case.made["build"], case.made["units"]
    small = bp.compact(bnn, fit.params, fit.mask, keep="mean")
    near(
        small.predict(case.net.x), bnn.likelihood.mean(called(case, bnn.net_params(fit.params, fit.mask))), "the module itself"
    )
    return True


def called(case: Case, own: Any) -> Any:
    """The outputs that a likelihood is given, out of a module with its own parameters."""
    net, x = case.net.make(), case.net.x
    rows = x if isinstance(x, tuple) else (x,)
    if isinstance(net, nnx.Module):
        nnx.update(net, own)
        net.eval()
        outputs = net(*rows)
    elif isinstance(own, tuple):  # an Equinox module and its state
        outputs = jax.vmap(lambda row: eqx.nn.inference_mode(own[0])(row, own[1])[0], axis_name="batch")(*rows)
    elif isinstance(own, eqx.Module):
        outputs = jax.vmap(eqx.nn.inference_mode(own))(*rows)
    else:
        outputs = net.apply(own, *rows)
    name = case.net.settings.get("output")
    return outputs if name is None else outputs[name]


def file(case: Case) -> Any:
    """The compact network's file, by JAX and by NumPy alone."""
    fit, path = case.made["units"], case.folder / "net.bayesprune"
    bp.compact(case.made["build"], fit.params, fit.mask, keep="mean").save(path)
    near(reader.predict(*reader.load(path), case.net.x), bp.load(path).predict(case.net.x, engine="jax"), "NumPy alone")
    return True


def onnx(case: Case) -> Any:
    """The ONNX model, in ONNX Runtime."""
    fit, path = case.made["units"], case.folder / "net.onnx"
    small = bp.compact(case.made["build"], fit.params, fit.mask, keep="mean")
    bp.export_onnx(small, path)
    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    x = case.net.x
    parts = x if isinstance(x, dict) else {f"x[{i}]": part for i, part in enumerate(x)} if isinstance(x, tuple) else {"x": x}
    (found,) = session.run(None, {one.name: parts[one.name] for one in session.get_inputs()})
    near(found, small.predict(x), "ONNX Runtime")
    return True


DOORS: dict[str, tuple[Callable[[Case], Any], tuple[str, ...]]] = {
    "build": (build, ()),
    "act": (act, ("build",)),
    "own loop": (own_loop, ("build",)),
    "prune": (prune, ("act",)),
    "units": (units, ("act",)),
    "connected": (connected, ("units",)),
    "predict": (predict, ("prune",)),
    "evaluate": (evaluate, ("prune",)),
    "saved": (saved, ("act",)),
    "compact": (compact, ("units",)),
    "module": (module, ("compact",)),
    "file": (file, ("compact",)),
    "onnx": (onnx, ("compact",)),
}
CELLS = tuple(Cell(net) for net in NETS)


def verdict(error: Exception) -> str:
    """Which of the words of this page an error is, and what it says."""
    said = f"{type(error).__name__}: {error}"
    if isinstance(error, WrongError):
        return f"wrong: {error}"
    innermost = traceback.extract_tb(error.__traceback__)[-1].filename
    ours = Path(bp.__file__).parent in Path(innermost).parents
    return f"refused: {error}" if ours and isinstance(error, OWN) else f"fault: {said}"


def run(cell: Cell, folder: Path) -> cells.Record:
    """One net through all doors, in a process of its own: the programs of fifty nets are too much memory for one."""
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        return pool.submit(through_all_doors, cell).result()


def through_all_doors(cell: Cell) -> cells.Record:
    """What was said at each door."""
    with tempfile.TemporaryDirectory() as scratch:
        case, record = Case(NETS[cell.net], cell.steps, Path(scratch)), {}
        for name, (door, needs) in DOORS.items():
            if not all(record[need] == "ok" for need in needs):
                record[name] = ""
                continue
            try:
                case.made[name] = door(case)
                record[name] = "ok"
            except Exception as error:
                record[name] = verdict(error)
    return record


def doors(found: cells.Found) -> str:
    """Every net by every door, in a word."""
    rows = []
    for cell in CELLS:
        record = found.get(cell)
        words = ["missing"] + [""] * (len(DOORS) - 1) if record is None else [record[name].split(":")[0] for name in DOORS]
        rows.append([f"`{cell.net}`", NETS[cell.net].title, *words])
    return cells.table(["net", "what it is", *DOORS], rows, "l" * (2 + len(DOORS)))


def counts(found: cells.Found) -> str:
    """How many nets come through each door."""
    words, rows = ("ok", "refused", "fault", "wrong", ""), []
    for name in DOORS:
        said = [record[name].split(":")[0] for record in found.values()]
        rows.append([name, *(str(said.count(word)) for word in words)])
    whole = [cells.count(list(found), CELLS)]
    return cells.table(["door", *words[:-1], "not tried"], rows, "lrrrrr") + f"\n\nNets: {whole[0]}."


def reasons(found: cells.Found) -> str:
    """What was said where it was not ok, each once, with the nets that it was said of."""
    told: dict[tuple[str, str], list[str]] = {}
    for cell, record in found.items():
        for name in DOORS:
            if record[name] not in ("", "ok"):
                words = record[name].replace("|", "/").replace("\n", " ")
                told.setdefault((name, words if len(words) < 240 else f"{words[:240]} ..."), []).append(f"`{cell.net}`")
    rows = [[name, words, ", ".join(nets)] for (name, words), nets in told.items()] or [["missing", "", ""]]
    return cells.table(["door", "what was said", "of"], rows, "lll")


STUDY = cells.Study("foreign", CELLS, run, {"counts": counts, "doors": doors, "reasons": reasons})

if __name__ == "__main__":
    cells.main(STUDY)
