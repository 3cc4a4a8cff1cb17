"""Every reader of ours, shown damaged files: one error that names the file, or the very same contents."""

import dataclasses
import gzip
import io
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import bayesprune as bp
from bayesprune.cli import results, settings
from bayesprune.cli.run_settings import settings_class
from bayesprune.core.formats import write_arrays, write_record
from bayesprune.data import checksum, cifar, idx, uci
from bayesprune.deploy import reader
from bayesprune.posteriors.mean_field import MeanField
from bayesprune.posteriors.spike_slab import SpikeSlab
from bayesprune.report.export import load_posterior, save_posterior
from bayesprune.report.saved_fit import SavedFit, read_fit, write_fit
from bayesprune.train.checkpoints import Checkpoints
from tests.deploy.fits import fitted


class Case(NamedTuple):
    """``make(folder)`` writes whole files and gives the one to damage; ``read(path)`` is the reader."""

    make: Callable[[Path], Path]
    read: Callable[[Path], Any]


def metrics(folder: Path) -> Path:
    content = {
        "metrics": {"nll": 0.25, "accuracy": 0.9},
        "settings": {"net": "mlp"},
        "evaluated_on": {},
        "sparsity": {"all": 7},
    }
    write_record(
        folder / results.METRICS,
        content | {"num_steps": 20, "train_seconds": 1.5, "evidence_gained_nats": None},
    )
    return folder / results.METRICS


def settings_file(folder: Path) -> Path:
    settings.claim(settings_class("mlp", "bmr", "flat")(), folder)
    return folder / settings.FILE


def history(folder: Path) -> Path:
    rng = np.random.default_rng(0)
    write_arrays(
        folder / results.HISTORY, {"losses": rng.normal(size=20), "prune/step": np.array([4, 8]), "eval/nll": np.ones(2)}
    )
    return folder / results.HISTORY


def predictions(folder: Path) -> Path:
    write_arrays(folder / results.PREDICTIONS, {"probs": np.full((5, 2), 0.5, np.float32), "y": np.arange(5)})
    return folder / results.PREDICTIONS


def posterior(folder: Path) -> Path:
    nodes = {"a": MeanField(np.arange(6.0).reshape(2, 3), np.ones((2, 3))), "b": SpikeSlab(np.ones(2), np.ones(2), np.zeros(2))}
    save_posterior(
        folder / "p.safetensors", nodes, {"a": np.eye(2, 3, dtype=bool)}, {"seed": 0}, params={"c": np.ones(3, np.float32)}
    )
    return folder / "p.safetensors"


def fit(folder: Path) -> Path:
    record = {"prune/step": np.array([4, 8]), "eval/nll": np.array([0.5, 0.25])}
    params, mask = {"w_auto_loc": jnp.arange(3.0), "net$state": {"mean": jnp.ones(2)}}, {"w": jnp.array([True, False, True])}
    write_fit(folder / "fit.safetensors", SavedFit(params, np.ones(20, np.float32), mask, record))
    return folder / "fit.safetensors"


def network(folder: Path) -> Path:
    bnn, params, mask = fitted("flat")
    bp.compact(bnn, params, mask).save(folder / "net.bayesprune", "posterior", {"seed": 0})
    return folder / "net.bayesprune"


def read_network(path: Path) -> Any:
    small: Any = bp.load(path)
    ops = [[op.name, list(op.inputs), dict(op.attributes)] for op in small.program.ops]
    return small.law.tensors(), ops, dict(small.program.sizes), vars(small.cost), vars(small.certificate), dict(small.metadata)


def state(fill: float) -> dict[str, Any]:
    return {
        "w": jnp.full(3, fill),
        "half": jnp.full(2, fill, jnp.bfloat16),
        "key": jax.random.key(int(fill)),
        "step": int(fill),
    }


def checkpoint(folder: Path) -> Path:
    Checkpoints(folder).save(3, state(7.0), {"seed": 1})
    return folder / "step_0000000003.safetensors"


def read_checkpoint(path: Path) -> Any:
    kept = Checkpoints(path.parent)
    restored, told = kept.restore(3, state(0.0))
    assert kept.metadata(3) == told
    return restored | {"key": jax.random.key_data(restored["key"])}, told


def idx_file(folder: Path, suffix: str = "") -> Path:
    pixels = np.random.default_rng(0).integers(0, 256, (3, 4, 4)).astype(np.uint8)
    contents = {
        "images": bytes([0, 0, 8, 3, 0, 0, 0, 3, 0, 0, 0, 4, 0, 0, 0, 4]) + pixels.tobytes(),
        "labels": bytes([0, 0, 8, 1, 0, 0, 0, 3, 1, 0, 2]),
    }
    for kind, content in contents.items():
        packed = gzip.compress(content, mtime=0)
        checksum.IDX["mnist", f"t10k-{kind}"] = checksum.md5(packed), checksum.md5(content)
        (folder / f"t10k-{kind}{suffix}").write_bytes(packed if suffix else content)
    return folder / f"t10k-images{suffix}"


def read_idx(path: Path) -> Any:
    return idx.read((path, path.with_name(path.name.replace("images", "labels"))), "mnist", "test")


def cifar_batch() -> bytes:
    content = np.random.default_rng(0).integers(0, 10, (2, cifar.RECORD)).astype(np.uint8).tobytes()
    checksum.CIFAR10["test_batch.bin"] = checksum.md5(content)
    return content


def cifar_file(folder: Path) -> Path:
    (folder / "test_batch.bin").write_bytes(cifar_batch())
    return folder / "test_batch.bin"


def cifar_archive(folder: Path) -> Path:
    content, member = cifar_batch(), tarfile.TarInfo("cifar-10-batches-bin/test_batch.bin")
    member.size = len(content)
    with tarfile.open(folder / "cifar-10-binary.tar.gz", "w:gz") as archive:
        archive.addfile(member, io.BytesIO(content))
    return folder / "cifar-10-binary.tar.gz"


def table() -> uci.UciSet:
    data = np.random.default_rng(0).normal(size=(6, 3))
    return uci.UciSet(data, np.array([0, 1]), np.array([2]), np.array([[0, 1, 2, 3]]), np.array([[4, 5]]))


def uci_file(folder: Path) -> Path:
    checksum.UCI["uci/yacht"] = checksum.md5(uci.content(table()))
    np.savez(folder / "yacht.npz", **table()._asdict())
    return folder / "yacht.npz"


def uci_text(folder: Path) -> Path:
    uci_file(folder).unlink()
    for name, array in table()._asdict().items():
        text = f"{name}_0.txt" if name in ("index_train", "index_test") else f"{name}.txt"
        np.savetxt(folder / text, array[0] if text.endswith("_0.txt") else array, fmt="%.18e" if name == "data" else "%d")
    return folder / "data.txt"


CASES = {
    "metrics": Case(metrics, lambda path: results.read_metrics(path.parent)),
    "settings": Case(settings_file, lambda path: dataclasses.asdict(settings.load(path.parent))),
    "history": Case(history, results.arrays),
    "predictions": Case(predictions, results.arrays),
    "posterior": Case(posterior, lambda path: vars(load_posterior(path))),
    "fit": Case(fit, lambda path: read_fit(path)._asdict()),
    "checkpoint": Case(checkpoint, read_checkpoint),
    "network": Case(network, read_network),
    "network, by NumPy alone": Case(network, reader.load),
    "idx": Case(idx_file, read_idx),
    "idx, gzipped": Case(lambda folder: idx_file(folder, ".gz"), read_idx),
    "cifar": Case(cifar_file, lambda path: cifar.read((path,), "cifar10", "test")),
    "cifar, packed": Case(cifar_archive, lambda path: cifar.read((path,), "cifar10", "test")),
    "uci": Case(uci_file, lambda path: uci.read_uci(path, "uci/yacht")),
    "uci, text": Case(uci_text, lambda path: uci.read_uci(path.parent, "uci/yacht")),
}


@pytest.fixture(autouse=True)
def own_checksums(monkeypatch: pytest.MonkeyPatch) -> None:
    """The small files of these tests are taken for the published ones."""
    for name in ("IDX", "CIFAR10", "UCI"):
        monkeypatch.setattr(checksum, name, dict(getattr(checksum, name)))


def same(one: Any, other: Any) -> bool:
    leaves, others = jax.tree.leaves(one), jax.tree.leaves(other)
    if jax.tree.structure(one) != jax.tree.structure(other):
        return False
    return all(np.array_equal(np.asarray(a), np.asarray(b)) and type(a) is type(b) for a, b in zip(leaves, others, strict=True))


def judged(case: Case, path: Path, content: bytes, whole: Any) -> str:
    """Whether a reader refused it or found the same; anything else is a failure."""
    path.write_bytes(content)
    try:
        got = case.read(path)
    except (ValueError, OSError) as error:
        assert str(path) in str(error) or str(path.parent) in str(error), error
        assert len(str(error)) < 1000 and "\n" not in str(error)
        return "refused"
    assert same(got, whole), "other contents, without a word"
    return "same"


def damaged(content: bytes, flips: int, cuts: int) -> list[bytes]:
    """So many copies with one byte changed, and so many cut short, at places and by amounts that are always the same."""
    rng = np.random.default_rng(0)
    made = []
    for place, change in zip(rng.integers(0, len(content), flips), rng.integers(1, 256, flips), strict=True):
        made.append(content[:place] + bytes([content[place] ^ int(change)]) + content[place + 1 :])
    return made + [content[:length] for length in np.linspace(0, len(content) - 2, cuts).astype(int)]


def check(case: Case, folder: Path, flips: int, cuts: int) -> None:
    path = case.make(folder)
    whole, content = case.read(path), path.read_bytes()
    verdicts = [judged(case, path, bad, whole) for bad in damaged(content, flips, cuts)]
    assert verdicts.count("refused") > 0.6 * len(verdicts)  # what changes nothing, such as a date inside a zip, may pass
    others = {b"", b"another kind of file", b"{}", b"[1]", b"\x00" * 64}
    for other in sorted(others):
        assert judged(case, path, other, whole) == "refused", other
    assert judged(case, path, content, whole) == "same"


@pytest.mark.parametrize("name", CASES)
def test_a_damaged_file_is_refused_by_name_or_reads_the_same(name: str, tmp_path: Path) -> None:
    check(CASES[name], tmp_path, flips=40, cuts=12)


@pytest.mark.slow_cases(3)
@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_a_damaged_file_is_refused_by_name_or_reads_the_same_at_length(name: str, tmp_path: Path) -> None:
    check(CASES[name], tmp_path, flips=2000, cuts=200)
