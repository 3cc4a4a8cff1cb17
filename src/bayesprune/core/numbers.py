"""Real numbers at the door: whatever array comes in leaves in one of two dtypes, or is refused with what was wrong with it."""

from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import DTypeLike

from bayesprune.core.types import PyTree


def real_numbers(value: object, name: str, takes_nan: bool = False) -> np.ndarray | jax.Array:
    """An array of finite numbers: floats in JAX's default float dtype, integers and booleans as int32.

    NumPy arrays stay on the host, JAX arrays on their device. Integers become int32 because arithmetic on bytes wraps around.
    ``takes_nan``: NaN means something, that a value is missing, and passes.

    Raises:
        TypeError: text, objects, complex numbers, what is no array.
        ValueError: NaN or infinity, also one that the float dtype makes of a larger number; integers beyond int32; masked
            entries of a NumPy array.

    >>> real_numbers(np.array([0, 255], np.uint8), "x").dtype
    dtype('int32')
    """
    array = _array(value, name)
    floats = jnp.issubdtype(array.dtype, jnp.floating)
    if not floats and array.dtype.itemsize >= 4 and array.dtype != np.int32 and array.size:
        low, high = int(array.min()), int(array.max())
        if low < np.iinfo(np.int32).min or high > np.iinfo(np.int32).max:
            raise ValueError(f"{name} holds integers from {low} to {high}, beyond int32: make them floats, or count from 0.")
    array = _cast(array, jnp.result_type(float) if floats else np.dtype(np.int32))
    if floats:
        _check_finite(array, name, takes_nan)
    return array


def numbers_of(value: object, name: str, bytes_stay: bool = False) -> Any:
    """`real_numbers` of an array, or of every array of a tree: a mapping, or a tuple of arrays.

    ``bytes_stay``: arrays of uint8 stay such, for what casts them before it counts with them.

    >>> jax.tree.map(lambda array: str(array.dtype), numbers_of({"tokens": np.zeros((2, 6), int), "age": [[1.0], [2.0]]}, "x"))
    {'age': 'float32', 'tokens': 'int32'}
    """

    def of_leaf(path: tuple[Any, ...], leaf: object) -> Any:
        leaf = without_mask(leaf, name + jax.tree_util.keystr(path))
        if bytes_stay and getattr(leaf, "dtype", None) == np.uint8:
            return leaf if isinstance(leaf, jax.Array) else np.asarray(leaf)
        return real_numbers(leaf, name + jax.tree_util.keystr(path))

    return jax.tree_util.tree_map_with_path(of_leaf, value, is_leaf=lambda node: not is_tree(node))


def arrays_in(x: PyTree) -> Any:
    """The same tree with its lists, which are arrays that are written out, as NumPy's arrays.

    >>> arrays_in({"age": [[1.0], [2.0]], "tokens": np.zeros((2, 6), int)})["age"].shape
    (2, 1)
    """
    as_array = lambda node: np.asarray(without_mask(node, "data")) if isinstance(node, list | tuple) else node  # noqa: E731
    return jax.tree.map(as_array, x, is_leaf=lambda node: not is_tree(node))


def rows_in(x: PyTree) -> int:
    """How many rows an array has, the arrays of a tree, or a source that is read on demand."""
    return len(jax.tree.leaves(x)[0])


def spread_out(number: int, most: int) -> np.ndarray:
    """The places of at most so many of ``number`` rows, evenly spaced: rows may be in an order.

    >>> spread_out(10, 4), spread_out(3, 4)
    (array([0, 3, 6, 9]), array([0, 1, 2]))
    """
    return np.linspace(0, number - 1, min(most, number)).round().astype(int)


def joined(blocks: list[np.ndarray]) -> np.ndarray:
    """Blocks (draws, some rows, ...) as one array; the list is empty then. Each is let go once copied: memory holds all once.

    >>> joined([np.ones((2, 1)), np.zeros((2, 2))])
    array([[1., 0., 0.],
           [1., 0., 0.]])
    """
    found = np.empty((len(blocks[0]), sum(block.shape[1] for block in blocks), *blocks[0].shape[2:]), blocks[0].dtype)
    end = found.shape[1]
    while blocks:
        block = blocks.pop()
        found[:, end - block.shape[1] : end] = block
        end -= block.shape[1]
    return found


def without_mask(value: object, name: str) -> Any:
    """The value as it is, but of NumPy's masked arrays the array: what a mask hides is no number to count with.

    Raises:
        ValueError: a masked entry, also of an array in a list.

    >>> without_mask(np.ma.array([1.0, 2.0]), "x")
    array([1., 2.])
    """
    for part in value if isinstance(value, list | tuple) else ():
        if isinstance(part, list | tuple | np.ma.MaskedArray):
            without_mask(part, name)
    if not isinstance(value, np.ma.MaskedArray):
        return value
    if hidden := int(np.ma.count_masked(value)):
        raise ValueError(
            f"{name} is a masked array with {hidden} masked value(s), and what is below a mask is no data: drop those rows, or "
            f"put numbers in their place, {name}.filled(...)."
        )
    return np.ma.getdata(value)


def is_tree(node: object) -> bool:
    """Whether it is a tree of arrays; lists, and tuples of numbers, are arrays that are written out."""
    of_arrays = isinstance(node, tuple) and bool(node) and all(hasattr(part, "shape") or is_tree(part) for part in node)
    return of_arrays or isinstance(node, Mapping)


def _array(value: object, name: str) -> np.ndarray | jax.Array:
    value = without_mask(value, name)
    try:
        array = value if isinstance(value, jax.Array) else np.asarray(value)
    except (TypeError, ValueError) as error:
        raise TypeError(f"{name} must be an array, got {type(value).__name__}: {error}") from error
    if jnp.issubdtype(array.dtype, jnp.complexfloating):
        raise TypeError(f"{name} must hold real numbers, got dtype {array.dtype}: stack real and imaginary parts as features.")
    if not (jnp.issubdtype(array.dtype, jnp.number) or array.dtype == bool):
        if name.split(".")[-1] == "y":
            labels = "of labels give the places of their classes, names, y = np.unique(y, return_inverse=True)"
            raise TypeError(f"{name} must hold numbers, got dtype {array.dtype}: {labels}.")
        raise TypeError(
            f"{name} must hold numbers, got dtype {array.dtype}: encode it as float32 or int32 first; for an estimator's "
            "network by its numbers_of(X)."
        )
    return array


def _cast(array: np.ndarray | jax.Array, dtype: DTypeLike) -> np.ndarray | jax.Array:
    with np.errstate(over="ignore"):  # what overflows is infinite, and refused as that
        return array.astype(dtype) if isinstance(array, jax.Array) else array.astype(dtype, copy=False)


def _check_finite(array: np.ndarray | jax.Array, name: str, takes_nan: bool) -> None:
    xp: Any = jnp if isinstance(array, jax.Array) else np
    finite = ~xp.isinf(array) if takes_nan else xp.isfinite(array)
    if not bool(finite.all()):
        raise ValueError(
            f"{name} holds {int((~finite).sum())} value(s) that are NaN or infinite: drop or impute those rows, or look at the "
            "standardisation (a constant column divided by its zero standard deviation gives NaN)."
        )


ULPS = 4.0  # units in the last place, by which values that are equal but for how they were computed may differ


def is_constant(values: np.ndarray) -> np.ndarray:
    """Whether values along the first axis, of any real dtype, are all the same but for their rounding; booleans without it.

      std <= n eps |mean|   or   max - min <= 4 eps' max |v|

    with n values, eps of double precision, and eps' of their own dtype. The first is the rule of scikit-learn's
    ``StandardScaler``. Whole numbers and booleans are exact: they are constant only where they are equal as doubles, in which
    spreads are taken.

    >>> is_constant(np.array([[0.3, 1e9, 1.0], [0.1 + 0.2, 1e9 + 1e-7, 2.0]])).tolist()
    [True, True, False]
    >>> bool(is_constant(np.array([0.1, 0.1 + 1e-8], np.float32))), bool(is_constant(np.array([2**53 - 1, 2**53])))
    (True, False)
    """
    values = np.asarray(values)
    exact = values.astype(np.float64, copy=False)
    equal = np.asarray(exact.max(axis=0) == exact.min(axis=0))
    if not np.issubdtype(values.dtype, np.floating):
        return equal
    size = np.abs(exact).max(axis=0)
    # In units of the largest value: squares of very small and very large ones are no doubles.
    units = exact / np.where(size > 0.0, size, 1.0)
    rounded = np.ptp(units, axis=0) <= ULPS * np.finfo(values.dtype).eps
    as_scikit_learn = units.std(axis=0) <= len(values) * np.finfo(np.float64).eps * np.abs(units.mean(axis=0))
    return np.asarray(equal | rounded | as_scikit_learn)
