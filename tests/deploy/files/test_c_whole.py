"""Whole numbers in a C header, which has floats only: what may pass 2**24 is refused, all else is as NumPy counts in int64."""

import shutil
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

import bayesprune as bp
from bayesprune.deploy.files.to_c import export_c
from bayesprune.deploy.program.packing import Packing
from bayesprune.deploy.program.weights import GaussianLaw
from tests.deploy.files.test_to_c import compiled
from tests.deploy.functions import compact_of, program_of

MOST = 2**23
BOUND = "integers: up to 8388608 in size"
Function = Callable[[Any, Any], Any]  # of (numpy or jax.numpy, whole numbers in rows of four)

REFUSED: dict[str, tuple[Function, str]] = {
    "ids of pairs": (lambda np, t: t[:, 0] * 100_000 + t[:, 1] == t[:, 2] * 100_000 + t[:, 3], "'mul'"),
    "doubled and one more": (lambda np, t: 2 * t + 1, "'add'"),
    "far apart": (lambda np, t: t[:, :1] - t[:, 1:] - t[:, 2:3], "'sub'"),
    "a sum of a row": (lambda np, t: t.sum(1), "'reduce_sum'"),
    "a square": (lambda np, t: np.square(t), "'square'"),
    "a running sum": (lambda np, t: jnp.cumsum(t, 1), "'add'"),
    "a product of a row": (lambda np, t: np.clip(t, -100, 100).prod(1), "'reduce_prod'"),
    "a constant": (lambda np, t: t == 2**24 + 1, "the whole number 16777217"),
    "a running minimum": (lambda np, t: lax.cummin(t, 1), "the whole number 2147483647"),
}
WRITTEN: dict[str, Function] = {
    "a sum": lambda np, t: t[:, :2] + t[:, 2:],
    "a difference": lambda np, t: t[:, :2] - t[:, 2:],
    "less and more": lambda np, t: abs(-t) + (t > 0),
    "bounded before": lambda np, t: np.clip(t[:, 0], 0, 99) * 100_000 + np.clip(t[:, 1], 0, 9),
    "a square of few": lambda np, t: np.square(np.clip(t, -4096, 4000)),
    "how many": lambda np, t: (t != 0).sum(1),
    "the last ones": lambda np, t: np.where(t > 3, t, -(2**31)).max(1),
    "side by side": lambda np, t: np.clip(t, -99, 99)[:, None, :] * np.clip(t, -99, 99)[:, :, None],
    "behind one another": lambda np, t: np.where((t > 0)[..., None], np.arange(3), 7),
    "in the middle": lambda np, t: np.maximum(t[:, None, :], np.arange(3)[:, None]),
    "which are equal": lambda np, t: (t[:, None, :] == np.arange(5)[:, None]).astype(int).sum(2),
    "of all": lambda np, t: np.concatenate([np.minimum(t, 7), np.maximum(t, -7)[:, ::-1]], 1),
}


def network_of(function: Function) -> bp.Compact:
    """Of whole numbers, four to a row."""
    program = program_of(lambda _, x: function(jnp, x.astype(jnp.int32)).astype(jnp.float32), {}, (4,)).single()
    return replace(compact_of(program), inputs=Packing.of_data([{"path": [], "shape": [4], "takes": "int32"}]))


@pytest.mark.parametrize("name", REFUSED)
def test_whole_numbers_that_a_float_may_not_hold_are_refused(tmp_path, name) -> None:
    function, what = REFUSED[name]
    remedy = "power of two" if "number" in what else "jnp.clip"
    with pytest.raises(ValueError, match=rf"{what}.*16,777,216.*{remedy}.*\.bayesprune"):
        export_c(network_of(function), tmp_path / "net.h")
    assert not list(tmp_path.iterdir())


def test_ids_positions_and_masks_have_a_form(tmp_path) -> None:
    """JAX adds the table's length to ids below zero; real numbers that become places are whole too."""

    def net(w, x):
        ids, which = x[:, :3].astype(jnp.int32), jnp.tanh(x[:, 3]).astype(jnp.int32)
        mask = ids != 0
        places = jnp.cumsum(mask, 1) - 1
        found = w["words"][ids] + w["places"][places] + w["clipped"].at[ids].get(mode="clip") + w["places"][jnp.arange(3)]
        return jnp.where(mask[..., None], found, 0).sum(1) / mask.sum(1, keepdims=True) + w["places"][which]

    shapes = {"words": (50_000, 2), "places": (4, 2), "clipped": (9, 2)}
    law = GaussianLaw(
        {site: np.ones(shape, np.float32) for site, shape in shapes.items()},
        {site: np.zeros(shape, np.float32) for site, shape in shapes.items()}, {}, {},
    )  # fmt: skip
    export_c(compact_of(program_of(net, shapes, (4,)).single(), law), tmp_path / "net.h")
    assert BOUND in (tmp_path / "net.h").read_text()


def test_a_header_without_whole_numbers_says_nothing_of_them(tmp_path) -> None:
    export_c(compact_of(program_of(lambda _, x: jnp.tanh(x), {}, (4,)).single()), tmp_path / "net.h")
    assert "integers" not in (tmp_path / "net.h").read_text()


@pytest.mark.slow
def test_what_is_written_counts_as_int64_does(tmp_path) -> None:
    """At the ends of what the header says, and within."""
    if shutil.which("gcc") is None:
        pytest.skip("no gcc")
    for number, function in enumerate(WRITTEN.values()):
        export_c(network_of(function), tmp_path / f"net_{number}.h")
        assert BOUND in (tmp_path / f"net_{number}.h").read_text()
    run, rng = compiled(tmp_path, [f"net_{number}" for number in range(len(WRITTEN))]), np.random.default_rng(0)
    ends = np.asarray([[a, b, a, b] for a in (-MOST, MOST, 1 - MOST, MOST - 1, 0) for b in (-MOST, MOST, 1, -7)])
    x = np.concatenate([ends, rng.integers(-MOST, MOST, (20, 4)), rng.integers(-9, 9, (20, 4))]).astype(np.int32)
    for number, (name, function) in enumerate(WRITTEN.items()):
        expected = function(np, x.astype(np.int64)).astype(np.float64).reshape(len(x), -1)
        np.testing.assert_array_equal(run(f"net_{number}", expected.shape[1:])(x), expected, err_msg=name)
