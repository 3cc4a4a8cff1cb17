"""The end of a fit whose loss stopped being finite."""

from typing import Any

import jax
import jax.numpy as jnp


class DivergedError(FloatingPointError):
    """The loss is NaN or infinite. ``step``: where; ``site``: what; ``params``: the last finite parameters, to go on from."""

    def __init__(self, message: str, step: int, site: str, params: dict[str, Any]) -> None:
        super().__init__(message)
        self.step, self.site, self.params = step, site, params


def diverged(step: int, finite: dict[str, Any], broken: dict[str, Any]) -> DivergedError:
    """The error, from the last finite parameters and those at which the loss broke."""
    site = _first_broken(broken)
    return DivergedError(
        f"the loss stopped being finite at step {step}, first seen at {site!r}. The parameters before that are in this error's "
        "`params`; start again from them (init_params=error.params) with a smaller learning rate (a sampler: step_size), with "
        "gradient clipping (optax.chain(optax.clip_by_global_norm(1.0), ...)), or look for extreme values in the data.",
        step,
        site,
        finite,
    )


def _first_broken(params: dict[str, Any]) -> str:
    """The first parameter with a value that is not finite; else the observed site, whose likelihood must have overflowed."""
    for name in sorted(params):
        if not all(bool(jnp.isfinite(leaf).all()) for leaf in jax.tree.leaves(params[name])):
            return name
    return "obs"
