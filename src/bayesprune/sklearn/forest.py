"""A random forest as the input of a network: what its trees foresee of a row, on average."""

import time
from typing import Any

import numpy as np
from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor

from bayesprune.data.scaling import silencing
from bayesprune.sklearn.thresholds import LEAST_WHOLE, Table, Targets, single
from bayesprune.sklearn.trees import Grown, Trees, logs, nodes_of

NUMBER, SHARE, MOST_COLUMNS = 64, 0.5, 100  # trees, and columns among which each cut is found
DEPTH, LEAVES, LEAST_ROWS = 14, 512, 2  # of a tree, its leaves, and the rows of each
MOST_ROWS = 20_000  # that a tree is grown on
MOST_OUTPUTS = 20  # classes, or numbers: each leaf holds as many
NEEDED = f"{LEAST_WHOLE} rows without gaps in y, and at most {MOST_OUTPUTS} classes or columns of y"


def grow(seed: int, x: Table, y: Targets) -> Grown | None:
    """A forest of these rows, of one output or more, or of labels, which are integers; unseen are rows out of a tree's bag.

    None of more than 20 classes or outputs.

    >>> rng = np.random.default_rng(0)
    >>> x = rng.integers(0, 12, (300, 2)).astype(float)
    >>> y = (7 * x[:, 0] + 5 * x[:, 1]) % 12
    >>> trees, unseen = grow(0, x, y.astype(float))
    >>> trees.says(x[:4]).shape, unseen.shape, bool(np.corrcoef(unseen[:, 0], y)[0, 1] > 0.5)
    ((4, 1), (300, 1), True)

    Source: Breiman (2001), section 3.1, for rows out of the bag; Wolpert (1992) for a model that reads what others foresee.
    """
    labels = np.issubdtype(y.dtype, np.integer)
    if (len(np.unique(y)) if labels else y[:1].size) > MOST_OUTPUTS:
        return None
    forest = _forest(NUMBER, seed, x, labels, oob_score=True).fit(single(x), y)
    trees = [tree.tree_ for tree in forest.estimators_]
    values = [tree.value.reshape((tree.node_count, -1)) / NUMBER for tree in trees]
    said = logs(forest.oob_decision_function_) if labels else forest.oob_prediction_.reshape((len(x), -1))
    nothing = np.zeros(values[0].shape[1])
    return Grown(
        Trees(
            **nodes_of(trees, values),
            turns=1,
            offset=nothing,
            labels=labels,
            logits=False,
            scaling=silencing(said),
            shares=forest.feature_importances_,
        ),
        said,
    )


def seconds_to_grow(seed: int, x: Table, y: Targets) -> float:
    """What a forest of these rows will take, by one of its trees; gaps as zeros."""
    begun = time.perf_counter()
    _forest(1, seed, x, labels=np.issubdtype(y.dtype, np.integer)).fit(single(x), np.nan_to_num(y))
    return NUMBER * (time.perf_counter() - begun)


def _forest(number: int, seed: int, x: np.ndarray, labels: bool, **how: Any) -> Any:
    return (RandomForestClassifier if labels else RandomForestRegressor)(
        number,
        max_depth=DEPTH,
        max_leaf_nodes=LEAVES,
        min_samples_leaf=LEAST_ROWS,
        max_features=max(1, min(int(SHARE * x.shape[1]), MOST_COLUMNS)),
        max_samples=min(len(x), MOST_ROWS),
        random_state=np.random.RandomState(seed),
        **how,
    )
