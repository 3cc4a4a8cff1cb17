"""Births and deaths of units: their odds by enumeration, the masks of a long chain against the posterior, and refusals."""

import itertools
import math

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
import scipy.stats

import bayesprune as bp
from bayesprune.core.types import Evidence, Groups
from bayesprune.methods.mbnn import _Seen, layers_of
from bayesprune.model.samples import current_sample
from bayesprune.train.loop import Loop
from bayesprune.train.recipe import make_recipe
from bayesprune.train.renewal import redraw
from bayesprune.train.sites import Example, sites_of
from tests.infer import programs

# Two layers, of two and three units; the second has a bias, and a weight of none that stays.
GROUPS = Groups({"a": np.array([[0, 1]]), "b": np.array([[2, 3, 4]]), "b.bias": np.array([2, 3, 4]), "z": np.array([-1])}, 5)
LAYERS = ((0, 1), (2, 3, 4))
LOC = {
    "a": np.array([[0.7, -0.3], [0.4, 1.0]]),
    "b": np.array([[0.5, 0.9, -0.4], [-0.8, 0.2, 0.6]]),
    "b.bias": np.array([0.2, -0.3, 0.8]),
    "z": np.array([0.5]),
}


def loss(mask, shift=None):
    """A loss in which units work together, not one by one."""
    shift = dict.fromkeys(LOC, 0.0) if shift is None else shift
    w = {s: jnp.where(mask[s], jnp.asarray(loc, jnp.float32), 0.0) + shift[s] for s, loc in LOC.items()}
    return jnp.sum(jnp.square(w["a"] @ jnp.ones(2) @ w["b"] + w["b.bias"] - jnp.array([0.5, -0.5, 1.0]))) * 2 + jnp.sum(w["z"])


def units_of(alive) -> dict[str, np.ndarray]:
    a, b = np.asarray(alive[:2], bool), np.asarray(alive[2:], bool)
    return {"a": np.tile(a, (2, 1)), "b": np.tile(b, (2, 1)), "b.bias": b, "z": np.array([True])}


def by_hand(alive, c: float, counted: str) -> float:
    """log p(m) p(y | m, w), up to a constant, by NumPy."""
    w = {s: np.where(mask, LOC[s], 0.0) for s, mask in units_of(alive).items()}
    nats = 2 * np.sum((w["a"].sum(1) @ w["b"] + w["b.bias"] - [0.5, -0.5, 1.0]) ** 2)
    counts = [(sum(alive[u] for u in layer), len(layer)) for layer in LAYERS] if counted == "layer" else [(sum(alive), 5)]
    return -nats - sum(c * k**2 + math.log(math.comb(n, k)) for k, n in counts)


STATES = [s for s in itertools.product((0, 1), repeat=5) if all(any(s[u] for u in layer) for layer in LAYERS)]


def seen() -> Evidence:
    nodes = {s: bp.MeanField(jnp.asarray(loc, jnp.float32), jnp.zeros(loc.shape)) for s, loc in LOC.items()}
    return Evidence(nodes, None, groups=GROUPS, loss=loss)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("death", "counted", "most"), [("gradient", "layer", 3), ("uniform", "layer", 3), ("gradient", "net", 1)]
)
def test_a_long_chain_of_masks_has_their_posterior(rng_key, death, counted, most) -> None:
    """(19.4): 4,000 chains of 150 moves over 21 masks of known mass; chi-square, refused below p = 1e-4."""
    method = bp.methods.MBNN(penalty=0.2, death=death, counted=counted, most=most)
    evidence, start = seen(), method.init(rng_key, seen().posterior)

    def chain(key):
        def move(state, key):
            return method.step(key, evidence, state)[0], None

        mask = jax.lax.scan(move, start, jax.random.split(key, 150))[0].mask
        return jnp.concatenate([mask["a"][0], mask["b"][0]]), jnp.all(mask["b"] == mask["b.bias"]) & mask["z"][0]

    ends, whole = jax.jit(jax.vmap(chain))(jax.random.split(rng_key, 4000))
    assert np.asarray(whole).all(), "a unit's weights stay together, and a weight of no unit stays"
    found = np.array([np.sum(np.all(np.asarray(ends) == state, axis=1)) for state in STATES])
    assert found.sum() == 4000, "no layer loses its last unit"
    mass = np.exp([by_hand(state, 0.2, counted) for state in STATES])
    expected = 4000 * mass / mass.sum()
    few = expected < 5
    pool = lambda values: np.append(values[~few], values[few].sum()) if few.any() else values  # noqa: E731
    assert scipy.stats.chisquare(pool(found), pool(expected)).pvalue > 1e-4
    assert (expected < 0.4 * 4000).all(), "no mask has most of the mass, or the test would say little"


@pytest.mark.parametrize("death", ["gradient", "uniform"])
def test_odds_of_births_and_deaths(death) -> None:
    """(19.1, 19.3, 19.4): prior by its formula, proposals by counting sets and orders; both ways, every pair of masks."""
    method, c = bp.methods.MBNN(penalty=0.2, death=death), 0.2
    evidence = seen()
    given = {s: jnp.asarray(m) for s, m in units_of((1,) * 5).items()}
    see = jax.jit(lambda alive: method._see(evidence, alive, given))
    judge = jax.jit(lambda *a: method._log_odds(GROUPS, *a))
    views = {state: see(jnp.asarray(state, bool)) for state in STATES}

    def slopes(state) -> np.ndarray:
        """|d loss / dm| of each unit by differences of the loss, with the weights of a unit multiplied by its m."""
        changes = []
        for unit in range(5):
            up, down = (by_hand_scaled([state[u] * (1 + step * (u == unit)) for u in range(5)]) for step in (1e-5, -1e-5))
            changes.append((up - down) / 2e-5)
        return np.abs(changes)

    def by_hand_scaled(factors) -> float:
        a, b = np.asarray(factors[:2]), np.asarray(factors[2:])
        return 2 * np.sum(((LOC["a"] * a).sum(1) @ (LOC["b"] * b) + LOC["b.bias"] * b - [0.5, -0.5, 1.0]) ** 2)

    def proposal(before, after) -> float:
        """Q(m -> m') given the kind and the number of units."""
        changed = [u for u in range(5) if before[u] != after[u]]
        if sum(after) > sum(before):
            return 1 / math.comb(5 - sum(before), len(changed))
        weights = np.exp(-slopes(before) / 2) if death == "gradient" else np.ones(5)
        total = 0.0
        for order in itertools.permutations(changed):
            left, p = [u for u in range(5) if before[u]], 1.0
            for unit in order:
                p *= weights[unit] / sum(weights[u] for u in left)
                left.remove(unit)
            total += p
        return total

    pairs = 0
    for m, n in itertools.product(STATES, STATES):
        changes = np.subtract(n, m)
        if not 1 <= np.abs(changes).sum() <= 3 or not (np.all(changes >= 0) or np.all(changes <= 0)):
            continue
        wanted = by_hand(n, c, "layer") - by_hand(m, c, "layer") + math.log(proposal(n, m) / proposal(m, n))
        birth = jnp.asarray(sum(n) > sum(m))
        found = judge(jnp.asarray(m, bool), jnp.asarray(changes != 0), birth, views[m], views[n])
        assert float(found) == pytest.approx(wanted, abs=2e-3), (m, n)
        pairs += 1
    assert pairs > 80 and isinstance(views[STATES[0]], _Seen)


class Tanh(nn.Module):
    """Three units and no bias: given the first layer's weights it is linear."""

    @nn.compact
    def __call__(self, x):
        hidden = nn.tanh(nn.Dense(3, use_bias=False, name="first")(x))
        return nn.Dense(1, use_bias=False, name="last")(hidden)


X = np.linspace(-2.0, 2.0, 6)
NOISE, PENALTY = 0.8, 0.3
DATA = bp.Dataset(X.astype(np.float32)[:, None], X.astype(np.float32))


def exact_numbers_of_units() -> np.ndarray:
    """P(k | y): the evidence given the units' weights in closed form, over these by a grid of 51 points each."""
    grid = np.linspace(-6, 6, 51)
    density = np.exp(-(grid**2) / 2) / np.exp(-(grid**2) / 2).sum()
    masses = []
    for k in (1, 2, 3):
        weights = np.stack([g.reshape(-1) for g in np.meshgrid(*[grid] * k)], -1)
        prior = np.prod(np.stack([g.reshape(-1) for g in np.meshgrid(*[density] * k)], -1), -1)
        features = np.tanh(X[None, :, None] * weights[:, None, :])
        covariance = NOISE**2 * np.eye(len(X)) + features @ features.transpose(0, 2, 1)
        nats = np.linalg.slogdet(covariance)[1] + np.einsum("i,gij,j->g", X, np.linalg.inv(covariance), X)
        masses.append(math.exp(-PENALTY * k**2) * np.sum(prior * np.exp(-nats / 2)))
    return np.array(masses) / sum(masses)


def three_units() -> bp.BNN:
    return bp.BNN(
        Tanh(), prior=bp.priors.Gaussian(1.0, centred=True), likelihood=bp.likelihoods.Normal(NOISE), input_shape=(1,),
        prunable=bp.select.everything,
    )  # fmt: skip


@pytest.mark.slow_cases(1)
@pytest.mark.slow
@pytest.mark.parametrize(("kernel", "death"), [("SGHMC", "gradient"), ("SGLD", "uniform")])
def test_chains_have_the_posterior_of_the_number_of_units(rng_key, kernel, death) -> None:
    """(19.4) with weights that move and are drawn anew, full batches: the training loop's own functions, against quadrature.

    300 chains of 1,000 acts, of which 800 count, of 25 steps each. Four and a half of the standard errors over chains, about
    .004, in each of three numbers, and .003 for the steps' finite size: one key in 50,000 would fail if that did no harm.
    Without `redraw`, or without the proposals' ratio, P(k = 1) is off by .04 and more.
    """
    bnn = three_units()
    bnn, example = bnn.under(current_sample(bnn.family)), Example.of(DATA)
    method = bp.methods.MBNN(penalty=PENALTY, death=death)
    recipe = make_recipe(
        bnn, example, len(X), optimizer=getattr(bp.kernels, kernel)(step_size=4e-3), sparsifier=method,
        kl_weight=bp.schedules.Constant(1.0), estimator="weight", num_particles=1,
    )  # fmt: skip
    sites = sites_of(bnn, example)
    loop, known, planned = Loop(recipe, sites, len(X)), bnn.meanings(DATA), jnp.asarray(1, jnp.int32)

    def act(standing, _):
        carry, state = standing
        carry = redraw(recipe, sites, example, carry, state.mask)
        state, _ = loop.prune(carry, DATA, state, known, planned)
        carry, _, _ = loop.run(carry, DATA, state.mask, jnp.asarray(25, jnp.int32))
        return (carry, state), jnp.sum(state.mask["first.kernel"])

    def chain(key):
        carry = loop.init(key, DATA)
        state = method.init(key, bnn.read(sites.constrain(carry.params) | known))
        units = jax.lax.scan(act, (carry, state), length=1000)[1][200:]
        return jnp.stack([jnp.mean((units == k).astype(float)) for k in (1, 2, 3)])

    shares = np.asarray(jax.jit(jax.vmap(chain))(jax.random.split(rng_key, 300)))
    error = shares.std(0, ddof=1) / math.sqrt(len(shares))
    assert (error < 0.005).all(), "enough chains to say something"
    assert (np.abs(shares.mean(0) - exact_numbers_of_units()) < 4.5 * error + 0.003).all(), (shares.mean(0), error)


@pytest.mark.every
@pytest.mark.slow
def test_a_fit_has_the_posterior_of_the_number_of_units(rng_key) -> None:
    """The same by `fit_sgmcmc`, 5,000 acts: within .1, six of its standard errors."""
    fit = bp.fit_sgmcmc(
        rng_key, three_units(), DATA, num_steps=100_000, kernel=bp.kernels.SGLD(step_size=4e-3),
        sparsifier=bp.methods.MBNN(penalty=PENALTY), every=20, num_samples=2, progress=False,
    )  # fmt: skip
    units = np.rint(3 * fit.history["prune/density/first.kernel"]).astype(int)[200:]
    np.testing.assert_allclose([np.mean(units == k) for k in (1, 2, 3)], exact_numbers_of_units(), atol=0.1)


@pytest.mark.slow
def test_partly_dead_units_are_whole_after_an_act_and_it_warms_up(rng_key) -> None:
    method = bp.methods.MBNN(penalty=0.0, warm_up=3)
    state = method.init(rng_key, seen().posterior)
    state = state._replace(mask=state.mask | {"a": jnp.array([[True, False], [True, False]])})
    partly = state._replace(mask=state.mask | {"b": jnp.array([[True, False, True], [False, False, True]])})
    for key in jax.random.split(rng_key, 3):
        state, info = method.step(key, seen(), state)
        assert np.asarray(state.mask["a"]).tolist() == [[True, False]] * 2 and int(info.num_pruned) == 0
    whole = np.asarray(method.step(rng_key, seen(), partly)[0].mask["b"])
    assert whole.all(), "a unit with a bias that is alive is alive"


def test_the_penalty_follows_the_rows() -> None:
    assert bp.methods.MBNN(lam=0.05, num_rows=50_000).c == pytest.approx((0.05 * math.log(50_000)) ** 5)
    assert bp.methods.MBNN(lam=0.05, penalty=2.0).c == 2.0
    with pytest.raises(ValueError, match=r"num_rows of methods\.MBNN is not known"):
        _ = bp.methods.MBNN().c


def test_settings_out_of_range_are_refused() -> None:
    for settings, words in (
        ({"death": "slow"}, "unknown death 'slow'"),
        ({"counted": "nets"}, "unknown counted 'nets'. Did you mean 'net'"),
        ({"most": 0}, "most must be an integer of at least 1, got 0"),
        ({"most": 9}, "most must be 1 to 5, got 9"),
        ({"lam": -1.0}, "lam must be finite and not negative"),
        ({"penalty": -0.1}, "penalty must be finite and not negative"),
        ({"warm_up": -1}, "warm_up must be an integer"),
    ):
        with pytest.raises(ValueError, match=words):
            bp.methods.MBNN(**settings)
    with pytest.raises(TypeError, match="penalty must be one number, got 'a'"):
        bp.methods.MBNN(penalty="a")


def sampled(rng_key, bnn, **settings):
    chosen = {"kernel": bp.kernels.SGLD(), "sparsifier": bp.methods.MBNN()} | settings
    return bp.fit_sgmcmc(rng_key, bnn, programs.classes(), num_steps=4, num_samples=1, every=2, progress=False, **chosen)


@pytest.mark.slow
def test_what_it_cannot_do_is_refused_with_the_remedy(rng_key) -> None:
    bnn = programs.small_bnn(prior=bp.priors.Gaussian(), prunable=bp.select.everything)
    with pytest.raises(ValueError, match=r"nothing is sampled here: sample by bp\.fit_sgmcmc"):
        bp.fit_svi(
            rng_key, bnn, programs.classes(), num_steps=4, optimizer=optax.adam(1e-3), sparsifier=bp.methods.MBNN(), every=2
        )
    with pytest.raises(ValueError, match="SGHMCSPL samples a colder one"):
        sampled(rng_key, bnn, kernel=bp.kernels.SGHMCSPL(num_cycles=0))
    with pytest.raises(ValueError, match=r"the kernel's temperature is 0\.1: leave it at 1"):
        sampled(rng_key, bnn, kernel=bp.kernels.SGLD(temperature=0.1))
    with pytest.raises(ValueError, match="the sparsifier's num_rows must be the data's 60, got 7"):
        sampled(rng_key, bnn, sparsifier=bp.methods.MBNN(num_rows=7))
    flat = bp.BNN(
        bp.nets.MLP((), 3), prior=bp.priors.Gaussian(), likelihood=bp.likelihoods.Categorical(), input_shape=(4,),
        prunable=bp.select.everything,
    )  # fmt: skip
    with pytest.raises(ValueError, match="none has a weight that may be pruned"):
        sampled(rng_key, flat)
    fit = bp.fit_svi(rng_key, bnn, programs.classes(), num_steps=2, progress=False)
    with pytest.raises(ValueError, match="a posterior alone has neither"):
        bp.prune_once(fit.params, bp.methods.MBNN(penalty=0.1), program=bnn)
    with pytest.raises(ValueError, match=r"there is none: sample with bp\.fit_sgmcmc"):
        bp.methods.MBNN(penalty=0.1).step(
            rng_key, seen()._replace(loss=None), bp.methods.MBNN().init(rng_key, seen().posterior)
        )


@pytest.mark.every
@pytest.mark.slow
def test_it_goes_with_minibatches_scales_and_checkpoints(rng_key, tmp_path) -> None:
    """Under a prior with scales of its own; a run that was killed gives the same bits."""
    bnn = programs.small_bnn(prior=bp.priors.Horseshoe(), prunable=bp.select.everything)

    settings = {
        "num_steps": 40, "batch_size": 20, "kernel": bp.kernels.SGHMC(step_size=1e-4), "num_samples": 4, "sample_every": 2,
        "sparsifier": bp.methods.MBNN(penalty=0.5), "every": 2, "progress": False,
    }  # fmt: skip
    whole = bp.fit_sgmcmc(rng_key, bnn, programs.classes(), **settings)

    kept = {"checkpoint": tmp_path, "checkpoint_every": 5}

    def kill(moment):
        if moment.step == 25:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        bp.fit_sgmcmc(rng_key, bnn, programs.classes(), callbacks=[kill], **kept, **settings)
    again = bp.fit_sgmcmc(rng_key, bnn, programs.classes(), **kept, **settings)
    assert programs.same_bits(whole.params, again.params) and programs.same_bits(whole.mask, again.mask)
    np.testing.assert_array_equal(whole.history["prune/num_alive"], again.history["prune/num_alive"])
    assert len(set(np.asarray(whole.history["prune/num_alive"]))) > 1


class Residual(nn.Module):
    @nn.compact
    def __call__(self, x):
        hidden = nn.relu(nn.Dense(4, name="first")(x))
        inner = nn.relu(nn.Dense(3, name="inner")(hidden))
        return nn.Dense(2, name="last")(hidden + nn.Dense(4, name="back")(inner))


def test_arrays_that_make_the_same_units_make_one_layer() -> None:
    bnn = bp.BNN(
        Residual(), prior=bp.priors.Gaussian(), likelihood=bp.likelihoods.Categorical(), input_shape=(5,),
        prunable=bp.select.everything,
    )  # fmt: skip
    groups = bnn.groups("unit")
    layer = layers_of(groups)
    numbers = {site: set(layer[ids[ids >= 0]]) for site, ids in groups.members.items()}
    assert numbers["first.kernel"] == numbers["back.kernel"] == numbers["back.bias"] and len(numbers["first.kernel"]) == 1
    assert numbers["inner.kernel"] == numbers["inner.bias"] and numbers["inner.kernel"] != numbers["first.kernel"]
    assert np.bincount(layer).tolist() in ([4, 3], [3, 4])
