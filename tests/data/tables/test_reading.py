"""Files as frames: names, gaps, categories and large numbers are those of the file."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from bayesprune.data.tables.own import load_own
from bayesprune.data.tables.reading import header_of, read_frame, values_of


@pytest.mark.parametrize("content", ["a,y,b,y\n1,2,3,2\n", 'a;"b, c";a\n1;2;3\n', "\ufeffx\tx\n1\t2\n"])
def test_a_name_that_two_columns_have_is_refused(content: str, tmp_path: Path) -> None:
    (tmp_path / "my.csv").write_text(content, encoding="utf-8")
    with pytest.raises(ValueError, match=r"^several columns of .*my.csv have the name '[yax]': rename them, or leave out all"):
        read_frame(tmp_path / "my.csv")


def test_a_name_that_two_columns_of_parquet_have_is_refused(tmp_path: Path) -> None:
    parquet = pytest.importorskip("pyarrow.parquet")
    table = pytest.importorskip("pyarrow").table([[1, 2], [3, 4]], names=["a", "a"])
    parquet.write_table(table, tmp_path / "my.parquet")
    with pytest.raises(ValueError, match=r"^several columns of .*my.parquet have the name 'a': rename them"):
        read_frame(tmp_path / "my.parquet")


@pytest.mark.parametrize(
    ("content", "known"),
    [
        ("a\n1\n\n9\n", [1, None, 9]),
        ("a\r\n\r\n9\r\n", [None, 9]),
        ("\n\na\n1\n  \n9\n\n\n", [1, None, 9]),
        ('a\n1\n""\n9\n""\n', [1, None, 9, None]),
        ('"a"\n1\n9', [1, 9]),
    ],
)
@pytest.mark.parametrize("text", [(), ("a",)], ids=["numbers", "texts"])
def test_a_blank_line_of_one_column_is_a_row(content: str, known: list, text: tuple[str, ...], tmp_path: Path) -> None:
    (tmp_path / "my.csv").write_bytes(content.encode())
    found = read_frame(tmp_path / "my.csv", text)
    assert list(found) == ["a"]
    assert [None if gap else int(value) for value, gap in zip(found["a"], found["a"].isna(), strict=True)] == known


def test_blank_lines_of_several_columns_are_none(tmp_path: Path) -> None:
    (tmp_path / "my.csv").write_text("a,y\n1,2\n\n3,4\n\n")
    assert read_frame(tmp_path / "my.csv").to_dict("list") == {"a": [1, 3], "y": [2, 4]}


def test_numbers_beyond_int64_are_what_they_are(tmp_path: Path) -> None:
    large = np.array([2**63, 2**64 - 1, 7], np.uint64)
    pd.DataFrame({"a": large}).to_csv(tmp_path / "my.csv", index=False)
    found = values_of(read_frame(tmp_path / "my.csv"), "a")
    assert found.tolist() == large.tolist() and found.dtype == np.uint64


def test_categories_of_numbers_are_categories_where_a_parquet_file_says_so(tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")
    rng, path = np.random.default_rng(0), tmp_path / "my.parquet"
    codes, bits = pd.Categorical(rng.integers(8, 12, 200)), pd.Categorical(rng.random(200) < 0.5)
    frame = pd.DataFrame({"code": codes, "bit": bits, "a": rng.normal(size=200), "n": rng.integers(0, 9, 200)})
    frame.assign(y=pd.Categorical(rng.integers(0, 30, 200))).to_parquet(path)
    found = load_own(path, "y")
    kinds = {column.name: (column.kind, column.categories) for column in found.schema.columns}
    assert kinds["code"] == ("category", ("10", "11", "8", "9")) and kinds["bit"] == ("category", ("False", "True"))
    assert kinds["a"][0] == kinds["n"][0] == "number"
    target = found.schema.target
    assert target.kind == "classes" and target.classes == tuple(map(str, range(30))) and not target.text
    assert load_own(path, "y", kind="numbers").schema.target.kind == "numbers"  # where it is asked for
    # New files have the codes as they write them.
    new = pd.DataFrame({"code": [9, 11], "bit": [True, False], "a": 0.0, "n": 1})
    for ending, write in (("csv", pd.DataFrame.to_csv), ("parquet", pd.DataFrame.to_parquet)):
        write(new, tmp_path / f"new.{ending}", index=False)
        rows = found.schema.rows(tmp_path / f"new.{ending}")
        np.testing.assert_array_equal(rows[:, :6], [[0, 0, 0, 1, 0, 1], [0, 1, 0, 0, 1, 0]])


def test_categories_with_gaps_are_whole_numbers_still(tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")
    pd.DataFrame({"code": pd.Categorical([3, None, 4, 3]), "share": pd.Categorical([0.5, None, 1.0, 0.5])}).to_parquet(
        tmp_path / "my.parquet"
    )
    found = read_frame(tmp_path / "my.parquet")
    assert [str(one) for one in found["code"].cat.categories] == ["3", "4"] and found["code"].isna().sum() == 1
    assert found["share"].cat.categories.tolist() == [0.5, 1.0]


@pytest.mark.parametrize(
    ("file", "content", "separator", "names"),
    [
        ("a.csv", "a,b,y\n1,2,3\n", ",", ["a", "b", "y"]),
        ("a.csv", "\ufeffa;y\n1,5;2,5\n", ";", ["a", "y"]),
        ("a.csv", "len, m;w, kg;y\n1;2;3\n4;5;6\n", ";", ["len, m", "w, kg", "y"]),
        ("a.csv", "len, m, all;w;y\n1,5;2;3\n4;5;6\n", ";", ["len, m, all", "w", "y"]),
        ("a.csv", '"len; m; all","w; kg"\n1,2\n', ",", ["len; m; all", "w; kg"]),
        ("a.csv", 'y;text\n1;"a, b\n\nc, d"\n\n2;"e, f, g"\n', ";", ["y", "text"]),
        ("a.csv", "a,y\n1,2,\n3,4,\n", ",", ["a", "y"]),
        ("a.csv", '"len, m"\n1\n', ",", ["len, m"]),
        ("a.csv", "\n\na\ty\n1\t2\n", "\t", ["a", "y"]),
        ("a.csv", "a,y\n", ",", ["a", "y"]),
        ("a.tsv", "len, m\tw, kg\ty\n1\t2\t3\n", "\t", ["len, m", "w, kg", "y"]),
        ("a.tsv", "len, m\tw, kg\n1,5\t2,5\n", "\t", ["len, m", "w, kg"]),
        ("a.tsv", "len, m\n1\n2\n", "\t", ["len, m"]),
        ("a.tsv", "a,y\n1,2\n", ",", ["a", "y"]),
        ("a.csv", "", ",", []),
    ],
)
def test_what_separates_is_what_cuts_every_line_alike(
    file: str, content: str, separator: str, names: list[str], tmp_path: Path
) -> None:
    (tmp_path / file).write_text(content, encoding="utf-8")
    assert header_of(tmp_path / file) == (separator, names)


CODES = [["01", "1", "10"], ["007", "012"], ["00", "23"], ["0", "00"], ["00501", "", "10001"], ["0" * 23 + "1", "12"]]
NUMBERS = [
    ["0", "10"],
    ["0.5", "-0.1", "0"],
    ["1e3", "0e1"],
    ["-05", "03"],
    ["01.5", "02"],
    ["1", "1.0"],
    ["0", "-0"],
    ["0", ""],
]


@pytest.mark.parametrize("line", ["{},1", "{};1", "1\t{}", '"{}",1', "{}"])
def test_whole_numbers_with_zeros_in_front_are_texts_as_they_are_written(line: str, tmp_path: Path) -> None:
    """Zip codes, and labels: of 01 and 1 a number is the same."""
    for texts in CODES:
        (tmp_path / "my.csv").write_text("\n".join([line.format("a").replace("1", "b"), *map(line.format, texts)]) + "\n")
        found = read_frame(tmp_path / "my.csv")
        assert found["a"].fillna("").tolist() == texts
        assert found.shape[1] == 1 or found["b"].tolist() == [1] * len(texts)


def test_numbers_are_numbers_however_they_are_written(tmp_path: Path) -> None:
    for texts in NUMBERS:
        (tmp_path / "my.csv").write_text("\n".join(["a,code", *(f"{text},01" for text in texts)]) + "\n")
        found = read_frame(tmp_path / "my.csv")
        np.testing.assert_array_equal(found["a"], [float(text or "nan") for text in texts])
        assert found["a"].dtype.kind in "if" and set(found["code"]) == {"01"}


def test_new_files_have_as_codes_what_the_first_one_had(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    zips, labels = rng.choice(["00501", "10001", "94105"], 200), rng.choice(["01", "1", "10"], 200)
    frame = pd.DataFrame({"zip": zips, "n": rng.integers(1, 9, 200), "y": labels})
    frame.to_csv(tmp_path / "my.csv", index=False)
    for kind in (None, "classes"):
        found = load_own(tmp_path / "my.csv", "y", kind=kind)
        target, columns = found.schema.target, {column.name: column for column in found.schema.columns}
        assert target.classes == ("01", "1", "10") and target.text and columns["n"].kind == "number"
        assert columns["zip"].categories == ("00501", "10001", "94105")
        ys = np.concatenate([found.train.y, found.test.y])
        np.testing.assert_array_equal(np.bincount(ys), [np.sum(labels == one) for one in target.classes])
    # In these one column has no zero in front, and another has more of them.
    (tmp_path / "new.csv").write_text("zip,n,y\n10001,03,1\n94105,04,10\n")
    new = found.schema.dataset(tmp_path / "new.csv")
    n = frame["n"].to_numpy()[np.random.RandomState(0).permutation(200)[:160]]
    np.testing.assert_array_equal(new.x[:, :3], [[0, 1, 0], [0, 0, 1]])
    np.testing.assert_allclose(new.x[:, 3], ([3, 4] - n.mean()) / n.std(), rtol=1e-5)
    assert new.y.tolist() == [1, 2]
