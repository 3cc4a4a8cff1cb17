"""Cuts by what a layer's outputs lose: Wanda's and SparseGPT's scores, and the weights that are best without the dead.

Derivation. The outputs of a layer are X W. About the trained weights, with precision P = X'X + delta and S = P^-1 of each
output's weights w, zeroing one costs P_jj w_j²/2, or w_j²/(2 S_jj) where the others then move to their best, (20.2).
"""

import numpy as np
from jaxtyping import Bool, Float

Matrix = Float[np.ndarray, "inputs inputs"]
Weights = Float[np.ndarray, "inputs outputs"]


def damped(moments: Matrix, damping: float) -> Matrix:
    """P = X'X + delta, delta = damping times the mean of the diagonal of X'X; 1 where that is 0, of inputs that are all 0.

    >>> print(damped(np.diag([1.0, 3.0]), 0.5))
    [[2. 0.]
     [0. 4.]]
    """
    mean = float(np.diag(moments).mean())
    return np.asarray(moments + (damping * mean if mean > 0 else 1.0) * np.eye(len(moments)))


def wanda(moments: Matrix, weights: Weights) -> Weights:
    """|w_ij| ||X_i||, (26.1): the root of twice what zeroing the weight alone costs, OBD of that loss.

    >>> print(wanda(np.diag([4.0, 1.0]), np.array([[1.0], [-1.0]])))
    [[2.]
     [1.]]

    Source: Sun et al. 2024, equation 1.
    """
    return np.asarray(np.abs(weights) * np.sqrt(np.diag(moments))[:, None])


def sparse_gpt(precision: Matrix, weights: Weights) -> Weights:
    """w_ij² / S_ii, S = P^-1, (26.2): twice what zeroing the weight costs, the output's other weights at their new best.

    >>> print(sparse_gpt(np.diag([4.0, 1.0]), np.array([[1.0], [-1.0]])))
    [[4.]
     [1.]]

    Source: Frantar & Alistarh 2023, section 3; Hassibi & Stork 1993.
    """
    return np.asarray(np.square(weights) / np.diag(np.linalg.inv(precision))[:, None])


def best_without(precision: Matrix, weights: Weights, alive: Bool[np.ndarray, "inputs outputs"]) -> Weights:
    """The weights nearest in (v - w)' P (v - w) to those given, column by column, that are zero where dead, (26.3).

      v_A = w_A + P_AA^-1 P_AD w_D

    which is (20.2) for all dead weights D of an output at once.

    >>> p = np.array([[1.0, 0.5], [0.5, 1.0]])
    >>> print(best_without(p, np.array([[1.0], [1.0]]), np.array([[True], [False]])))
    [[1.5]
     [0. ]]
    """
    found = np.zeros_like(weights)
    for column in range(weights.shape[1]):
        a = alive[:, column]
        if a.any():
            moved = np.linalg.solve(precision[np.ix_(a, a)], precision[np.ix_(a, ~a)] @ weights[~a, column])
            found[a, column] = weights[a, column] + moved
    return found
