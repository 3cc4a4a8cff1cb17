"""The knobs of an estimator's objects as scikit-learn's parameters: ``method__density``, ``prior__slab_scale``."""

import dataclasses
from typing import Any

from sklearn.base import BaseEstimator

OBJECTS = ("method", "prior", "likelihood")  # settings that may be frozen dataclasses


class WithKnobs(BaseEstimator):
    """An estimator whose `get_params` and `set_params` reach into the objects that are its settings.

    Objects are never changed: to set a knob of one puts another in its place, which checks its knobs as every new one does.

    >>> import bayesprune as bp
    >>> model = bp.BayesianSparseRegressor(method=bp.methods.SNR(0.3)).set_params(method__density=0.2)
    >>> model.method, model.get_params()["method__density"]
    (SNR(density=0.2, scope='global'), 0.2)
    """

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """The settings by name; ``deep``: with the knobs of their objects."""
        params = super().get_params(deep)
        if deep:
            for name in OBJECTS:
                params |= _knobs_of(params.get(name), f"{name}__")
        return params

    def set_params(self, **params: Any) -> Any:
        """Set settings, and then the knobs of their objects, such as ``method__density``.

        Raises:
            ValueError: there is no such setting or knob, or it cannot have this value.
        """
        knobs = {name: value for name, value in params.items() if name.split("__")[0] in OBJECTS and "__" in name}
        super().set_params(**{name: value for name, value in params.items() if name not in knobs})
        # All of an object at once: one knob's new value may go with another's only.
        for name in OBJECTS:
            inner = {path.removeprefix(f"{name}__"): value for path, value in knobs.items() if path.startswith(f"{name}__")}
            if inner:
                setattr(self, name, _replaced(getattr(self, name), inner, name))
        return self


def _is_object(value: object) -> bool:
    return dataclasses.is_dataclass(value) and not isinstance(value, type)


def _knobs_of(value: object, prefix: str) -> dict[str, Any]:
    """The fields of an object, and of the objects that they hold."""
    found: dict[str, Any] = {}
    for name in _names(value) if _is_object(value) else ():
        found[prefix + name] = getattr(value, name)
        found |= _knobs_of(found[prefix + name], f"{prefix}{name}__")
    return found


def _names(value: Any) -> list[str]:
    return [field.name for field in dataclasses.fields(value) if field.init]


def _replaced(value: Any, knobs: dict[str, Any], where: str) -> Any:
    """A copy with other knobs; an object that is given goes before the knobs that are set on it, as scikit-learn has it."""
    if not _is_object(value):
        raise ValueError(
            f"{where}__{next(iter(knobs))} cannot be set, as {where}={value!r} has no knobs: give {where}= an object first, "
            "such as method=bp.methods.SNR(density=0.1), prior=bp.priors.DiracSlab() or likelihood=bp.likelihoods.StudentT()."
        )
    new: dict[str, Any] = {}
    deeper: dict[str, dict[str, Any]] = {}
    for path, setting in knobs.items():
        name, _, rest = path.partition("__")
        if name not in _names(value):
            raise ValueError(f"Invalid parameter {name!r} for {where}={value!r}. Valid parameters are: {_names(value)!r}.")
        if rest:
            deeper.setdefault(name, {})[rest] = setting
        else:
            new[name] = setting
    for name, inner in deeper.items():
        new[name] = _replaced(new.get(name, getattr(value, name)), inner, f"{where}__{name}")
    return dataclasses.replace(value, **new)
