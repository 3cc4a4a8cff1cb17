"""What a fit minimises: estimators of the ELBO by name, and the loss of a minibatch as steps and acts see it."""

import dataclasses
import functools
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from importlib.util import find_spec
from typing import Any, TypeVar, cast

import jax
import jax.numpy as jnp
from numpyro.infer import ELBO, TraceEnum_ELBO

from bayesprune.core import same
from bayesprune.core.checks import check_integer, check_name, got
from bayesprune.core.streams import OfAStep, stream
from bayesprune.core.types import Dataset, Mask, Params, PyTree
from bayesprune.model.elbo import MeanFieldELBO
from bayesprune.model.handlers import masked, probed, scaled
from bayesprune.model.inputs import rows_taken
from bayesprune.model.local import LocalELBO
from bayesprune.model.transforms import noise
from bayesprune.posteriors.params import locs
from bayesprune.prune.needs import needs_of
from bayesprune.train import batches as batching
from bayesprune.train.batches import Batches, Block, Count, Padded, Reading, Streamed
from bayesprune.train.share import by_rows
from bayesprune.train.sites import Sites
from bayesprune.train.state import Carry, Data, Recipe, as_it_is
from bayesprune.train.storage import products_only

BY_NAME: dict[str, Callable[..., ELBO]] = {
    "weight": MeanFieldELBO,
    "local": LocalELBO,
    "local_where_exact": functools.partial(LocalELBO, shared="draw"),
}


def make_elbo(estimator: str | ELBO | Any, num_particles: int) -> ELBO:
    """``"weight"`` samples the weights, ``"local"`` each layer's outputs, ``"local_where_exact"`` those of layers in which that
    is the same law, drawing the other weights once; a NumPyro ELBO object is taken as it is.

    Objects of one class whose attributes are equal are one: the first of them is given back, and a second fit finds the
    compiled loop of the first.
    """
    if isinstance(estimator, TraceEnum_ELBO) and find_spec("funsor") is None:
        raise ImportError("estimator=TraceEnum_ELBO() sums over discrete sites by the package funsor: pip install funsor.")
    check_integer(num_particles, "num_particles")
    if isinstance(estimator, ELBO):
        own = getattr(estimator, "num_particles", 1)
        if num_particles not in (1, own):
            raise ValueError(
                f"num_particles={num_particles} is of estimators by name, and {type(estimator).__name__} has its own, {own}: "
                f"write {type(estimator).__name__}(num_particles={num_particles}), and leave num_particles= out."
            )
    elif isinstance(estimator, str):
        check_name("estimator", estimator, BY_NAME)
        estimator = BY_NAME[estimator](num_particles=num_particles)
    else:
        raise TypeError(
            f"estimator must be 'weight', 'local', 'local_where_exact', or a NumPyro ELBO object, got {got(estimator)}."
        )
    return same.first(estimator, (type(estimator), same.key(vars(estimator))))


def keeps_state(elbo: ELBO) -> bool:
    """Whether it can carry state, such as batch statistics, from step to step; of NumPyro's, some cannot.

    >>> from numpyro.infer import RenyiELBO, Trace_ELBO
    >>> keeps_state(Trace_ELBO()), keeps_state(RenyiELBO())
    (True, False)
    """
    return type(elbo).loss_with_mutable_state is not ELBO.loss_with_mutable_state


def check_state(elbo: ELBO, mutable: Mapping[str, Any]) -> None:
    """Refuse an ELBO that cannot carry the program's state."""
    if mutable and not keeps_state(elbo):
        raise ValueError(
            f"estimator={type(elbo).__name__}() carries no state, and the program has {', '.join(map(repr, mutable))}, such as "
            "statistics of batches: take 'weight', 'local', numpyro.infer.Trace_ELBO() or TraceMeanField_ELBO(), or a net "
            "without, as norm='group' makes it."
        )


def loss_of(elbo: ELBO, rng_key: jax.Array, *args: PyTree, **kwargs: PyTree) -> tuple[jax.Array, dict[str, Any]]:
    """The loss of any ELBO, and what it has of state; arguments as of `numpyro.infer.ELBO.loss`."""
    if not keeps_state(elbo):
        return elbo.loss(rng_key, *args, **kwargs), {}
    result = elbo.loss_with_mutable_state(rng_key, *args, **kwargs)
    return result["loss"], result["mutable_state"] or {}


Me = TypeVar("Me", bound="Objective")


@dataclass(frozen=True)
class Objective:
    """The loss of one fit as pure functions; ``num_rows``: of the whole data set."""

    recipe: Recipe
    sites: Sites
    num_rows: Count

    def of(self: Me, data: Data) -> tuple[Me, Dataset | Block]:
        """The objective of as many rows as the data say, and the data without that."""
        if not isinstance(data, Padded):
            return self, data
        return replace(self, num_rows=data.num_rows), Dataset(data.x, data.y)

    def weight(self, carry: Carry) -> jax.Array:
        """The divergence's weight in the next step."""
        return jnp.asarray(self.recipe.kl_weight(carry.step), float)

    def values(self, params: Params, carry: Carry) -> Params:
        """What the program reads: parameters under their constraints, and the mutable values."""
        return self.sites.constrain(params) | jax.lax.stop_gradient(carry.mutable)

    def loss(
        self,
        values: Params,
        carry: Carry,
        rng_key: jax.Array,
        batch: Dataset,
        mask: Mask,
        probe: dict[str, jax.Array],
        weight: jax.Array | None = None,
    ) -> tuple[jax.Array, Params]:
        """Negative ELBO per row of the data set, and the program's mutable values; ``probe`` is added to the weights.

        ``values``: of `values`. ``weight``: of the divergence; None: that of the next step.
        """
        weight = self.weight(carry) if weight is None else weight
        model = scaled(
            masked(probed(self.recipe.program.model, probe), mask), observed=self.num_rows / batch.y.shape[0], latent=weight
        )
        guide = scaled(masked(self.recipe.program.guide, mask), observed=weight, latent=weight)
        keywords = dict(self.recipe.keywords)
        if "num_rows" in keywords and not isinstance(self.num_rows, int):
            keywords["num_rows"] = self.num_rows
        loss, mutable_state = loss_of(self.recipe.elbo, rng_key, values, model, guide, batch.x, batch.y, **keywords)
        return loss / self.num_rows, mutable_state

    def draw(self, carry: Carry, data: Dataset | Block) -> tuple[Reading, Dataset]:
        """The next minibatch, its rows spread over the devices of the mesh if there is one."""
        reading, size = carry.batches, self.recipe.batch_size
        if isinstance(data, Block):
            reading, batch = batching.take_from_block(cast(Streamed, reading), data, size, self.num_rows)
        elif size < len(data.y):
            reading, rows = batching.take(cast(Batches, reading), size, self.num_rows)
            batch = jax.tree.map(lambda leaf: leaf[rows], data)
        else:
            batch = data
        if self.recipe.augment is not as_it_is:
            key = stream(carry.step_key, OfAStep.AUGMENTING)
            # A batch's own key: a sparsifier may look at several of one step.
            x = rows_taken(self.recipe.program, batch.x)  # as the network sees them, not the bytes that they are kept as
            batch = batch._replace(x=self.recipe.augment(jax.random.fold_in(key, carry.batches.offset), x))
        return reading, by_rows(batch, self.recipe.mesh)


Grads = dict[str, jax.Array]


def look(
    loop: Objective, carry: Carry, params: Params, mask: Mask, probe: Grads, data: Dataset | Block, rng_key: jax.Array
) -> Grads:
    """The gradient that the sparsifier of ``loop`` needs, site -> array; see `core.types.Gradient` for its kinds.

    ``params``, unconstrained, and ``mask`` are whole arrays, whatever the storage of ``carry``; ``probe``: zeros for
    each weight.
    """
    wanted = needs_of(loop.recipe.sparsifier).gradient
    if wanted.at_mean:
        loop = dataclasses.replace(loop, recipe=dataclasses.replace(loop.recipe, elbo=MeanFieldELBO(noise=noise.none)))

    def one(reading: Reading, key: jax.Array) -> tuple[Reading, Grads]:
        """At one draw, of one minibatch; and where the reading of the data then is."""
        reading, batch = loop.draw(carry._replace(batches=reading), data)
        loss = lambda q, p: loop.loss(loop.values(q, carry), carry, key, batch, mask, p)[0]  # noqa: E731
        loss = products_only(loss) if loop.recipe.remat else loss
        if not wanted.divergence:
            return reading, jax.grad(loss, 1)(params, probe)
        whole, found = jax.grad(loss, (0, 1))(params, probe)
        of_site = locs(params, probe)
        return reading, {site: jnp.where(mask[site], whole[of_site[site]], found[site]) for site in probe}

    if wanted.num_draws == 1:
        return one(carry.batches, rng_key)[1]

    def add(state: tuple[Reading, Grads], number: jax.Array) -> tuple[tuple[Reading, Grads], None]:
        reading, total = state
        reading, found = one(reading, jax.random.fold_in(rng_key, number))
        return (reading, jax.tree.map(lambda t, g: t + jnp.abs(g) / wanted.num_draws, total, found)), None

    (_, mean), _ = jax.lax.scan(add, (carry.batches, probe), jnp.arange(wanted.num_draws))
    return mean


def mask_loss(
    loop: Objective, carry: Carry, params: Params, data: Dataset | Block, rng_key: jax.Array
) -> Callable[..., jax.Array]:
    """`core.types.Evidence.loss` of the next minibatch, with what the training loop's own loss has but the divergence.

    ``params``, unconstrained, are whole arrays, whatever the storage of ``carry``. One key serves all masks: what is drawn,
    weights of a posterior with spread or a network's dropout, is the same under each.
    """
    _, batch = loop.draw(carry, data)

    def loss(mask: Mask, shift: dict[str, jax.Array]) -> jax.Array:
        values = loop.values(params, carry)
        per_row, _ = loop.loss(values, carry, rng_key, batch, mask, shift, weight=jnp.zeros(()))
        return per_row * loop.num_rows

    thrifty = products_only(loss) if loop.recipe.remat else loss
    return lambda mask, shift=None: thrifty(mask, shift or {})


def joint_bound(
    loop: Objective, carry: Carry, params: Params, data: Dataset | Block, rng_key: jax.Array, num_batches: int
) -> Callable[[Mask], jax.Array]:
    """mask -> the ELBO of the whole data set, nats, as the next ``num_batches`` minibatches and a draw for each estimate it.

    It is the training loop's own loss, with the present weight of the divergence and whatever else is in it. ``params``,
    unconstrained, are whole arrays. One key serves all masks: what is drawn is the same under each.
    """
    reading, batches = carry.batches, []
    for _ in range(num_batches):
        reading, batch = loop.draw(carry._replace(batches=reading), data)
        batches.append(batch)

    values = loop.values(params, carry)  # once for all masks

    def bound(mask: Mask) -> jax.Array:
        losses = [
            loop.loss(values, carry, jax.random.fold_in(rng_key, number), batch, mask, {})[0]
            for number, batch in enumerate(batches)
        ]
        return -sum(losses[1:], losses[0]) * (loop.num_rows / num_batches)

    return bound
