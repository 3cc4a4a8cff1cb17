"""UCI sets in both packagings, from a table made here."""

import numpy as np
import pytest
from sklearn.preprocessing import StandardScaler

from bayesprune import data
from bayesprune.data import checksum, uci


@pytest.fixture(autouse=True)
def only_here(monkeypatch):
    monkeypatch.delenv("BAYESPRUNE_DATA", raising=False)


def made(num_targets=1, splits=3):
    """20 rows, 4 features (the third constant), one or two targets, and a column that nobody uses."""
    rng = np.random.default_rng(0)
    table = rng.normal(5.0, 2.0, (20, 5 + num_targets))
    table[:, 2] = 0.3
    orders = np.stack([rng.permutation(20) for _ in range(splits)])
    return {
        "data": table,
        "index_features": np.arange(4, dtype=np.int32),
        "index_target": np.arange(5, 5 + num_targets, dtype=np.int32),
        "index_train": orders[:, :18].astype(np.uint16),
        "index_test": orders[:, 18:].astype(np.uint16),
    }


def write_npz(folder, arrays, name="energy.npz"):
    folder.mkdir(parents=True, exist_ok=True)
    np.savez(folder / name, **arrays)


def write_text(folder, arrays):
    folder.mkdir(parents=True)
    np.savetxt(folder / "data.txt", arrays["data"], fmt="%.17g")
    for kind in ("features", "target"):
        np.savetxt(folder / f"index_{kind}.txt", arrays[f"index_{kind}"], fmt="%d")
    for part in ("train", "test"):
        for number, rows in enumerate(arrays[f"index_{part}"]):
            np.savetxt(folder / f"index_{part}_{number}.txt", rows, fmt="%d")


@pytest.mark.parametrize("split", [0, 2])
def test_a_split_is_the_published_rows_standardised_with_its_training_rows(tmp_path, split):
    arrays = made()
    write_npz(tmp_path / "uci", arrays)
    train, test = data.load("energy", tmp_path, split=split)
    rows, test_rows = arrays["index_train"][split], arrays["index_test"][split]
    oracle = StandardScaler().fit(arrays["data"][rows])
    columns = [0, 1, 3]
    np.testing.assert_allclose(train.x[:, columns], oracle.transform(arrays["data"][rows])[:, columns], atol=1e-5)
    np.testing.assert_allclose(test.x[:, columns], oracle.transform(arrays["data"][test_rows])[:, columns], atol=1e-5)
    np.testing.assert_allclose(test.y, oracle.transform(arrays["data"][test_rows])[:, 5], atol=1e-5)
    assert np.all(train.x[:, 2] == 0) and np.all(test.x[:, 2] == 0)
    assert train.x.dtype == train.y.dtype == np.float32 and train.y.shape == (18,)


@pytest.mark.parametrize("folder", ["uci/energy", "UCI_Datasets/energy/data", "energy"])
def test_the_text_files_hold_the_same(tmp_path, folder):
    write_npz(tmp_path / "a" / "uci", made())
    write_text(tmp_path / "b" / folder, made())
    for ours, theirs in zip(data.load("uci/energy", tmp_path / "a"), data.load("uci/energy", tmp_path / "b"), strict=True):
        np.testing.assert_array_equal(ours.x, theirs.x)
        np.testing.assert_array_equal(ours.y, theirs.y)


def test_all_splits_at_once_are_the_single_ones(tmp_path):
    write_npz(tmp_path / "uci", made())
    train, test = data.uci_splits("energy", tmp_path)
    assert train.x.shape == (3, 18, 4) and test.y.shape == (3, 2)
    for split in range(3):
        single_train, single_test = data.load("energy", tmp_path, split=split)
        np.testing.assert_array_equal(train.x[split], single_train.x)
        np.testing.assert_array_equal(test.y[split], single_test.y)


def test_raw_units_and_several_targets(tmp_path):
    arrays = made(num_targets=2)
    write_npz(tmp_path, arrays)
    train, _ = data.load("energy", tmp_path, standardise=False)
    np.testing.assert_allclose(train.y, arrays["data"][arrays["index_train"][0]][:, 5:7], rtol=1e-6)


def test_file_names_may_be_spelt_otherwise(tmp_path):
    write_npz(tmp_path / "uci", made(), "naval-propulsion-plant.npz")
    assert data.load("naval_propulsion_plant", tmp_path, verify=False)[0].x.shape == (18, 4)


def changed(**fields):
    return made() | fields


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({k: v for k, v in made().items() if k != "index_test"}, "no whole UCI set with splits"),
        (changed(data=np.full((20, 6), np.nan)), "data must be finite"),
        (changed(data=made()["data"].ravel()), "data must be finite, of shape"),
        (changed(index_target=np.array([6])), "different columns of 0..5"),
        (changed(index_target=np.array([3])), "different columns"),
        (changed(index_test=made()["index_train"][:, :2]), "rows of split 0 must hold each of the 20 rows exactly once"),
        (changed(index_test=made()["index_test"][:2]), r"must have the shape \(splits, rows\)"),
        (changed(index_train=made()["index_train"] + 0.5), "not a whole number"),
        (changed(data=np.array([object()])), "no whole UCI set with splits"),
    ],
)
def test_bad_arrays_are_refused(tmp_path, arrays, message):
    write_npz(tmp_path / "uci", arrays)
    with pytest.raises(ValueError, match=message):
        data.load("energy", tmp_path)


@pytest.mark.parametrize("content", [b"", b"PK\x03\x04 half a zip", b"not a zip at all"])
def test_a_file_that_is_no_npz_is_refused(tmp_path, content):
    (tmp_path / "energy.npz").write_bytes(content)
    with pytest.raises(ValueError, match=r"energy\.npz is no whole UCI set with splits"):
        data.load("energy", tmp_path)


def test_a_truncated_npz_is_refused(tmp_path):
    write_npz(tmp_path, made())
    path = tmp_path / "energy.npz"
    path.write_bytes(path.read_bytes()[:-300])
    with pytest.raises(ValueError, match="no whole UCI set with splits"):
        data.load("energy", tmp_path)


def test_other_numbers_under_a_known_name_need_verify_false(tmp_path):
    write_npz(tmp_path / "uci", made(), "yacht.npz")
    with pytest.raises(ValueError, match=r"yacht\.npz \(its arrays\): MD5 is .*original's is 5f12c0c3.*verify=False"):
        data.load("yacht", tmp_path)
    assert data.load("yacht", tmp_path, verify=False)[0].x.shape == (18, 4)


def test_every_published_sum_belongs_to_a_listed_set():
    assert set(checksum.UCI) < set(data.names())


def test_the_sum_is_of_the_numbers_not_of_their_type():
    table = uci.UciSet(*(np.asarray(value) for value in made().values()))
    wider = table._replace(index_train=table.index_train.astype(np.int64), data=np.asfortranarray(table.data))
    assert uci.content(table) == uci.content(wider)


def test_splits_out_of_range_and_missing_sets(tmp_path):
    write_npz(tmp_path / "uci", made())
    with pytest.raises(ValueError, match=r"split must lie in 0\.\.2 for 'uci/energy', got 3"):
        data.load("energy", tmp_path, split=3)
    with pytest.raises(FileNotFoundError, match=r"power-plant\.npz .*DIR/uci"):
        data.load("power-plant", tmp_path)
    with pytest.raises(ValueError, match="unknown UCI set 'digits'"):
        data.uci_splits("digits")
