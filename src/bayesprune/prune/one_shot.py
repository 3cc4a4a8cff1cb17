"""One pruning pass over finished parameters: any sparsifier, any mean-field posterior."""

import functools
from collections.abc import Callable, Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from bayesprune.core import masks, trees
from bayesprune.core.checks import check_function, check_key, check_mask, check_object, check_positive, check_site
from bayesprune.core.compiling import quickly
from bayesprune.core.fields import check_fields
from bayesprune.core.given import GivenRows, GivenScale, RandomKey
from bayesprune.core.keys import Key, NoKey
from bayesprune.core.masks import gone
from bayesprune.core.numbers import spread_out
from bayesprune.core.send import send
from bayesprune.core.streams import OfAnAct, stream
from bayesprune.core.tracing import check_process
from bayesprune.core.types import Evidence, Groups, Info, Pruned, PyTree, Renewing, SparseState, Sparsifier
from bayesprune.model.elbo import MeanFieldELBO
from bayesprune.model.families import check_cut
from bayesprune.model.handlers import masked, scaled
from bayesprune.model.program import Trainable
from bayesprune.posteriors import params as numpyro_params
from bayesprune.posteriors.joint import check_given
from bayesprune.prune.bookkeeping import fill_unknown
from bayesprune.prune.needs import check_needs, check_whole, needs_of, nothing_to_prune, warm_up_of
from bayesprune.prune.paths import Paths
from bayesprune.prune.verified import may_be_verified, verify

DRAWS = (
    "the act is verified on data by drawn networks, or the sparsifier draws. Give rng_key=jax.random.key(0), or another key; "
    "an act by evidence that is not verified, without data=, needs none."
)


def prune_once(
    params: PyTree,
    sparsifier: Sparsifier | Any,
    *,
    program: Trainable | Any = None,
    data: GivenRows | None = None,
    prior_scale: GivenScale = None,
    prunable: Callable[[str, tuple[int, ...]], bool] | Any = lambda path, shape: True,
    mask: PyTree | None = None,
    rng_key: RandomKey | None = None,
    read: Callable[[Any], Any] = numpyro_params.read,
) -> Pruned:
    """Apply ``sparsifier`` once to a posterior. Pure: the arguments are left as they are; `jax.jit` takes it too.

    Args:
        params: NumPyro parameters of `fit_svi`; others with pairs ``"<site>_auto_loc"``, ``"<site>_auto_scale"`` (of an
            `AutoNormal`), of which every array counts as weights under an unknown prior unless ``program`` says better, and no
            single number, for most are noise scales; or any tree whose nodes are `MeanField` or `SpikeSlab`.
        sparsifier: a method of `bayesprune.methods`. Its ``warm_up`` is left out, for there is no training to wait
            for.
        program: the `BNN` or `Program` that was fitted. It says which sites are weights (never those of positive or bounded
            support), their priors, inclusion probabilities where the prior makes them, and which weights belong to a unit. With
            a cut by evidence the weights fall that no path through a `BNN`'s network needs: its outputs do not know them.
        data: rows (x, y) of the training data. With them, and ``program``, an act by evidence is verified before it is taken,
            as those of a fit are: of what the gains of single weights propose, the first share is cut whose joint bound beats
            the next smaller one's, see `prune.verified`; and so is one by the law of the units' scales (`Shrinkage`, `SBP`,
            `WidestGap`). A hand-written `Program` is run on them to be read, too. Methods that cut a given density, or by
            another score, are not verified.
        prior_scale: standard deviation of the weights' Gaussian prior in the posterior's coordinates, in place of what the
            nodes say: one number, or site -> number or array.
        prunable: predicate on (path, shape); the sites it refuses are not in the mask.
        mask: weights that are already dead, False; those at loc = scale = 0 are taken as dead anyway.
        rng_key: a JAX random key, where anything is drawn: by the verification on ``data``, or by a sparsifier.
        read: how NumPyro parameters become a posterior, where there is no ``program``.

    Returns:
        ``Pruned(params, mask, info)``: the parameters with dead weights at loc = scale = 0 (the reduced posterior). The
        record's ``readiness`` is NaN: one posterior alone does not show whether it still moves.

    Raises:
        ValueError: the sparsifier reactivates weights, or needs what this posterior does not have; there is no mean-field
            posterior in ``params``, a scale is negative, a prior's scale is not positive, or a site of ``mask`` or
            ``prior_scale`` is unknown or of another shape, or a mask is not boolean; numbers are drawn, without a ``rng_key``.
        TypeError: the sparsifier reads another kind of nodes.
    """
    check_process()
    check_object(sparsifier, "sparsifier", ("init", "step"), "bp.methods.SNR(0.1)")
    check_function(prunable, "prunable", "bp.select.kernels")
    if program is not None:
        check_object(program, "program", ("read", "describe"), "bp.BNN(net, prior=...), the one that was fitted")
        check_cut(program)
        _check_verified(params, data)
    if isinstance(sparsifier, Renewing):
        raise ValueError(
            f"{type(sparsifier).__name__} reactivates weights by their gradients, of which a posterior alone knows nothing: "
            "train with fit_svi(..., sparsifier=...), or cut at once with methods.SNR(density)."
        )
    if needs_of(sparsifier).loss or needs_of(sparsifier).chain:
        raise ValueError(
            f"{type(sparsifier).__name__} compares masks by the loss of the data while a sampler runs, and a posterior alone "
            "has neither: sample with bp.fit_sgmcmc(..., sparsifier=...), or cut at once with methods.Cut(scope='unit')."
        )
    if program is not None:
        read = lambda found: program.read(found | program.describe(found, data))  # noqa: E731  what it says of its own
    nodes = _nodes(params, read, program)
    chosen = {path: node for path, node in nodes.items() if prunable(path, trees.shape(node))}
    if not chosen:
        raise ValueError(f"prunable refuses all of {', '.join(nodes)}: there is nothing to prune.")
    chosen = _on_device(_under(prior_scale, chosen, nodes))
    check_needs(sparsifier, chosen, program)
    check_whole(sparsifier, chosen)
    key: Key = NoKey(DRAWS) if rng_key is None else check_key(rng_key)  # type: ignore[assignment]
    given = {} if mask is None else _given(mask, _shapes(nodes))
    if kept_out := {path: alive for path, alive in given.items() if path not in chosen}:
        params = _cut(params, kept_out, nodes, program)
    given = {path: alive for path, alive in given.items() if path in chosen}
    # As they came: within `jax.jit` what was looked at is traced.
    check_given(chosen, {path: alive for path, alive in trees.flatten(mask).items() if path in given})
    scored = jax.tree.map(_at_least_single, chosen)
    state = sparsifier.init(key, scored)  # not compiled: it may refuse what it sees
    if warm_up := warm_up_of(sparsifier):
        state = state._replace(step=send(warm_up, np.int32))
    before = state._replace(mask=_left(chosen, given))
    seen = None if program is None or data is None or not isinstance(params, dict) else some_rows(data)
    given_to = (key, scored, before, _on_device(params) if seen else {}, seen[0] if seen else ())
    alone = not any(isinstance(leaf, jax.core.Tracer) for leaf in jax.tree.leaves(given_to))
    step = _compiled(sparsifier, _groups(sparsifier, program), program if seen else None, seen[1] if seen else 0, alone)
    state, info = step(*given_to)
    state, info = _settled(Paths.of(program, sparsifier), before, state, info)
    return Pruned(_cut(params, state.mask, chosen, program), state.mask, fill_unknown(info._replace(readiness=None)))


def _at_least_single(values: jax.Array) -> jax.Array:
    """The eight bits of bfloat16 do not tell which of two weights is worth more."""
    low = jnp.issubdtype(values.dtype, jnp.floating) and jnp.finfo(values.dtype).bits < 32
    return values.astype(jnp.float32) if low else values


def _check_verified(params: PyTree, data: GivenRows | None) -> None:
    """Refuse what are no rows, and to verify under the network's own prior what the data chose another prior for."""
    if data is not None:
        check_fields(data, "data")
    if data is not None and isinstance(params, dict) and any(name.endswith(numpyro_params.CHOSEN) for name in params):
        raise ValueError(
            "data= verifies a cut under the priors that the network was built with, and these params hold priors that the data "
            "chose (bp.laplace): prune without data=."
        )


def _settled(paths: Paths, before: SparseState, after: SparseState, info: Info) -> tuple[SparseState, Any]:
    """The act as the network's paths have it, where there are a network and values to look at."""
    if any(isinstance(alive, jax.core.Tracer) for alive in after.mask.values()):
        return after, info
    return paths.once(before, after, info)


@functools.lru_cache(maxsize=32)
def _compiled(
    sparsifier: Sparsifier, groups: Groups | None, program: Trainable | None, num_rows: int, alone: bool
) -> Callable[..., tuple[SparseState, Any]]:
    """One step, as one program instead of dozens of small ones, each of which would be compiled at the first call.

    ``program``: None where there are no rows by which the act is verified. ``alone``: not within another program, which is
    compiled as a whole.
    """

    def step(
        rng_key: Key, posterior: PyTree, state: SparseState, params: dict[str, Any], rows: PyTree
    ) -> tuple[SparseState, Any]:
        gradient = {path: jnp.zeros(trees.shape(node)) for path, node in posterior.items()}
        new, info = sparsifier.step(rng_key, Evidence(posterior, gradient, groups=groups), state)
        if program is not None and may_be_verified(info):
            # Of the sites that ``prunable`` keeps out nothing is said: they are whole, but for what was dead before.
            bound = data_bound(program, params, rows, num_rows, stream(rng_key, OfAnAct.VERIFYING))
            new, info = verify(bound, posterior, state.mask, new, info)
        return new, info

    return jax.jit(step, compiler_options=quickly() if alone else None)


def _groups(sparsifier: Sparsifier, program: Trainable | None) -> Any:
    """The groups that a sparsifier needs, where there is a network to ask."""
    name = needs_of(sparsifier).groups
    return program.groups(name) if name and program is not None else None


def _nodes(params: PyTree, read: Callable[[Any], Any], program: Trainable | None) -> dict[str, Any]:
    """Posterior nodes by path, checked."""
    if hasattr(params, "params"):
        raise TypeError(f"params must be parameters, got a whole {type(params).__name__}: pass its .params.")
    found = trees.flatten(params) if not isinstance(params, dict) or _has_nodes(params) else read(params)
    nodes = {path: node for path, node in found.items() if trees.is_node(node)}
    if not nodes and isinstance(params, dict) and (whole := numpyro_params.kept_whole(params)):
        raise nothing_to_prune("params have", program, whole, numpyro_params.points_of(params))
    if not nodes:
        raise ValueError(
            "params hold no mean-field posterior: expected pairs '<site>_auto_loc' and '<site>_auto_scale' (from bp.fit_svi "
            "with posterior='mean_field', or NumPyro's AutoNormal), or a tree of bp.MeanField; got "
            f"{', '.join(map(str, list(params)[:6])) if isinstance(params, dict) else type(params).__name__}. Pairs of single "
            "numbers are not taken for weights, for most are noise scales: where they are, give a tree of them, {site: "
            "bp.MeanField(params[site + '_auto_loc'], params[site + '_auto_scale'])}."
        )
    for path, node in nodes.items():
        if jnp.shape(node.loc) != jnp.shape(node.scale):
            raise ValueError(
                f"site {path!r} has loc of shape {jnp.shape(node.loc)} and scale of shape {jnp.shape(node.scale)}."
            )
        # Inside `jax.jit` there are no values to look at yet. By NumPy: JAX would compile for every shape.
        known = not any(isinstance(value, jax.core.Tracer) for value in (node.loc, node.scale))
        certain = ~np.isnan(node.log_odds()) if known and node.gated else True
        if known and not (np.isfinite(node.loc) & np.isfinite(node.scale) & (np.asarray(node.scale) >= 0) & certain).all():
            raise ValueError(
                f"site {path!r} is no Gaussian posterior: its loc must be finite and its scale finite and >= 0, and its "
                "log-odds, if it has some, no NaN."
            )
    return nodes


def _given(mask: PyTree, shapes: dict[str, tuple[int, ...]]) -> dict[str, jax.Array]:
    """A mask by path, of a tree of masks; a whole fit, or one array for no site, is refused."""
    flat = trees.flatten(mask)
    return check_mask(mask if hasattr(mask, "mask") or (list(flat) == [""] and "" not in shapes) else flat, shapes)


def _on_device(tree: dict[str, Any]) -> dict[str, Any]:
    """The arrays of NumPy and numbers of Python, which keep taking the type of what they meet, on the device."""
    of_host = (np.ndarray, np.generic, float, int)
    return jax.tree.map(lambda leaf: jax.device_put(leaf) if isinstance(leaf, of_host) else leaf, tree)  # type: ignore[no-any-return]


@jax.jit
def _left(nodes: dict[str, Any], given: dict[str, Any]) -> dict[str, Any]:
    """What is alive before the act: not dead in the mask given, nor cut by an earlier pass."""
    left = {path: ~gone(node) for path, node in nodes.items()}
    return {path: given[path] & alive if path in given else alive for path, alive in left.items()}


def _has_nodes(params: dict[str, Any]) -> bool:
    return any(trees.is_node(leaf) for leaf in jax.tree.leaves(params, is_leaf=trees.is_node))


def _shapes(nodes: dict[str, Any]) -> dict[str, tuple[int, ...]]:
    return {path: trees.shape(node) for path, node in nodes.items()}


def _under(prior_scale: GivenScale, chosen: dict[str, Any], nodes: dict[str, Any]) -> dict[str, Any]:
    """The chosen nodes under the prior that was given; as they are for None."""
    if prior_scale is None:
        return chosen
    if not isinstance(prior_scale, Mapping):
        prior_scale = dict.fromkeys(chosen, prior_scale)
    for path, value in prior_scale.items():
        check_site("prior_scale", path, value, _shapes(nodes), spread=True)
        check_positive(value, f"prior_scale of {path!r}", several=True)
    missing = sorted(chosen.keys() - prior_scale.keys())
    if missing:
        raise ValueError(f"prior_scale has no entry for {', '.join(missing)}: give one number for all, or one for each site.")
    widths = {path: send(prior_scale[path], float) for path in chosen}
    return {p: n.under(widths[p]) for p, n in chosen.items()}


def _cut(params: PyTree, mask: dict[str, Any], nodes: dict[str, Any], program: Trainable | None) -> PyTree:
    """The parameters with the dead weights of ``mask`` at loc = scale = 0."""
    if isinstance(params, dict) and not _has_nodes(params):
        return getattr(program, "cut", numpyro_params.cut)(params, mask)
    kept = masks.apply(mask, {path: nodes[path] for path in mask})
    return trees.map_with_path(lambda path, node: kept.get(path, node), params)


ROWS = 4096  # by which a cut is verified, evenly spaced among all
NUM_DRAWS = 4  # of the weights


def some_rows(data: GivenRows) -> tuple[Any, int]:
    """At most `ROWS` rows of x and y, evenly spaced, and how many there are in all."""
    num_rows = len(data.y)
    rows = spread_out(num_rows, ROWS)
    return jax.tree.map(lambda leaf: send(np.asarray(leaf)[rows]), (data.x, data.y)), num_rows


def data_bound(
    program: Trainable, params: dict[str, Any], rows: tuple[Any, Any], num_rows: int, rng_key: jax.Array
) -> Callable[[dict[str, Any]], jax.Array]:
    """mask -> the ELBO of a data set of ``num_rows`` rows, nats, as ``rows`` and `NUM_DRAWS` draws estimate it.

    The divergence has its full weight. What is drawn is the same under every mask.
    """
    x, y = rows
    elbo = MeanFieldELBO(num_particles=NUM_DRAWS)
    keywords = program.keywords(num_rows)

    def bound(mask: dict[str, Any]) -> jax.Array:
        model = scaled(masked(program.model, mask), observed=num_rows / len(y))
        found = elbo.loss_with_mutable_state(rng_key, params, model, masked(program.guide, mask), x, y, **keywords)
        return -found["loss"]

    return bound
