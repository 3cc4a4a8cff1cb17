"""IDX files, written here byte by byte."""

import gzip
import struct

import numpy as np
import pytest

from bayesprune import data
from bayesprune.data import checksum

ROWS = {"train": 12, "t10k": 5}


def idx_bytes(array):
    return struct.pack(f">{array.ndim + 1}I", 0x0800 + array.ndim, *array.shape) + array.astype(np.uint8).tobytes()


def arrays(stem):
    rng = np.random.default_rng(ROWS[stem])
    return rng.integers(0, 256, (ROWS[stem], 28, 28)), rng.integers(0, 10, ROWS[stem])


def write(folder, stems=("train", "t10k"), zipped=True, dotted=False):
    folder.mkdir(parents=True)
    for stem in stems:
        for kind, array in zip(("images-idx3", "labels-idx1"), arrays(stem), strict=True):
            name = f"{stem}-{kind}-ubyte".replace("-idx", ".idx" if dotted else "-idx")
            content = idx_bytes(array)
            (folder / (name + ".gz" if zipped else name)).write_bytes(gzip.compress(content) if zipped else content)


@pytest.fixture(autouse=True)
def only_here(monkeypatch):
    monkeypatch.delenv("BAYESPRUNE_DATA", raising=False)


@pytest.mark.parametrize("folder", ["fashion-mnist", "fashion_mnist", "FashionMNIST/raw", "fashion", "."])
@pytest.mark.parametrize(("zipped", "dotted"), [(True, False), (False, False), (False, True)])
def test_files_are_found_and_read(tmp_path, folder, zipped, dotted):
    write(tmp_path / "all" / folder, zipped=zipped, dotted=dotted)
    train, test = data.load("fashion_mnist", tmp_path / "all", standardise=False, verify=False)
    for part, stem in ((train, "train"), (test, "t10k")):
        images, labels = arrays(stem)
        np.testing.assert_allclose(part.x[..., 0], images / 255, rtol=1e-6)
        np.testing.assert_array_equal(part.y, labels)
        assert part.x.dtype == np.float32 and part.y.dtype == np.int32


def test_the_environment_variable_is_looked_at_after_data_dir(tmp_path, monkeypatch):
    write(tmp_path / "variable" / "mnist")
    monkeypatch.setenv("BAYESPRUNE_DATA", str(tmp_path / "variable"))
    (tmp_path / "given").mkdir()
    train, _ = data.load("mnist", tmp_path / "given", verify=False)
    assert train.x.shape == (12, 28, 28, 1)
    write(tmp_path / "given" / "mnist", stems=("t10k",))
    (tmp_path / "given/mnist/t10k-labels-idx1-ubyte.gz").write_bytes(gzip.compress(idx_bytes(np.full(5, 3))))
    _, test = data.load("mnist", tmp_path / "given", verify=False)
    assert test.y.tolist() == [3] * 5


def test_padding_comes_before_standardising(tmp_path):
    write(tmp_path / "mnist")
    train, test = data.load("mnist", tmp_path, pad=32, verify=False)
    padded = np.pad(arrays("train")[0] / 255, ((0, 0), (2, 2), (2, 2)))
    np.testing.assert_allclose(train.x[..., 0], (padded - padded.mean()) / padded.std(), atol=1e-5)
    assert test.x.shape == (5, 32, 32, 1)


def test_a_test_part_alone_is_for_out_of_distribution_tests(tmp_path):
    write(tmp_path / "kmnist-test", stems=("t10k",))
    write(tmp_path / "mnist")
    foreign = data.load_test("kmnist", tmp_path, like="mnist", verify=False)
    train = arrays("train")[0]
    np.testing.assert_allclose(foreign.x[..., 0], (arrays("t10k")[0] - train.mean()) / train.std(), atol=1e-5)
    np.testing.assert_allclose(data.load_test("kmnist", tmp_path, like="", verify=False).x.max(), 1.0, atol=0.02)
    with pytest.raises(FileNotFoundError, match=r"train-images-idx3-ubyte.*load_test reads it"):
        data.load("kmnist", tmp_path, verify=False)
    with pytest.raises(ValueError, match=r"mnist has images.*pad them to one size"):
        data.load_test("mnist", tmp_path, like="digits", verify=False)
    with pytest.raises(ValueError, match="like must be an image set"):
        data.load_test("mnist", tmp_path, like="yacht", verify=False)


def test_nothing_found_says_what_to_put_where(tmp_path):
    with pytest.raises(
        FileNotFoundError, match=r"t10k-labels-idx1-ubyte.*DIR/fashion-mnist.*BAYESPRUNE_DATA=DIR.*Looked in: /"
    ):
        data.load("fashion_mnist", tmp_path)
    with pytest.raises(FileNotFoundError, match="no folder, as neither was given"):
        data.load("fashion_mnist")


def test_folders_that_do_not_exist_are_named(tmp_path, monkeypatch):
    with pytest.raises(FileNotFoundError, match="data_dir must be an existing folder"):
        data.load("mnist", tmp_path / "nowhere")
    monkeypatch.setenv("BAYESPRUNE_DATA", str(tmp_path / "gone"))
    with pytest.raises(FileNotFoundError, match=r"gone \(no such folder\)"):
        data.load("mnist")


def swap(content):
    return content[:3] + b"\x01" + content[4:]


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda packed: packed[: len(packed) // 2], r"train-images-idx3-ubyte\.gz is no whole gzip file"),
        (lambda packed: packed[:200] + bytes(50) + packed[250:], "no whole gzip file"),
        (lambda packed: b"<html>not found</html>", "no whole gzip file"),
        (lambda packed: b"", r"magic number|no whole gzip file"),
        (lambda packed: gzip.compress(swap(gzip.decompress(packed))), "magic number 2049, expected 2051"),
        (lambda packed: gzip.compress(gzip.decompress(packed)[:-9]), r"announces 9408 bytes.*the file has 9399"),
        (lambda packed: gzip.compress(gzip.decompress(packed) + b"x"), r"announces 9408 bytes.*the file has 9409"),
        (lambda packed: gzip.compress(b"\x00\x00\x08"), "magic number"),
        (lambda packed: gzip.compress(gzip.decompress(packed)[:7]), "ends after 7 bytes, within its header of 16"),
        (lambda packed: gzip.compress(idx_bytes(arrays("train")[0][:7])), r"holds 7 images but .* 12 labels"),
    ],
)
@pytest.mark.parametrize("verify", [True, False])
def test_damage_is_told_as_what_it_is(tmp_path, damage, message, verify, monkeypatch):
    write(tmp_path / "mnist")
    if verify:  # the published sums would catch the labels first: let every sum pass but damage
        monkeypatch.setattr(checksum, "require", lambda got, expected, what: None)
    path = tmp_path / "mnist" / "train-images-idx3-ubyte.gz"
    path.write_bytes(damage(path.read_bytes()))
    with pytest.raises(ValueError, match=message):
        data.load("mnist", tmp_path, verify=verify)


def test_files_without_rows_are_refused(tmp_path):
    write(tmp_path / "mnist")
    for kind, array in (("images-idx3", np.zeros((0, 28, 28))), ("labels-idx1", np.zeros(0))):
        (tmp_path / f"mnist/train-{kind}-ubyte.gz").write_bytes(gzip.compress(idx_bytes(array)))
    with pytest.raises(ValueError, match="holds no images"):
        data.load("mnist", tmp_path, verify=False)


def test_a_file_that_is_not_the_published_one_is_refused(tmp_path):
    write(tmp_path / "mnist")
    with pytest.raises(ValueError, match=r"train-images-idx3-ubyte\.gz: MD5 is \w{32}, the original's is 6bbc.*verify=False"):
        data.load("mnist", tmp_path)


def test_the_published_content_passes_however_it_is_packed(tmp_path, monkeypatch):
    write(tmp_path / "mnist", zipped=False)
    sums = {
        ("mnist", f"{s}-{k}"): ("0" * 32, checksum.md5(idx_bytes(a)))
        for s in ROWS
        for k, a in zip(("images", "labels"), arrays(s), strict=True)
    }
    monkeypatch.setattr(checksum, "IDX", sums)
    assert data.load("mnist", tmp_path)[0].x.shape == (12, 28, 28, 1)
    for path in (tmp_path / "mnist").iterdir():
        path.with_name(path.name + ".gz").write_bytes(gzip.compress(path.read_bytes(), 1))
        path.unlink()
    assert data.load("mnist", tmp_path)[0].x.shape == (12, 28, 28, 1)


def test_a_known_file_in_the_wrong_place_is_recognised():
    labels_of_fashion = "bb300cfdad3c16e7a12a480ee83cd310"
    with pytest.raises(ValueError, match="It is the file of fashion_mnist t10k-labels"):
        checksum.require(labels_of_fashion, "ec29112dd5afa0611ce80d1b7f02629c", "here")
