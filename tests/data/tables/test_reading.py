"""Files as frames: names, gaps, categories and large numbers are those of the file."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from bayesprune.data.tables.reading import read_frame, values_of


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
