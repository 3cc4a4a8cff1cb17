"""An estimator as one network, of the table's own columns, in the units of y: what is compacted, exported and shipped."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, Float64
from sklearn.utils.validation import check_is_fitted

from bayesprune.core.checks import check_integer
from bayesprune.core.compiling import quickly
from bayesprune.core.streams import OfAnEstimator, stream
from bayesprune.data.scaling import Scaling
from bayesprune.deploy.compact import Compact, compact
from bayesprune.infer.refit_noise import LOC
from bayesprune.model.bnn import BNN
from bayesprune.model.likelihoods import Normal
from bayesprune.model.likelihoods.masked import of_observed
from bayesprune.sklearn import cutting, network
from bayesprune.sklearn.columns import Columns, JointColumns

TOLERANCE = 1e-3  # deviations by which float32 may miss what the network reads


@dataclass(frozen=True, eq=False)  # compared by identity: arrays have no hash
class Ends:
    """What stands before and behind a network of a table: the map from columns to inputs, and f -> f scale + loc."""

    columns: Columns | JointColumns
    units: Scaling

    def inputs(self, x: Float[jax.Array, "rows columns"]) -> Float[jax.Array, "rows inputs"]:
        """`Columns.apply`, in JAX and single precision."""
        return self.columns.apply(x, jnp)  # type: ignore[return-value]

    def outputs(self, f: Float[jax.Array, "rows outputs"]) -> Float[jax.Array, "rows outputs"]:
        """In the units of y."""
        return f * jnp.asarray(self.units.scale, f.dtype) + jnp.asarray(self.units.loc, f.dtype)


class BetweenEnds(nn.Module):
    """A network between its ends, under the names that its own parameters have."""

    recipe: network.NetworkRecipe
    ends: Ends

    @nn.compact
    def __call__(self, x: jax.Array, train: bool = False) -> jax.Array:
        inner = network.net_of(self.recipe)
        nn.share_scope(self, inner)
        return self.ends.outputs(inner(self.ends.inputs(x), train))


class WithCompact:
    """The method `compact` of both estimators."""

    def compact(
        self: Any, keep: Literal["posterior", "mean"] | str = "posterior", num_draws: int | Any | None = None
    ) -> Compact:
        """The estimator as one small network, for files and other runtimes: of rows of X to E[y | X, w], in the units of y.

        It reads the table's columns as they are, in single precision, where they are numbers without gaps and none is a code
        (`fit_reading`), and else what ``numbers_of(X)`` gives, whose columns are ``number_names_``. Standardising, steps,
        components and trees are its first operations, taking y back to its units is its last one. Trees take up to about 1 MB:
        where small is what counts, fit with ``stacking=False``, which goes without. Of a classifier it gives probabilities in
        the order of ``classes_``.

        Args:
            keep: "posterior": the weights' law, of a spike and slab, and of several forms, so many drawn networks; "mean": the
                one network at the posterior mean, which is the smallest and says nothing of spread. Of several forms it is
                that of the one with the largest weight, and predicts as that one does alone.
            num_draws: networks to keep of a posterior that has to be drawn; None: ``num_samples``.

        Returns:
            A `Compact`; ``small.save("net.bayesprune")`` writes a file that needs NumPy alone to be read.

        Raises:
            ValueError: a column that float32 cannot tell apart (dates in seconds, say), or targets that it rounds by more
                than a thousandth of their deviation; a likelihood with an output for the noise; or as `bayesprune.compact`.

        Example:
            >>> import numpy as np, bayesprune as bp
            >>> x = np.random.default_rng(0).uniform(50.0, 70.0, (80, 3))
            >>> model = bp.BayesianSparseRegressor(hidden=(4,), num_steps=300, random_state=0).fit(x, 9.0 * x[:, 0])
            >>> small = model.compact(keep="mean")
            >>> bool(np.corrcoef(small.predict(x), model.predict(x))[0, 1] > 0.99)
            True
        """
        check_is_fitted(self)
        if num_draws is not None:
            check_integer(num_draws, "num_draws")
        columns, recipe, params, mask = self._columns, self._network, self.params_, self.mask_
        if keep == "mean":
            columns, recipe, params, mask, *_ = self._law.members[0]
        elif num_draws is not None:
            params, mask = self._networks(num_draws)
        check_single(columns, self._background, self.number_names_)
        units = getattr(self, "_target_scaling", None)
        if units is not None:
            check_single_target(units)
            recipe, params = in_units(recipe, params, units)
        bnn = whole(recipe, columns, units)
        if keep == "posterior" and (num_draws or cutting.is_gated(bnn.read(params))):
            key = stream(self._key(), OfAnEstimator.PREDICTING)
            return compact(bnn, params, mask, keep, rng_key=key, num_draws=num_draws or self.num_samples)
        return compact(bnn, params, mask, keep, num_draws=num_draws)


def in_units(
    recipe: network.NetworkRecipe, params: dict[str, Any], units: Scaling
) -> tuple[network.NetworkRecipe, dict[str, Any]]:
    """A network with its noise in units of y: the precision that was learned, or the size that Gaussian noise was given."""
    observed, sizes = of_observed(recipe.likelihood), np.asarray(units.scale, np.float64)
    if isinstance(observed, Normal) and observed.heteroscedastic:
        raise ValueError(
            "likelihood='predicted_noise' has an output for the scale of the noise, which is in standardised units: compact "
            "bp.compact(model.bnn_, model.params_, model.mask_), which takes model.inputs_of(X)."
        )
    is_given = isinstance(observed, Normal) and not observed.learns_noise
    if sizes.size > 1 and (is_given or (LOC in params and np.ndim(params[LOC]) == 0)):
        raise ValueError("one noise for several outputs has no one size in their units: fit with a noise for each output.")
    if is_given:
        own = replace(observed, scale=float(observed.scale * sizes.item()))
        likelihood = own if observed is recipe.likelihood else replace(recipe.likelihood, likelihood=own)  # type: ignore[type-var]
        return replace(recipe, likelihood=likelihood), params
    if LOC not in params:
        return recipe, params
    loc = np.asarray(params[LOC])
    return recipe, params | {LOC: (loc - 2.0 * np.log(sizes).reshape(loc.shape)).astype(loc.dtype)}


def whole(recipe: network.NetworkRecipe, columns: Columns | JointColumns, units: Scaling | None) -> BNN:
    """The `BNN` of raw rows, with the parameters of ``recipe``'s; ``units``: of outputs that were standardised, else None."""
    width = recipe.num_outputs
    ends = Ends(columns, Scaling(np.zeros(width), np.ones(width)) if units is None else units)
    return network.bnn_around(BetweenEnds(recipe, ends), recipe, columns.num_columns)


def check_single(columns: Columns | JointColumns, x: Float64[np.ndarray, "rows columns"], names: Sequence[str]) -> None:
    """Refuse a table whose columns single precision cannot tell: `ValueError` names the worst."""
    read = np.asarray(jax.jit(Ends(columns, Scaling(0.0, 1.0)).inputs, compiler_options=quickly())(jnp.asarray(x, jnp.float32)))
    off = columns.of_column(np.abs(read - columns.apply(x)).max(axis=0), np.maximum)
    if not off.max() <= TOLERANCE:  # what is no number neither
        worst = int(np.argmax(off))
        raise ValueError(
            f"column {names[worst]} of X cannot be read in single precision: its numbers, such as {x[0, worst]:.10g}, vary "
            "little beside their rounding, or lie at a threshold. Subtract a constant from it before the fit and from rows to "
            "predict."
        )


def check_single_target(units: Scaling) -> None:
    """Refuse targets that single precision rounds by much of their deviation, or does not hold.

    >>> check_single_target(Scaling(1e9, 1e6))
    >>> check_single_target(Scaling(1e9, 60.0))
    Traceback (most recent call last):
    ...
    ValueError: y lies about 1000000000 and varies by 60, and single precision, in which a compact network computes, cannot...
    """
    loc, scale = np.broadcast_arrays(*(np.asarray(part, np.float64).reshape(-1) for part in units))
    with np.errstate(over="ignore", invalid="ignore"):
        rounded = 0.5 * np.spacing((np.abs(loc) + scale).astype(np.float32)).astype(np.float64)
        unheld = ~(rounded <= TOLERANCE * scale)  # what is beyond float32 has no spacing
    if unheld.any():
        worst = int(np.argmax(unheld))
        raise ValueError(
            f"y lies about {loc[worst]:.10g} and varies by {scale[worst]:.3g}, and single precision, in which a compact "
            "network computes, cannot tell such numbers apart: subtract a constant from y before the fit, or divide it by one, "
            "and undo that in predictions."
        )
