"""Columns of inputs: what they are found to be, and what is refused."""

import numpy as np
import pytest

from bayesprune.data.tables.columns import Column, as_texts, choose, infer

TRAIN = np.array([0, 1, 2])


def texts(*values: object) -> np.ndarray:
    return np.array(values, dtype=object)


def test_numbers_are_standardised_by_the_training_rows() -> None:
    column = infer("a", np.array([1, 2, 3, 1000]), TRAIN)
    assert (column.kind, column.loc, column.scale) == ("number", 2.0, pytest.approx(np.sqrt(2 / 3)))
    np.testing.assert_allclose(column.encode(np.array([2, 2 + np.sqrt(2 / 3)]), "f"), [[0.0], [1.0]], atol=1e-6)
    assert infer("b", np.array([True, False, True, True]), TRAIN).kind == "number"


def test_texts_are_categories_with_an_input_for_each() -> None:
    column = infer("c", texts("b", "a", "b", "z"), TRAIN)
    assert column.categories == ("a", "b", "z") and column.width == 3
    assert column.encode(texts("z", "a"), "f").tolist() == [[0, 0, 1], [1, 0, 0]]
    with pytest.raises(
        ValueError, match=r"unknown category in column 'c' 'y'.*Known: a, b, z. It is in row 2 of new.csv.*train anew"
    ):
        column.encode(texts("a", "y"), "new.csv")


def test_what_is_constant_while_training_is_left_out() -> None:
    for values in (np.array([4.0, 4.0, 4.0, 5.0]), texts("a", "a", "a", "b")):
        column = infer("d", values, TRAIN)
        assert column.kind == "constant" and column.width == 0 and column.encode(values, "f").shape == (4, 0)


def test_whole_numbers_have_one_text() -> None:
    assert as_texts(np.array([1.0, 2.0])).tolist() == as_texts(np.array([1, 2])).tolist() == ["1", "2"]
    assert as_texts(np.array([2.0**63, 2.0**64])).tolist() == [str(2**63), str(2**64)]


@pytest.mark.parametrize(
    ("values", "told"),
    [
        (np.array(["2020-01-01", "2020-01-02", "2020-01-03"], dtype="datetime64[D]"), r"holds datetime64\[D\].*drop='e'"),
        (np.array([1.0, np.inf, 2.0]), r"infinite in row 2"),
        (texts(*(f"id {number}" for number in range(30))), r"text of 30 different values, such as 'id 0'.*drop='e'"),
        (texts(*map(str, range(29)), "1,5"), r"column 'e' would be numbers.*such as '1,5'.*drop='e'. Codes .* as in 'c12'"),
        (texts("2020-01-01", "2020-01-02", "2020-01-01"), r"column 'e' holds dates, such as '2020-01-01'.*drop='e'"),
    ],
)
def test_what_cannot_be_trained_on_is_refused(values: np.ndarray, told: str) -> None:
    with pytest.raises(ValueError, match=told):
        infer("e", values, TRAIN)


def test_categories_that_the_file_declares_may_look_like_numbers() -> None:
    assert infer("e", texts("1", "2", "1"), TRAIN, declared=True).categories == ("1", "2")
    assert infer("e", np.array([1, 2, 1]), TRAIN, declared=True).categories == ("1", "2")
    with pytest.raises(ValueError, match=r"column 'e' has 30 different values, such as '0': too many for categories"):
        infer("e", np.arange(30), TRAIN, declared=True)


def test_a_text_where_training_had_numbers_is_refused() -> None:
    with pytest.raises(ValueError, match=r"column 'a' of new.csv has 'x' in row 2, where training had numbers"):
        Column("a", "number").encode(texts(1, "x"), "new.csv")


@pytest.mark.parametrize("kind", ["datetime64[D]", "datetime64[ns]", "timedelta64[s]"])
def test_a_date_where_training_had_numbers_is_refused(kind: str) -> None:
    with pytest.raises(ValueError, match=r"column 'a' of new.csv has '.+' in row 1, where training had numbers"):
        Column("a", "number").encode(np.array([18262, 18263]).astype(kind), "new.csv")


def test_an_infinite_number_of_a_new_file_has_a_remedy_that_there_is() -> None:
    with pytest.raises(ValueError, match=r"infinite in row 2 of new.csv: correct it, or delete that row\.$"):
        Column("a", "number").encode(np.array([0.0, np.inf]), "new.csv")


def test_the_choice_of_columns() -> None:
    names = ["a", "b", "y", "Unnamed: 0"]
    assert choose(names, "y", (), ("Unnamed: 0",)) == ["a", "b"] and choose(names, "y", ("b",), ()) == ["b"]
    for features, drop, told in [
        ((), (), "a column without a name"),
        (("a",), ("b",), "both given"),
        (("A1",), (), "unknown column 'A1'. Did you mean 'a'"),
        (("y",), (), "holds the target"),
        ((), ("a", "b", "Unnamed: 0"), "no column is left"),
    ]:
        with pytest.raises(ValueError, match=told):
            choose(names, "y", features, drop)
    with pytest.raises(ValueError, match="features holds 'a' more than once"):
        choose(names, "y", ("a", "b", "a"), ())
