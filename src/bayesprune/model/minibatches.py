"""What of a hand-written program a minibatch would count wrongly: `fit_svi` scales observed sites by n / batch, no others."""

from collections.abc import Callable, Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpyro
from jax.interpreters.partial_eval import dce_jaxpr
from numpyro.handlers import seed, trace

from bayesprune.core.given import GivenRows
from bayesprune.core.tracing import as_written, by_one_thread
from bayesprune.core.types import PyTree

Shapes = dict[str, tuple[int, ...]]


@by_one_thread
def check_minibatches(model: Callable[..., Any], data: GivenRows, batch: int, num_rows: int) -> None:
    """Refuse a model that is wrong by ``batch`` of ``num_rows`` rows: see `_wrong`. ``data``: rows to be shaped like.

    A site under a `numpyro.handlers.scale` of the model's own is taken at its word. Raises `ValueError`.
    """
    if batch == num_rows:
        return
    sites: dict[str, Any] = {}
    local = _latents(model, data, batch, sites)
    try:
        other = _latents(model, data, batch + 1, {})
    except Exception:  # a model of one number of rows does not say what goes with them
        other = local
    by_rows = [name for name, shape in local.items() if shape != other[name]]
    for says in _wrong(model, data, batch, num_rows, sites, by_rows):
        raise ValueError(
            f"{says}. Or fit with all rows at once, batch_size=None: {num_rows:,} rows come in batches of {batch:,}."
        )


def _wrong(
    model: Callable[..., Any], data: GivenRows, batch: int, num_rows: int, sites: dict[str, Any], by_rows: list[str]
) -> Iterator[str]:
    """What would count too little or too much, each with its remedy in the model."""
    for name, site in sites.items():
        size, taken = site["args"] if site["type"] == "plate" else (0, None)
        if taken is not None and taken < size and any(_holds(name, other) for other in sites.values()):
            yield (
                f"plate {name!r} scales what it holds by {size:,} / {taken:,}, and fit_svi scales observed sites by n / "
                f"batch by itself: write plate({name!r}, len(y))"
            )
    for name in by_rows:
        if name.endswith("_unobserved"):  # NumPyro's own name
            yield f"obs_mask= makes {name!r} a latent site of single rows: put the site under numpyro.handlers.mask instead"
        elif sites[name]["scale"] is None:
            yield (
                f"latent site {name!r} has a value for each row, and would count once where fit_svi scales observed sites by "
                f"n / batch: put it under numpyro.handlers.scale(scale={num_rows} / len(y)), in model and guide, whose "
                "parameters must not be of single rows"
            )
    observed = [name for name, site in sites.items() if _observed(site)]
    for name, used in zip(observed, _of_the_rows(model, data, batch, observed), strict=True):
        if not used and sites[name]["scale"] is None:
            yield (
                f"observed site {name!r} does not depend on the rows, and fit_svi would scale it by n / batch like those that "
                f"do: put it under numpyro.handlers.scale(scale=len(y) / {num_rows})"
            )


def _holds(plate: str, site: dict[str, Any]) -> bool:
    """Whether an observed site lies in a plate."""
    return _observed(site) and any(frame.name == plate for frame in site["cond_indep_stack"])


def _observed(site: dict[str, Any]) -> bool:
    return bool(site["type"] == "sample" and site["is_observed"])


def _abstract(data: GivenRows, rows: int) -> tuple[PyTree, PyTree]:
    shaped = lambda leaf: jax.ShapeDtypeStruct((rows, *leaf.shape[1:]), leaf.dtype)  # noqa: E731
    return jax.tree.map(shaped, (data.x, data.y))  # type: ignore[no-any-return]


def _latents(model: Callable[..., Any], data: GivenRows, rows: int, sites: dict[str, Any]) -> Shapes:
    """Shapes of the latent sites for so many rows; ``sites`` gets all of the trace, its values abstract."""

    def run(x: PyTree, y: PyTree) -> None:
        sites.update(trace(seed(model, jax.random.key(0))).get_trace(x, y))

    jax.eval_shape(run, *_abstract(data, rows))
    latent = {name: site for name, site in sites.items() if site["type"] == "sample" and not _observed(site)}
    return {name: jnp.shape(site["value"]) for name, site in latent.items()}


def _of_the_rows(model: Callable[..., Any], data: GivenRows, rows: int, names: list[str]) -> list[bool]:
    """Of each observed site, whether its log density depends on x or y."""

    def densities(x: PyTree, y: PyTree) -> list[Any]:
        with numpyro.handlers.trace() as sites, numpyro.handlers.seed(rng_seed=0):
            model(x, y)
        with as_written():
            return [sites[name]["fn"].log_prob(sites[name]["value"]) for name in names]

    traced = jax.make_jaxpr(densities)(*_abstract(data, rows)).jaxpr
    asked = range(len(traced.outvars))
    return [any(dce_jaxpr(traced, [place == one for place in asked])[1]) for one in asked]
