"""Whole files: tables and arrays as training and test rows, and read again by what was found."""

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from bayesprune.data.tables import own
from bayesprune.data.tables.own import load_own
from bayesprune.data.tables.reading import read_frame


def table(rows: int = 40) -> pd.DataFrame:
    rng = np.random.default_rng(0)
    made = {"size": rng.normal(size=rows) * 9 + 3, "colour": rng.choice(["red", "blue"], rows), "year": 2020}
    return pd.DataFrame(made | {"kind": rng.choice(["cat", "dog"], rows)})


@pytest.fixture
def csv(tmp_path: Path) -> Path:
    path = tmp_path / "my.csv"
    table().to_csv(path, index=False)
    return path


@pytest.mark.parametrize("ending", ["csv", "tsv", "parquet"])
def test_a_table_is_read_alike_from_every_kind_of_file(ending: str, csv: Path) -> None:
    path = csv.with_suffix(f".{ending}")
    frame = table()
    if ending == "parquet":
        pytest.importorskip("pyarrow")
        frame.to_parquet(path)
    else:
        frame.to_csv(path, index=False, sep="\t" if ending == "tsv" else ";")
    found = load_own(path, "kind", seed=3)
    assert found.train.x.shape == (32, 3) and found.test.x.shape == (8, 3) and found.schema.target.classes == ("cat", "dog")
    assert [c.kind for c in found.schema.columns] == ["number", "category", "constant"]
    assert abs(found.train.x[:, 0].mean()) < 1e-6 and found.train.x[:, 0].std() == pytest.approx(1.0, rel=1e-5)
    other = load_own(csv, "kind", seed=3)
    np.testing.assert_allclose(found.train.x, other.train.x, atol=1e-6)
    np.testing.assert_array_equal(found.test.y, other.test.y)
    assert not np.array_equal(load_own(csv, "kind", seed=4).test.x, other.test.x)


def test_a_new_file_is_read_by_what_was_found(csv: Path, tmp_path: Path) -> None:
    schema = load_own(csv, "kind").schema
    again = own.from_json(json.loads(json.dumps(own.to_json(schema))))
    assert again == schema
    new = tmp_path / "new.csv"
    frame = table().iloc[:5]
    frame[["kind", "colour", "size"]].assign(more=1).to_csv(new, index=False)  # another order, no constant, one too many
    whole = again.dataset(csv)
    part = again.dataset(new)
    np.testing.assert_allclose(part.x, whole.x[:5], rtol=1e-6)
    np.testing.assert_array_equal(part.y, whole.y[:5])
    for lacking, told in (("size", f"lacks size, which {csv.name} had"), ("kind", "lacks kind, the target")):
        frame.drop(columns=lacking).to_csv(new, index=False)
        with pytest.raises(ValueError, match=told):
            again.dataset(new)
    for gap, told in (("size", "missing in size .*run anew without these columns"), ("kind", "missing in kind .*predict them")):
        frame.assign(**{gap: frame[gap].where(frame.index > 0)}).to_csv(new, index=False)
        with pytest.raises(ValueError, match=told):
            again.dataset(new)


def test_categories_that_a_file_declares_are_not_questioned(tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")
    codes = pd.Series(["1", "2"] * 10)
    frame = pd.DataFrame({"code": codes, "y": codes.iloc[::-1].to_numpy(), "a": np.arange(20.0)})
    frame.to_parquet(tmp_path / "texts.parquet")
    frame.astype({"code": "category", "y": "category"}).to_parquet(tmp_path / "declared.parquet")
    with pytest.raises(ValueError, match="column 'code' would be numbers"):
        load_own(tmp_path / "texts.parquet", "y")
    found = load_own(tmp_path / "declared.parquet", "y").schema
    assert found.columns[0].categories == found.target.classes == ("1", "2")


@pytest.mark.parametrize(
    "content",
    ["a,y\n1,b c\n2,d\n", "a, y\n1, b c\n2, d\n", "a,y\n1,b c,\n2,d,\n", "a,y,\n1,b c,\n2,d,\n", "a\ty\n1\t b c\n2\td\n"],
)
def test_blanks_after_commas_and_commas_at_the_ends_of_lines_mean_nothing(content: str, tmp_path: Path) -> None:
    path = tmp_path / "my.csv"
    path.write_text(content)
    assert read_frame(path).to_dict("list") == {"a": [1, 2], "y": ["b c", "d"]}


def test_arrays_with_and_without_test_rows(tmp_path: Path) -> None:
    path, rng = tmp_path / "my.npz", np.random.default_rng(0)
    x, y = rng.integers(0, 255, (20, 4, 4, 2), dtype=np.uint8), np.arange(20) % 2
    np.savez(path, x=x, y=y)
    found = load_own(path, None)
    assert found.train.x.shape == (16, 4, 4, 2) and found.train.y.dtype == np.int32
    np.testing.assert_allclose(found.train.x.mean((0, 1, 2)), 0.0, atol=1e-6)
    np.savez(path, x=x, y=y, x_test=x[:3], y_test=y[:3])
    found = load_own(path, "y")
    assert len(found.train.y) == 20 and len(found.test.y) == 3
    np.testing.assert_array_equal(found.schema.rows(path), found.train.x)
    (tmp_path / "new.csv").write_text("a,b\n1,2\n")
    with pytest.raises(ValueError, match=r"is a table, and the network was trained on the arrays of my.npz: give an .npz file"):
        found.schema.rows(tmp_path / "new.csv")


def test_targets_of_arrays_may_stand_in_one_column(tmp_path: Path) -> None:
    path, x, y = tmp_path / "my.npz", np.arange(20.0).reshape(10, 2), np.linspace(0.5, 2, 10)
    np.savez(path, x=x, y=y, x_test=x, y_test=y)
    plain = load_own(path, None)
    np.savez(path, x=x, y=y[:, None], x_test=x, y_test=y[:, None])
    found = load_own(path, None)
    for one, other in zip(found[:2], plain[:2], strict=True):
        np.testing.assert_array_equal(one.y, other.y)
    np.testing.assert_array_equal(found.schema.dataset(path).y, plain.train.y)
    np.savez(path, x=x, y=np.stack([y, y], 1))
    for read in (found.schema.dataset, lambda path: load_own(path, None)):
        with pytest.raises(ValueError, match=r"y of .* has 2 columns, and a run predicts one: save one of them"):
            read(path)


@pytest.mark.parametrize(
    ("content", "target", "told"),
    [
        ("a,y\n1,2\n,3\n4,5\n", "y", r"missing in a \(1 of 3 rows, the first in row 2\).*leave columns out \(drop\)"),
        (
            "a,y\n1,2\n3,\n4,5\n",
            "y",
            r"missing in y \(1 of 3 rows, the first in row 2\): fill them in, or delete those rows\.$",
        ),
        ("a,y\n1,2\n", None, "target is needed.*It has a, y"),
        ("a,price\n1,2\n", "prise", "unknown column 'prise'. Did you mean 'price'"),
        ("1,2\n3,4\n", "y", "begins with numbers"),
        ("a,y\n", "y", "has no rows"),
        ("", "y", "is no whole table"),
        ('"a","y"\n"1",2,3\n"2",4,5\n', "y", r"fewer names in its first line than values.*row\.names = FALSE"),
        ("a,y\n3,1\n3,2\n3,4\n", "y", "every column of .* is constant"),
    ],
)
def test_a_table_that_cannot_be_used_is_refused(content: str, target: str | None, told: str, tmp_path: Path) -> None:
    path = tmp_path / "my.csv"
    path.write_text(content)
    with pytest.raises(ValueError, match=told):
        load_own(path, target)


def test_files_of_other_kinds_are_refused(tmp_path: Path, csv: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(FileNotFoundError, match="no file of data at"):
        load_own(tmp_path / "none.csv", "y")
    with pytest.raises(ValueError, match=r"write it as .csv"):
        load_own(csv.rename(tmp_path / "my.xlsx"), "y")
    path = tmp_path / "my.npz"
    for arrays, told in (
        ({"x": np.zeros(3), "y": np.zeros(3)}, "reshape them"),
        ({"x": np.zeros((3, 1))}, "it has no y"),
        ({"x": np.zeros((3, 1)), "y": np.arange(3), "x_test": np.zeros((3, 1))}, "one of x_test and y_test"),
        ({"x": np.zeros((3, 1)), "y": np.arange(3), "x_test": np.zeros((3, 2)), "y_test": np.arange(3)}, "do not go with"),
    ):
        np.savez(path, **arrays)
        with pytest.raises(ValueError, match=told):
            load_own(path, None)
    with pytest.raises(ValueError, match="arrays without names"):
        load_own(path, "price")


def test_a_library_that_is_missing_is_named_with_the_remedy(csv: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "pandas", None)
    with pytest.raises(ImportError, match=r"need pandas, which is not installed: pip install 'bayesprune\[cli\]'"):
        load_own(csv, "kind")
    monkeypatch.undo()
    monkeypatch.setitem(__import__("sys").modules, "pyarrow", None)
    csv.with_suffix(".parquet").write_bytes(b"")
    with pytest.raises(ImportError, match=r"need pyarrow.*or write a .csv file"):
        load_own(csv.with_suffix(".parquet"), "kind")
