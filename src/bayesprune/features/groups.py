"""Groups of inputs that are nearly copies of one another: no data can say which of a group matters."""

import numpy as np
from jaxtyping import Int64, Shaped

from bayesprune.core.checks import check_within
from bayesprune.core.numbers import is_constant, without_mask


def correlated_groups(
    x: Shaped[np.ndarray, "rows columns"], correlation: float = 0.9
) -> tuple[Int64[np.ndarray, " group"], ...]:
    """Groups of two columns or more in which each is correlated with each by at least so much, in absolute value.

    Which of a group is selected says little: another draw of rows selects another one. Groups are those of complete linkage
    with the distance 1 - |r|, cut at 1 - ``correlation``; constant columns are in none. A chain whose ends differ is several.

    Args:
        x: (rows, columns), numbers.
        correlation: in (0, 1).

    Returns:
        The columns of each group, in order, the group of the first column first.

    Raises:
        ValueError: a correlation outside (0, 1), or masked entries.

    >>> a, b = np.random.default_rng(0).standard_normal((2, 100))
    >>> [group.tolist() for group in correlated_groups(np.column_stack([a, b, a + 0.1 * b]))]
    [[0, 2]]

    Source: Defays (1977) for complete linkage.
    """
    check_within(correlation, "correlation", "(0, 1)", "0.9 asks for nearly copies")
    x = np.asarray(without_mask(x, "x"))
    varying = np.flatnonzero(~is_constant(x))
    if len(varying) < 2:
        return ()
    # These take long to import, and who selects by another rule needs none of it.
    from scipy.cluster.hierarchy import fcluster, linkage
    from scipy.spatial.distance import squareform

    distance = 1.0 - np.minimum(np.abs(np.corrcoef(np.asarray(x, np.float64)[:, varying], rowvar=False)), 1.0)
    np.fill_diagonal(distance, 0.0)
    numbers = fcluster(linkage(squareform(distance, checks=False), "complete"), 1.0 - correlation, "distance")
    groups = [varying[numbers == number] for number in dict.fromkeys(numbers.tolist())]
    return tuple(group for group in groups if len(group) > 1)
