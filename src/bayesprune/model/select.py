"""Which parameters are given a posterior, and which of those may be pruned: predicates on (path, shape).

A predicate is any function of a `ParamPath` (a string that also has ``.layer``, ``.is_last``, ``.is_norm`` and ``.is_token``)
and a shape.
"""

from collections.abc import Callable, Iterable
from typing import Any

from bayesprune.core.checks import check_call, check_function, check_name
from bayesprune.model.layout import Layout, ParamPath

__all__ = [
    "everything",
    "hidden_kernels",
    "kernels",
    "not_last",
    "nothing",
    "weights",
]
__dir__ = __all__.copy  # what completion offers


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


def chosen(wanted: Any, argument: str, paths: Iterable[str]) -> Callable[[ParamPath, tuple[int, ...]], bool]:
    """A predicate of what a user gave of it: itself, or the names of parameters, layers and blocks, one or several.

    ``paths``: of the parameters that there are. Raises `ValueError` for a name that none of them has.

    >>> first = chosen("Dense_0", "frozen", ["Dense_0.kernel", "Dense_1.kernel"])
    >>> first(ParamPath("Dense_0.kernel"), (2, 2)), first(ParamPath("Dense_1.kernel"), (2, 2))
    (True, False)
    """
    if not _are_names(wanted):
        return wanted  # type: ignore[no-any-return]
    names = _names(wanted)
    known = {".".join(path.split(".")[:depth]) for path in paths for depth in range(1, path.count(".") + 2)}
    for name in names:
        check_name(f"parameter or layer in {argument}=", name, known)
    return lambda path, shape: any(path == name or path.startswith(f"{name}.") for name in names)


def _names(wanted: Any) -> tuple[str, ...]:
    return (wanted,) if isinstance(wanted, str) else tuple(wanted)


def _are_names(wanted: object) -> bool:
    return isinstance(wanted, str | tuple | list | set | frozenset) and all(isinstance(name, str) for name in wanted)


def check_named(layout: Layout, bayesian: object, prunable: object) -> None:
    """Refuse names that choose nothing in a layout: of what is frozen to be Bayesian, of what is a point to be prunable."""
    for wanted, argument, paths, remedy in (
        (bayesian, "bayesian", [s.path for s in layout if not s.frozen], "all of it is frozen: leave it out there, or here"),
        (prunable, "prunable", [s.path for s in layout if s.bayesian], "none of it has a posterior: let bayesian= take it too"),
    ):
        for name in _names(wanted) if _are_names(wanted) else ():
            if not any(path == name or path.startswith(f"{name}.") for path in paths):
                raise ValueError(f"{argument}={name!r} chooses nothing, for {remedy}.")


def check_choices(bayesian: object, frozen: object, prunable: object) -> None:
    """Refuse what is neither a predicate nor names of parameters, before the net is traced, which takes its time."""
    for wanted, name, example in (
        (bayesian, "bayesian", "bp.select.weights"), (frozen, "frozen", "bp.select.nothing"),
        (prunable, "prunable", "bp.select.not_last"),
    ):  # fmt: skip
        if not (_are_names(wanted) or (wanted is None and name == "prunable")):
            check_call(check_function(wanted, name, example), name, ("path", "shape"))
