"""Dead weights drawn anew from their prior, for a sparsifier that is a move of the sampler's chain."""

import jax
import jax.numpy as jnp
from numpyro.handlers import substitute, trace

from bayesprune.core.streams import OfAStep, stream
from bayesprune.core.types import Mask, Sparsifier
from bayesprune.model.samples import values_of
from bayesprune.model.seeding import seeded
from bayesprune.posteriors.params import stems
from bayesprune.train.kernel import Kernel
from bayesprune.train.sites import Example, Sites
from bayesprune.train.state import Carry, Recipe


def redraw(recipe: Recipe, sites: Sites, example: Example, carry: Carry, mask: Mask) -> Carry:
    """The state with every dead weight drawn from its prior, given the scales as they stand; the living keep their bits.

    Nothing depends on a dead weight but its prior, so that this is a draw from its conditional posterior, a step of Gibbs. The
    kernel's steps leave it to its noise alone. The kernel's arrays stay: a momentum without a gradient has its own law already.
    ``mask``: whole arrays, as the storage of every sampler keeps them.
    """
    program, params = recipe.program, sites.constrain(carry.params)
    standing = {name: value for name, value in values_of(program.guide, params).items() if name not in mask}
    # The prior looks at no data: rows of zeros, whose way through the network the compiler drops.
    rows = jax.tree.map(lambda leaf: jnp.zeros(leaf.shape, leaf.dtype), example.abstract(1))
    copies = {
        name: dict(value) if isinstance(value, dict) else value for name, value in carry.mutable.items()
    }  # programs update them in place
    model = substitute(seeded(program.model, stream(carry.step_key, OfAStep.REDRAWING)), data=standing | copies)
    drawn = trace(model).get_trace(rows.x, rows.y)
    fresh = {
        name: jnp.where(mask[site], params[name], drawn[site]["value"].astype(params[name].dtype))
        for name, site in stems(params, mask).items()  # points on the whole real line, which are their own coordinates
    }
    return carry._replace(params=carry.params | fresh)


def check_chain(kernel: Kernel, sparsifier: Sparsifier) -> None:
    """Refuse a kernel that does not sample the posterior itself, of which the sparsifier's moves are moves."""
    message = f"{type(sparsifier).__name__} accepts its moves by the odds of the posterior itself"
    remedy = "sample by bp.fit_sgmcmc(..., kernel=bp.kernels.SGLD()) or SGHMC()."
    if not hasattr(kernel, "num_cycles"):
        raise ValueError(f"{message}, and nothing is sampled here: {remedy}")
    if getattr(kernel, "per_row", False):
        raise ValueError(f"{message}, and {type(kernel).__name__} samples a colder one: {remedy}")
    if (temperature := getattr(kernel, "temperature", 1.0)) != 1.0:
        raise ValueError(f"{message}, and the kernel's temperature is {temperature}: leave it at 1.")
