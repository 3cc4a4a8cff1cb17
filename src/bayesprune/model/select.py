"""Which parameters are given a posterior, and which of those may be pruned: predicates on (path, shape).

A predicate is any function of a `ParamPath` (a string that also has ``.layer``, ``.is_last``, ``.is_norm`` and ``.is_token``)
and a shape.
"""

from bayesprune.model.layout import ParamPath


def everything(path: str, shape: tuple[int, ...]) -> bool:
    """Every parameter. As ``bayesian=``, what the BMR authors do: LayerNorm, class token and position embedding included.

    A prior about zero pulls at a norm's scale, which is 1 in a network that does nothing yet, and at a class token, which is
    one row of data: `weights` leaves both alone. With ``prunable=not_last`` this is the setting of the authors' code.
    """
    return True


def nothing(path: str, shape: tuple[int, ...]) -> bool:
    """No parameter."""
    return False


def weights(path: str, shape: tuple[int, ...]) -> bool:
    """Kernels and biases, but neither norms nor class tokens and position embeddings (the default of ``bayesian=``).

    In a `BNN` a normalisation is known by what it does; of a plain string, by its usual names, as the tokens always are:
    "class_token", "cls", "position_embedding", "pos_embed" and the like.

    Example:
        >>> weights("Dense_0.kernel", (3, 4)), weights("BatchNorm_0.scale", (4,)), weights("class_token", (1, 1, 4))
        (True, False, False)
    """
    path = path if isinstance(path, ParamPath) else ParamPath(path)
    return not (path.is_norm or path.is_token)


def not_last(path: ParamPath, shape: tuple[int, ...]) -> bool:
    """Every layer but the last, as in the BMR authors' code (the default of ``prunable=``)."""
    return not path.is_last


def hidden_kernels(path: ParamPath, shape: tuple[int, ...]) -> bool:
    """`kernels` of every layer but the last.

    Example:
        >>> hidden_kernels(ParamPath("a.kernel"), (3, 4)), hidden_kernels(ParamPath("z.kernel", is_last=True), (4, 2))
        (True, False)
    """
    return kernels(path, shape) and not path.is_last


def kernels(path: str, shape: tuple[int, ...]) -> bool:
    """Arrays of two or more dimensions: kernels; not biases, those of attention's heads included, and no tokens.

    Example:
        >>> kernels("query.kernel", (8, 2, 4)), kernels("query.bias", (2, 4)), kernels("class_token", (1, 1, 8))
        (True, False, False)
    """
    return len(shape) >= 2 and not path.endswith("bias") and not ParamPath(path).is_token
