"""Arrays as their numbers that are not zero, and their places: what a module trains, so that a zero is no parameter."""

from typing import NamedTuple

import numpy as np


class Alive(NamedTuple):
    """``values``: the numbers that are not zero, in a row. ``places``: where in the flat array they are. ``shape``: of it."""

    values: np.ndarray
    places: np.ndarray
    shape: tuple[int, ...]


def alive(array: np.ndarray) -> Alive:
    """The array without its zeros.

    >>> alive(np.array([[0.0, 2.0], [3.0, 0.0]]))
    Alive(values=array([2., 3.]), places=array([1, 2]), shape=(2, 2))
    """
    flat = np.ravel(array)
    places = np.flatnonzero(flat)
    return Alive(flat[places], places, np.shape(array))
