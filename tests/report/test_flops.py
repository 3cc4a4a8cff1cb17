"""FLOPs of a network, against formulas by hand, an enumeration of every multiply-add, and XLA's own count."""

import itertools
import math

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import linen as nn
from flax import nnx

import bayesprune as bp


def bnn_of(net, input_shape):
    return bp.BNN(net, prior=bp.priors.Flat(), likelihood=bp.likelihoods.Categorical(), input_shape=input_shape)


def shapes_of(bnn):
    return {str(spec.path): spec.shape for spec in bnn.layout}


def random_mask(bnn, density=0.3, seed=0):
    rng = np.random.default_rng(seed)
    return {site: rng.random(shape) < density for site, shape in shapes_of(bnn).items()}


class NnxMLP(nnx.Module):
    def __init__(self):
        rngs = nnx.Rngs(0)
        self.first, self.second = nnx.Linear(7, 5, rngs=rngs), nnx.Linear(5, 3, rngs=rngs)

    def __call__(self, x):
        return self.second(nnx.relu(self.first(x)))


MLPS = {
    "linen": (lambda: bp.nets.MLP((5,), 3), ("Dense_0.kernel", "Dense_1.kernel")),
    "nnx": (NnxMLP, ("first.kernel", "second.kernel")),
    "equinox": (lambda: eqx.nn.MLP(7, 3, 5, 1, key=jax.random.key(0)), ("layers.0.weight", "layers.1.weight")),
}


@pytest.mark.fast_cases(1)
@pytest.mark.parametrize("kind", MLPS)
def test_a_dense_layer_takes_twice_its_alive_weights(kind) -> None:
    make, (first, second) = MLPS[kind]
    bnn = bnn_of(make(), (7,))
    mask = random_mask(bnn)
    alive = {site: int(mask[site].sum()) for site in (first, second)}
    report = bp.metrics.flops(bnn, mask)
    assert report["per_site"] == {
        first: {"executed": 2 * 7 * 5, "theoretical": 2 * alive[first]},
        second: {"executed": 2 * 5 * 3, "theoretical": 2 * alive[second]},
    }
    assert list(report["per_site"]) == [first, second]
    assert report["executed"] == 100
    assert report["theoretical"] == 2 * (alive[first] + alive[second])
    assert report["ratio"] == report["theoretical"] / 100
    assert report["other"] == {"executed": 0, "theoretical": 0}


def test_lenet_by_hand() -> None:
    bnn = bnn_of(bp.nets.LeNet5(num_outputs=10), (28, 28, 1))
    uses = {"Conv_0": 28 * 28, "Conv_1": 10 * 10, "Conv_2": 1, "Dense_0": 1, "Dense_1": 1}
    weights = {"Conv_0": 25 * 6, "Conv_1": 25 * 6 * 16, "Conv_2": 25 * 16 * 120, "Dense_0": 120 * 84, "Dense_1": 84 * 10}
    mask = {"Conv_1.kernel": np.arange(2400).reshape(5, 5, 6, 16) % 4 == 0, "Dense_0.kernel": np.zeros((120, 84), bool)}
    alive = weights | {"Conv_1": 600, "Dense_0": 0}
    report = bp.metrics.flops(bnn, mask)
    for layer, count in uses.items():
        wanted = {"executed": 2 * count * weights[layer], "theoretical": 2 * count * alive[layer]}
        assert report["per_site"][f"{layer}.kernel"] == wanted
    assert report["executed"] == 2 * sum(uses[layer] * weights[layer] for layer in uses) == 833_040


class LinenConv(nn.Module):
    kwargs: tuple
    transposed: bool = False

    @nn.compact
    def __call__(self, x):
        return (nn.ConvTranspose if self.transposed else nn.Conv)(8, **dict(self.kwargs))(x).reshape(x.shape[0], -1)


CONVOLUTIONS = {  # arguments, inputs, and by hand: output pixels, kernel positions, channels of a group
    "plain": ({"kernel_size": (3, 3), "padding": "VALID"}, (9, 9, 4), 49, 9, 4),
    "same": ({"kernel_size": (3, 3), "padding": "SAME"}, (9, 9, 4), 81, 9, 4),
    "strided": ({"kernel_size": (3, 2), "padding": "VALID", "strides": (2, 3)}, (9, 8, 4), 4 * 3, 6, 4),
    "dilated": ({"kernel_size": (3, 3), "padding": "VALID", "kernel_dilation": (2, 1)}, (9, 9, 4), 5 * 7, 9, 4),
    "grouped": ({"kernel_size": (3, 3), "padding": "VALID", "feature_group_count": 2}, (9, 9, 4), 49, 9, 2),
    "depthwise": ({"kernel_size": (3, 3), "padding": "VALID", "feature_group_count": 4}, (9, 9, 4), 49, 9, 1),
    "one dimension": ({"kernel_size": (3,), "padding": "VALID", "strides": 2}, (9, 4), 4, 3, 4),
    "1 x 1": ({"kernel_size": (1, 1)}, (5, 6, 4), 30, 1, 4),
}


@pytest.mark.fast_cases(1)
@pytest.mark.parametrize("case", CONVOLUTIONS)
def test_convolutions_by_hand(case) -> None:
    kwargs, shape, pixels, positions, channels = CONVOLUTIONS[case]
    bnn = bnn_of(LinenConv(tuple(kwargs.items())), shape)
    mask = random_mask(bnn)
    report = bp.metrics.flops(bnn, mask)
    assert report["executed"] == 2 * pixels * positions * channels * 8
    assert report["theoretical"] == 2 * pixels * int(mask["Conv_0.kernel"].sum())


@pytest.mark.fast_cases(1)
@pytest.mark.parametrize(("stride", "positions"), [(1, 3), (2, 3), (3, 2), (2, 5)])
def test_a_transposed_convolution_meets_no_zeros_between_inputs(stride, positions) -> None:
    kwargs = {"kernel_size": (positions,), "strides": (stride,), "padding": "VALID"}
    bnn = bnn_of(LinenConv(tuple(kwargs.items()), transposed=True), (6, 2))
    mask = random_mask(bnn)
    report = bp.metrics.flops(bnn, mask)
    site = "ConvTranspose_0.kernel"
    uses = np.zeros(positions, int)
    for out, place in itertools.product(range(6 * stride + max(positions - stride, 0)), range(positions)):
        uses[place] += (out + place - (positions - 1)) % stride == 0  # between the inputs lie zeros
    assert report["per_site"][site]["executed"] == 2 * int(uses.sum()) * 2 * 8
    assert report["per_site"][site]["theoretical"] == 2 * int((uses[:, None, None] * mask[site]).sum())


class EqxConv(eqx.Module):
    conv: eqx.nn.Conv2d
    linear: eqx.nn.Linear

    def __init__(self):
        self.conv = eqx.nn.Conv2d(4, 6, 3, stride=2, groups=2, key=jax.random.key(0))
        self.linear = eqx.nn.Linear(6 * 9, 2, key=jax.random.key(1))

    def __call__(self, x):
        return self.linear(jnp.ravel(self.conv(x)))


class NnxConv(nnx.Module):
    def __init__(self):
        rngs = nnx.Rngs(0)
        self.conv = nnx.Conv(4, 6, (3, 3), strides=2, feature_group_count=2, padding="VALID", rngs=rngs)
        self.norm, self.linear = nnx.BatchNorm(6, rngs=rngs), nnx.Linear(6 * 9, 2, rngs=rngs)

    def __call__(self, x):
        return self.linear(self.norm(self.conv(x)).reshape(x.shape[0], -1))


@pytest.mark.fast_cases(1)
@pytest.mark.parametrize(
    ("make", "shape", "part"), [(EqxConv, (4, 7, 7), "weight"), (NnxConv, (7, 7, 4), "kernel")], ids=["equinox", "nnx"]
)
def test_strides_and_groups_in_other_modules(make, shape, part) -> None:
    bnn = bnn_of(make(), shape)
    mask = random_mask(bnn)
    report = bp.metrics.flops(bnn, mask)
    assert report["per_site"] == {
        f"conv.{part}": {"executed": 2 * 9 * 9 * 2 * 6, "theoretical": 2 * 9 * int(mask[f"conv.{part}"].sum())},
        f"linear.{part}": {"executed": 2 * 54 * 2, "theoretical": 2 * int(mask[f"linear.{part}"].sum())},
    }


def test_xla_counts_about_the_same() -> None:
    net = bp.nets.MLP((64, 64), 10, activation=nn.relu)
    params = net.init(jax.random.key(0), jnp.zeros((1, 100)))
    cost = jax.jit(net.apply).lower(params, jnp.zeros((1, 100))).compile().cost_analysis()
    assert bp.metrics.flops(bnn_of(net, (100,)))["executed"] == pytest.approx(cost["flops"], rel=0.03)


def test_without_a_mask_everything_is_alive() -> None:
    bnn = bnn_of(bp.nets.MLP((5,), 3), (7,))
    whole = {site: np.ones(shape, bool) for site, shape in shapes_of(bnn).items()}
    assert bp.metrics.flops(bnn) == bp.metrics.flops(bnn, whole) == bp.metrics.flops(bnn, {})
    assert bp.metrics.flops(bnn)["ratio"] == 1.0


def test_attention_scores_are_others_and_no_mask_lessens_them() -> None:
    class Net(nn.Module):
        @nn.compact
        def __call__(self, x):
            return nn.MultiHeadDotProductAttention(num_heads=2, qkv_features=6)(x).mean(axis=1)

    bnn = bnn_of(Net(), (5, 4))
    report = bp.metrics.flops(bnn, {site: np.zeros(shape, bool) for site, shape in shapes_of(bnn).items()})
    scores = 2 * 2 * (5 * 5 * 6)  # queries with keys, then with values
    assert report["other"] == {"executed": scores, "theoretical": scores}
    assert report["theoretical"] == scores
    assert report["executed"] == scores + 3 * (2 * 5 * 4 * 6) + 2 * 5 * 6 * 4
    assert len(report["per_site"]) == 4


class Around(eqx.Module):
    """One weight matrix, (4, 4), and what a network does with it."""

    weight: jax.Array
    function: object = eqx.field(static=True)

    def __call__(self, x):
        return self.function(self.weight, x)


def around(function, shape=(4, 4)):
    return bnn_of(Around(jnp.ones(shape), function), (4,))


@jax.custom_vjp
def own_gradient(w, x):
    return w @ x


own_gradient.defvjp(lambda w, x: (w @ x, None), lambda _, g: (g, g))

ONCE = {
    "transposed": lambda w, x: w.T @ x,
    "cast": lambda w, x: (w.astype(jnp.bfloat16) @ x.astype(jnp.bfloat16)).astype(jnp.float32),
    "reshaped": lambda w, x: w.reshape(2, 8).reshape(4, 4) @ x,
    "scaled": lambda w, x: (w / jnp.linalg.norm(w) * jnp.arange(1.0, 5.0)) @ x,
    "on the left": lambda w, x: x @ w,
    "einsum": lambda w, x: jnp.einsum("ij,j->i", w, x),
    "jit": lambda w, x: jax.jit(lambda w: w * 2.0)(w) @ jax.nn.silu(x),
    "remat": lambda w, x: jax.checkpoint(lambda x: jnp.tanh(w @ x))(x),
    "custom gradient": own_gradient,
    "an activation before": lambda w, x: w @ (x + jnp.sin(x)),
    "a branch known beforehand": lambda w, x: jax.lax.cond(jnp.array(True), lambda: w @ x, lambda: w @ (w @ x)),
    "by platform": lambda w, x: jax.lax.platform_dependent(x, default=lambda x: w @ x),
}


@pytest.mark.fast_cases(1)
@pytest.mark.parametrize("case", ONCE)
def test_a_weight_is_followed_to_its_product(case) -> None:
    bnn = around(ONCE[case])
    mask = random_mask(bnn)
    assert 0 < mask["weight"].sum() < 16
    wanted = {"executed": 2 * 16, "theoretical": 2 * int(mask["weight"].sum())}
    assert bp.metrics.flops(bnn, mask)["per_site"] == {"weight": wanted}


def test_a_weight_that_is_used_again_is_counted_again() -> None:
    bnn = around(lambda w, x: w @ jnp.tanh(w[:2].T @ (w[:2] @ x)))
    mask = random_mask(bnn)
    top, all_of_it = int(mask["weight"][:2].sum()), int(mask["weight"].sum())
    report = bp.metrics.flops(bnn, mask)
    assert (report["executed"], report["theoretical"]) == (2 * (16 + 8 + 8), 2 * (all_of_it + 2 * top))


def test_dead_weights_that_a_net_revives_are_not_saved() -> None:
    bnn = around(lambda w, x: (w - w.mean()) @ x)
    assert bp.metrics.flops(bnn, random_mask(bnn))["theoretical"] == 2 * 16


@pytest.mark.fast_cases(1)
@pytest.mark.parametrize("reverse", [False, True])
def test_a_loop_of_fixed_length_uses_each_slice_once(reverse) -> None:
    def loop(w, x):
        x, doubled = jax.lax.scan(lambda x, layer: (jnp.tanh(layer @ x), 2.0 * layer), x, w, reverse=reverse)
        return doubled[0] @ jax.lax.fori_loop(0, 5, lambda _, x: w[1] @ x, x)

    bnn = around(loop, (3, 4, 4))
    mask = random_mask(bnn)
    counts = mask["weight"].sum(axis=(1, 2))
    report = bp.metrics.flops(bnn, mask)
    assert report["executed"] == 2 * 16 * (3 + 5 + 1)
    assert report["theoretical"] == 2 * int(counts.sum() + 5 * counts[1] + counts[0])


def layers(w, x):
    x, _ = jax.lax.scan(lambda x, layer: (jnp.tanh(layer.T @ x), None), x, w)
    return jax.lax.fori_loop(0, 5, lambda _, x: w[1] @ x, x)


def test_a_long_loop_is_counted_as_a_short_one(monkeypatch) -> None:
    mask = random_mask(around(layers, (3, 4, 4)))
    counts = mask["weight"].sum(axis=(1, 2))
    for _ in range(2):
        report = bp.metrics.flops(around(layers, (3, 4, 4)), mask)
        assert report["executed"] == 2 * 16 * (3 + 5)
        assert report["theoretical"] == 2 * int(counts.sum() + 5 * counts[1])
        monkeypatch.setattr("bayesprune.structure.jaxprs.MOST_EQUATIONS", 1)
    irregular = lambda w, x: jax.lax.scan(lambda x, layer: (layer @ x, None), x, jnp.stack([w[0], w[2], w[1]]))[0]  # noqa: E731
    made_anew = lambda w, x: jax.lax.fori_loop(0, 3, lambda _, c: (2.0 * c[0], c[0] @ c[1]), (w[0], x))[1]  # noqa: E731
    nested = lambda w, x: jax.lax.fori_loop(0, 3, lambda _, x: layers(w, x), x)  # noqa: E731
    for net in (irregular, made_anew, nested):
        with pytest.raises(ValueError, match="inside 'scan', and how many of them are executed, or of which weights"):
            bp.metrics.flops(around(net, (3, 4, 4)))


TRIANGLE = np.tril(np.ones((4, 4), np.float32))
MASKED_BY_THE_NET = {
    "a product": lambda w, x: (w * TRIANGLE) @ x,
    "a choice": lambda w, x: jnp.tril(w) @ x,
    "a choice of zeros": lambda w, x: jnp.where(np.bool_(TRIANGLE), 2.0 * w, 0.0) @ x,
}


@pytest.mark.fast_cases(2)
@pytest.mark.parametrize("case", MASKED_BY_THE_NET)
def test_zeros_that_the_net_itself_puts_among_its_weights(case) -> None:
    """As those of an autoregressive net: never multiplied by a sparse kernel, and never in use."""
    bnn = around(MASKED_BY_THE_NET[case])
    mask = random_mask(bnn, density=0.6)
    alive = mask["weight"] & (TRIANGLE == 1)
    report = bp.metrics.flops(bnn, mask)
    assert (report["executed"], report["theoretical"]) == (2 * 16, 2 * int(alive.sum()))
    np.testing.assert_array_equal(bp.connected(bnn, mask)["weight"], alive)


def test_where_two_weights_meet_alive_pairs_count() -> None:
    bnn = around(lambda w, x: (w[:, :3] @ w[:3]) @ x)
    mask = random_mask(bnn, density=0.5)
    alive = mask["weight"]
    pairs = sum(alive[i, k] and alive[k, j] for i, j, k in itertools.product(range(4), range(4), range(3)))
    merged = sum(any(alive[i, k] and alive[k, j] for k in range(3)) for i, j in itertools.product(range(4), range(4)))
    report = bp.metrics.flops(bnn, mask)
    assert (report["executed"], report["theoretical"]) == (2 * (48 + 16), 2 * (int(pairs) + merged))


class OnRows(nn.Module):
    """A function of one weight matrix, (4, 4), and the batch: outside of any mapping, where a branch stays a branch."""

    function: object

    @nn.compact
    def __call__(self, x):
        return self.function(self.param("w", nn.initializers.ones, (4, 4)), x)


UNSETTLED = {
    "while": lambda w, x: jax.lax.while_loop(lambda x: x[0, 0] < 1.0, lambda x: x @ w, x),
    "cond": lambda w, x: jax.lax.cond(x[0, 0] > 0.0, lambda: x @ w, lambda: x),
    "nested": lambda w, x: jax.lax.cond(x[0, 0] > 0.0, lambda: jax.jit(lambda x: x @ w)(x), lambda: x),
}


@pytest.mark.parametrize("case", UNSETTLED)
def test_what_is_settled_only_when_it_runs_is_refused(case) -> None:
    with pytest.raises(ValueError, match="not known before it runs"):
        bp.metrics.flops(bnn_of(OnRows(UNSETTLED[case]), (4,)))


def test_a_mapped_branch_executes_both_sides() -> None:
    bnn = around(lambda w, x: jax.lax.cond(x[0] > 0.0, lambda: w @ x, lambda: w.T @ x))
    assert bp.metrics.flops(bnn)["executed"] == 2 * (16 + 16)


def test_branches_without_products_are_no_matter() -> None:
    bnn = bnn_of(OnRows(lambda w, x: jax.lax.cond(x[0, 0] > 0.0, lambda: x, lambda: -x) @ w), (4,))
    assert bp.metrics.flops(bnn)["executed"] == 32


def test_a_net_without_products_has_no_ratio() -> None:
    report = bp.metrics.flops(around(lambda w, x: w[0] * x))
    assert (report["executed"], report["theoretical"], report["per_site"]) == (0, 0, {})
    assert math.isnan(report["ratio"])


def test_bad_input_is_told() -> None:
    bnn = bnn_of(bp.nets.MLP((5,), 3), (7,))
    with pytest.raises(ValueError, match="unknown site in mask 'Dense_9"):
        bp.metrics.flops(bnn, {"Dense_9.kernel": np.ones((7, 5), bool)})
    with pytest.raises(ValueError, match=r"has shape \(5, 7\)"):
        bp.metrics.flops(bnn, {"Dense_0.kernel": np.ones((5, 7), bool)})
    with pytest.raises(TypeError, match=r"must be a bp\.BNN, got Program"):
        bp.metrics.flops(bp.Program(bnn.model, bnn.guide))
    with pytest.raises(ValueError, match="every must be an integer"):
        bp.metrics.training_flops(bp.metrics.flops(bnn), every=0)


@pytest.mark.fast_cases(1)
@pytest.mark.parametrize("every", [1, 7, 100])
def test_training_is_the_mean_over_a_round_of_steps(every) -> None:
    bnn = bnn_of(bp.nets.MLP((5,), 3), (7,))
    report = bp.metrics.flops(bnn, random_mask(bnn))
    dense, sparse = report["executed"], report["theoretical"]
    steps = [(sparse, sparse, sparse)] * every + [(sparse, sparse, dense)]  # forward, inputs' gradient, weights' gradient
    cost = bp.metrics.training_flops(report, every)
    assert cost["theoretical"] == pytest.approx(np.mean([sum(step) for step in steps]))
    assert cost["executed"] == 3 * dense
