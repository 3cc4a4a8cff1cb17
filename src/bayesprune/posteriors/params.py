"""NumPyro parameters and posterior nodes: read the one out of the other, write it back, cut it, follow its arrays.

Every record of names (`family.ParamNames`) that a file of this folder makes is found; where two of them know a site, the one
with more fields has it.
"""

import functools
from collections.abc import Container, Iterable, Mapping
from dataclasses import dataclass, fields, replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike

from bayesprune.core.folder import files
from bayesprune.core.send import send, send_all
from bayesprune.core.types import Node
from bayesprune.posteriors.family import ParamNames
from bayesprune.posteriors.samples import DRAWS

# Entries by which parameters say what a site's node means, beside its arrays: "<site>$unit", and "<site>$prior_scale" where
# the prior is Gaussian.
UNIT, PRIOR_SCALE = "$unit", "$prior_scale"
# The same, of a prior that the data chose after training: it takes the place of the prior that the network was built with.
CHOSEN = "$chosen_prior_scale"
# Of stored draws, whose arrays have one kind of name: an entry of each site that is never pruned.
KEPT = "$kept"
MEANINGS = (UNIT, PRIOR_SCALE, CHOSEN, KEPT)
# A guide of ours declares it as a parameter without leaves, for who trains it by NumPyro's own SVI: site -> `Known`.
PRIORS = "posterior$priors"


@jax.tree_util.register_static
@dataclass(frozen=True)
class Known:
    """A prior's standard deviation, None where it is no Gaussian, as a pytree without leaves: nothing can move it."""

    prior_scale: float | None


@functools.cache
def families() -> tuple[Any, ...]:
    """The families there are, those with the most fields first."""
    found = [value for file in files("bayesprune.posteriors") for value in vars(file).values() if isinstance(value, ParamNames)]
    return tuple(sorted(dict.fromkeys(found), key=lambda family: -len(family.fields)))


@functools.cache
def kinds() -> dict[Any, tuple[str, ...]]:
    """The kinds of nodes that files hold, and the arrays of each besides what they mean, those with the most first.

    >>> [kind.__name__ for kind in kinds()]
    ['Correlated', 'SpikeSlab', 'MeanField']
    """
    meaning = ("unit", "prior_scale", "at_zero")
    found = {
        kind: tuple(field.name for field in fields(kind) if field.name not in meaning) for kind in {f.node for f in families()}
    }
    return dict(sorted(found.items(), key=lambda item: -len(item[1])))


def read(params: Mapping[str, Any]) -> dict[str, Node]:
    """The posterior of the weights that parameters hold: site -> node.

    Parameters of a fit say by entries ``"<site>$unit"`` which sites are weights, and what unit and prior they have. Without any
    such entry every array under a family's names is taken for weights, and nothing is known of its prior and unit but what the
    entry `PRIORS` says, which our guides leave with NumPyro's own SVI.

    >>> nodes = read({"w_auto_loc": jnp.zeros(3), "w_auto_scale": jnp.ones(3), "nn$params": {}})
    >>> list(nodes), nodes["w"].prior_scale
    (['w'], None)
    """
    # The families with most fields last: they have the say, and sites keep the order of the parameters.
    owners = {site: family for family in reversed(families()) for site in family.sites(params)}
    nodes = {site: family.make(family.values(params, site)) for site, family in owners.items()}
    known = [name.removesuffix(UNIT) for name in params if name.endswith(UNIT)]
    if known:
        return {site: _mean(nodes[site], site, params) for site in known if site in nodes and site + KEPT not in params}
    priors = params.get(PRIORS, {})
    return {s: replace(n, prior_scale=priors[s].prior_scale) if s in priors else n for s, n in nodes.items()}


def knows_its_prior(params: object) -> bool:
    """Whether parameters are those of a fit that says its weights' priors.

    >>> knows_its_prior({"w_auto_loc": 0.0, "w$prior_scale": 1.0}), knows_its_prior({"w_auto_loc": 0.0})
    (True, False)
    """
    return isinstance(params, Mapping) and any(str(name).endswith(PRIOR_SCALE) for name in params)


def _mean(node: Node, site: str, params: Mapping[str, Any]) -> Node:
    """The node with the unit and the prior that the entries of its site say."""
    prior = {"prior_scale": params[site + PRIOR_SCALE]} if site + PRIOR_SCALE in params else {}
    for said in (params[site + UNIT], *prior.values()):
        check_one_fit(said, node.loc)
    return replace(node, unit=params[site + UNIT], **prior)  # type: ignore[type-var]


def check_one_fit(said: ArrayLike, loc: ArrayLike) -> None:
    """Refuse parameters of several fits side by side: a unit, or a prior's scale, is one number or has the axes of its array.

    >>> check_one_fit(jnp.ones(4), jnp.ones((4, 3, 2)))
    Traceback (most recent call last):
    ...
    ValueError: params are of 4 fits side by side, as of bp.fit_replicates, and would be cut and read as one: give those of...
    """
    if 0 < jnp.ndim(said) < jnp.ndim(loc):
        raise ValueError(
            f"params are of {jnp.shape(said)[0]} fits side by side, as of bp.fit_replicates, and would be cut and read as one: "
            "give those of one, jax.tree.map(lambda leaf: leaf[r], fits.params); bp.predict_replicates predicts by all."
        )


def check_units(nodes: Mapping[str, Node], params: Mapping[str, Any]) -> None:
    """Refuse parameters that say other units than a network's ``nodes`` have: they were fitted under another prior.

    ``nodes``: of sites whose unit no parameter moves.

    >>> from bayesprune.posteriors.mean_field import MeanField
    >>> check_units({"w": MeanField(jnp.ones(2), jnp.ones(2), unit=0.2)}, {"w$unit": jnp.array(0.8)})
    Traceback (most recent call last):
    ...
    ValueError: params have the weights of 'w' in units of 0.8, and this network in units of 0.2: they are of another prior...
    """
    for site, node in nodes.items():
        said = params.get(f"{site}{UNIT}")
        if said is None or any(isinstance(one, jax.core.Tracer) for one in (said, node.unit)):
            continue
        with jax.transfer_guard("allow"):  # a few numbers
            theirs, ours = np.asarray(said), np.asarray(node.unit)
        if not np.allclose(theirs, ours, rtol=1e-4):
            raise ValueError(
                f"params have the weights of {site!r} in units of {np.mean(theirs):.4g}, and this network in units of "
                f"{np.mean(ours):.4g}: they are of another prior, and the same numbers would be another network. Give "
                "the BNN of that fit, or carry its weights over by bp.from_trained(bnn, fit.net_params(the_other_bnn))."
            )


def moments(params: Mapping[str, Any]) -> dict[str, tuple[np.ndarray, np.ndarray, np.ndarray | None]]:
    """Of every weight whose meaning parameters say: mean and standard deviation in the network's units, and those of its prior.

    Site -> (mean, standard deviation, that of the Gaussian prior about zero; None where it has none), in float64.

    >>> found = moments({"w_auto_loc": jnp.ones(2), "w_auto_scale": jnp.ones(2), "w$unit": 2.0, "w$prior_scale": 3.0})
    >>> [array.tolist() for array in found["w"]]
    [[2.0, 2.0], [2.0, 2.0], 6.0]
    """
    found = {}
    for site in (name.removesuffix(UNIT) for name in params if name.endswith(UNIT)):
        family, hidden = named(params, site)
        node = _mean(family.make(family.values(params, site, hidden)), site, params)
        mean, variance = (np.asarray(part, np.float64) for part in node.moments())
        prior = getattr(node, "prior_scale", None)
        first = None if prior is None else np.asarray(np.asarray(prior, np.float64) * np.asarray(node.unit, np.float64))
        found[site] = (mean, np.sqrt(variance), first)
    return found


def points_of(params: Mapping[str, Any]) -> list[str]:
    """The arrays that are no part of a posterior: parameters that are trained as points, or frozen.

    >>> points_of({"w_auto_loc": jnp.zeros(3), "w_auto_scale": jnp.ones(3), "bias": jnp.zeros(3)})
    ['bias']
    """
    ends = tuple(family.name("", field, hidden) for family in families() for field in family.fields for hidden in (False, True))
    return [name for name, value in params.items() if not name.endswith(ends) and jnp.ndim(value) and not is_meaning(name)]


def named(params: Mapping[str, Any], site: str) -> tuple[Any, bool]:
    """The family whose names a site's parameters have, and whether they are those of weights that may not be pruned."""
    for family in families():
        for hidden in (False, True):
            if all(family.name(site, field, hidden) in params for field in family.fields):
                return family, hidden
    raise ValueError(f"params say what {site!r} means, and have no values of it: give those of a whole fit.")


def kept_whole(params: Mapping[str, Any]) -> list[str]:
    """The sites whose weights are never pruned: their parameters have names that `read` does not find, or an entry `KEPT`.

    >>> kept_whole({"w_dense_loc": 0.0, "w_dense_scale": 1.0, "v_auto_loc": 0.0})
    ['w']
    """
    ends = {family.name("", family.fields[0], hidden=True) for family in families()} | {KEPT}
    ends -= {family.name("", family.fields[0]) for family in families()}
    return list(dict.fromkeys(name.removesuffix(end) for name in params for end in ends if name.endswith(end)))


def describe(nodes: Mapping[str, Node]) -> dict[str, Any]:
    """The entries by which parameters say what their nodes mean; a prior that is no Gaussian has no scale.

    >>> from bayesprune.posteriors.mean_field import MeanField
    >>> list(describe({"w": MeanField(jnp.zeros(3), jnp.ones(3), prior_scale=None)}))
    ['w$unit']
    """
    units = {site + UNIT: send(node.unit, jnp.result_type(float)) for site, node in nodes.items()}
    priors = {site + PRIOR_SCALE: getattr(node, "prior_scale", None) for site, node in nodes.items()}
    return units | {name: send(scale, jnp.result_type(float)) for name, scale in priors.items() if scale is not None}


def keep_whole(params: Mapping[str, Any], sites: Iterable[str]) -> dict[str, Any]:
    """The entries by which stored draws say that sites are never pruned; the names of a density say so themselves.

    >>> list(keep_whole({"w$draws": 0.0, "v$draws": 0.0}, ["w"])), keep_whole({"w_dense_loc": 0.0}, ["w"])
    (['w$kept'], {})
    """
    return {site + KEPT: send(1.0, jnp.result_type(float)) for site in sites if site + DRAWS in params}


def is_meaning(name: str) -> bool:
    """Whether a parameter's name is that of an entry of `describe`.

    >>> is_meaning("w$unit"), is_meaning("w_auto_loc")
    (True, False)
    """
    return name.endswith(MEANINGS)


def chosen(params: Mapping[str, Any], nodes: Mapping[str, Node]) -> dict[str, Node]:
    """The nodes under the priors that the data chose, where they did."""
    return {s: n.under(params[s + CHOSEN]) if s + CHOSEN in params else n for s, n in nodes.items()}


def write(params: Mapping[str, Any], nodes: Mapping[str, Node]) -> dict[str, Any]:
    """The parameters with those of each site as ``nodes`` has them; the inverse of `read`.

    What a node does not hold, a correlation say, stays as it is.
    """
    owners = {name: site for name, site in stems(params, nodes).items() if hasattr(nodes[site], _field(name))}
    written = dict(params) | {name: getattr(nodes[site], _field(name)) for name, site in owners.items()}
    for site, family in _joint(params, nodes).items():
        written |= {family.name(site, field): value for field, value in family.values_of(nodes[site]).items()}
    return written


def cut(params: Mapping[str, Any], mask: Mapping[str, Any]) -> dict[str, Any]:
    """The parameters with every dead weight at its reduced posterior, loc = scale = 0; everything else untouched.

    Log-odds of inclusion stay: 0 would mean even odds. Weights that vary with the dead move: their posterior is that given
    that those are zero.
    """
    joint = _joint(params, mask)
    stem = {name: site for name, site in stems(params, mask).items() if site not in joint}
    owners = {name: site for name, site in stem.items() if _field(name) != "logit"}
    values, alive = {name: params[name] for name in owners}, {name: mask[site] for name, site in owners.items()}
    zeroed = _zeroed(send_all(values), send_all(alive))
    nodes = {site: family.make(family.values(params, site)).given_zero(mask[site]) for site, family in joint.items()}
    return write(dict(params) | zeroed, nodes) if nodes else dict(params) | zeroed


def _joint(params: Mapping[str, Any], sites: Iterable[str]) -> dict[str, Any]:
    """Site -> family, for those of ``sites`` whose weights have parameters together, be it one number."""
    joint = [family for family in families() if family.joint]
    return {s: family for family in joint for s in sites if all(family.name(s, field) in params for field in family.fields)}


# In one program: each shape would be compiled for by itself.
@jax.jit
def _zeroed(params: dict[str, Any], mask: dict[str, Any]) -> dict[str, Any]:
    return {name: jnp.where(mask[name], value, jnp.zeros_like(value)) for name, value in params.items()}


def _field(name: str) -> str:
    """The field of a node that a parameter holds."""
    return name.rpartition("_")[2]


def stems(params: Iterable[str], sites: Container[str]) -> dict[str, str]:
    """Parameter -> site, for those that describe the weights of one of ``sites``, each by an array of the site's shape.

    >>> stems({"w_auto_loc": 0.0, "w_auto_scale": 1.0, "w$state": {}, "v_auto_loc": 0.0}, {"w"})
    {'w_auto_loc': 'w', 'w_auto_scale': 'w'}
    """
    suffixes = {family.name("", field) for family in families() for field in family.fields if field not in family.joint}
    pairs = ((name, name.removesuffix(end)) for name in params for end in suffixes if name.endswith(end))
    return {name: site for name, site in pairs if site in sites}


def locs(params: Mapping[str, Any], sites: Container[str]) -> dict[str, str]:
    """Site -> the parameter that holds its locs, for those of ``sites`` that have one.

    >>> locs({"w_auto_loc": 0.0, "w_auto_scale": 1.0}, {"w"})
    {'w': 'w_auto_loc'}
    """
    return {site: name for name, site in stems(params, sites).items() if _field(name) == "loc"}


def kind_of(name: str) -> str:
    """What a parameter is to an optimizer: "loc" of a weight with a posterior, "spread" of anything, or "plain", the rest.

    >>> [kind_of(name) for name in ("w_auto_loc", "w_dense_map_loc", "w_auto_scale", "tau_log_loc", "bias")]
    ['loc', 'loc', 'spread', 'spread', 'plain']
    """
    if name.endswith(tuple(family.name("", "loc", hidden) for family in families() for hidden in (False, True))):
        return "loc"
    return "spread" if name.endswith(("_scale", "_log_loc", "_logit")) else "plain"
