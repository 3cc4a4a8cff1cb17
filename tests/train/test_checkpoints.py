"""Tests of the checkpoints: bit-exact, whole or not there, and plain errors."""

import errno
import json
import os
import resource
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from safetensors.numpy import save_file
from tests.infer import programs

import bayesprune as bp
from bayesprune.core.lock import alone_in
from bayesprune.core.types import SparseState
from bayesprune.posteriors.mean_field import MeanField
from bayesprune.train.checkpoints import Checkpoints, check_same_settings


def bits(leaf: Any) -> tuple[Any, ...]:
    """Type, dtype, shape and bytes of a leaf: equal for two leaves only if nothing at all differs."""
    if isinstance(leaf, jax.Array) and jax.dtypes.issubdtype(leaf.dtype, jax.dtypes.prng_key):
        return "key", str(leaf.dtype), leaf.shape, np.asarray(jax.random.key_data(leaf)).tobytes()
    if type(leaf) in (bool, int, float, str):
        return type(leaf), repr(leaf)
    kind = jax.Array if isinstance(leaf, jax.Array) else type(leaf)
    array = np.asarray(leaf)
    return kind, str(array.dtype), array.shape, array.tobytes()


def assert_same(left: Any, right: Any) -> None:
    assert jax.tree.structure(left) == jax.tree.structure(right)
    for a, b in zip(jax.tree.leaves(left), jax.tree.leaves(right), strict=True):
        assert bits(a) == bits(b)


def training_state(seed: int) -> dict[str, Any]:
    """What a run carries: parameters, an AdaBelief state after two steps, a mask, and keys."""
    params = {"Dense_0.kernel_auto_loc": jax.random.normal(jax.random.key(seed), (5, 3)), "bias": jnp.full(3, 0.1 * seed)}
    optimizer = optax.adabelief(optax.exponential_decay(1e-2, 10, 0.9))
    opt_state = optimizer.init(params)
    for _ in range(2):
        updates, opt_state = optimizer.update(jax.tree.map(jnp.sin, params), opt_state, params)
        params = optax.apply_updates(params, updates)
    mask = {"Dense_0.kernel": params["Dense_0.kernel_auto_loc"] > 0}
    sparse = SparseState(mask, (None, {"Dense_0.kernel": jnp.float32(1.0)}), jnp.int32(seed))
    return {"params": params, "opt_state": opt_state, "sparse": sparse, "rng_key": jax.random.key(seed)}


def odd_leaves(value: int) -> dict[str, Any]:
    return {
        "keys": jax.random.split(jax.random.key(value, impl="rbg"), 3),
        "legacy_key": jax.random.PRNGKey(value),
        "posterior": MeanField(jnp.full(2, value, jnp.bfloat16), jnp.full((), value, jnp.int4)),
        "float8": jnp.full(3, value, jnp.float8_e4m3fn),
        "empty": jnp.zeros((0, 4)),
        "transposed": np.arange(12.0).reshape(3, 4).T + value,
        "reversed": (np.arange(6) * value)[::-2],
        "complex": np.array([1 + 1j]) * value,
        "special": np.array([np.nan, -0.0, np.inf, 5e-324]) if value else np.zeros(4),
        "numpy": (np.float32(value), np.int64(2**40 * value), np.bool_(value)),
        "python": [bool(value), value * 2**70, value / 3, f"α{value}", None, {}],
        "number_names": {1: jnp.zeros(2) + value, 11: jnp.ones(2) + value},
    }


@pytest.mark.fast_cases(1)
@pytest.mark.parametrize("make", [training_state, odd_leaves])
def test_a_state_comes_back_bit_for_bit(tmp_path: Path, make: Any) -> None:
    saved, metadata = make(1), {"seed": 1, "nested": {"rate": 0.1, "layers": [3, 4]}, "none": None}
    Checkpoints(tmp_path).save(7, saved, metadata)
    state, told = Checkpoints(str(tmp_path)).restore(7, make(0))
    assert_same(state, saved)
    assert told == metadata
    assert Checkpoints(tmp_path).metadata(7) == metadata
    assert any(bits(a) != bits(b) for a, b in zip(jax.tree.leaves(saved), jax.tree.leaves(make(0)), strict=True))


def test_a_resumed_run_continues_as_if_never_stopped(tmp_path: Path) -> None:
    optimizer = optax.adabelief(1e-2)

    @jax.jit
    def step(carry: Any) -> Any:
        params, opt_state, key = carry
        key, now = jax.random.split(key)
        updates, opt_state = optimizer.update(params + jax.random.normal(now, (4,)), opt_state, params)
        return optax.apply_updates(params, updates), opt_state, key

    def start(seed: int) -> Any:
        return jnp.ones(4), optimizer.init(jnp.ones(4)), jax.random.key(seed)

    halfway = step(step(start(3)))
    Checkpoints(tmp_path).save(2, halfway, {})
    compiled = step._cache_size()
    resumed, _ = Checkpoints(tmp_path).restore(2, start(0))
    assert_same(step(step(resumed)), step(step(halfway)))
    assert step._cache_size() == compiled


def test_numpy_leaves_are_writable_and_weak_types_are_cast(tmp_path: Path) -> None:
    checkpoints = Checkpoints(tmp_path)
    checkpoints.save(0, {"a": np.arange(3), "weak": jnp.asarray(2.0), "step": jnp.int32(5), "count": 7}, {})
    state, _ = checkpoints.restore(0, {"a": np.zeros(3, int), "weak": jnp.asarray(0.0), "step": 0, "count": jnp.int32(0)})
    state["a"][0] = 9
    assert not state["weak"].weak_type and state["weak"] == 2.0
    assert bits(state["step"]) == bits(5) and bits(state["count"]) == bits(jnp.int32(7))


def test_a_leaf_returns_to_the_devices_it_was_pinned_to(tmp_path: Path) -> None:
    checkpoints = Checkpoints(tmp_path)
    checkpoints.save(0, [jnp.ones(2), jax.random.key(1)], {})
    pinned = jax.device_put([jnp.zeros(2), jax.random.key(0)], jax.devices()[0])
    assert all(leaf.committed for leaf in checkpoints.restore(0, pinned)[0])
    assert not any(leaf.committed for leaf in checkpoints.restore(0, [jnp.zeros(2), jax.random.key(0)])[0])


def test_the_newest_are_kept_and_the_latest_may_be_saved_again(tmp_path: Path) -> None:
    checkpoints = Checkpoints(tmp_path, keep=2)
    assert checkpoints.latest() is None
    for step in (0, 5, 10, 10**11):
        checkpoints.save(step, {"w": np.full(2, step)}, {})
    checkpoints.save(10**11, {"w": np.full(2, -1)}, {})
    assert checkpoints.steps() == [10, 10**11] and checkpoints.latest() == 10**11
    assert checkpoints.restore(10**11, {"w": np.zeros(2, int)})[0]["w"].tolist() == [-1, -1]
    with pytest.raises(ValueError, match="holds step 100000000000"):
        checkpoints.save(11, {}, {})
    max(tmp_path.glob("*.safetensors")).unlink()
    assert checkpoints.latest() == 10


def test_a_write_cut_short_by_the_system_is_told_and_harmless(tmp_path: Path) -> None:
    checkpoints = Checkpoints(tmp_path)
    checkpoints.save(1, {"w": np.ones(3)}, {})
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (10_000, limits[1]))
    try:
        with pytest.raises(OSError, match=r"free some disk space.*The checkpoint of step 1 is whole") as caught:
            checkpoints.save(2, {"w": np.ones(100_000)}, {})
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert caught.value.errno == errno.EFBIG and str(tmp_path) in str(caught.value)
    assert [path.name for path in tmp_path.iterdir()] == ["step_0000000001.safetensors"]
    assert checkpoints.restore(1, {"w": np.zeros(3)})[0]["w"].tolist() == [1.0] * 3


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs a device that is always full")
def test_a_full_disk_is_told_and_harmless(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    checkpoints = Checkpoints(tmp_path)

    def open_full(path: Path, mode: str) -> Any:
        Path(path).touch()
        return open("/dev/full", "wb")

    monkeypatch.setattr("bayesprune.core.files.open", open_full, raising=False)
    with pytest.raises(OSError, match=r"Remedy: free some disk space.*No checkpoint was saved before") as caught:
        checkpoints.save(2, {"w": np.ones(3)}, {})
    assert caught.value.errno == errno.ENOSPC and str(tmp_path) in str(caught.value)
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_cannot_be_written_is_told_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").touch()
    for folder in (tmp_path / "file", tmp_path / "file" / "below"):
        with pytest.raises(OSError, match=r"cannot write .*Remedy: a part of the path is a file"):
            Checkpoints(folder)

    def refuse(dir: Path) -> Any:
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(dir))

    monkeypatch.setattr("tempfile.TemporaryFile", refuse)
    with pytest.raises(PermissionError, match="Remedy: choose a folder you may write to"):
        Checkpoints(tmp_path)
    with pytest.raises(ValueError, match="local disk"):
        Checkpoints("gs://bucket/run")
    with pytest.raises(ValueError, match="keep must be an integer of at least 1"):
        Checkpoints(tmp_path, keep=0)


SAVED = {"layer": {"w": np.zeros((2, 3), np.float32)}, "key": jax.random.key(0), "count": 3}


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (
            {"layer": {"w": np.zeros((2, 4), np.float32)}},
            r"\['layer'\]\['w'\] is float32\[2, 3\] .* float32\[2, 4\] in this run",
        ),
        ({"layer": {"w": np.zeros((2, 3))}}, r"\['layer'\]\['w'\] is float32\[2, 3\] .* float64\[2, 3\]"),
        ({"layer": {"v": SAVED["layer"]["w"]}}, r"\['layer'\]\['w'\] is only in the checkpoint \(and 1 more\)"),
        ({"extra": 1}, r"\['extra'\] is only in this run"),
        ({"key": jax.random.key(0, impl="rbg")}, r"\['key'\] is key<fry>\[\] .* key<rbg>"),
        ({"count": 3.0}, r"\['count'\] is Python int\[\] .* Python float"),
        ({"count": np.zeros(1, int)}, r"\['count'\] is Python int\[\] .* int64\[1\]"),
    ],
)
def test_another_structure_is_refused_by_leaf(tmp_path: Path, change: dict[str, Any], told: str) -> None:
    checkpoints = Checkpoints(tmp_path)
    checkpoints.save(1, SAVED, {})
    with pytest.raises(ValueError, match=told + ".*repeat that run's arguments, or give another folder"):
        checkpoints.restore(1, {**SAVED, **change})


def test_what_cannot_be_saved_is_refused_by_name(tmp_path: Path) -> None:
    checkpoints = Checkpoints(tmp_path)
    for leaf in (object(), np.array(["a"]), np.array([None]), np.zeros(2, ">f4")):
        with pytest.raises(TypeError, match=r"state\['x'\]\[0\] cannot be saved"):
            checkpoints.save(1, {"x": [leaf]}, {})
    with pytest.raises(TypeError, match="metadata must be what JSON can hold"):
        checkpoints.save(1, {}, {"x": np.zeros(2)})
    assert checkpoints.latest() is None


def test_a_missing_or_damaged_checkpoint_is_told(tmp_path: Path) -> None:
    checkpoints = Checkpoints(tmp_path)
    checkpoints.save(1, {"w": np.ones(100)}, {})
    for missing in (lambda: checkpoints.restore(2, {}), lambda: checkpoints.metadata(2)):
        with pytest.raises(FileNotFoundError, match="no checkpoint of step 2; saved steps: 1"):
            missing()
    file = next(tmp_path.iterdir())
    file.write_bytes(file.read_bytes()[:-1])
    with pytest.raises(OSError, match=r"step_0000000001\.safetensors is no whole checkpoint .*Delete that file"):
        checkpoints.restore(1, {"w": np.ones(100)})


def test_settings_are_compared_by_value_and_by_name() -> None:
    same = {"prior": {"scale": 0.1, "sizes": (2, 3)}, "rate": float("nan"), "none": None}
    check_same_settings(same, {**same, "prior": {"scale": 0.1, "sizes": [2, 3]}}, "runs/a")
    other = {"prior": {"scale": 0.2, "sizes": (2, 3)}, "rate": float("nan"), "seed": 1}
    with pytest.raises(ValueError, match=r"runs/a was .*prior\.scale was 0\.1, now 0\.2; none was null, now not set; seed was"):
        check_same_settings(same, other, "runs/a")
    with pytest.raises(ValueError, match="flag was true, now 1"):
        check_same_settings({"flag": True}, {"flag": 1}, "runs/a")


@pytest.mark.slow
def test_a_second_fit_in_a_folder_learns_of_the_first(tmp_path: Path, rng_key: jax.Array) -> None:
    bnn, data = programs.small_bnn(), programs.classes()

    def fit() -> bp.FitResult:
        return bp.fit_svi(rng_key, bnn, data, num_steps=4, batch_size=16, checkpoint=str(tmp_path))

    with alone_in(tmp_path), pytest.raises(BlockingIOError, match=rf"process {os.getpid()} on .* is at work in {tmp_path}"):
        fit()
    assert not os.listdir(tmp_path)
    fit()
    assert os.listdir(tmp_path) == ["step_0000000004.safetensors"]


def test_a_checkpoint_of_before_there_were_checksums_is_read(tmp_path: Path) -> None:
    leaf = {"path": "['w']", "dtype": "float64", "shape": [2]}
    manifest = {"version": 1, "metadata": {"seed": 1}, "leaves": [leaf]}
    tensors = {"['w']": np.array([1.0, 2.0])}
    save_file(tensors, tmp_path / "step_0000000005.safetensors", metadata={"manifest": json.dumps(manifest)})
    state, told = Checkpoints(tmp_path).restore(5, {"w": np.zeros(2)})
    assert state["w"].tolist() == [1.0, 2.0] and told == {"seed": 1}


def test_a_checkpoint_that_is_not_of_a_fit_is_told(tmp_path: Path, rng_key: jax.Array) -> None:
    Checkpoints(tmp_path).save(3, {"w": np.ones(2)}, {"note": "something else"})
    with pytest.raises(OSError, match=r"step_0000000003\.safetensors is no whole checkpoint .*it has no fingerprint, history"):
        bp.fit_svi(rng_key, programs.small_bnn(), programs.classes(), num_steps=4, batch_size=16, checkpoint=str(tmp_path))


def test_a_checkpoint_that_cannot_be_read_says_why(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A link that leads nowhere, a pipe, a folder, another user's file: never another cause, and never a wait without end."""
    kept, path = Checkpoints(tmp_path), tmp_path / "step_0000000001.safetensors"
    kept.save(1, {"w": jnp.zeros(2)}, {})
    content = path.read_bytes()
    for make, told in (
        (lambda: path.symlink_to("/nowhere/at/all"), "is a link to /nowhere/at/all, which is not there"),
        (lambda: os.mkfifo(path), "is a pipe, no file"),
        (path.mkdir, "is a folder, no file"),
        (lambda: path.write_bytes(content), "may not be read by this user"),
    ):
        path.rmdir() if path.is_dir() else path.unlink()
        make()
        with monkeypatch.context() as patch, pytest.raises(OSError, match=told) as refusal:
            patch.setattr("bayesprune.core.files.os.access", lambda *_: False)  # root may read everything
            kept.restore(1, {"w": jnp.zeros(2)})
        assert str(path) in str(refusal.value)


def test_a_folder_that_is_gone_is_said(tmp_path: Path) -> None:
    kept = Checkpoints(tmp_path / "run")
    (tmp_path / "run").rmdir()
    with pytest.raises(FileNotFoundError, match=rf"cannot write {tmp_path}/run: the folder is gone\. Remedy: make it again"):
        kept.save(1, {"w": jnp.zeros(2)}, {})
