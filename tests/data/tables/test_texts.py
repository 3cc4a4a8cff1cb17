"""Texts that are numbers or dates, and those that are names."""

import re

import numpy as np
import pytest

from bayesprune.data.tables.columns import check_names

AGES = [str(age) for age in range(20, 71)]


def check(texts: list[str]) -> None:
    check_names("column 'a'", np.array(texts, dtype=object), texts, "or drop it.")


@pytest.mark.parametrize(
    ("texts", "odd"),
    [
        ([*AGES, "?"], r"'\?'"),
        (["0,5", "1,5", "2"], "'0,5'"),
        (["$12", "$ 1,000.50", "-3 €"], r"'\$12'"),
        (["30%", "5.5 %"], "'30%'"),
        (["1 000", "2\N{NO-BREAK SPACE}000", ".5", "1e-3"], "'1 000'"),
        (["1", "2"], "'1'"),  # of a file with types, which has them as texts
    ],
)
def test_numbers_written_otherwise_are_refused(texts: list[str], odd: str) -> None:
    with pytest.raises(ValueError, match=rf"column 'a' would be numbers but for texts such as {odd}.*with a point.*or drop it"):
        check(texts)


@pytest.mark.parametrize(
    "texts",
    [
        ["2020-01-31", "2021-02-28"],
        ["2020-01-31T10:00:00+00:00", "2020-01-31 10:00"],
        ["2020-01", "2020-02"],
        ["31.1.2020", "28.02.2021"],
        ["1/31/2020", "2/28/2021"],
        [*(f"2020-01-{day}" for day in range(10, 31)), "unknown"],
    ],
)
def test_dates_are_refused(texts: list[str]) -> None:
    with pytest.raises(ValueError, match=rf"column 'a' holds dates, such as '{re.escape(texts[0])}'.*or drop it"):
        check(texts)


@pytest.mark.parametrize(
    "texts",
    [
        ["red", "blue"],
        ["00501", "10001"],
        ["0", "1", "2", "3+"],
        ["c12", "c13"],
        ["1A", "2B", "1_2"],
        ["12-34-56", "1-2-3"],
        ["18-25", "26-40"],
        ["<5", ">5"],
        ["1.2.3", "1.2.4"],
        ["2012-13", "2013-14"],
        ["", "%"],
        ["true", "inf", "nan"],
    ],
)
def test_names_pass(texts: list[str]) -> None:
    check(texts)
