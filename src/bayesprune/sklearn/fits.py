"""What ``fit`` of every estimator takes beside X and y, and what it leaves behind where it fails."""

import functools
from collections.abc import Callable
from typing import Any, TypeVar, cast

Fit = TypeVar("Fit", bound=Callable[..., Any])


def undone_if_it_fails(fit: Fit) -> Fit:
    """A ``fit`` that leaves the estimator as it was before, fitted or not, where it raises anything, Ctrl-C too.

    It sets attributes one by one: the units of new targets with the networks of old ones would predict wrong numbers.

    >>> class Estimator:
    ...     @undone_if_it_fails
    ...     def fit(self, y):
    ...         self.largest_ = max(y)
    ...         self.mean_ = sum(y) / len(y)
    >>> estimator = Estimator()
    >>> estimator.fit([1, 2, 6])
    >>> estimator.fit(["a", "b"])
    Traceback (most recent call last):
    ...
    TypeError: unsupported operand type(s) for +: 'int' and 'str'
    >>> vars(estimator)
    {'largest_': 6, 'mean_': 3.0}
    """

    @functools.wraps(fit)
    def fitted(self: Any, *args: Any, **named: Any) -> Any:
        before = dict(vars(self))  # a fit puts new objects in the place of old ones, and changes none
        try:
            return fit(self, *args, **named)
        except BaseException:
            self.__dict__ = before  # in one step, which a second Ctrl-C cannot halve
            raise

    return cast(Fit, fitted)


def refuse_others(others: dict[str, Any], remedy: str = "") -> None:
    """Refuse what ``fit`` is given by name beside X and y, such as weights of rows; no weights, None, are taken.

    A signature with ``sample_weight`` would promise scikit-learn's searches and ensembles that it is followed.
    """
    if others.get("sample_weight") is not None:
        raise TypeError(
            "fit() got an unexpected keyword argument 'sample_weight': rows count alike. Repeat those that count more, as by "
            f"np.repeat(X, counts, axis=0), and y with them.{remedy}"
        )
    if unknown := [name for name in others if name != "sample_weight"]:
        raise TypeError(
            f"fit() got an unexpected keyword argument {unknown[0]!r}: it takes X and y, settings go to the constructor."
        )
