"""SGHMC-SPL as a method: against a loop over groups, its groups in networks, and a fit that finds the inputs that matter."""

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import pytest
import scipy.stats
from numpyro.infer import Trace_ELBO

import bayesprune as bp
from bayesprune.core.types import Evidence, Groups
from bayesprune.model.families import MapFamily
from bayesprune.model.samples import current_sample, values_of
from bayesprune.train.renewal import weigh
from bayesprune.train.state import Carry, Recipe
from tests.infer import programs

SIZES = {"a": (4, 3), "b": (3, 2)}
GROUPS = Groups({"a": np.arange(4)[:, None], "b": 4 + np.arange(3)[:, None]}, 7)


def seen(key, prior_scale=0.5, unit=1.0, spread=1.0):
    keys = jax.random.split(key, 2)
    weights = {
        "a": jax.random.normal(keys[0], (4, 3)) * jnp.array([[spread], [0.3], [0.05], [0.001]]),
        "b": jax.random.normal(keys[1], (3, 2)) * jnp.array([[1.0], [0.02], [0.02]]),
    }
    nodes = {s: bp.MeanField(w, jnp.zeros_like(w), prior_scale, unit) for s, w in weights.items()}
    return Evidence(nodes, {}, groups=GROUPS)


@pytest.mark.slow
@pytest.mark.parametrize("unit", [1.0, 0.2])
def test_a_round_of_em_is_that_of_a_loop_over_groups(rng_key, unit) -> None:
    """(7.4) and (7.5), by densities of SciPy; small groups of an array go but for its best."""
    method, evidence = bp.methods.SGHMCSPL(ratio=30.0, hard=1e-3, warm_up=0, share=0.3), seen(rng_key, unit=unit)
    state, info = method.step(rng_key, evidence, method.init(rng_key, evidence.posterior))
    slab, spike, included = 4.0, 120.0, []
    for site, node in evidence.posterior.items():
        sizes = np.mean((np.asarray(node.loc) * unit) ** 2, 1)
        for row, w in enumerate(np.asarray(node.loc, np.float64)):
            joint = [scipy.stats.norm.pdf(w, scale=p**-0.5).prod() * s for p, s in ((slab, 0.3), (spike, 0.7))]
            p = joint[0] / sum(joint)
            included.append(p)
            found = np.asarray(method.precision(state)[site][row])
            np.testing.assert_allclose(found, (1 - p) * (spike - slab), rtol=1e-3, atol=1e-3)
            stays = sizes[row] >= 1e-3 or sizes[row] == sizes.max()
            assert np.asarray(state.mask[site][row]).tolist() == [stays] * len(w)
    assert float(state.memory.share) == pytest.approx(np.clip(np.mean(included), 1 / 8, 7 / 8), rel=1e-4)
    assert int(info.num_alive) < 18


@pytest.mark.slow
@pytest.mark.parametrize("hard", [1e-3, None])
def test_dead_groups_stay_finite(rng_key, hard) -> None:
    """Twice: the second round has groups without a living weight, whose decays the kernel still takes."""
    method, evidence = bp.methods.SGHMCSPL(ratio=30.0, hard=hard, warm_up=0), seen(rng_key)
    state = method.init(rng_key, evidence.posterior)
    for _ in range(2):
        state, _ = method.step(rng_key, evidence, state)
    assert not np.asarray(state.mask["a"]).all()
    assert all(np.isfinite(decay).all() for decay in method.precision(state).values())
    assert np.isfinite(state.memory.share)


def test_the_switch_is_hard(rng_key) -> None:
    method, evidence = bp.methods.SGHMCSPL("switch", ratio=10.0, soft=0.01, hard=0.0, warm_up=0), seen(rng_key)
    state, _ = method.step(rng_key, evidence, method.init(rng_key, evidence.posterior))
    for site, node in evidence.posterior.items():
        small = np.mean(np.square(node.loc), 1) < 0.01
        np.testing.assert_allclose(method.precision(state)[site], np.where(small, 9 * 4.0, 0.0)[:, None] * np.ones(SIZES[site]))
        assert np.asarray(state.mask[site]).all()


def test_without_a_threshold_the_spike_s_groups_go(rng_key) -> None:
    method, evidence = bp.methods.SGHMCSPL(ratio=30.0, hard=None, warm_up=0), seen(rng_key)
    state, _ = method.step(rng_key, evidence, method.init(rng_key, evidence.posterior))
    assert np.asarray(state.mask["a"]).any(1).tolist() == [True, True, False, False]


@pytest.mark.slow
def test_ranges(rng_key) -> None:
    """Weights of one sign and size have a range of zero; the best group stays in any case."""
    nodes = {"a": bp.MeanField(jnp.array([[0.5, 0.5], [0.4, -0.4]]), jnp.zeros((2, 2)))}
    evidence = Evidence(nodes, {}, groups=Groups({"a": np.array([[0], [1]])}, 2))
    method = bp.methods.SGHMCSPL("switch", size="range", hard=0.1, warm_up=0)
    state, _ = method.step(rng_key, evidence, method.init(rng_key, nodes))
    assert np.asarray(state.mask["a"]).any(1).tolist() == [False, True]


def test_it_waits(rng_key) -> None:
    method, evidence = bp.methods.SGHMCSPL(warm_up=2), seen(rng_key)
    state = method.init(rng_key, evidence.posterior)
    for acts in (False, False, True):
        state, _ = method.step(rng_key, evidence, state)
        assert (not np.asarray(state.mask["b"]).all()) == acts
        assert bool(np.asarray(method.precision(state)["a"]).any()) == acts


def test_after_the_fit_it_waits_for_nothing() -> None:
    """A posterior alone has no training to warm up in; and it is refused where nothing knows the groups."""
    bnn = bp.BNN(
        bp.nets.MLP((), 1), prior=bp.priors.Gaussian(1.0, centred=True), likelihood=bp.likelihoods.Normal(1.0),
        input_shape=(3,), prunable=bp.select.everything,
    )  # fmt: skip
    params = {
        "Dense_0.kernel$draws": jnp.array([[[1.0], [1e-4], [1.0]]] * 2)[None],
        "Dense_0.bias$draws": jnp.ones((1, 2, 1)),
    }
    cut = bp.prune_once(params, bp.methods.SGHMCSPL(), program=bnn)
    assert np.asarray(cut.mask["Dense_0.kernel"])[:, 0].tolist() == [True, False, True]
    with pytest.raises(ValueError, match="give program=bnn"):
        bp.prune_once(params, bp.methods.SGHMCSPL(), prior_scale=1.0)


@pytest.mark.slow
def test_while_it_waits_the_kernel_s_decays_stay(rng_key) -> None:
    """Under strict promotion of types, too."""
    method, evidence = bp.methods.SGHMCSPL(warm_up=2), seen(rng_key)
    kernel, params = bp.kernels.SGHMCSPL(num_rows=10, decay=0.5), {f"{site}_map_loc": jnp.zeros(s) for site, s in SIZES.items()}
    recipe = Recipe(programs.small_bnn(), Trace_ELBO(), kernel, method, bp.schedules.Constant(1.0), 10, (), None)
    carry = Carry(params, kernel.init(params), {}, *[jnp.zeros((), jnp.int32)] * 4)
    state = method.init(rng_key, evidence.posterior)
    for speaks in (False, False, True):
        with jax.numpy_dtype_promotion("strict"):
            state, _ = method.step(rng_key, evidence, state)
            decays = weigh(recipe, carry, state).opt_state.decay
        wanted = method.precision(state)["a"] / 10 if speaks else 0.5 * np.ones(SIZES["a"])
        np.testing.assert_allclose(decays["a_map_loc"], wanted, rtol=1e-6)
    assert np.asarray(decays["a_map_loc"]).max() > 0.5


@pytest.mark.every
@pytest.mark.slow
def test_a_fit_that_goes_on_keeps_its_decays_while_the_method_waits(rng_key) -> None:
    """Those that the kernel starts with, and those of a run that goes on; after the wait they are the method's."""
    bnn, data = programs.small_bnn(prior=bp.priors.Gaussian(1.0, centred=True)), programs.classes()

    def decays(warm_up, num_steps=4, **settings):
        fit = bp.fit_sgmcmc(
            rng_key, bnn, data, num_steps=num_steps, num_samples=1, every=2, progress=False,
            kernel=bp.kernels.SGHMCSPL(num_cycles=0, decay=0.5), sparsifier=bp.methods.SGHMCSPL(warm_up=warm_up), **settings,
        )  # fmt: skip
        found = fit.state.optim_state[1][1].decay
        return fit, next(np.asarray(value) for name, value in found.items() if name.startswith("Dense_0.kernel"))

    with pytest.warns(UserWarning, match="never acts"):
        np.testing.assert_array_equal(decays(warm_up=100)[1], 0.5)
    before, learned = decays(warm_up=0)
    assert not (learned == 0.5).any()
    with pytest.warns(UserWarning, match="never acts"):
        np.testing.assert_array_equal(decays(warm_up=10, init=before)[1], learned)


@pytest.mark.fast_cases(1)
@pytest.mark.parametrize("prior", [bp.priors.Flat(), bp.priors.Horseshoe()])
def test_under_a_prior_with_scales_it_sees_weights_given_them(rng_key, prior) -> None:
    """A sampler's nodes: the prior of loc is N(0, 1), and loc unit is the weight that the network has."""
    bnn = programs.small_bnn(prior=prior)
    moving = bnn.under(current_sample(bnn.family))
    sites = numpyro.handlers.trace(numpyro.handlers.seed(moving.guide, rng_key)).get_trace()
    params = {name: site["value"] for name, site in sites.items() if site["type"] == "param"}
    values = values_of(moving.guide, params)
    weights = numpyro.handlers.substitute(numpyro.handlers.seed(prior.model, rng_key), data=values)(moving.layout)
    for site, node in moving.read(params | moving.describe(params)).items():
        np.testing.assert_array_equal(node.prior_scale, 1.0)
        np.testing.assert_allclose(node.loc * node.unit, weights[site], rtol=1e-5)


def test_the_slab_is_of_what_the_scale_multiplies_and_the_threshold_of_the_weight(rng_key) -> None:
    """A large w_hat under a small scale has no decay and is cut; a small one under a scale of 1 has one and stays."""
    unit = jnp.array([[0.01], [1.0], [1.0]])
    nodes = {"a": bp.MeanField(jnp.array([[2.0, 2.0], [0.1, 0.1], [2.0, 2.0]]), jnp.zeros((3, 2)), 1.0, unit)}
    method = bp.methods.SGHMCSPL(ratio=50.0, hard=1e-3, warm_up=0)
    evidence = Evidence(nodes, {}, groups=Groups({"a": np.arange(3)[:, None]}, 3))
    state, _ = method.step(rng_key, evidence, method.init(rng_key, nodes))
    assert np.asarray(state.mask["a"])[:, 0].tolist() == [False, True, True]
    assert (np.asarray(method.precision(state)["a"])[:, 0] > 1).tolist() == [False, True, False]


class Convolutions(nn.Module):
    @nn.compact
    def __call__(self, x):
        x = nn.relu(nn.Conv(2, (2, 2))(x))
        x = nn.relu(nn.Conv(3, (2, 2))(x))
        return nn.Dense(2)(x.reshape((x.shape[0], -1)))


@pytest.mark.parametrize(("name", "count"), [("per_input", 1 + 2 + 48), ("per_slice", 2 + 6 + 48)])
def test_groups_of_a_network(name, count) -> None:
    bnn = bp.BNN(
        Convolutions(),
        prior=bp.priors.Gaussian(),
        likelihood=bp.likelihoods.Categorical(),
        input_shape=(4, 4, 1),
        prunable=bp.select.everything,
    )
    groups = bnn.groups(name)
    assert groups.count == count
    whole = {str(s.path): np.broadcast_to(groups.members[str(s.path)], s.shape) for s in bnn.layout}
    kernel = whole["Conv_1.kernel"]
    assert len(np.unique(kernel)) == (2 if name == "per_input" else 6)
    assert all(len(np.unique(kernel[..., i, :] if name == "per_input" else kernel[..., i, 0])) == 1 for i in range(2))
    assert (whole["Conv_1.bias"] == -1).all()
    numbers = np.concatenate([ids.reshape(-1) for ids in whole.values()])
    assert set(numbers[numbers >= 0]) == set(range(count))


class Grouped(nn.Module):
    """A convolution in four groups of channels, straight after the data, or after a convolution that makes its channels."""

    first: int = 0

    @nn.compact
    def __call__(self, x):
        if self.first:
            x = nn.relu(nn.Conv(self.first, (1, 1), name="whole")(x))
        x = nn.relu(nn.Conv(8, (3, 3), feature_group_count=4, name="grouped")(x))
        return nn.Dense(2)(x.mean((1, 2)))


@pytest.mark.parametrize(("channels", "first"), [(4, 0), (8, 0), (1, 4)])
def test_a_grouped_convolution_has_a_group_for_each_channel_that_it_reads(channels, first) -> None:
    """By derivatives: entries of one group move with one channel, and with no other; one or two channels to a group."""
    bnn = bp.BNN(
        Grouped(first), prior=bp.priors.Gaussian(), likelihood=bp.likelihoods.Categorical(), input_shape=(4, 4, channels),
        prunable=lambda path, shape: path == "grouped.kernel",
    )  # fmt: skip
    reads = first or channels
    kernel = jnp.ones((3, 3, reads // 4, 8))
    of_channel = lambda kernel, x: jax.lax.conv_general_dilated(  # noqa: E731
        x, kernel, (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC"), feature_group_count=4
    ).sum()
    groups = bnn.groups("per_input")
    assert groups.count == reads
    members = np.broadcast_to(groups.members["grouped.kernel"], kernel.shape)
    for channel in range(reads):
        moved = jax.grad(of_channel)(kernel, jnp.zeros((1, 4, 4, reads)).at[..., channel].set(1.0)) != 0
        np.testing.assert_array_equal(members == channel, moved)
    slices = np.broadcast_to(bnn.groups("per_slice").members["grouped.kernel"], kernel.shape)
    assert bnn.groups("per_slice").count == 2 * reads
    assert all(len(np.unique(members[slices == one])) == 1 for one in range(2 * reads)), "a slice reads one channel"


def regression(rows: int, seed: int = 0) -> bp.Dataset:
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(rows, 20)).astype(np.float32)
    return bp.Dataset(x, (2 * x[:, 0] - 1.5 * x[:, 1] + rng.normal(size=rows)).astype(np.float32))


@pytest.mark.slow_cases(1)
@pytest.mark.slow
@pytest.mark.parametrize("rule", ["em", "switch"])
def test_a_chain_finds_the_inputs_that_matter(rng_key, rule) -> None:
    """Two of twenty, linear, 2,000 rows; no failure is allowed for at this key."""
    data = regression(2000)
    bnn = bp.BNN(
        bp.nets.MLP((4,), 1, activation=nn.relu),
        prior=bp.priors.Gaussian(1.0, centred=True),
        likelihood=bp.likelihoods.Normal(1.0),
        input_shape=(20,),
        prunable=bp.select.kernels,
        posterior=MapFamily(init_loc="he"),
    )
    fit = bp.fit_sgmcmc(
        rng_key, bnn, data, num_steps=3000, batch_size=200, kernel=bp.kernels.SGHMCSPL(step_size=0.2, num_cycles=3),
        sparsifier=bp.methods.SGHMCSPL(rule, ratio=50.0, soft=0.2, hard=0.1, warm_up=20), num_samples=5, burn_in=2000,
        progress=False,
    )  # fmt: skip
    assert np.flatnonzero(np.asarray(fit.mask["Dense_0.kernel"]).any(1)).tolist() == [0, 1]
    test = regression(500, seed=1)
    assert bp.evaluate(rng_key, bnn, fit.params, test)["rmse"] < 1.15
    assert bp.connected(bnn, fit.mask)["Dense_0.kernel"].sum() <= 8


@pytest.mark.slow
def test_a_mixture_of_gaussians_by_sampling_finds_the_inputs_that_matter(rng_key) -> None:
    """Spike and slab under plain SGHMC (Sun, Song & Liang 2022): weights that are more likely of the spike go afterwards.

    What is left reads the two inputs of twenty that matter; no failure is allowed for at this key.
    """
    data, prior = regression(2000), bp.priors.GaussianSlab(0.02, 1.0, 0.1)
    bnn = bp.BNN(
        bp.nets.MLP((4,), 1, activation=nn.relu), prior=prior, likelihood=bp.likelihoods.Normal(1.0), input_shape=(20,)
    )
    fit = bp.fit_sgmcmc(
        rng_key, bnn, data, num_steps=6000, batch_size=200, kernel=bp.kernels.SGHMC(step_size=2e-5), num_samples=40,
        burn_in=2000, sample_every=100, progress=False,
    )  # fmt: skip
    pruned = bp.prune_once(fit.params, bp.methods.Cut("inclusion", threshold=0.0), program=bnn)
    in_use = np.asarray(bp.connected(bnn, pruned.mask)["Dense_0.kernel"])
    assert np.flatnonzero(in_use.any(1)).tolist() == [0, 1] and in_use.sum() <= 8
    scores = bp.evaluate(rng_key, bnn, pruned.params, regression(500, seed=1), mask=pruned.mask)
    assert scores["rmse"] < 1.1


@pytest.mark.slow_cases(1)
@pytest.mark.slow
@pytest.mark.parametrize("rule", ["em", "switch"])
def test_units_fall_whole(rng_key, rule) -> None:
    """By hand: a unit's size is the mean square over its column and its bias; those below the threshold go, as one."""
    bnn = programs.small_bnn(prior=bp.priors.Gaussian(1.0, centred=True), prunable=bp.select.everything)
    rng = np.random.default_rng(0)
    loc = {
        str(s.path): jnp.asarray(rng.normal(size=s.shape) * rng.uniform(0.1, 1, s.shape[-1]), jnp.float32) for s in bnn.layout
    }
    sizes = {}
    for layer in ("Dense_0", "Dense_1"):
        whole = np.concatenate([loc[f"{layer}.kernel"], loc[f"{layer}.bias"][None]])
        sizes[layer] = np.mean(np.square(whole), axis=0)
    hard = float(np.median(np.concatenate(list(sizes.values()))))
    method = bp.methods.SGHMCSPL(rule, soft=2 * hard, hard=hard, scope="unit", warm_up=0)
    nodes = {site: bp.MeanField(value, jnp.zeros_like(value), 1.0) for site, value in loc.items()}
    mask = method.step(rng_key, Evidence(nodes, None, groups=bnn.groups("unit")), method.init(rng_key, nodes))[0].mask
    for layer, size in sizes.items():
        assert 0 < (size < hard).sum() < size.size
        for part in ("kernel", "bias"):
            alive = np.asarray(mask[f"{layer}.{part}"])
            np.testing.assert_array_equal(alive, np.broadcast_to(size >= hard, alive.shape))
    assert all(np.asarray(mask[f"Dense_2.{part}"]).all() for part in ("kernel", "bias")), "outputs are no units"


def test_refusals() -> None:
    method = bp.methods.SGHMCSPL
    for settings, words in (
        ({"rule": "hard"}, "unknown rule"),
        ({"ratio": 1.0}, "ratio must be above 1"),
        ({"share": 1.0}, r"share must lie in \(0, 1\)"),
        ({"rule": "switch", "hard": None}, "has none: give a threshold"),
        ({"scope": "layer"}, "unknown scope"),
        ({"size": "range", "hard": None}, "hard=None compares nothing: leave size out"),
    ):
        with pytest.raises(ValueError, match=words):
            method(**settings)
    for name, given in (("ratio", "a"), ("share", None)):
        with pytest.raises(TypeError, match=f"{name} must be one number, got {given!r}"):
            method(**{name: given})


def test_a_prior_that_is_no_gaussian_is_refused(rng_key) -> None:
    bnn = programs.small_bnn(prior=bp.priors.ScaleMixture())
    with pytest.raises(ValueError, match="ScaleMixture, is no fixed Gaussian about zero"):
        bp.fit_sgmcmc(
            rng_key, bnn, programs.classes(), num_steps=8, num_samples=4, progress=False,
            kernel=bp.kernels.SGHMCSPL(), sparsifier=bp.methods.SGHMCSPL(warm_up=0), every=2,
        )  # fmt: skip
