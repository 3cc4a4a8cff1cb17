"""Programs, which can be trained: any NumPyro model with its guide, whose sites say of themselves which are weights."""

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
from numpyro.distributions import Distribution, constraints
from numpyro.handlers import seed, substitute, trace
from numpyro.primitives import Messenger

from bayesprune.core import trees
from bayesprune.core.given import GivenRows
from bayesprune.core.tracing import by_one_thread
from bayesprune.core.types import Array, ArrayTree, Groups, Node
from bayesprune.model import select
from bayesprune.model.handlers import drawn
from bayesprune.posteriors.divergence import read_elementwise
from bayesprune.posteriors.params import PRIOR_SCALE, UNIT, read


@runtime_checkable
class Trainable(Protocol):
    """What `fit_svi` and the pruning passes ask of a program; `BNN` and `Program` have it. Equal programs hash equal.

    ``read(params)``: the weights that may be pruned, site -> node. ``meanings(data)``: entries of parameters that say what the
    weights mean, as far as nothing need be fitted for it; ``describe(params, data)``: all of them. ``keywords(num_rows)``: what
    model and guide are called with in training. ``groups(name)``: which weights belong together.
    """

    @property
    def model(self) -> Callable[..., Any]: ...

    @property
    def guide(self) -> Callable[..., Any]: ...

    def __hash__(self) -> int: ...

    def read(self, params: dict[str, Any]) -> dict[str, Node]: ...

    def meanings(self, data: GivenRows | None) -> dict[str, Any]: ...

    def describe(self, params: dict[str, Any], data: GivenRows | None = None) -> dict[str, Any]: ...

    def keywords(self, num_rows: int) -> dict[str, Any]: ...

    def groups(self, name: str) -> Groups: ...


@dataclass(frozen=True)
class Program:
    """Any NumPyro model with its guide: callables of (x, y). Programs of the same callables are equal.

    The model describes the whole data set: `fit_svi` scales the observed sites of a minibatch by n / batch, so the model must
    not scale them itself. Of minibatches, latent sites of single rows are refused, and observed ones that no row is seen by,
    unless a `numpyro.handlers.scale` of the model's own says how they count. ``prunable``: predicate on (site, shape): which
    mean-field sites a sparsifier is shown, of those that are weights: arrays of unbounded support. Evidence needs a Gaussian
    prior about zero, of a scale that no other site sets.
    """

    model: Callable[..., Any]
    guide: Callable[..., Any]
    prunable: Callable[[str, tuple[int, ...]], bool] = select.everything

    def read(self, params: dict[str, Any]) -> dict[str, Node]:
        """The weights that may be pruned, site -> node; what they mean is in the entries that `describe` gives."""
        return {site: node for site, node in read(params).items() if self.prunable(site, jnp.shape(node.loc))}

    def meanings(self, data: GivenRows | None) -> dict[str, Any]:
        """Entries of parameters that say which sites are weights, and their Gaussian priors: by two draws of the model."""
        return meanings(self.model, data)

    def describe(self, params: dict[str, Any], data: GivenRows | None = None) -> dict[str, Any]:
        """`meanings`, those of fitted prior scales too. Raises `ValueError` without ``data`` to run the model on."""
        if data is None:
            raise ValueError("a hand-written program says its priors when it is run: give data=, such as it was fitted to.")
        return meanings(self.model, data, params)

    def take(self, params: dict[str, Any], data: GivenRows) -> dict[str, Any]:
        """Parameters as a file gives them back, in the program's own forms: what NumPyro's `Predictive` takes after `bp.load`.

        A file holds arrays and dicts of them; of any other tree, such as the Equinox module that ``random_eqx_module`` keeps
        as ``"nn$params"``, the arrays by their paths. ``data``: rows on which the program can be run. Raises `ValueError` for
        parameters of another program.
        """
        forms = _params_of(self, data.x, data.y)
        # Of a random Flax module ``"nn$params"`` is a tree of shapes: no array, and so in no file.
        arrayless = {name: form for name, form in forms.items() if not jax.tree.leaves(form)}
        return arrayless | {n: trees.filled(forms[n], value, n) if n in forms else value for n, value in params.items()}

    def keywords(self, num_rows: int) -> dict[str, Any]:
        """Nothing beside the rows of a minibatch."""
        return {}

    def groups(self, name: str) -> Groups:
        """Refused: a hand-written program does not say which weights make up a unit."""
        raise ValueError(f"scope={name!r} needs the network's units, which a hand-written program does not show: use a bp.BNN.")


def meanings(model: Callable[..., Any], data: Any, params: dict[str, Any] | None = None) -> dict[str, Any]:
    """Unit 1 and the prior's standard deviation, for every latent array of unbounded support, in order of use, as entries of
    parameters; see `posteriors.params.describe`.

    Sites of positive or bounded support, and scalars, are no weights and are left out; so is the prior scale of a site that is
    not Gaussian about zero, or whose scale another site sets: that shows itself by changing from draw to draw. So does a scale
    that a parameter sets, where ``params`` do not say its value.
    """
    arrays = {name: leaf for name, leaf in (params or {}).items() if isinstance(leaf, jax.Array | np.ndarray)}
    one, other = (_priors(model)(jax.random.key(n), data.x, data.y, arrays, jnp.float32(n)) for n in range(2))
    fixed = {place[_DIGITS:]: _fixed(one[place], other[place]) for place in sorted(one)}
    return {name + UNIT: jnp.ones(()) for name in fixed} | {n + PRIOR_SCALE: s for n, s in fixed.items() if s is not None}


_DIGITS = 6  # of a site's place in the order of use, which a compiled function's dictionaries forget


@functools.lru_cache(maxsize=32)
def _priors(model: Callable[..., Any]) -> Callable[..., dict[str, Any]]:
    """Place and name -> (loc, scale) of a weight's Gaussian prior at one draw, None where it has none.

    Compiled, because only the priors are wanted: all else that the model computes from the rows is left out.
    """

    def priors(rng_key: jax.Array, x: ArrayTree, y: Array | None, params: dict[str, Any], away: jax.Array) -> dict[str, Any]:
        sites = trace(_Parameters(drawn(model, rng_key), params, away)).get_trace(x, y)
        weights = [name for name, site in sites.items() if _is_weight(site)]
        # A density under a scale of its own, N(0, s²)^c, is not the prior that its distribution says.
        pairs = [None if sites[name]["scale"] is not None else _loc_and_scale(sites[name]["fn"]) for name in weights]
        return {f"{place:0{_DIGITS}}{name}": pair for place, (name, pair) in enumerate(zip(weights, pairs, strict=True))}

    return jax.jit(by_one_thread(priors))


def _loc_and_scale(fn: Distribution) -> tuple[jax.Array, jax.Array] | None:
    """Those of the elementwise Normal below expansions and masks; None if there is none."""
    found = read_elementwise(fn)
    if found is None or type(found.fn) is not dist.Normal:
        return None
    shape = tuple(fn.batch_shape) + tuple(fn.event_shape)
    return jnp.broadcast_to(found.fn.loc, shape), jnp.broadcast_to(found.fn.scale, shape)


class _Parameters(Messenger):
    """Parameters of a model: those known, and the others as they begin, or ``away`` = 1 from there."""

    def __init__(self, fn: Callable[..., Any], known: dict[str, Any], away: jax.Array) -> None:
        self.known, self.away = known, away
        super().__init__(fn)

    def postprocess_message(self, msg: dict[str, Any]) -> None:
        if msg["type"] == "param" and msg["name"] in self.known:
            msg["value"] = self.known[msg["name"]]
        elif msg["type"] == "param":
            msg["value"] = jax.tree.map(self._moved, msg["value"])

    def _moved(self, leaf: object) -> Any:
        """Positive numbers stay so, and zero does not stay."""
        if not isinstance(leaf, float | np.ndarray | jax.Array) or not jnp.issubdtype(jnp.result_type(leaf), jnp.floating):
            return leaf  # whole numbers, and the shapes in place of arrays that a random Flax module has
        return (leaf * (1.0 + 0.1 * self.away) + 0.01 * self.away).astype(jnp.result_type(leaf))


@by_one_thread
def _params_of(program: Program, x: ArrayTree, y: Array | None) -> dict[str, Any]:
    """The trees that the program keeps as one parameter, their arrays abstract."""

    def found() -> dict[str, Any]:
        guide = trace(seed(program.guide, jax.random.key(0))).get_trace(x, y)
        values = {name: site["value"] for name, site in guide.items() if site["type"] in ("param", "sample")}
        model = trace(substitute(seed(program.model, jax.random.key(0)), data=values)).get_trace(x, y)
        sites = {name: site["value"] for name, site in (model | guide).items() if site["type"] == "param"}
        return {name: value for name, value in sites.items() if not jax.tree_util.all_leaves([value])}

    return jax.eval_shape(found)  # type: ignore[no-any-return]


def _is_weight(site: dict[str, Any]) -> bool:
    if site["type"] != "sample" or site["is_observed"] or jnp.ndim(site["value"]) == 0:
        return False
    support = site["fn"].support
    while hasattr(support, "base_constraint"):
        support = support.base_constraint
    return isinstance(support, type(constraints.real))


def _fixed(one: Any, other: Any) -> jax.Array | None:
    """The scale of a Gaussian about zero that two draws agree on."""
    changes = one is None or other is None or bool(jnp.any((one[0] != 0) | (one[1] != other[1])))
    return None if changes else one[1]
