"""The compiled training loop: many steps in one program, one compilation for warm-up, pruning and regrowth alike."""

import functools

import jax
import jax.numpy as jnp

from bayesprune.core.compiling import quickly
from bayesprune.core.streams import OfAStep, stream
from bayesprune.core.tracing import by_one_thread
from bayesprune.core.types import Dataset, Evidence, Info, Mask, Params, Renewing, SparseState, Weighing
from bayesprune.model.program import Program
from bayesprune.posteriors.params import cut
from bayesprune.prune.needs import needs_of
from bayesprune.prune.verified import LEAST, may_be_verified, verify
from bayesprune.train import batches as batching
from bayesprune.train.batches import Block
from bayesprune.train.kernel import asks_value, begun, evaluated
from bayesprune.train.objective import Objective, joint_bound, look, mask_loss
from bayesprune.train.renewal import redraw, renew, weigh
from bayesprune.train.share import by_parameters
from bayesprune.train.sites import Example, sites_of
from bayesprune.train.state import CHUNK, Carry, Compiled, Data, Recipe
from bayesprune.train.storage import MASKED, products_only

_Run = tuple[Carry, jax.Array, jax.Array, jax.Array]  # carry, losses, steps taken, whether the last loss was finite


class Loop(Objective):
    """The functions of one fit, pure; `compile_loop` jits them. Masks are as the recipe's storage keeps them."""

    def init(self, rng_key: jax.Array, data: Data) -> Carry:
        """The state before the first step; of a block, its first minibatch is what the program is shown."""
        self, data = self.of(data)
        init_key, run_key, data_key = jax.random.split(rng_key, 3)
        shown: Dataset = jax.tree.map(lambda leaf: leaf[0], data.data) if isinstance(data, Block) else data
        params, mutable = self.sites.initial(init_key, shown)
        params = begun(self.recipe.kernel, params)
        streamed = isinstance(data, Block)
        reading = batching.start_blocks() if streamed else batching.start(data_key, self.num_rows, len(shown.y))
        zero = jnp.zeros((), jnp.int32)
        params, opt_state = by_parameters((params, self.recipe.kernel.init(params)), self.recipe.mesh)
        return Carry(params, opt_state, mutable, zero, run_key, reading, zero)

    def keep(self, carry: Carry, mask: Mask) -> Carry:
        """The state before the first step, of whole arrays, as the storage keeps it."""
        params = self.recipe.storage.keep(carry.params, mask)
        params, opt_state = by_parameters((params, self.recipe.kernel.init(params)), self.recipe.mesh)
        return carry._replace(params=params, opt_state=opt_state)

    def evaluated(self, carry: Carry) -> Params:
        """The parameters to evaluate and return, without their constraints."""
        return evaluated(self.recipe.kernel, carry.params, carry.opt_state)

    def averages(self) -> bool:
        """Whether those are others than the ones that are trained, as an optimiser's that averages are."""
        kernel, others = self.recipe.kernel, list[bool]()

        def look(params: Params) -> None:
            others.append(evaluated(kernel, params, kernel.init(params)) is not params)

        jax.eval_shape(look, self.sites.params)
        return others[0]

    def whole(self, carry: Carry, mask: Mask, known: Params) -> tuple[Params, Mask]:
        """Parameters as a fit gives them, and the mask, in whole arrays.

        ``known``: the entries that say what the parameters mean, where the program does not say it by itself.
        """
        params = self.sites.constrain(self.recipe.storage.whole(self.evaluated(carry), mask))
        whole_mask = self.recipe.storage.whole_mask(mask)
        if not known and not isinstance(self.recipe.program, Program):  # one written by hand has said that there is nothing
            known = self.recipe.program.describe(params)
        return cut(params | carry.mutable, whole_mask) | known, whole_mask

    def run(self, carry: Carry, data: Data, mask: Mask, num_steps: jax.Array) -> tuple[Carry, jax.Array, jax.Array]:
        """At most ``num_steps`` steps, ending early at a loss that is not finite: (carry, losses, steps taken).

        The number of steps is a traced value: any run up to `CHUNK` steps is served by one compilation.
        """
        loop, data = self.of(data)

        def body(state: _Run) -> _Run:
            carry, losses, done, _ = state
            carry, loss = loop.step(carry, data, mask)
            return carry, losses.at[done].set(loss), done + 1, jnp.isfinite(loss)

        start = (carry, jnp.zeros((CHUNK,)), jnp.zeros((), jnp.int32), jnp.array(True))
        carry, losses, done, _ = jax.lax.while_loop(lambda state: (state[2] < num_steps) & state[3], body, start)
        return carry, losses, done

    def step(self, carry: Carry, data: Dataset | Block, mask: Mask) -> tuple[Carry, jax.Array]:
        """One optimiser step; returns the negative ELBO of the whole data set, nats, as the minibatch estimates it.

        The ELBO itself, whatever the divergence's weight in what is minimised: so that two courses can be compared.
        """
        reading, batch = self.draw(carry, data)
        key = carry.step_key
        storage, kernel, rows = self.recipe.storage, self.recipe.kernel, self.num_rows
        share = 1 if getattr(kernel, "per_row", False) else rows  # of the loss per row, in the one that is differentiated

        def loss_of_kept(params: Params, weight: jax.Array) -> tuple[jax.Array, Params]:
            values = self.values(storage.whole(params, mask), carry)
            loss, new = self.loss(values, carry, key, batch, storage.whole_mask(mask), {}, weight)
            return loss * share, new

        spare = products_only if self.recipe.remat else storage.thrifty
        weight = self.weight(carry)
        # The loss is linear in the divergence's weight, so that its slope there is the divergence itself.
        (loss, new), (grads, divergence) = jax.value_and_grad(spare(loss_of_kept), (0, 1), has_aux=True)(carry.params, weight)
        mutable = carry.mutable | {name: new[name] for name in carry.mutable if name in new}
        asked = {"value": loss, "value_fn": lambda params: loss_of_kept(params, weight)[0]} if asks_value(kernel) else {}
        after = kernel.step(stream(key, OfAStep.MOVING), grads, carry.params, carry.opt_state, **asked)
        params, opt_state = by_parameters(after, self.recipe.mesh)
        moved = carry._replace(params=params, opt_state=opt_state, mutable=mutable, step=carry.step + 1, batches=reading)
        return moved, (loss + (1.0 - weight) * divergence) * (rows / share)

    def prune(
        self, carry: Carry, data: Data, state: SparseState, known: Params, planned: jax.Array
    ) -> tuple[SparseState, Info]:
        """One step of the sparsifier; the gradient it may read is that of the next minibatch, the dead weights' included.

        ``known``: as of `whole`. ``planned``: steps of the whole training.
        """
        self, data = self.of(data)
        params = self.recipe.storage.whole(carry.params, state.mask)
        mask = self.recipe.storage.whole_mask(state.mask)
        posterior = self.recipe.program.read(self.sites.constrain(params) | known)
        key, step_key = jax.random.split(stream(carry.step_key, OfAStep.PRUNING))
        probe = {site: jnp.zeros_like(node.loc) for site, node in posterior.items()}
        gradient = look(self, carry, params, mask, probe, data, key)
        name = needs_of(self.recipe.sparsifier).groups
        groups = self.recipe.program.groups(name) if name else None
        loss = mask_loss(self, carry, params, data, key) if needs_of(self.recipe.sparsifier).loss else None
        evidence = Evidence(posterior, gradient, carry.step / planned, groups, loss)
        new, info = self.recipe.sparsifier.step(step_key, evidence, state._replace(mask=mask))
        if self.recipe.verified and may_be_verified(info):
            bound = joint_bound(self, carry, params, data, key, self.recipe.verified)
            new, info = verify(bound, posterior, mask, new, info, LEAST)
        info = info._replace(gains=None, order=None)
        return new._replace(mask=self.recipe.storage.keep_mask(new.mask)), info


@functools.lru_cache(maxsize=16)
def compile_loop(recipe: Recipe, example: Example) -> Compiled:
    """Jit the functions once for each distinct fit; a second fit of the same kind compiles nothing."""
    loop = Loop(recipe, sites_of(recipe.program, example), example.num_rows)
    once, acts, sparsifier = quickly(), quickly(1), recipe.sparsifier
    return Compiled(
        init=jax.jit(by_one_thread(loop.init), compiler_options=once),
        run=jax.jit(by_one_thread(loop.run), donate_argnums=0),
        keep=jax.jit(by_one_thread(loop.keep), compiler_options=once),
        whole=jax.jit(by_one_thread(loop.whole), compiler_options=acts),
        prune=jax.jit(by_one_thread(loop.prune), compiler_options=acts),
        renew=jax.jit(by_one_thread(functools.partial(renew, recipe, loop.sites)))
        if isinstance(sparsifier, Renewing)
        else lambda carry, old, new, known: carry,
        weigh=jax.jit(functools.partial(weigh, recipe)) if isinstance(sparsifier, Weighing) else lambda carry, sparse: carry,
        redraw=jax.jit(by_one_thread(functools.partial(redraw, recipe, loop.sites, example)))
        if needs_of(sparsifier).chain
        else lambda carry, mask: carry,
        whole_mask=jax.jit(recipe.storage.whole_mask) if recipe.storage is not MASKED else lambda mask: mask,
        evaluated=jax.jit(loop.evaluated) if loop.averages() else lambda carry: carry.params,
        constrain=jax.jit(loop.sites.constrain, compiler_options=acts),
        unconstrain=jax.jit(loop.sites.unconstrain),
        storage=recipe.storage,
    )
