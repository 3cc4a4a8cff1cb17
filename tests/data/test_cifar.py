"""CIFAR-10 batches, written here in both original forms."""

import io
import os
import pickle
import tarfile

import numpy as np
import pytest

from bayesprune import data
from bayesprune.data import checksum, cifar

NAMES = [f"data_batch_{i}" for i in range(1, 6)] + ["test_batch"]


@pytest.fixture(autouse=True)
def only_here(monkeypatch):
    monkeypatch.delenv("BAYESPRUNE_DATA", raising=False)


def batch(name, rows=4):
    rng = np.random.default_rng(NAMES.index(name))
    return rng.integers(0, 256, (rows, 3, 32, 32), dtype=np.uint8), rng.integers(0, 10, rows)


def binary(name):
    planes, labels = batch(name)
    return b"".join(bytes([label]) + image.tobytes() for image, label in zip(planes, labels.tolist(), strict=True))


def pickled(name, protocol=2, keys=("data", "labels")):
    planes, labels = batch(name)
    stored = {keys[0]: planes.reshape(len(planes), -1), keys[1]: labels.tolist(), "batch_label": name.encode()}
    return pickle.dumps(stored, protocol=protocol)


def write(folder, form):
    folder.mkdir(parents=True)
    for name in NAMES:
        (folder / (name + ".bin" if form == "bin" else name)).write_bytes(binary(name) if form == "bin" else pickled(name))


def archive(path, form):
    with tarfile.open(path, "w:gz") as target:
        for name in reversed(NAMES):  # their order in an archive is not the order of the rows
            content = binary(name) if form == "bin" else pickled(name)
            member = tarfile.TarInfo(f"cifar-10-batches-{form}/{name}{'.bin' if form == 'bin' else ''}")
            member.size = len(content)
            target.addfile(member, io.BytesIO(content))


def assert_right(parts):
    train, test = parts
    expected = [batch(name) for name in NAMES]
    planes = np.concatenate([x for x, _ in expected[:5]])
    assert train.x.shape == (20, 32, 32, 3) and train.x.dtype == np.float32
    for channel in range(3):
        np.testing.assert_allclose(train.x[..., channel], planes[:, channel] / 255, rtol=1e-6)
        np.testing.assert_allclose(test.x[..., channel], expected[5][0][:, channel] / 255, rtol=1e-6)
    np.testing.assert_array_equal(train.y, np.concatenate([y for _, y in expected[:5]]))
    np.testing.assert_array_equal(test.y, expected[5][1])
    assert test.y.dtype == np.int32


@pytest.mark.parametrize("form", ["bin", "py"])
@pytest.mark.parametrize("place", ["cifar-10-batches-{}", "cifar10/cifar-10-batches-{}", "CIFAR-10", "."])
def test_folders_of_both_forms(tmp_path, form, place):
    write(tmp_path / "all" / place.format(form), form)
    assert_right(data.load("cifar10", tmp_path / "all", standardise=False, verify=False))


@pytest.mark.parametrize(("form", "name"), [("bin", "cifar-10-binary.tar.gz"), ("py", "cifar-10-python.tar.gz")])
def test_archives_of_both_forms(tmp_path, form, name):
    archive(tmp_path / name, form)
    assert_right(data.load("cifar10", tmp_path, standardise=False, verify=False))
    assert [path.name for path in tmp_path.iterdir()] == [name]


@pytest.mark.parametrize("protocol", [2, 3, 4, 5])
@pytest.mark.parametrize("keys", [("data", "labels"), (b"data", b"labels")])
def test_pickles_of_any_protocol(tmp_path, protocol, keys):
    write(tmp_path / "cifar-10-batches-py", "py")
    (tmp_path / "cifar-10-batches-py/test_batch").write_bytes(pickled("test_batch", protocol, keys))
    assert_right(data.load("cifar10", tmp_path, standardise=False, verify=False))


def python2(pixels, labels):
    """The same batch as Python 2 wrote the originals: byte strings, and NumPy's names of that time."""
    rows = len(labels)
    return (
        b"\x80\x02}(U\x04datacnumpy.core.multiarray\n_reconstruct\n(cnumpy\nndarray\n(K\x00tU\x01btR"
        + (b"(K\x01(K%cM\x00\x0ctcnumpy\ndtype\n(U\x02u1K\x00K\x01tR" % rows)
        + b"(K\x03U\x01|NNNJ\xff\xff\xff\xffJ\xff\xff\xff\xffK\x00tb\x89"
        + (b"T" + len(pixels).to_bytes(4, "little") + pixels + b"tbU\x06labels](")
        + b"".join(b"K%c" % label for label in labels)
        + b"eu."
    )


def test_the_pickles_of_python_2(tmp_path):
    write(tmp_path / "cifar-10-batches-py", "py")
    planes, labels = batch("test_batch")
    (tmp_path / "cifar-10-batches-py/test_batch").write_bytes(python2(planes.tobytes(), labels.tolist()))
    assert_right(data.load("cifar10", tmp_path, standardise=False, verify=False))


class Attack:
    def __reduce__(self):
        return os.mkdir, ("attacked",)


def test_a_pickle_cannot_run_anything(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write(tmp_path / "cifar-10-batches-py", "py")
    (tmp_path / "cifar-10-batches-py/data_batch_2").write_bytes(pickle.dumps({"data": Attack(), "labels": [1]}))
    with pytest.raises(ValueError, match=r"data_batch_2 is no whole CIFAR-10 batch.*mkdir, which no CIFAR-10 batch needs"):
        data.load("cifar10", tmp_path, verify=False)
    assert not (tmp_path / "attacked").exists()


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (pickled("test_batch")[:-40], "no whole CIFAR-10 batch"),
        (b"", "no whole CIFAR-10 batch"),
        (pickle.dumps([1, 2]), "no whole CIFAR-10 batch"),
        (pickle.dumps({"data": np.zeros((2, 3072), np.uint8)}), "KeyError"),
        (pickle.dumps({"data": np.zeros((2, 3072)), "labels": [0, 1]}), "got float64 data"),
        (pickle.dumps({"data": np.zeros((2, 3071), np.uint8), "labels": [0, 1]}), r"of shape \(2, 3071\)"),
        (pickle.dumps({"data": np.zeros((2, 3072), np.uint8), "labels": [0]}), r"labels of shape \(1,\)"),
        (pickle.dumps({"data": np.zeros((1, 3072), np.uint8), "labels": [10]}), r"labels must lie in 0\.\.9"),
    ],
)
def test_bad_pickles_are_refused(tmp_path, content, message):
    write(tmp_path / "cifar-10-batches-py", "py")
    (tmp_path / "cifar-10-batches-py/test_batch").write_bytes(content)
    with pytest.raises(ValueError, match=message):
        data.load("cifar10", tmp_path, verify=False)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (binary("test_batch")[:-1], "12291 bytes are not whole records of 3073"),
        (b"", "0 bytes are not whole records"),
        (b"\x0b" + binary("test_batch")[1:], r"labels must lie in 0\.\.9"),
    ],
)
def test_bad_records_are_refused(tmp_path, content, message):
    write(tmp_path / "cifar-10-batches-bin", "bin")
    (tmp_path / "cifar-10-batches-bin/test_batch.bin").write_bytes(content)
    with pytest.raises(ValueError, match=message):
        data.load("cifar10", tmp_path, verify=False)


def test_a_missing_batch_is_named(tmp_path):
    write(tmp_path / "cifar-10-batches-bin", "bin")
    (tmp_path / "cifar-10-batches-bin/data_batch_3.bin").unlink()
    with pytest.raises(FileNotFoundError, match=r"cifar-10-batches-bin lacks data_batch_3\.bin"):
        data.load("cifar10", tmp_path, verify=False)


def test_a_damaged_archive_is_told(tmp_path):
    path = tmp_path / "cifar-10-binary.tar.gz"
    archive(path, "bin")
    path.write_bytes(path.read_bytes()[:5000])
    with pytest.raises(ValueError, match=r"cifar-10-binary\.tar\.gz is no whole \.tar\.gz file"):
        data.load("cifar10", tmp_path, verify=False)


def test_an_archive_without_the_batches_is_told(tmp_path):
    with tarfile.open(tmp_path / "cifar-10-binary.tar.gz", "w:gz"):
        pass
    with pytest.raises(ValueError, match=r"lacks data_batch_1\.bin"):
        data.load("cifar10", tmp_path, verify=False)


def test_other_data_need_verify_false(tmp_path):
    write(tmp_path / "cifar-10-batches-bin", "bin")
    with pytest.raises(ValueError, match=r"data_batch_1\.bin: MD5 is .*original's is 5dd7e06a.*verify=False"):
        data.load("cifar10", tmp_path)


def test_nothing_found_says_what_to_put_where(tmp_path):
    (tmp_path / "cifar-10").mkdir()
    with pytest.raises(FileNotFoundError, match=r"cifar-10-batches-bin or cifar-10-batches-py.*cifar-10-python\.tar\.gz"):
        data.load("cifar10", tmp_path)


def test_every_file_of_both_forms_has_a_published_sum():
    wanted = {name + suffix for part in cifar.BATCHES.values() for name in part for _, suffix in cifar.FOLDERS}
    assert wanted == set(checksum.CIFAR10)
