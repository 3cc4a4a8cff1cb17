"""What the numbers of a file must be for a posterior to come of them: real and finite, of one shape, scales not below zero.

A checksum says that a file is as it was written, not who wrote it. Everything here raises ``ValueError`` with the name and the
cause, and is called within `core.files.reading`, which adds the file.
"""

from collections.abc import Iterator, Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from bayesprune.core.finite import check_finite
from bayesprune.core.types import Array
from bayesprune.posteriors import params, rows_and_columns, samples

_PAIR = ("_log_loc", "_log_scale")  # the law of a layer's, or a unit's, scale
_CLOSE = 1e-3  # of marginal scales, which other machines round otherwise
_STATE = {"step", "params", "optimizer", "kinds"}


def check_params(given: Mapping[str, Any]) -> None:
    """Refuse parameters that no fit has; names that are no family's are free."""
    check_finite(given, "params")
    _check_draws(given)
    for family, site, fields in _sites(given):
        _check_site(site, fields, family.joint)
    for name, value in given.items():
        if name.endswith(_PAIR[1]) and name.removesuffix(_PAIR[1]) + _PAIR[0] in given:
            _not_negative(name, value)
    shapes = _shapes(given)
    for name in filter(params.is_meaning, given):
        site = next(name.removesuffix(end) for end in params.MEANINGS if name.endswith(end))
        _check_meaning(name, given[name], shapes.get(site))


def check_mask(mask: Mapping[str, Any], shapes: Mapping[str, tuple[int, ...]]) -> None:
    """Refuse masks that are no booleans, or not of their site's shape, where that is known."""
    for site, alive in mask.items():
        shape = np.shape(alive)
        if getattr(alive, "dtype", None) != np.dtype(bool) or shape != shapes.get(site, shape):
            raise ValueError(f"mask of {site!r} is no array of booleans of the shape {shapes.get(site, shape)}")


def check_mask_of_params(mask: Mapping[str, Any], given: Mapping[str, Any]) -> None:
    """The same, for the sites that parameters are of."""
    check_mask(mask, _shapes(given))


def check_posterior(posterior: Mapping[str, Any], mask: Mapping[str, Any]) -> None:
    """Refuse nodes that no posterior has, and masks of other sites."""
    for site, node in posterior.items():
        fields = {name: np.asarray(getattr(node, name)) for name in ("loc", "scale", "logit") if hasattr(node, name)}
        factors = {name: np.asarray(getattr(node, name, None)) for name in ("rows", "columns") if hasattr(node, name)}
        check_finite({f"{site}_{name}": value for name, value in (fields | factors).items()}, "the posterior's numbers")
        _check_site(site, {f"{site} {name}": value for name, value in (fields | factors).items()}, tuple(factors))
        if factors and not _is_marginal(fields["scale"], **factors):
            raise ValueError(f"the scales of {site!r} are not those of its factors")
        meaning = {"unit": node.unit, "prior_scale": getattr(node, "prior_scale", None)}
        for name, value in meaning.items():
            if value is not None:
                _check_meaning(f"{name} of {site!r}", value, fields["loc"].shape, name == "prior_scale")
    if more := sorted({*mask} - {*posterior}):
        raise ValueError(f"masks of no site: {', '.join(more)}")
    check_mask(mask, {site: np.shape(node.loc) for site, node in posterior.items()})


def check_record(losses: np.ndarray, history: Mapping[str, Any], state: Mapping[str, Any] | None) -> None:
    """Refuse what is no record of a fit: losses that are no row of numbers, a step or a state that no fit leaves."""
    if np.ndim(losses) not in (1, 2) or np.asarray(losses).dtype.kind != "f":
        raise ValueError("losses are no real numbers by step")
    step = history.get("returned/step", np.zeros(1, int))
    if np.size(step) < 1 or np.asarray(step).dtype.kind not in "iu" or np.min(step) < 0:
        raise ValueError("returned/step is no number of steps")
    if state is None:
        return
    whole = type(state.get("step")) is int and state["step"] >= 0 and isinstance(state.get("kinds"), str)
    if {*state} != _STATE or not whole or not all(isinstance(state[name], Mapping) for name in ("params", "optimizer")):
        raise ValueError(f"the state is not that of a fit: it has {', '.join(sorted(state))}")
    check_finite(state["params"], "the state's parameters")


def _sites(given: Mapping[str, Any]) -> Iterator[tuple[Any, str, dict[str, Any]]]:
    """Every family and site that parameters have all fields of, with those by their names."""
    for family in params.families():
        for hidden in {family.hidden: True, family.stem: False}.values():
            end = family.name("", family.fields[0], hidden)
            for site in (name.removesuffix(end) for name in given if name.endswith(end)):
                names = [family.name(site, field, hidden) for field in family.fields]
                if "$" not in site and all(name in given for name in names):  # a network's state, net$state, is no site
                    yield family, site, {name: np.asarray(given[name]) for name in names}


def _shapes(given: Mapping[str, Any]) -> dict[str, tuple[int, ...]]:
    """The shape of each site's weights."""
    first = {site: (family, next(iter(fields.values()))) for family, site, fields in _sites(given)}
    return {s: v.shape[len(samples.AXES) :] if family is samples.FAMILY else v.shape for s, (family, v) in first.items()}


def _check_site(site: str, fields: Mapping[str, np.ndarray], joint: tuple[str, ...]) -> None:
    """The parameters of a site, by their names, which end in the field's."""
    shape, triangles = next(iter(fields.values())).shape, dict[str, np.ndarray]()
    for name, value in fields.items():
        if not _is_real(value):
            raise ValueError(f"{name} is no array of real numbers")
        if name.endswith(joint) and joint:
            triangles[name] = value
        elif value.shape != shape:
            raise ValueError(f"the numbers of {site!r} are of different shapes, {shape} and {value.shape} in {name}")
        if name.endswith("scale"):
            _not_negative(name, value)
        if name.endswith("_correlation") and np.any(np.abs(value) >= 1):
            raise ValueError(f"{name} has correlations that are not within -1 and 1")
    _check_triangles(site, triangles, shape)


def _check_triangles(site: str, triangles: Mapping[str, np.ndarray], shape: tuple[int, ...]) -> None:
    if not triangles:
        return
    sizes = tuple(value.shape[0] if value.ndim else 0 for value in triangles.values())
    squares = all(value.shape == (size, size) for value, size in zip(triangles.values(), sizes, strict=True))
    if not squares or int(np.prod(sizes)) != int(np.prod(shape)):
        raise ValueError(f"the factors of {site!r} are not of a covariance of weights of the shape {shape}")
    for name, value in triangles.items():
        if np.any(np.triu(value, 1)) or np.any(np.diagonal(value) < 0):
            raise ValueError(f"{name} is no lower triangle whose diagonal is not below zero")


def _is_marginal(scale: np.ndarray, rows: np.ndarray, columns: np.ndarray) -> bool:
    expected = np.asarray(rows_and_columns.marginal(jnp.asarray(rows), jnp.asarray(columns), scale.shape))
    return bool(np.allclose(scale, expected, rtol=_CLOSE, atol=_CLOSE * float(np.max(expected, initial=0.0))))


def _check_draws(given: Mapping[str, Any]) -> None:
    """Stored samples are of one number of chains, and of one number of draws."""
    axes = {np.shape(value)[: len(samples.AXES)] for value in jax.tree.leaves(samples.draws_of(given))}
    if axes and (len(axes) > 1 or len(next(iter(axes))) < len(samples.AXES) or 0 in next(iter(axes))):
        raise ValueError(f"the draws are not of one number of chains and draws, but of {', '.join(map(str, sorted(axes)))}")


def _check_meaning(name: str, value: Array, shape: tuple[int, ...] | None, is_prior: bool | None = None) -> None:
    """A unit, or a prior's standard deviation, which is above zero and may be infinite."""
    numbers = np.asarray(value)
    if numbers.dtype.kind in "iu":  # of dist.Normal(0, 1)
        numbers = numbers.astype(float)
    if not _is_real(numbers) or np.isnan(numbers).any():
        raise ValueError(f"{name} is no real number")
    if (name.endswith((params.PRIOR_SCALE, params.CHOSEN)) if is_prior is None else is_prior) and np.any(numbers < 0):
        raise ValueError(f"{name} is below zero")
    wide = numbers.ndim > len(shape or ()) or any(
        size not in (1, whole) for size, whole in zip(numbers.shape[::-1], (shape or ())[::-1], strict=False)
    )
    if shape is not None and wide:
        raise ValueError(f"{name} has the shape {numbers.shape}, and its weights {shape}")


def _not_negative(name: str, value: Array) -> None:
    if not _is_real(np.asarray(value)) or np.any(np.asarray(value) < 0):
        raise ValueError(f"{name} has scales below zero, which no posterior has")


def _is_real(value: np.ndarray) -> bool:
    return value.dtype.kind == "f" or value.dtype.name == "bfloat16"
