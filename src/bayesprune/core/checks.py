"""Checks at the door: bad input is refused once, by name, with what it was and what to do."""

import difflib
import inspect
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any, cast

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike

from bayesprune.core.finite import check_finite
from bayesprune.core.keys import abstract_key, is_key
from bayesprune.core.numbers import without_mask
from bayesprune.core.send import send
from bayesprune.core.tracing import check_process


def unknown_name(kind: str, name: object, known: Iterable[str], remedy: str = "") -> ValueError:
    """The error for a name that is not known: it shows the nearest known names, then all of them."""
    known = sorted(known)
    near = difflib.get_close_matches(str(name).lower(), known, n=3, cutoff=0.4)
    hint = f" Did you mean {' or '.join(repr(n) for n in near)}?" if near else ""
    return ValueError(f"unknown {kind} {name!r}.{hint} Known: {', '.join(known)}.{' ' + remedy if remedy else ''}")


def check_name(kind: str, name: object, known: Collection[str], remedy: str = "") -> None:
    """Refuse a name that is not ``known``, see `unknown_name`.

    >>> check_name("norm", "frn", ("batch", "frn"))
    """
    if name not in known:
        raise unknown_name(kind, name, known, remedy)


def check_density(density: object, name: str = "density") -> None:
    """Refuse an alive fraction outside (0, 1]. A traced value cannot be looked at and passes."""
    check_share(density, name, "it is the fraction of weights that stay alive, so 0.05 keeps 5 %")


def check_share(share: object, name: str, meaning: str) -> None:
    """Refuse what is no number in (0, 1]; ``meaning`` ends the sentence. A traced value cannot be looked at and passes."""
    check_within(share, name, "(0, 1]", meaning)


def check_level(level: object, name: str) -> None:
    """Refuse what is no probability of an interval."""
    check_within(level, name, "(0, 1)", "0.9 asks for 90 %")


def check_within(value: Any, name: str, interval: str, meaning: str = "") -> None:
    """Refuse what is no number in an interval such as "[0, 1)"; ``meaning`` ends the sentence. A traced value passes.

    >>> check_within(1.0, "keep", "(0, 1)", "it is a share")
    Traceback (most recent call last):
    ...
    ValueError: keep must lie in (0, 1), got 1.0: it is a share.
    """
    if isinstance(value, jax.core.Tracer):
        return
    low, high = map(float, interval[1:-1].split(","))
    inside = is_number(value) and low <= float(value) <= high
    ends = {low} if interval[0] == "(" else set()
    ends |= {high} if interval[-1] == ")" else set()
    if not inside or float(value) in ends:
        raise ValueError(f"{name} must lie in {interval}, got {got(value)}{': ' if meaning else ''}{meaning}.")


def check_positive(value: ArrayLike | Sequence[float], name: str, several: bool = False) -> None:
    """Refuse what is no finite number above zero, or where there may be ``several`` not all such numbers.

    >>> check_positive([0.1, 0.2], "scale")
    Traceback (most recent call last):
    ...
    ValueError: scale must be positive and finite, got [0.1, 0.2]: give one number.
    """
    _check_numbers(value, "positive and finite", lambda numbers: numbers > 0, name, several)


def check_not_negative(value: ArrayLike, name: str, several: bool = False) -> None:
    """As `check_positive`, and zero passes."""
    _check_numbers(value, "finite and not negative", lambda numbers: numbers >= 0, name, several)


def _check_numbers(value: Any, what: str, passes: Callable[[np.ndarray], np.ndarray], name: str, several: bool = False) -> None:
    if isinstance(value, jax.core.Tracer):
        return
    if not (is_number(value, several) and np.isfinite(array := np.asarray(value)).all() and passes(array).all()):
        remedy = ": give one number" if np.ndim(value) and not several else ""
        raise ValueError(f"{name} must be {what}, got {value!r}{remedy}.")


def check_number(value: Any, name: str) -> None:
    """Refuse what is not one real number: names, None, arrays. A traced value cannot be looked at and passes."""
    if isinstance(value, jax.core.Tracer):
        return
    if not is_number(value):
        raise TypeError(f"{name} must be one number, got {value!r}: give a number such as 0.1.")


def is_number(value: object, several: bool = False) -> bool:
    """Whether it is one real number, or ``several`` of them; booleans are none.

    >>> is_number(0.1), is_number([0.1]), is_number([0.1], several=True), is_number(True), is_number("0.1")
    (True, False, True, False, False)
    """
    array = np.asarray(value)
    return (several or not array.ndim) and bool(jnp.issubdtype(array.dtype, np.number)) and not np.iscomplexobj(array)


def check_integer(value: object, name: str, minimum: int = 1) -> None:
    """Refuse what is not a whole number of at least ``minimum``."""
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < minimum:
        raise ValueError(f"{name} must be an integer of at least {minimum}, got {value!r}.")


def check_site(argument: str, site: str, value: ArrayLike, shapes: Mapping[str, tuple[int, ...]], spread: bool = False) -> None:
    """Refuse ``argument[site]`` where there is no such site, or of another shape; ``spread``: what broadcasts to it may pass.

    ``shapes``: the shape of every known site.
    """
    if site not in shapes:
        raise unknown_name(f"site in {argument}", site, shapes)
    shape, wanted = tuple(np.shape(value)), tuple(shapes[site])
    fits = len(shape) <= len(wanted) and all(s in (1, w) for s, w in zip(shape[::-1], wanted[::-1], strict=False))
    if not (fits if spread else shape == wanted):
        raise ValueError(f"{argument}[{site!r}] has shape {shape}, its site {wanted}: give one value for each weight.")


def got(value: object) -> str:
    """What was given, for a message: a name or number as it is, a class with what to do, all else by its kind.

    >>> got(0.1), got(np.float32(0.1)), got(dict), got([])
    ('0.1', '0.1', 'the class dict (call it)', 'list')
    """
    if isinstance(value, type):
        return f"the class {value.__name__} (call it)"
    dtype = value.dtype if isinstance(value, np.generic | np.ndarray | jax.Array) and not value.ndim else None
    if dtype is not None and any(jnp.issubdtype(dtype, kind) for kind in (np.number, np.bool_)):
        return str(value)
    return repr(value) if isinstance(value, str | int | float | complex | None) else type(value).__name__


def check_function(given: object, name: str, example: str) -> Callable[..., Any]:
    """What was given; what cannot be called, and a class, is refused."""
    if not callable(given) or isinstance(given, type):
        raise TypeError(f"{name} must be a function, got {got(given)}: give {example}, or one that is called as it is.")
    return given


def check_object(value: object, name: str, functions: Iterable[str], example: str) -> None:
    """Refuse a class, a name or anything else that has not the ``functions`` of what ``name`` must be, such as ``example``."""
    missing = [function for function in functions if not callable(getattr(value, function, None))]
    if isinstance(value, type):
        raise TypeError(f"{name} must be an object, got the class {value.__name__}: call it, as in {example}.")
    if missing:
        raise TypeError(f"{name} must be an object with {' and '.join(missing)}, got {got(value)}: give one such as {example}.")


def check_calls(
    value: object, name: str, calls: Mapping[str, tuple[str, ...]], optional: Mapping[str, Iterable[str]] = {}
) -> None:
    """Refuse an object whose methods cannot be called as they will be; a method that it has not is not looked at.

    ``calls``: method -> the arguments that it is called with, in order; ``optional``: method -> those that it is given by name,
    if it has parameters of that name.

    >>> check_calls({}, "table", {"get": ("key", "default"), "close": ()})
    """
    for method, arguments in calls.items():
        if callable(function := getattr(value, method, None)):
            owner = f"that of {type(value).__name__} is"
            check_call(function, f"{name}.{method}", arguments, optional.get(method, ()), owner)


def check_call(
    function: Callable[..., Any], name: str, arguments: Sequence[str], optional: Iterable[str] = (), owner: str = "is given as"
) -> None:
    """Refuse a function that cannot be called with ``arguments``, in order, and with those ``optional`` ones that it names.

    >>> check_call(lambda path, shape: True, "frozen", ("path", "shape"))
    """
    try:
        signature = inspect.signature(function)
    except ValueError:  # some that are written in C do not say what they take
        return
    try:
        signature.bind(*arguments, **{word: word for word in optional if word in signature.parameters})
    except TypeError:
        method = name.rpartition(".")[2]
        raise TypeError(
            f"{name} is called as {method}({', '.join(arguments)}), and {owner} {method}{signature}: give it these parameters."
        ) from None


def check_params(params: object, name: str = "params") -> None:
    """Refuse what is no mapping of names to finite parameters, a whole fit above all: it does not say which part is meant;
    and places and scales that are complex."""
    check_process()
    if not isinstance(params, Mapping):
        remedy = ": give its .params, and its .mask as mask=" if hasattr(params, "params") else ", as fit.params is"
        raise TypeError(f"{name} must be parameters by name, got {type(params).__name__}{remedy}.")
    check_finite(params, name)
    for site, value in params.items():
        if str(site).endswith(("_loc", "_scale")) and np.iscomplexobj(value):
            raise TypeError(f"{name}[{site!r}] must hold real numbers, got complex ones: give .real of it.")


def as_params(value: object, name: str) -> dict[str, Any]:
    """Parameters by name; of a fit or a pruned one, its ``params``. A `TypeError` for anything else."""
    inner = value if isinstance(value, Mapping) else getattr(value, "params", value)
    check_params(inner, name)
    return dict(cast(Mapping[str, Any], inner))


def check_mask(mask: object, shapes: Mapping[str, tuple[int, ...]]) -> dict[str, jax.Array]:
    """Masks by site as booleans, each of its site's shape; zeros and ones are taken too, and fractions above all refused."""
    if not isinstance(mask, Mapping):
        raise TypeError(
            f"mask must map sites to booleans, as fit.mask does, got {type(mask).__name__}: "
            f"{'give its .mask' if hasattr(mask, 'mask') else 'write {site: mask}'}; sites are "
            f"{', '.join(list(shapes)[:4])}{', ...' if len(shapes) > 4 else ''}."
        )
    for site, alive in mask.items():
        check_site("mask", site, alive, shapes)
        as_booleans(alive, f"mask[{site!r}]")
    return {site: send(alive, bool) for site, alive in mask.items()}


def as_booleans(alive: object, name: str) -> Any:
    """A mask as an array of booleans; of zeros and ones, too. Fractions are refused, and what is traced passes as it is."""
    alive = without_mask(alive, name)
    array = alive if isinstance(alive, jax.Array | np.ndarray) else np.asarray(alive)
    if array.dtype == bool or isinstance(array, jax.core.Tracer):
        return array
    if not np.isin(np.asarray(array), (0, 1)).all():
        raise ValueError(f"{name} must be boolean, True = alive, got other numbers: compare first, as in p > 0.5.")
    return array.astype(bool)


def check_key(rng_key: Any) -> jax.Array:
    """Take a typed key or a legacy ``uint32`` one; refuse anything else (a bare integer above all). Returns a typed key.

    One key alone: arrays of several are refused. Every public call that computes comes by here or by a trace, so the process is
    checked here too.
    """
    check_process()
    dtype, shape = getattr(rng_key, "dtype", None), tuple(getattr(rng_key, "shape", ()))
    if is_key(rng_key) and not shape:
        return rng_key
    of_one = jax.eval_shape(jax.random.key_data, abstract_key()).shape
    if dtype == np.uint32 and shape == of_one:
        return jax.random.wrap_key_data(rng_key)
    if is_key(rng_key) or (dtype == np.uint32 and shape[1:] == of_one):
        raise TypeError(
            f"rng_key must be one JAX random key, got {shape[0]} of them in an array: give one, as keys[0], and call "
            "once for each."
        )
    raise TypeError(f"rng_key must be a JAX random key, got {type(rng_key).__name__}: make one with jax.random.key(0).")
