"""The layout of a network: one row per parameter, in the order in which the network uses them."""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
from jax.extend.core import Literal


class ParamPath(str):
    """A dotted parameter path such as ``"Dense_0.kernel"`` that also knows its place in the network.

    ``layer`` is the path without its last part (kernel and bias of a layer share it); ``is_last`` tells whether the layer is
    the last one that the network uses. Being a string, it goes wherever a plain path goes.
    """

    is_last: bool

    def __new__(cls, path: str, is_last: bool = False) -> "ParamPath":
        self = super().__new__(cls, path)
        self.is_last = is_last
        return self

    @property
    def layer(self) -> str:
        return self.rpartition(".")[0] or str(self)


Predicate = Callable[[ParamPath, tuple[int, ...]], bool]


class ParamSpec(NamedTuple):
    """One parameter: where it is, its shape, whether it is given a posterior, and whether it may be pruned."""

    path: ParamPath
    shape: tuple[int, ...]
    dtype: Any
    bayesian: bool
    prunable: bool


Layout = tuple[ParamSpec, ...]


def make_layout(apply: Callable[..., Any], params: dict[str, Any], x: Any, bayesian: Predicate, prunable: Predicate) -> Layout:
    """Describe ``params`` (path -> array or abstract array), ordered by first use in ``apply(params, x)``."""
    names = _by_first_use(apply, params, x)
    last = ParamPath(names[-1]).layer
    specs = []
    for name in names:
        path = ParamPath(name, is_last=ParamPath(name).layer == last)
        shape = tuple(params[name].shape)
        chosen = bool(bayesian(path, shape))
        specs.append(ParamSpec(path, shape, params[name].dtype, chosen, chosen and bool(prunable(path, shape))))
    return tuple(specs)


def _by_first_use(apply: Callable[..., Any], params: dict[str, Any], x: Any) -> list[str]:
    """Sort parameter names by the first equation of the traced network that reads them; unused ones come first."""
    names = sorted(params)
    jaxpr = jax.make_jaxpr(apply)(params, x).jaxpr
    first = _first_reads(jaxpr, jaxpr.invars[: len(names)])
    return [names[i] for i in sorted(range(len(names)), key=lambda i: (first[i], i))]


def _first_reads(jaxpr: Any, variables: list[Any]) -> list[tuple[int, ...]]:
    """For each input variable, the position of its first reader: a tuple, deeper positions inside nested programs."""
    reads: dict[Any, tuple[int, ...]] = {}
    for position, equation in enumerate(jaxpr.eqns):
        inner = _inner_jaxpr(equation)
        nested = inner is not None and len(inner.invars) == len(equation.invars)
        inside = _first_reads(inner, inner.invars) if nested else [()] * len(equation.invars)
        for variable, deeper in zip(equation.invars, inside, strict=True):
            if not isinstance(variable, Literal):
                reads.setdefault(variable, (position, *deeper))
    return [reads.get(v, ()) for v in variables]


def _inner_jaxpr(equation: Any) -> Any:
    for name in ("jaxpr", "call_jaxpr"):
        inner = equation.params.get(name)
        if inner is not None:
            return getattr(inner, "jaxpr", inner)
    return None
