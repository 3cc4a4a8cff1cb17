"""A Bayesian neural network: a module, a prior and a likelihood, as a plain NumPyro model and guide."""

import copy
from collections.abc import Callable, Mapping
from functools import cached_property
from types import MappingProxyType
from typing import Any

import jax
import jax.numpy as jnp
import numpyro
from jax.extend.core import ClosedJaxpr

from bayesprune.core import same
from bayesprune.core.given import GivenInputs, GivenParams, GivenRows
from bayesprune.core.types import Array, Groups, Node, PyTree
from bayesprune.model import select
from bayesprune.model.families import Family, family_of, family_of_params, why_not_cut, writes_itself
from bayesprune.model.groups import groups
from bayesprune.model.inputs import inputs_of
from bayesprune.model.layout import Layout, Predicate, make_layout, prunable_where_bayesian
from bayesprune.model.likelihoods import Likelihood
from bayesprune.model.likelihoods.learned import guide_of
from bayesprune.model.likelihoods.protocol import check_likelihood
from bayesprune.model.net_params import mean_weights, take
from bayesprune.model.network import make_network
from bayesprune.model.prior import Moments, Prior, check_prior, meaning, rows_of
from bayesprune.model.shapes import check_heads, is_shape
from bayesprune.model.summary import Summary, one_line, summarise
from bayesprune.posteriors import params as posterior_params
from bayesprune.posteriors.samples import READER, draws_of
from bayesprune.structure import Graph, Units, units

STATE = "net$state"


class BNN:
    """A network with a prior over its weights and a likelihood over its outputs.

    Args:
        net: a Flax linen, Flax nnx or Equinox module; called on a batch (Equinox: on one row, it is mapped over the batch). Or
            a `bayesprune.model.adapters.Net` of functions.
        prior: what the weights are sampled from: an object of `bayesprune.priors`.
        likelihood: how outputs become targets: an object of `bayesprune.likelihoods`.
        input_shape: shape of one row of x, an array of real numbers.
        example: rows of x, such as ``x[:1]``, in place of ``input_shape``: the network takes what it holds, whole numbers as
            whole numbers. A tree of arrays is one argument of the net, a tuple of them several.
        scaling: for rows of bytes (uint8), which stay bytes in memory and on their way to the device: the network gets
            (x - loc) / scale of a `data.Scaling`, one number each or one for each of x's last axis. None scales nothing.
        apply_kwargs: constants that the net's call is given by name, such as ``{"train": False}``.
        output: of a net that gives several outputs the one that is meant: an index, a name, or a function of them. None: all
            go to the likelihood, if it is one that takes several.
        posterior: ``"mean_field"``; ``"structured"``, where each weight varies with the scale of its unit, of priors that have
            such scales (`priors.Horseshoe`); ``"full"`` and ``"matrix_normal"``, where those of a small array vary together;
            ``"map"``; or a guide family of `bayesprune.model.families`.
        bayesian: predicate on (path, shape): which parameters are given a posterior. The others are optimised as points. Or
            names of parameters, layers or blocks, one or several, such as ``"Dense_2"``.
        frozen: predicate, or names, likewise: which parameters are never trained. They carry no prior, no optimiser sees them,
            and a compact network holds them as constants. Their values are those of an nnx or Equinox module, or of
            ``init_params=bp.from_trained(bnn, trained)``. Statistics of batches move in training as always, if not by
            ``apply_kwargs={"train": False}``.
        prunable: predicate, or names, likewise: which Bayesian parameters may be pruned. None leaves it to the prior, as its
            authors have it: every layer but the last, or all for the spike-and-slab priors; and where no layer before the last
            is Bayesian, all that are.

    ``bnn.model(x, y=None)`` and ``bnn.guide(x, y=None)`` are plain NumPyro callables; ``train=True`` turns on dropout and the
    update of batch statistics (the mutable site ``"net$state"``). Networks of equal parts are equal and share what is compiled:
    modules by their fields and arrays, priors, likelihoods and families as frozen dataclasses; see `core.same.key`.

    Raises:
        TypeError: ``net`` is no known kind of module, has complex parameters, gives several outputs to a likelihood of one, or
            asks for more than it is called with; ``prior``, ``likelihood`` or ``posterior`` is a class or a name in the place
            of an object.
        ValueError: ``posterior`` is an unknown name, a name in ``bayesian`` or ``prunable`` chooses nothing, no parameter is
            Bayesian, or the outputs are not (rows, ..., outputs).

    Example:
        >>> import bayesprune as bp
        >>> bnn = bp.BNN(bp.nets.MLP(hidden=(8,), num_outputs=3), prior=bp.priors.Flat(),
        ...              likelihood=bp.likelihoods.Categorical(), input_shape=(4,))
        >>> [(str(spec.path), spec.shape, spec.prunable) for spec in bnn.layout]  # doctest: +NORMALIZE_WHITESPACE
        [('Dense_0.kernel', (4, 8), True), ('Dense_0.bias', (8,), True),
         ('Dense_1.kernel', (8, 3), False), ('Dense_1.bias', (3,), False)]
    """

    def __init__(
        self,
        net: object,
        *,
        prior: Prior | Any,
        likelihood: Likelihood | Any,
        input_shape: tuple[int, ...] | Any = None,
        example: GivenInputs | None = None,
        scaling: object = None,
        apply_kwargs: Mapping[str, Any] | Any = MappingProxyType({}),
        output: int | str | Callable[[Any], Any] | Any = None,
        posterior: str | Family | Any = "mean_field",
        bayesian: Predicate | Any = select.weights,
        prunable: Predicate | Any = None,
        frozen: Predicate | Any = select.nothing,
    ) -> None:
        check_prior(prior)
        select.check_choices(bayesian, frozen, prunable)
        check_likelihood(likelihood)
        self.prior: Any = prior
        self.likelihood, self.posterior_name = likelihood, posterior if isinstance(posterior, str) else ""
        self.inputs = inputs_of(input_shape, example, scaling)
        self.input_shape = self.inputs.shape
        self._net = make_network(net, self.inputs, apply_kwargs, output)
        self.inputs = self._net.inputs  # which knows the tables that rows are looked up in
        self.graph: Graph = self._net.graph
        self.output_shape = self._net.output_shape
        check_heads(likelihood, self.output_shape)
        paths = list(self.graph.roles)
        still, posterior_of = select.chosen(frozen, "frozen", paths), select.chosen(bayesian, "bayesian", paths)
        default = getattr(prior, "prunable", select.not_last)
        pruned = default if prunable is None else select.chosen(prunable, "prunable", paths)
        layout = make_layout(self.graph, self._net.params, posterior_of, pruned, still)
        select.check_named(layout, bayesian, prunable)
        left_open = prunable is None and pruned is select.not_last
        self.layout: Layout = prunable_where_bayesian(layout) if left_open else layout
        self.family = family_of(posterior, prior, self.layout)
        if not any(spec.bayesian for spec in self.layout):
            raise ValueError(
                "no parameter is Bayesian: let bayesian= return True for some (path, shape) that are not frozen, or train the "
                "net as it is."
            )
        self.family.check(prior, self.layout, self.posterior)
        parts = (net, prior, likelihood, dict(apply_kwargs), output)
        self._rest_of_key = (type(self), *map(same.key, parts), self.inputs, self.layout)
        self._key = (*self._rest_of_key, same.key(self.family))
        self.uncut, self.drops = why_not_cut(self), False

    def __eq__(self, other: object) -> bool:
        return isinstance(other, BNN) and self._key == other._key

    def __hash__(self) -> int:
        return hash(self._key)

    def under(self, family: Family) -> "BNN":
        """The same network, prior and likelihood with another guide family; nothing is traced again."""
        other = copy.copy(self)
        other.posterior_name = self.posterior_name if family is self.family else ""
        other.family, other._key = family, (*self._rest_of_key, same.key(family))
        other.uncut = why_not_cut(other)
        return other

    def of(self, params: Mapping[str, Any]) -> "BNN":
        """The same network under the family that ``params`` are of, which `bayesprune.laplace` may have chosen."""
        family = family_of_params(self.family, params, self.layout)
        return self if family is self.family else self.under(family)

    def model(self, x: GivenInputs, y: Array | Any = None, *, train: bool = False, num_rows: int | Any = None) -> Any:
        """The generative model: weights from the prior, outputs from the network, targets ("obs") from the likelihood.

        ``num_rows``: rows of the whole data set where ``x`` is a minibatch of it; a prior may depend on them.
        """
        return self.likelihood.observe(self.network(x, train, num_rows), y)

    def guide(self, x: GivenInputs | None = None, y: object = None, *, train: bool = False, num_rows: int | Any = None) -> None:
        """The approximate posterior, one site for each latent site of the model."""
        self.prior.guide(self.layout, self.family)
        guide_of(self.likelihood, self.family, self.output_shape)
        known = posterior_params.Known(getattr(self.prior, "prior_scale", None))
        numpyro.param(posterior_params.PRIORS, {str(spec.path): known for spec in self.layout if spec.prunable})

    def network(self, x: GivenInputs, train: bool = False, num_rows: int | Any = None) -> Any:
        """The model up to the network's outputs, (rows, *output_shape): samples the weights, declares other parameters."""
        x = self.inputs.as_rows(x)
        rows = rows_of(self.prior, len(jax.tree.leaves(x)[0]) if num_rows is None else num_rows)
        weights = self.prior.model(self.layout, **rows)
        for spec in self.layout:
            if not spec.bayesian:
                # "frozen" is for whoever trains: such a parameter is none of the optimiser's.
                still = {"frozen": True} if spec.frozen else {}
                value = numpyro.param(str(spec.path), self._initial(str(spec.path)), **still)
                weights[str(spec.path)] = jax.lax.stop_gradient(value) if spec.frozen else value
        state: dict[str, Any] = {}
        if self._net.has_state:
            state = numpyro.primitives.mutable(STATE, self._net.net.init(jax.random.key(0))[1])
        rng_key = numpyro.prng_key() if train else None
        if self.drops:  # in prediction as in training
            train, rng_key = True, numpyro.prng_key() if rng_key is None else rng_key
        outputs, new_state = self._net.apply(weights, state, x, train, rng_key)
        if train and self._net.has_state:
            # In the module's own dtype, whatever that of the rows is.
            kept = jax.tree.map(lambda new, old: jnp.asarray(new, jnp.result_type(old)), new_state, dict(state))
            state.update(jax.lax.stop_gradient(kept))
        return outputs

    @property
    def starts_at_random(self) -> bool:
        """Whether the module holds no parameters of its own, as one of linen, so that each start draws them."""
        return self._net.net.random_start

    @property
    def num_outputs(self) -> int:
        """Outputs of a row, or of each token of it: the last of ``output_shape``, the shape of one row's outputs."""
        return int(self.output_shape[-1])

    @property
    def tokens(self) -> tuple[int, ...]:
        """The axes between a row and its outputs, (tokens,) say; none where the net gives several outputs."""
        return self.output_shape[:-1] if is_shape(self.output_shape) else ()

    @cached_property
    def units(self) -> Units:
        """The network's units: for every entry of every weight array, which unit it helps to make and which one it reads."""
        return units(self.graph)

    def jaxpr(self) -> ClosedJaxpr:
        """The net itself on one row, traced to be read, not run: no prior, noise or mask, its batch statistics zero.

        Inputs: the parameters in the order of ``layout``, then the row's arrays, (1, *input_shape). Output: (1, *output_shape).
        """
        return self._net.jaxpr([str(spec.path) for spec in self.layout], [spec.dtype for spec in self.layout])

    def forward(self, weights: dict[str, Any], state: dict[str, Any], x: GivenInputs) -> Any:
        """The net itself as it predicts: outputs (rows, *output_shape). ``weights``: path -> array of the whole ``layout``;
        ``state``: what else the net carries, such as batch statistics; empty for most."""
        return self._net.forward(weights, state, x)

    def outputs(self, weights: dict[str, Any], state: dict[str, Any], x: GivenInputs) -> Any:
        """What `forward` gives, its convolutions done the quick way, for rows as data have them."""
        return self._net.apply(weights, state, self.inputs.as_rows(x), False, None)[0]

    def posterior(self, params: dict[str, Any]) -> dict[str, Node]:
        """Read the posterior of every Bayesian weight, site -> `Node`, from NumPyro parameters."""
        family = READER if draws_of(params) else self.of(params).family
        nodes = family.posterior(params, self.layout)
        moment = Moments(family, params)
        specs = {str(spec.path): spec for spec in self.layout}
        found = {path: meaning(self.prior, node, specs[path], moment) for path, node in nodes.items()}
        return posterior_params.chosen(params, found)

    def read(self, params: dict[str, Any]) -> dict[str, Node]:
        """The part of `posterior` that may be pruned: what a sparsifier is shown."""
        nodes = self.posterior(params)
        return {str(spec.path): nodes[str(spec.path)] for spec in self.layout if spec.prunable}

    def cut(self, params: dict[str, Any], mask: Mapping[str, Any]) -> dict[str, Any]:
        """The parameters with dead weights at loc = scale = 0, and those that vary with them given that these are zero."""
        if not writes_itself(self.family) or draws_of(params):
            return posterior_params.cut(params, mask)
        specs = [spec for spec in self.layout if str(spec.path) in mask]
        nodes = [self.family.read(params, spec).given_zero(mask[str(spec.path)]) for spec in specs]
        written = [self.family.write(node, spec) for node, spec in zip(nodes, specs, strict=True)]
        return params | {name: value for entries in written for name, value in entries.items()}

    def keywords(self, num_rows: int) -> dict[str, Any]:
        """What model and guide are called with in training, beside the rows of a minibatch; ``num_rows``: of all data."""
        return {"train": True, "num_rows": num_rows}

    def meanings(self, data: GivenRows | None) -> dict[str, Any]:
        """Nothing: what a weight means depends on the parameters, and `describe` says it of them."""
        return {}

    def describe(self, params: dict[str, Any], data: GivenRows | None = None) -> dict[str, Any]:
        """The entries of ``params`` that say what their weights mean: priors and units.

        Of weights that are no Gaussians the prior is left out: by it the evidence of Gaussians would be taken for theirs.
        """
        said = posterior_params.describe(self.posterior(params))
        whole = [str(spec.path) for spec in self.layout if spec.bayesian and not spec.prunable]
        said |= posterior_params.keep_whole(params, whole)
        return {n: v for n, v in said.items() if not (self.uncut and n.endswith(posterior_params.PRIOR_SCALE))}

    def groups(self, name: str) -> Groups:
        """Which prunable weights belong together: by "unit" or "head" of the network, or "per_output" of each array."""
        return groups(self, name)

    def __repr__(self) -> str:
        return one_line(self)

    def summary(self) -> Summary:
        """The table of parameters: path, shape, Bayesian or not, prunable or not, how often a weight is used, counts."""
        return summarise(self)

    def net_params(self, params: GivenParams, mask: dict[str, Any] | Any = None) -> Any:
        """The network's own parameters at their posterior means, dead weights zero, to call the module without this library.

        For Flax linen the variables of ``net.apply(variables, x)``; for Flax nnx the state of ``nnx.update(net, state)``; of
        Equinox the module itself. Batch statistics are in it. Raises `ValueError` for samples, and where means are not known.
        """
        return self._net.net.own(mean_weights(self, params, mask), params.get(STATE, {}))

    def take(self, trained: PyTree) -> tuple[dict[str, Any], dict[str, Any]]:
        """Weights that someone trained, in any form that `net_params` gives, as arrays by path; and entries of other state.

        Raises `ValueError` with the list of what is missing, left over or of another shape.
        """
        params, state = take((self._net.params, self._net.state), trained)
        return params, {STATE: state} if self._net.has_state else {}

    def _initial(self, path: str) -> Callable[[jax.Array], Any]:
        return lambda rng_key: self._net.net.init(rng_key)[0][path]
