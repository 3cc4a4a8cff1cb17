"""Which parameters are given a posterior, and which of those may be pruned: predicates on (path, shape).

A predicate is any function of a `ParamPath` (a string that also has ``.layer``, ``.is_last`` and ``.is_norm``) and a shape.
"""

from bayesprune.model.layout import ParamPath


def everything(path: str, shape: tuple[int, ...]) -> bool:
    """Every parameter. As ``bayesian=``, what the BMR authors do: LayerNorm, class token and embeddings included."""
    return True


def nothing(path: str, shape: tuple[int, ...]) -> bool:
    """No parameter."""
    return False


def weights(path: str, shape: tuple[int, ...]) -> bool:
    """Kernels and biases, but not the scales and shifts of normalisation layers (the default of ``bayesian=``).

    In a `BNN` a normalisation is known by what it does; of a plain string, by its usual names.

    Example:
        >>> weights("Dense_0.kernel", (3, 4)), weights("BatchNorm_0.scale", (4,))
        (True, False)
    """
    return not (path if isinstance(path, ParamPath) else ParamPath(path)).is_norm


def not_last(path: ParamPath, shape: tuple[int, ...]) -> bool:
    """Every layer but the last, as in the BMR authors' code (the default of ``prunable=``)."""
    return not path.is_last


def kernels(path: str, shape: tuple[int, ...]) -> bool:
    """Arrays of two or more dimensions: kernels, not biases."""
    return len(shape) >= 2
