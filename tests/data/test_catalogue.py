import pytest

from bayesprune import data
from bayesprune.data import catalogue


@pytest.mark.parametrize(
    ("spelling", "name"),
    [
        ("Fashion-MNIST", "fashion_mnist"),
        ("fashion_mnist", "fashion_mnist"),
        ("FashionMNIST", "fashion_mnist"),
        ("CIFAR-10", "cifar10"),
        ("yacht", "uci/yacht"),
        ("uci/yacht", "uci/yacht"),
        ("bostonHousing", "uci/boston_housing"),
        ("wine-quality-red", "uci/wine_quality_red"),
        ("simulation-e1", "simulation_e1"),
    ],
)
def test_spellings_of_one_name_are_taken_alike(spelling, name):
    assert catalogue.canonical(spelling) == name


def test_names_are_sorted_distinct_and_canonical():
    names = data.names()
    assert list(names) == sorted(set(names))
    assert all(catalogue.canonical(name) == name for name in names)
    assert {"digits", "diabetes", "mnist", "cifar10", "uci/yacht", "simulation_e3", "linear_regression"} <= set(names)


def test_an_unknown_name_shows_the_nearest():
    with pytest.raises(ValueError, match=r"unknown data set 'fashion-mnits'.*'fashion_mnist'"):
        data.load("fashion-mnits")


def test_a_name_that_is_no_string_is_refused():
    with pytest.raises(TypeError, match=r"name must be a string|parameter 'name'"):
        data.load(10)
