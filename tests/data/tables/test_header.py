"""The first line of a text file: what separates its values, and its names."""

from pathlib import Path

import pytest

from bayesprune.data.tables.header import header_of


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
