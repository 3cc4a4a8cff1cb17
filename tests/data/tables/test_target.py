"""The predicted column: its kind, its labels, its units."""

import numpy as np
import pytest

from bayesprune.data.tables.target import Target, as_exposures, guess, infer_target

TRAIN = np.arange(4)


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        (np.array(["a", "b"], dtype=object), "classes"),
        (np.array([True, False]), "classes"),
        (np.array([5.0, 7.0, 5.0]), "classes"),  # two values
        (np.repeat([3, 4, 5], 5), "classes"),
        (np.array([0, 1, 2, 5]), "counts"),  # too few rows for classes
        (np.repeat([0, 2, 4], 2), "counts"),  # variance 8/3, mean 2
        (np.arange(101), "overdispersed counts"),
        (np.arange(102), "numbers"),  # beyond 100
        (np.array([0, 800, 70_000]), "numbers"),  # money
        (np.arange(25, 200), "numbers"),  # no zero among them
        (np.array([-1, 0, 3, 4]), "numbers"),
        (np.array([0.5, 1.0, 2.0]), "numbers"),
    ],
)
def test_the_kind_that_values_look_like(values: np.ndarray, kind: str) -> None:
    assert guess(values) == kind


def test_labels_keep_their_names_in_their_order() -> None:
    numbered = infer_target("y", np.array([10.0, 9.0, 10.0, 2.0]), TRAIN, "classes")
    assert numbered.classes == ("2", "9", "10") and not numbered.text
    assert numbered.encode(np.array([2, 10]), "f").tolist() == [0, 2]
    named = infer_target("y", np.array(["no", "yes", "no", "no"], dtype=object), TRAIN, None)
    assert named.classes == ("no", "yes") and named.text
    with pytest.raises(ValueError, match=r"unknown class of 'y' 'maybe'.*row 1 of new.csv"):
        named.encode(np.array(["maybe"], dtype=object), "new.csv")


def test_numbers_are_standardised_and_come_back_and_counts_stay() -> None:
    values = np.array([10.0, 20.0, 30.0, 45.5])
    target = infer_target("y", values, TRAIN, None)
    made = target.encode(values, "f")
    assert made.dtype == np.float32 and abs(made.mean()) < 1e-6 and made.std() == pytest.approx(1.0)
    np.testing.assert_allclose(target.undo(made), values, rtol=1e-6)
    counts = infer_target("y", np.array([0, 3, 4, 9]), TRAIN, "counts")
    others = ("classes", "numbers", "overdispersed counts")
    assert counts == Target("y", "counts", rate=4.0, others=others) and counts.encode(np.array([0, 9]), "f").tolist() == [0, 9]


def test_codes_are_classes_in_the_order_of_their_numbers_or_numbers_where_these_are_asked_for() -> None:
    codes = np.array(["10", "02", "1"] * 5, dtype=object)
    found = infer_target("y", codes, np.arange(15), None)
    assert found.classes == ("1", "02", "10") and found.text and found.ordered and "numbers" in found.others
    assert infer_target("y", codes, np.arange(15), "counts").rate == pytest.approx(13 / 3)
    twice = infer_target("y", np.array(["01", "1"] * 5, dtype=object), np.arange(10), None)
    assert twice.classes == ("01", "1") and not twice.ordered
    assert not infer_target("y", np.array(["a", "b"] * 5, dtype=object), np.arange(10), None).ordered
    many = np.array([f"{number:03}" for number in range(300)], dtype=object)
    with pytest.raises(ValueError, match=r"300 different values, such as '000'.*numbers are written without zeros in front"):
        infer_target("y", many, np.arange(300), None)


def test_texts_are_classes_where_that_is_asked_for_or_they_come_back() -> None:
    few = np.array(["1,5", "2020-01-01", "a"], dtype=object)
    assert infer_target("y", few, TRAIN[:3], "classes").classes == ("1,5", "2020-01-01", "a")
    assert infer_target("y", np.array(list("abc") * 5, dtype=object), TRAIN, None).classes == ("a", "b", "c")


@pytest.mark.parametrize(
    ("values", "kind", "told"),
    [
        (np.ones(4), None, "one value in all rows, 1"),
        (np.array([0.5, 1.5, 0.5, 1.5]), "classes", "holds fractions, such as 0.5"),
        (np.array(["a", "b"] * 2, dtype=object), "numbers", "holds texts, no numbers"),
        (np.array([0.5, np.inf, 1.0, 2.0]), None, "infinite in row 2"),
        (np.array([1.0, np.inf, 1.0, np.inf]), "classes", "infinite in row 2"),
        (np.array(["1,5", "2,5"] * 5, dtype=object), None, r"target 'y' would be numbers.*'1,5'.*kind='classes'"),
        (np.array(["1,5", "2,5"] * 5, dtype=object), "numbers", "would be numbers but for texts such as '1,5'"),
        (np.array(["2020-01-01", "2020-01-02"] * 5, dtype=object), None, "target 'y' holds dates"),
        (np.array(["2020-01-01", "2020-01-02"] * 5, dtype="datetime64[D]"), None, r"target 'y' holds datetime64\[D\]"),
        (np.array(list("abc") * 4, dtype=object), None, "text of 3 different values.*in 12 rows: fewer than 5.*kind='classes'"),
    ],
)
def test_what_is_no_target_is_refused(values: np.ndarray, kind: str | None, told: str) -> None:
    with pytest.raises(ValueError, match=told):
        infer_target("y", values, TRAIN, kind)


def test_dates_in_the_place_of_numbers_are_refused_in_a_new_file() -> None:
    dates = np.array([18262, 18263, 18264, 18265], "datetime64[D]")
    with pytest.raises(ValueError, match=r"target 'y' holds datetime64\[D\], no numbers"):
        infer_target("y", np.array([0.5, 1.5, 2.5, 4.0]), TRAIN, None).encode(dates, "new.csv")
    with pytest.raises(ValueError, match=r"column 'hours' of new.csv holds no numbers"):
        as_exposures(dates, "hours", "new.csv")
