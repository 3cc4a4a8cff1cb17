"""Which units lie in one layer: those that have weights in a common array."""

import numpy as np

from bayesprune.core.types import Groups


def layers_of(groups: Groups) -> np.ndarray:
    """The number of the layer that each group is in, from 0, (groups,). Arrays with a group in common make one layer.

    >>> of_arrays = {"a.kernel": np.array([[0, 1]]), "a.bias": np.array([0, 1]), "b.kernel": np.array([[2, 3, 3]])}
    >>> print(layers_of(Groups(of_arrays, 4)))
    [0 0 1 1]
    """
    layer = np.arange(groups.count)
    for ids in groups.members.values():
        present = np.unique(ids[ids >= 0])
        layer[np.isin(layer, layer[present])] = layer[present].min(initial=groups.count)
    return np.unique(layer, return_inverse=True)[1]
