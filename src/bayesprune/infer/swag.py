"""SWAG: a posterior from the points that gradient descent at a constant rate passes through, around any trained network."""

import functools
import warnings
from typing import Any, cast

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax.typing import ArrayLike

from bayesprune.core.checks import check_integer, check_key, check_name, check_positive, check_within
from bayesprune.core.given import GivenParams, GivenRows, RandomKey
from bayesprune.core.keys import Key
from bayesprune.core.numbers import rows_in
from bayesprune.core.send import send, send_all
from bayesprune.core.tracing import by_one_thread
from bayesprune.core.types import Dataset, Pruned
from bayesprune.courses import Plain
from bayesprune.formulas import swag as formula
from bayesprune.formulas.swag import PathMoments
from bayesprune.infer.curvature.of_trained import SETTLED, KnownWeights, known, spreads_in
from bayesprune.infer.data import check_batch, check_program_data
from bayesprune.infer.evaluate import evaluate
from bayesprune.infer.predict import check_bnn
from bayesprune.infer.svi import fit_svi
from bayesprune.model.bnn import BNN, STATE
from bayesprune.model.families import MapFamily, MeanFieldFamily
from bayesprune.model.samples import current_sample, stored_samples, values_of
from bayesprune.posteriors import points
from bayesprune.posteriors.mean_field import MeanField
from bayesprune.posteriors.params import CHOSEN
from bayesprune.train.collecting import collected, collecting
from bayesprune.train.result import FitResult

COVARIANCES = ("diag", "low_rank")
JUDGED = 1_000  # rows, spread evenly, by which the path is judged
REFERENCE = formula.REFERENCE


def swag(
    rng_key: RandomKey,
    bnn: BNN | Any,
    params_or_fit: FitResult | Pruned | GivenParams | Any,
    data: GivenRows,
    *,
    num_steps: int,
    batch_size: int,
    learning_rate: float,
    momentum: float = 0.9,
    collect_every: int | None = None,
    covariance: str = "diag",
    rank: int = 20,
    num_draws: int = 30,
    progress: bool | None = None,
) -> FitResult:
    """A Gaussian posterior from a path of stochastic gradient descent that starts at a trained network.

      diag:      q(w) = N(mean, v)
      low_rank:  q(w) = N(mean, diag(v) / 2 + D D' / (2 (K - 1)))                                               (27.2)

    mean, v: of the points that the path passes every ``collect_every`` steps; D: the last K of them, each less the mean as it
    was then, of all weights of the network together. The loss is -log p(D | w) - log p(w), divided by the rows.

    **The spread is that of the path**, and goes with ``learning_rate``: near a minimum with curvature H, where the gradients'
    noise is H as well, the variance is about learning_rate / (2 batch (1 - momentum)) in every direction, less by batches
    without replacement, and the posterior's is 1 / (rows H). So the rate has no default: choose it by held-out rows. `laplace`
    reads the posterior's own spread from the curvature. A path that leaves the minimum warns.

    What is no weight, as a prior's scale, stays as it is, and so do weights without a posterior; a learned noise of Gaussian
    targets is that of the trained network's errors.

    Args:
        rng_key: a JAX random key.
        bnn: a `BNN` whose prior is a Gaussian about zero, of any posterior: what comes back goes with it.
        params_or_fit: a fit of it, its parameters, a pruned one, or what somebody trained: see `from_trained`.
        data: arrays x (rows, ...) and y (rows, ...), or a data set of both.
        num_steps: of the path.
        batch_size: rows of a minibatch, fewer than there are.
        learning_rate, momentum: of the descent, in units of the network's weights; the rate is constant.
        collect_every: steps between two points; None: an epoch.
        covariance: "diag" gives a mean field, which `bmr_prune` and everything else takes; "low_rank" gives ``num_draws``
            networks, drawn from the whole law, as of a sampler: weights are then scored by the draws' own moments.
        rank: K, at least 2; of fewer points all are taken.
        num_draws: networks that "low_rank" draws.
        progress: as of `fit_svi`.

    Returns:
        A `FitResult`: ``losses`` are those of the path, ``history["swag/points"]`` the number of its points.

    Warns:
        UserWarning: the data are predicted worse than by the trained network, by more than its posterior would lose.

    Raises:
        ValueError: a path of fewer than two points, a batch of all rows, running statistics of batches, and as of `laplace`
            and `fit_svi`.
        DivergedError: the rate is too large.
        KeyboardInterrupt: Ctrl-C before the second point; later, where `fit_svi` would return, those so far are taken.

    Example:
        >>> import jax, bayesprune as bp
        >>> train, test = bp.data.load("digits")
        >>> bnn = bp.BNN(bp.nets.MLP((16,), 10), prior=bp.priors.Gaussian(0.5), likelihood=bp.likelihoods.Categorical(),
        ...              input_shape=(8, 8, 1), posterior="map")
        >>> trained = bp.fit_svi(jax.random.key(0), bnn, train, num_steps=200, batch_size=64, progress=False)
        >>> fit = bp.swag(jax.random.key(1), bnn, trained, train, num_steps=200, batch_size=64, learning_rate=0.05,
        ...               progress=False)
        >>> pruned = bp.bmr_prune(fit.params)
        >>> probs = bp.predict(jax.random.key(2), bnn, pruned.params, test.x, mask=pruned.mask, num_samples=10)

    Source: Maddox et al. (2019), algorithm 1.
    """
    rng_key = check_key(rng_key)
    check_bnn(bnn)
    data = check_program_data(bnn, data, "data")
    check_name("covariance", covariance, COVARIANCES)
    check_positive(learning_rate, "learning_rate")
    check_within(momentum, "momentum", "[0, 1)")
    for name, value in (("num_steps", num_steps), ("rank", rank), ("num_draws", num_draws)):
        check_integer(value, name)
    if rank < 2:
        raise ValueError(f"rank must be at least 2, got {rank}: take covariance='diag' for none.")
    every = _every(rows_in(data.x), num_steps, batch_size, collect_every)
    whole = known(bnn, params_or_fit, data, "swag")
    if whole.params.get(STATE):
        raise ValueError(
            "swag draws weights, and a network with running statistics of batches needs those of each draw: build it with "
            "GroupNorm or LayerNorm, or take bp.laplace, which leaves the weights where they are."
        )
    path_key, draws_key, others_key, judging_key = jax.random.split(rng_key, 4)
    moving, kept = bnn.under(MapFamily()), rank if covariance == "low_rank" else 0
    names = {str(s.path): points.FAMILY.name(str(s.path), "loc", not s.prunable) for s in bnn.layout if s.bayesian}
    # Of loc = w / unit, a step of rate / unit² is one of rate of the weight; what is no weight does not move.
    rates = {
        names[site]: send(np.asarray(node.unit, np.float64) ** -2.0, jnp.result_type(float))
        for site, node in whole.nodes.items()
    }
    of_weights = lambda updates, _: {n: g * rates[n] if n in rates else jnp.zeros_like(g) for n, g in updates.items()}  # noqa: E731
    descent = optax.chain(optax.stateless(of_weights), optax.sgd(learning_rate, momentum), collecting(every, kept))
    start = _start(moving, whole)
    mask = {site: send(alive) for site, alive in whole.alive.items() if not alive.all()}
    path = fit_svi(
        path_key, moving, data, num_steps=num_steps, batch_size=batch_size, course=Plain(), optimizer=descent,
        init_params=start, progress=progress, mask=mask,
    )  # fmt: skip
    found = collected(path.state.optim_state)
    count = int(found.points)
    if count < 2:
        raise KeyboardInterrupt(f"before the path's second point, at step {2 * every}.")
    moments = {
        site: _of_living(found.moments[name], count, whole.nodes[site].prior_scale, whole.alive[site])
        for site, name in names.items()
    }
    if covariance == "diag":
        params = _mean_field(bnn, whole, moments, count)
    else:
        drawn = {names[site]: w for site, w in _drawn(draws_key, send_all(moments), count, num_draws).items()}
        others = _others_drawn(others_key, whole.params, spreads_in(bnn, whole.params), num_draws)
        params = stored_samples(bnn, _networks(moving, path.params, drawn | others))
    _warn_of_leaving(judging_key, data, (moving, start), (bnn.of(params), params), whole.alive)
    history = {"swag/points": np.asarray([count])}
    history |= {name: step for name, step in path.history.items() if name == "interrupted/step"}
    return FitResult(params, None, path.losses, path.mask, history)


def _every(rows: int, num_steps: int, batch_size: int, collect_every: int | None) -> int:
    """The steps between two points. Refuse batches of all rows, and a path of fewer than two points."""
    batch_size = check_batch(batch_size, rows)
    if batch_size == rows:
        raise ValueError(
            f"batch_size={batch_size} is all the rows, and swag's spread is that of minibatches: take fewer, or bp.laplace."
        )
    every = -(-rows // batch_size) if collect_every is None else collect_every
    check_integer(every, "collect_every")
    if num_steps // every < 2:
        raise ValueError(
            f"num_steps={num_steps} passes {num_steps // every} points of one every {every} steps, and a variance needs two at "
            f"least: take num_steps={20 * every}, for 20, or a smaller collect_every."
        )
    return every


def _start(moving: BNN, whole: KnownWeights) -> dict[str, Any]:
    """Parameters of points at the trained weights; what else the guide has stands as it was found."""
    family, specs = moving.family, {str(s.path): s for s in moving.layout}
    weights = {site: send(np.asarray(w) / np.asarray(whole.nodes[site].unit)) for site, w in whole.trained.weights.items()}
    at = {name: w for site, loc in weights.items() for name, w in family.around(loc, None, specs[site]).items()}
    spreads = spreads_in(moving, whole.params)
    params = {name: value for name, value in whole.params.items() if name not in spreads} | at
    return params | moving.describe(params)


def _warn_of_leaving(
    rng_key: Key, data: Dataset, before: tuple[BNN, Any], after: tuple[BNN, Any], alive: dict[str, np.ndarray]
) -> None:
    """Warn of a path whose points predict the data worse than its start by more than half a nat for each weight.

    That is what draws from the posterior lose on average, all the data together, and the mean of their predictions loses less.
    """
    rows = np.linspace(0, rows_in(data.x) - 1, min(JUDGED, rows_in(data.x))).astype(int)
    with jax.transfer_guard("allow"):  # rows at a stride, for one message
        shown = jax.tree.map(lambda leaf: np.asarray(leaf)[rows], Dataset(data.x, data.y))
        first, last = (float(evaluate(rng_key, bnn, params, shown)["nll"]) for bnn, params in (before, after))
    most = 0.5 * sum(int(a.sum()) for a in alive.values()) / rows_in(data.x)
    if last - first > most:
        warnings.warn(
            f"The path has left the minimum: its posterior predicts the data with {last:.4g} nats a row, the trained network "
            f"with {first:.4g}, and by the posterior's own draws it would be at most {most:.2g} more. Give a smaller "
            "learning_rate=, or bp.laplace.",
            UserWarning,
            stacklevel=3,
        )


def _of_living(moments: PathMoments, count: int, prior_scale: ArrayLike, alive: np.ndarray) -> PathMoments:
    """With the deviations that there are, and a spread of at least the rounding of the mean, or of a draw from the prior where
    that is more: 0 would say that the weight is dead. Of the dead all is 0."""
    mean, squares, deviations = map(np.asarray, moments)
    size = np.maximum(np.abs(mean), np.asarray(prior_scale))
    least = count * np.square(np.finfo(mean.dtype).eps * size.astype(np.float64))
    wide = mean, np.maximum(squares, least).astype(mean.dtype), deviations[:count]
    return PathMoments(*(cast(Any, alive * part) for part in wide))


def _mean_field(bnn: BNN, whole: KnownWeights, moments: dict[str, PathMoments], count: int) -> dict[str, Any]:
    """Independent Gaussians under the prior of the network."""
    family, params = MeanFieldFamily(), dict(whole.params)
    for spec in bnn.layout:
        if spec.bayesian:
            site, of_path = str(spec.path), moments[str(spec.path)]
            loc, scale = map(send, (of_path.mean, np.sqrt(of_path.squares / of_path.squares.dtype.type(count))))
            params |= family.write(MeanField(loc, scale, prior_scale=None), spec)
            params[site + CHOSEN] = send(np.asarray(whole.nodes[site].prior_scale), jnp.result_type(float))
    return params | bnn.describe(params)


@functools.partial(jax.jit, static_argnames=("count", "num_draws"))
def _drawn(rng_key: Key, moments: dict[str, PathMoments], count: int, num_draws: int) -> dict[str, jax.Array]:
    """Draws of every array, of which each shares the directions of the path with the others."""
    along_key, apart_key = jax.random.split(rng_key)
    rank = next(iter(moments.values())).deviations.shape[0]
    along = jax.random.normal(along_key, (num_draws, rank))
    drawn = {}
    for number, (site, of_path) in enumerate(moments.items()):
        apart = jax.random.normal(jax.random.fold_in(apart_key, number), (num_draws, *of_path.mean.shape))
        drawn[site] = jax.vmap(lambda z, e, m=of_path: formula.draw(m, count, z, e))(along, apart)
    return drawn


@functools.partial(jax.jit, static_argnames="shape")
def _normal(rng_key: Key, number: jax.Array, shape: tuple[int, ...]) -> jax.Array:
    return jax.random.normal(jax.random.fold_in(rng_key, number), shape)


def _others_drawn(rng_key: Key, params: dict[str, Any], spreads: list[str], num_draws: int) -> dict[str, jax.Array]:
    """Draws of what is no weight and has a posterior: of positive numbers the logarithms, log c ~ N(loc, scale²)."""
    drawn = {}
    for number, name in enumerate(name.removesuffix("_log_scale") for name in spreads):
        loc, scale = (np.asarray(params[f"{name}_log_{part}"]) for part in ("loc", "scale"))
        if (scale != SETTLED).any():  # of a prior, whose scales stay
            z = _normal(rng_key, send(number, np.uint32), (num_draws, *loc.shape))
            drawn[f"{name}_log_loc"] = send(loc + scale * np.asarray(z), loc.dtype)
    return drawn


def _networks(moving: BNN, params: dict[str, Any], drawn: dict[str, jax.Array]) -> dict[str, Any]:
    """Values of every site of the network, draw by draw."""
    guide = moving.under(current_sample(moving.family)).guide
    of_one = lambda some, rest: by_one_thread(values_of)(guide, rest | some)  # noqa: E731
    return jax.jit(jax.vmap(of_one, in_axes=(0, None)))(drawn, params)  # type: ignore[no-any-return]
