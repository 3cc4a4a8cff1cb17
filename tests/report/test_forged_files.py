"""Files of fits and posteriors with a checksum that is right, and contents that no fit has: refused when they are read."""

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest
from safetensors import safe_open

import bayesprune as bp
from bayesprune.core.files import DamagedFileError
from bayesprune.core.formats import pack_tensors
from bayesprune.posteriors import spike_slab
from bayesprune.posteriors.correlated import FULL, MATRIX_NORMAL
from bayesprune.posteriors.mean_field import MeanField
from bayesprune.posteriors.spike_slab import SpikeSlab
from bayesprune.report.export import save_posterior
from bayesprune.train.continuation import Kept

ROWS = np.linalg.cholesky(np.eye(2) + 0.5).astype(np.float32)
COLUMNS = np.linalg.cholesky(np.eye(3) + 0.5).astype(np.float32)
WHOLE = np.linalg.cholesky(np.eye(6) + 0.5).astype(np.float32)
PARAMS = {
    "w_auto_loc": np.ones((2, 3), np.float32), "w_auto_scale": np.ones((2, 3), np.float32), "w$unit": np.float32(1.0),
    "w$prior_scale": np.float32(np.inf), "b_dense_loc": np.zeros(3, np.float32), "b_dense_scale": np.ones(3, np.float32),
    "g_auto_loc": np.zeros(3, np.float32), "g_auto_scale": np.ones(3, np.float32),
    "g_auto_logit": np.full(3, np.inf, np.float32), "c_auto_loc": np.zeros(3, np.float32),
    "c_auto_scale": np.ones(3, np.float32), "c_auto_correlation": np.full(3, 0.5, np.float32),
    "m_auto_loc": np.zeros((2, 3), np.float32), "m_auto_rows": ROWS, "m_auto_columns": COLUMNS,
    "f_auto_loc": np.zeros(6, np.float32), "f_auto_factor": WHOLE,
    "d$draws": np.ones((1, 4, 3), np.float32), "e$draws": np.ones((1, 4), np.float32),
    "p_log_loc": np.zeros((), np.float32), "p_log_scale": np.ones((), np.float32), "own_scale": np.full(2, -1.0, np.float32),
}  # fmt: skip
STATE = Kept(4, {"['w']": np.ones(2, np.float32)}, {"[0].count": np.asarray(4, np.int32)}, "tuple dict")
POSTERIOR = {
    "w": MeanField(PARAMS["w_auto_loc"], PARAMS["w_auto_scale"], prior_scale=np.float32(np.inf)),
    "g": SpikeSlab(PARAMS["g_auto_loc"], PARAMS["g_auto_scale"], np.full(3, np.inf, np.float32)),
    "m": MATRIX_NORMAL.make({"loc": PARAMS["m_auto_loc"], "rows": ROWS, "columns": COLUMNS}),
    "f": FULL.make({"loc": PARAMS["f_auto_loc"], "factor": WHOLE}),
}


@pytest.fixture(scope="module")
def good(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A file of either kind."""
    folder = tmp_path_factory.mktemp("good")
    fit = bp.FitResult(
        PARAMS,
        STATE,
        np.array([2.0, np.inf]),
        {"w": np.ones((2, 3), bool)},
        {"returned/step": np.array([2], np.int32), "a": np.ones(1)},
    )
    fit.save(folder / "fit")
    save_posterior(folder / "posterior", POSTERIOR, {"w": np.ones((2, 3), bool)}, {"seed": 1}, params=PARAMS)
    return {"fit": folder / "fit", "posterior": folder / "posterior"}


def forge(good: Path, path: Path, change: Callable[..., Any]) -> None:
    """The same file with other tensors or texts, and checksums that are right for them."""
    with safe_open(good, framework="np") as file:
        texts, tensors = dict(file.metadata()), {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    for name in ("tensors", "checksum"):
        texts.pop(name)
    change(tensors, texts)
    path.write_bytes(pack_tensors(tensors, texts))


def put(name: str, value: Any) -> Callable[..., Any]:
    return lambda tensors, texts: tensors.update({name: np.asarray(value)})


def first(name: str, value: float) -> Callable[..., Any]:
    """One number of a tensor, the first, is another."""

    def change(tensors: Any, texts: Any) -> None:
        tensors[name] = np.array(tensors[name])
        tensors[name].reshape(-1)[0] = value

    return change


def say(name: str, value: Any) -> Callable[..., Any]:
    return lambda tensors, texts: texts.update({name: json.dumps(value)})


def other_state(**changes: Any) -> Callable[..., Any]:
    def change(tensors: Any, texts: Any) -> None:
        plan, rest = json.loads(texts["state"])
        texts["state"] = json.dumps([plan, rest | changes])

    return change


def typed(name: str, dtype: str) -> Callable[..., Any]:
    def change(tensors: Any, texts: Any) -> None:
        plan = {key: part for key, part in json.loads(texts["params"])}
        texts["params"] = json.dumps(list((plan | {name: plan[name] | {"dtype": dtype}}).items()))

    return change


OF_PARAMS: dict[str, tuple[Callable[..., Any], str]] = {
    "a scale below zero": (first("param/w_auto_scale", -1.0), "w_auto_scale.*below zero"),
    "a hidden scale below zero": (first("param/b_dense_scale", -1.0), "b_dense_scale.*below zero"),
    "a layer's scale below zero": (put("param/p_log_scale", np.float32(-1.0)), "p_log_scale.*below zero"),
    "a scale that is none": (first("param/w_auto_scale", np.nan), "w_auto_scale"),
    "an endless loc": (first("param/w_auto_loc", np.inf), "w_auto_loc"),
    "log-odds that are none": (first("param/g_auto_logit", np.nan), "g_auto_logit"),
    "a prior below zero": (put("param/w$prior_scale", np.float32(-1.0)), r"w\$prior_scale"),
    "a unit that is none": (put("param/w$unit", np.float32(np.nan)), r"w\$unit"),
    "scales of another shape": (put("param/w_auto_scale", np.ones((3, 2), np.float32)), "w.*shape"),
    "log-odds of another shape": (put("param/g_auto_logit", np.ones(4)), "g.*shape"),
    "a prior of another shape": (put("param/w$prior_scale", np.ones(4, np.float32)), "w.*shape"),
    "a correlation of one": (first("param/c_auto_correlation", 1.0), "c_auto_correlation"),
    "factors of another shape": (put("param/m_auto_rows", np.eye(3, dtype=np.float32)), "m.*shape"),
    "a factor that is no triangle": (put("param/f_auto_factor", np.ones((6, 6), np.float32)), "f_auto_factor.*triang"),
    "a factor of negative scales": (put("param/m_auto_rows", -ROWS), "m_auto_rows.*triang"),
    "draws of different numbers": (put("param/d$draws", np.ones((1, 5, 3), np.float32)), "draws"),
    "draws without chains": (put("param/e$draws", np.ones(3, np.float32)), "draws"),
    "whole numbers": (typed("w_auto_loc", "int32"), "w_auto_loc is no array of real numbers"),
}
# What both files have is called otherwise where a node has it already.
OF_FITS = {
    "a mask of another shape": (put("mask/w", np.ones((3, 3), bool)), "mask.*w"),
    "losses that are texts of one": (put("losses", np.ones((), np.float32)), "losses"),
    "losses of whole numbers": (put("losses", np.ones(3, np.int64)), "losses"),
    "a step that is none": (put("history/returned/step", np.zeros((0,), np.int64)), "returned/step"),
    "a state of another kind": (other_state(more=1), "state"),
    "a state before the first step": (other_state(step=-1), "state"),
    "a state of a text step": (other_state(step="4"), "state"),
    "a state of no numbers": (first("state/params[['w']]", np.nan), "state"),
}
OF_POSTERIORS = {
    "a scale below zero": (first("scale/w", -1.0), "scale.*below zero"),
    "a scale that is none": (first("scale/g", np.nan), "g.*scale"),
    "an endless loc": (first("loc/w", np.inf), "loc"),
    "log-odds that are none": (first("logit/g", np.nan), "logit"),
    "a prior below zero": (put("prior_scale/w", np.float32(-1.0)), "prior_scale"),
    "a unit that is none": (put("unit/w", np.float32(np.nan)), "unit"),
    "scales of another shape": (put("scale/w", np.ones((2, 2), np.float32)), "shape"),
    "units of another shape": (put("unit/w", np.ones(4, np.float32)), "shape"),
    "whole numbers": (put("loc/w", np.ones((2, 3), np.int32)), "loc"),
    "a mask of another shape": (put("mask/w", np.ones((3, 3), bool)), "mask.*w"),
    "a mask of numbers": (put("mask/w", np.ones((2, 3), np.float32)), "mask.*w"),
    "a mask of no site": (put("mask/nowhere", np.ones((2, 3), bool)), "nowhere"),
    "factors of another covariance": (put("rows/m", 2 * ROWS), "m.*factor"),
    "factors of another shape": (put("rows/m", np.eye(3, dtype=np.float32)), "m.*shape"),
    "notes that are a list": (say("metadata", [1]), "metadata"),
}
FORGED = [
    (kind, what, change, told)
    for kind, table in (("fit", OF_PARAMS | OF_FITS), ("posterior", OF_POSTERIORS))
    for what, (change, told) in table.items()
]


def test_what_is_not_changed_is_read(good: dict[str, Path], tmp_path: Path) -> None:
    """Log-odds and priors may be infinite, and a parameter of the user's own may be called a scale."""
    for kind, path in good.items():
        forge(path, tmp_path / kind, lambda tensors, texts: None)
    assert isinstance(bp.load(tmp_path / "fit"), bp.FitResult)
    assert bp.load(tmp_path / "posterior").params.keys() == PARAMS.keys()


@pytest.mark.parametrize(("kind", "what", "change", "told"), FORGED, ids=[f"{kind}: {what}" for kind, what, *_ in FORGED])
def test_a_forged_file_is_refused_with_its_reason(
    kind: str, what: str, change: Any, told: str, good: dict[str, Path], tmp_path: Path
) -> None:
    path = tmp_path / kind
    forge(good[kind], path, change)
    with pytest.raises(DamagedFileError, match=rf"(?s){re.escape(str(path))} is no whole .*{told}"):
        bp.load(path)


def test_scales_of_zero_are_dead_weights(tmp_path: Path) -> None:
    params = {"w_auto_loc": jnp.zeros(3), "w_auto_scale": jnp.zeros(3)} | {
        spike_slab.FAMILY.name("g", field): jnp.zeros(2) for field in spike_slab.FAMILY.fields
    }
    bp.FitResult(params, None, np.ones(1), {}, {}).save(tmp_path / "fit")
    assert bp.load(tmp_path / "fit").params.keys() == params.keys()
