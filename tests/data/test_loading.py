"""The door: options that do not fit, and the way through tensorflow-datasets (a stand-in for the package)."""

import importlib.machinery
import sys
import types

import numpy as np
import pytest

from bayesprune import data
from bayesprune.data import embedded


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"standardise": "yes"}, "standardise must be True, False, 'auto' or 'inputs'|parameter 'standardise'"),
        ({"standardise": None}, "standardise must be|parameter 'standardise'"),
        ({"split": 1}, "split=1 means nothing for 'digits'"),
        ({"seed": 1}, "seed=1 means nothing for 'digits'"),
        ({"split": -1}, "split must be an integer"),
        ({"pad": 4}, "size must be at least"),
    ],
)
def test_options_that_do_not_fit_are_refused(options, message):
    with pytest.raises((ValueError, TypeError), match=message):
        data.load("digits", **options)


def test_padding_is_for_images():
    with pytest.raises(ValueError, match="pad=32 means nothing for 'diabetes'"):
        data.load("diabetes", pad=32)


def row(label):
    return {"image": np.full((28, 28, 1), 20 * label, np.uint8), "label": np.int64(label)}


@pytest.fixture
def stand_in(monkeypatch):
    """A package of the same name that notes how it was called."""
    calls = []
    package = types.ModuleType("tensorflow_datasets")
    package.__spec__ = importlib.machinery.ModuleSpec("tensorflow_datasets", None)

    def data_source(name, *, split, **places):
        calls.append((name, split, places))
        return [row(label) for label in (range(10) if split == "train" else (4, 2))]

    package.data_source = data_source
    monkeypatch.setitem(sys.modules, "tensorflow_datasets", package)
    monkeypatch.delenv("BAYESPRUNE_DATA", raising=False)
    return package, calls


def test_what_has_no_files_is_asked_of_tensorflow_datasets(stand_in):
    _, calls = stand_in
    train, test = data.load("mnist")
    assert train.x.shape == (10, 28, 28, 1) and test.y.tolist() == [4, 2]
    assert test.y.dtype == np.int32 and train.x.dtype == np.float32
    assert calls == [("mnist", "train", {"download": False}), ("mnist", "test", {"download": False})]


def test_a_prepared_folder_comes_before_a_download(stand_in, tmp_path):
    _, calls = stand_in
    (tmp_path / "mnist" / "3.0.1").mkdir(parents=True)
    (tmp_path / "mnist" / "3.0.1" / "dataset_info.json").write_text("{}")
    data.load("mnist", tmp_path, download=True)
    data.load("fashion_mnist", tmp_path, download=True)
    assert [places for _, _, places in calls[1:3]] == [{"data_dir": str(tmp_path), "download": False}, {"download": True}]


def test_its_failure_is_part_of_the_one_error(stand_in):
    package, _ = stand_in

    def fail(name, **options):
        raise RuntimeError("no network\nand much more")

    package.data_source = fail
    with pytest.raises(FileNotFoundError, match=r"DIR/mnist.*RuntimeError: no network\)\. With download=True"):
        data.load("mnist")


def test_without_the_package_the_error_says_so(monkeypatch):
    monkeypatch.delenv("BAYESPRUNE_DATA", raising=False)
    monkeypatch.setattr(embedded.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(FileNotFoundError, match="tensorflow_datasets, which might have it, is not installed"):
        data.load("cifar10")
