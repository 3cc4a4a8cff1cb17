"""What of a hand-written program a minibatch would count wrongly: `fit_svi` scales observed sites by n / batch, no others."""

from collections.abc import Callable, Iterator, Mapping, Set
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax.interpreters.partial_eval import dce_jaxpr
from numpyro.handlers import trace

from bayesprune.core.given import GivenRows
from bayesprune.core.tracing import as_written, by_one_thread
from bayesprune.core.types import PyTree
from bayesprune.model.handlers import drawn


class _Site(NamedTuple):
    """What is to be known of a site of a trace, without its values. ``plates``: that hold it; ``sizes``: of a plate itself."""

    kind: str
    observed: bool
    shape: tuple[int, ...]
    scaled: bool
    plates: tuple[str, ...]
    sizes: tuple[int, int | None]

    @property
    def latent(self) -> bool:
        return self.kind == "sample" and not self.observed


@by_one_thread
def check_minibatches(model: Callable[..., Any], data: GivenRows, batch: int, num_rows: int) -> None:
    """Refuse a model that is wrong by ``batch`` of ``num_rows`` rows: see `_wrong`. ``data``: rows to be shaped like.

    A site under a `numpyro.handlers.scale` of the model's own is taken at its word. Raises `ValueError`.
    """
    if batch == num_rows:
        return
    sites, of_rows = _traced(model, data, batch)
    try:
        other, _ = _traced(model, data, batch + 1)
    except Exception:  # a model of one number of rows does not say what goes with them
        other = sites
    by_rows = {name for name, site in sites.items() if site.latent and site.shape != other[name].shape}
    for says in _wrong(sites, by_rows, of_rows, num_rows):
        raise ValueError(
            f"{says}. Or fit with all rows at once, batch_size=None: {num_rows:,} rows come in batches of {batch:,}."
        )


def _wrong(sites: Mapping[str, _Site], by_rows: Set[str], of_rows: Set[str], num_rows: int) -> Iterator[str]:
    """What would count too little or too much, each with its remedy in the model.

    ``by_rows``: latent sites of single rows; ``of_rows``: observed ones that depend on the rows.
    """
    for name, site in sites.items():
        size, taken = site.sizes
        if taken is not None and taken < size and any(one.observed and name in one.plates for one in sites.values()):
            yield (
                f"plate {name!r} scales what it holds by {size:,} / {taken:,}, and fit_svi scales observed sites by n / "
                f"batch by itself: write plate({name!r}, len(y))"
            )
        elif name in by_rows and name.endswith("_unobserved"):  # NumPyro's own name
            yield f"obs_mask= makes {name!r} a latent site of single rows: put the site under numpyro.handlers.mask instead"
        elif name in by_rows and not site.scaled:
            yield (
                f"latent site {name!r} has a value for each row, and would count once where fit_svi scales observed sites by "
                f"n / batch: put it under numpyro.handlers.scale(scale={num_rows} / len(y)), in model and guide, whose "
                "parameters must not be of single rows"
            )
        elif site.observed and name not in of_rows and not site.scaled:
            yield (
                f"observed site {name!r} does not depend on the rows, and fit_svi would scale it by n / batch like those that "
                f"do: put it under numpyro.handlers.scale(scale=len(y) / {num_rows})"
            )


def _traced(model: Callable[..., Any], data: GivenRows, rows: int) -> tuple[dict[str, _Site], set[str]]:
    """The sites for so many rows, and the observed ones whose log density depends on x or y."""
    found: dict[str, _Site] = {}

    def densities(x: PyTree, y: PyTree) -> dict[str, Any]:
        sites = trace(drawn(model, jax.random.key(0))).get_trace(x, y)
        found.update({name: _site(site) for name, site in sites.items()})
        with as_written():
            return {name: sites[name]["fn"].log_prob(sites[name]["value"]) for name in sorted(found) if found[name].observed}

    shaped = lambda leaf: jax.ShapeDtypeStruct((rows, *leaf.shape[1:]), leaf.dtype)  # noqa: E731
    traced = jax.make_jaxpr(densities)(*jax.tree.map(shaped, (data.x, data.y))).jaxpr
    names, asked = sorted(name for name in found if found[name].observed), range(len(traced.outvars))
    used = [any(dce_jaxpr(traced, [place == one for place in asked])[1]) for one in asked]
    return found, {name for name, is_used in zip(names, used, strict=True) if is_used}


def _site(site: Mapping[str, Any]) -> _Site:
    kind, sample = site["type"], site["type"] == "sample"
    observed, shape = sample and bool(site["is_observed"]), jnp.shape(site["value"]) if sample else ()
    plates = tuple(frame.name for frame in site["cond_indep_stack"]) if sample else ()
    return _Site(kind, observed, shape, site.get("scale") is not None, plates, site["args"] if kind == "plate" else (0, None))
