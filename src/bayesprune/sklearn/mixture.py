"""Several fitted networks as one posterior: so many networks drawn of each, laid into one network that reads all they read."""

import functools
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Bool, Float64, Int64

from bayesprune.core.compiling import quickly
from bayesprune.core.send import send, send_all
from bayesprune.core.tracing import by_one_thread
from bayesprune.infer.predict import draw, draw_sites
from bayesprune.model.bnn import BNN
from bayesprune.model.prior import rows_of
from bayesprune.model.samples import sites_of, stored_samples
from bayesprune.nets.wide_mlp import LINEAR
from bayesprune.priors import Gaussian
from bayesprune.sklearn import network
from bayesprune.sklearn.columns import Columns, JointColumns, joined_columns
from bayesprune.sklearn.cutting import InputColumns

READING = ("Dense_0.kernel", f"{LINEAR}.kernel")  # weights of inputs
Values = dict[str, np.ndarray]


class Member(NamedTuple):
    """A fitted and cut network: its inputs, its architecture, its parameters, and its importances of the table's columns."""

    columns: Columns
    network: network.NetworkRecipe
    params: dict[str, Any]
    mask: Values
    inputs: InputColumns
    density: float


@dataclass(frozen=True, eq=False)
class Mixture:
    """The law p(y | x) = sum_m share_m p_m(y | x) of several members, or the one of a single member.

    ``network`` reads ``columns``, and each member fits into it: members have the same hidden layers, or none.
    """

    members: tuple[Member, ...]
    shares: tuple[float, ...]

    @functools.cached_property
    def columns(self) -> Columns | JointColumns:
        """What the network reads of a table."""
        if len(self.members) == 1:
            return self.members[0].columns
        return joined_columns([member.columns for member in self.members], [_alive(member) for member in self.members])

    @property
    def network(self) -> network.NetworkRecipe:
        """A member's, or one that each of them fits into."""
        networks = [member.network for member in self.members]
        if len(networks) == 1:
            return networks[0]
        largest = max(networks, key=lambda one: len(one.hidden))
        beside = bool(largest.hidden) and any(one.wide or not one.hidden for one in networks)
        # Of networks that were drawn none is under a prior any more.
        return replace(largest, prior=Gaussian(), num_inputs=self.columns.num_inputs, wide=beside)

    @property
    def inputs(self) -> InputColumns:
        """Of a network drawn at random; ``used``: by any of them."""
        parts = [member.inputs for member in self.members]
        if len(parts) == 1:
            return parts[0]
        inclusion, importance = (self._mean([getattr(part, name) for part in parts]) for name in ("inclusion", "importance"))
        with np.errstate(divide="ignore"):
            logs = np.log(importance)
        used = np.any([part.used for part in parts], axis=0)
        return InputColumns(all(part.gated for part in parts), inclusion, importance, logs, used)

    @property
    def density(self) -> float:
        """Of a network drawn at random, the mean."""
        return float(self._mean([member.density for member in self.members]))

    def _mean(self, of_members: list[Any]) -> Any:
        return np.average(np.asarray(of_members), axis=0, weights=self.shares).astype(np.asarray(of_members[0]).dtype)

    def held(self, rng_key: jax.Array, number: int) -> tuple[dict[str, Any], Values]:
        """Parameters of ``network`` and a mask: a single member's own, or ``number`` networks drawn, as stored samples.

        Of each member its share, rounded so that the sum is kept, in such an order that evenly spaced ones are nearly shared
        out alike. The mask says which weights any of them has.
        """
        return self._stored(rng_key, _shared_out(np.asarray(self.shares), number))

    def drawn(self, rng_key: jax.Array, number: int) -> tuple[dict[str, Any], Values]:
        """As `held`, for draws that are to be the law's over many keys: what is rounded goes up or down by chance.

        Rounded always alike, a single network would be of the member with the largest share, whatever the key.
        """
        key = jax.random.fold_in(rng_key, len(self.members) + 1)  # apart from the members' keys, and the order's
        return self._stored(rng_key, _by_chance(key, np.asarray(self.shares), number))

    def _stored(self, rng_key: jax.Array, counts: Int64[np.ndarray, " members"]) -> tuple[dict[str, Any], Values]:
        """So many networks of each member; of a single one what it has learned."""
        if len(self.members) == 1:
            return self.members[0].params, self.members[0].mask
        recipe, columns = self.network, self.columns
        assert isinstance(columns, JointColumns)
        bnn, number = network.build(recipe), int(counts.sum())
        keys = jax.random.split(rng_key, len(counts))
        parts = [
            _laid_in(_networks(key, member, number, int(count), bnn), member, bnn, recipe.hidden, places)
            for key, member, count, places in zip(keys, self.members, counts, columns.places, strict=True)
            if count
        ]
        order = _mixed(jax.random.fold_in(rng_key, len(counts)), counts)
        values = {name: np.concatenate([part[name] for part in parts])[order] for name in parts[0]}
        mask = {str(spec.path): (values[str(spec.path)] != 0).any(axis=0) for spec in bnn.layout if spec.prunable}
        return jax.tree.map(np.asarray, stored_samples(bnn, values)), mask


def of_fits(weights: dict[str, float], fits: dict[str, Member], by_folds: dict[str, list[Member]]) -> Mixture:
    """The law of some forms, by their fits to all rows and those to the rows of each fold, by which the forms were judged.

    Half of a form's weight is that of its fit to all rows, which has learned of more; half is shared out among the
    folds', which have learned of others. A form without the one has all in the other.
    """
    members: list[Member] = []
    shares: list[float] = []
    for form, weight in weights.items():
        groups = [group for group in ([fits[form]] if form in fits else [], by_folds[form]) if group]
        for group in groups:
            members += group
            shares += [weight / len(groups) / len(group)] * len(group)
    return Mixture(tuple(members), tuple(shares))


def of_each_fold(weights: dict[str, float], by_folds: dict[str, list[Member]]) -> tuple[Mixture, ...]:
    """The laws of some forms by their fits to the rows of each fold alone."""
    shares = tuple(weights.values())
    return tuple(Mixture(members, shares) for members in zip(*(by_folds[form] for form in weights), strict=True))


def _alive(member: Member) -> Bool[np.ndarray, " inputs"]:
    """Inputs that an edge leaves."""
    return np.any([np.asarray(member.mask[site]).any(axis=1) for site in READING if site in member.mask], axis=0)


def _shared_out(shares: Float64[np.ndarray, " members"], number: int) -> Int64[np.ndarray, " members"]:
    """Whole numbers in proportion to the shares that add up to ``number``, by the largest remainders.

    >>> _shared_out(np.array([0.5, 0.3, 0.2]), 4).tolist()
    [2, 1, 1]
    """
    exact = shares * number
    counts = np.floor(exact).astype(np.int64)
    counts[np.argsort(counts - exact, kind="stable")[: number - counts.sum()]] += 1
    return counts


def _by_chance(rng_key: jax.Array, shares: Float64[np.ndarray, " members"], number: int) -> Int64[np.ndarray, " members"]:
    """Whole numbers that add up to ``number``, in the mean over keys in proportion to the shares: systematic resampling.

    Of members that follow each other on a line, each as long as its share, those on which n points of equal distance fall,
    the first of them anywhere. Each count is within one of its share of ``number``.

    >>> sorted({tuple(_by_chance(jax.random.key(k), np.array([0.5, 0.25, 0.25]), 2).tolist()) for k in range(20)})
    [(1, 0, 1), (1, 1, 0)]
    """
    first = float(jax.random.uniform(rng_key))
    ends = np.cumsum(shares)
    # Divided by the last, which then is 1 to the bit: else rounding could lose a network.
    places = np.floor(ends / ends[-1] * number + first).astype(np.int64)
    return np.diff(places, prepend=0)


def _mixed(rng_key: jax.Array, counts: Int64[np.ndarray, " members"]) -> Int64[np.ndarray, " networks"]:
    """An order of the members' networks, theirs one after the other before: each of n lies somewhere in its own n-th part.

    In the middle of it, two members would come by turns, and every fourth network would be of the same one.
    """
    place = np.concatenate([np.arange(count) for count in counts])
    somewhere = np.asarray(jax.random.uniform(rng_key, place.shape))
    return np.argsort((place + somewhere) / np.repeat(counts, counts), kind="stable")


def _networks(rng_key: jax.Array, member: Member, number: int, count: int, union: BNN) -> Values:
    """The first ``count`` of ``number`` networks of a member: site -> (count, ...), the noise's own numbers among them.

    ``number``, that of all members together, decides what is compiled: the members of a form share it, each with its count.
    """
    own = network.build(member.network)
    beside = tuple(name for name in sites_of(union) if not name.startswith((LINEAR, "Dense_")))
    found = _drawing(own, beside, number)(rng_key, send_all(member.params), send_all(member.mask), send(count, np.int32))
    return {site: np.asarray(value)[:count] for site, value in found.items()}


@functools.lru_cache(maxsize=32)
def _drawing(bnn: BNN, beside: tuple[str, ...], number: int) -> Callable[..., dict[str, jax.Array]]:
    """Networks of a posterior, the first ``count`` of ``number``: weights as they are cut, and the sites ``beside`` them."""

    def one(rng_key: jax.Array, params: dict[str, Any], mask: dict[str, Any], index: jax.Array) -> dict[str, Any]:
        weights = lambda: bnn.prior.model(bnn.layout, **rows_of(bnn.prior, 1))  # noqa: E731
        (model,) = draw(bnn, rng_key, index, params, mask, weights)
        sites = draw_sites(bnn, rng_key, index, params, mask)
        return model() | {name: sites[name] for name in beside}

    def networks(rng_key: jax.Array, params: dict[str, Any], mask: dict[str, Any], count: jax.Array) -> dict[str, jax.Array]:
        drawn = functools.partial(one, rng_key, params, mask)
        room = jax.tree.map(lambda site: jnp.zeros((number, *site.shape), site.dtype), jax.eval_shape(drawn, 0))
        put = lambda index, found: jax.tree.map(lambda into, value: into.at[index].set(value), found, drawn(index))  # noqa: E731
        return jax.lax.fori_loop(0, count, put, room)  # type: ignore[no-any-return]

    return jax.jit(by_one_thread(networks), compiler_options=quickly())


def _laid_in(
    values: Values, member: Member, union: BNN, hidden: tuple[int, ...], places: Int64[np.ndarray, " inputs"]
) -> Values:
    """A member's networks as those of the mixture's network: what it does not have is zero.

    ``places``: where each of its inputs is among the mixture's, -1 for one that it does not read. A member without hidden
    layers is the linear path.
    """
    number = len(next(iter(values.values())))
    if hidden and not member.network.hidden:
        names = {"Dense_0.kernel": f"{LINEAR}.kernel", "Dense_0.bias": f"Dense_{len(hidden)}.bias"}
        values = {names.get(site, site): value for site, value in values.items()}
    found = {str(spec.path): np.zeros((number, *spec.shape), np.float32) for spec in union.layout}
    for site, value in values.items():
        if site in READING:
            found[site][:, places[places >= 0]] = value[:, places >= 0]
        else:
            found[site] = value
    return found
