"""What `bp.price` says before a call of `laplace`, `predict` or `predict_draws`, beside what the call then takes.

    python benchmarks/priced_calls.py run                  # what is not in runs/priced_calls.jsonl yet
    python benchmarks/tables.py                            # from the results kept here, into the page

As `priced.py` does of fits: a cell asks the price and makes the call in the same process. Around 300 steps of a network of
points, or of a mean field. `laplace` compiles anew in each call, which its price says; predictions find their program compiled.
"""

import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import around_trained
import jax
import numpy as np
from priced import _rest, _status

import bayesprune as bp
from bayesprune import cells

NETS = {
    "mlp50": lambda outputs: bp.nets.MLP((50,), outputs),
    "mlp100x2": lambda outputs: bp.nets.MLP((100, 100), outputs),
    "mlp300x2": lambda outputs: bp.nets.MLP((300, 300), outputs),
}
CALLS: dict[str, tuple[Any, dict[str, Any]]] = {
    "laplace": (bp.laplace, {}),
    "laplace, kron": (bp.laplace, {"curvature": "kron"}),
    "laplace, last_layer": (bp.laplace, {"curvature": "last_layer"}),
    "predict": (bp.predict, {"num_samples": 100}),
    "predict_draws": (bp.predict_draws, {"num_samples": 100}),
}
FITS = (("uci/concrete", "mlp50"), ("uci/power_plant", "mlp50"), ("digits", "mlp100x2"), ("mnist", "mlp300x2"))


@dataclass(frozen=True)
class Cell:
    data: str
    net: str
    call: str


CELLS = tuple(Cell(*fit, call) for fit in FITS for call in CALLS)


def run(cell: Cell, folder: Path) -> cells.Record:
    """The price, and what it was the price of."""
    jax.config.update("jax_enable_compilation_cache", False)  # from one on disk the call would have what the price compiled
    train, _, _ = around_trained.parts(cell.data)
    classes = np.issubdtype(np.asarray(train.y).dtype, np.integer)
    call, settings = CALLS[cell.call]
    bnn = bp.BNN(
        NETS[cell.net](int(np.max(train.y)) + 1 if classes else 1),
        prior=bp.priors.Flat(),
        likelihood=bp.likelihoods.Categorical() if classes else bp.likelihoods.Normal(),
        input_shape=train.x.shape[1:],
        **({"posterior": "map"} if call is bp.laplace else {}),
    )
    key = jax.random.key(0)
    fit = bp.fit_svi(key, bnn, train, num_steps=300, batch_size=128, progress=False)
    arguments = (key, bnn, fit, train) if call is bp.laplace else (key, bnn, fit.params, train.x)
    begin = time.perf_counter()
    told = bp.price(*arguments, of=call, **settings)
    asked = time.perf_counter() - begin
    before = _rest()
    begin = time.perf_counter()
    found = call(*arguments, **settings)
    taken, peak = time.perf_counter() - begin, _status("VmHWM")
    saved = 0
    if call is bp.laplace:
        folder.mkdir(parents=True, exist_ok=True)
        found.save(folder / "fit.safetensors")
        saved = (folder / "fit.safetensors").stat().st_size
    return {
        "price_seconds": asked,
        "told_seconds": told.seconds - (0.0 if call is bp.laplace else told.compile_seconds),
        "call_seconds": taken,
        "told_bytes": told.memory_bytes,
        "call_bytes": peak - before,
        "told_file_bytes": told.file_bytes,
        "saved_bytes": saved,
    }


def ratios(found: cells.Found) -> str:
    """A row for each call: what was said, and that over what was found."""
    rows = []
    for cell in CELLS:
        row, one = [cell.data.removeprefix("uci/"), cell.net, cell.call], found.get(cell)
        if one is None:
            rows.append([*row, *[cells.MISSING] * 7])
            continue
        for said, was, unit, digits in (
            ("told_seconds", "call_seconds", 1.0, 1),
            ("told_bytes", "call_bytes", 1e6, 1),
            ("told_file_bytes", "saved_bytes", 1e6, 3),
        ):
            row += [f"{one[said] / unit:,.{digits}f}", f"{one[said] / one[was]:.2f}"] if one[was] else ["–", "–"]
        rows.append([*row, f"{one['price_seconds']:.1f}"])
    heads = ["data", "net", "call", "seconds", "said / taken", "MB at once", "said / taken", "MB on disk", "said / taken"]
    return cells.table([*heads, "asking, s"], rows, "lll" + "r" * 7)


TABLES = {"ratios": ratios}
STUDY = cells.Study("priced_calls", CELLS, run, TABLES)

if __name__ == "__main__":
    cells.main(STUDY)
