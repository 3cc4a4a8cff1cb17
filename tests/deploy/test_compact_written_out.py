"""Networks with operations that are written in simpler ones: loops, running sums, transposed convolutions, known places."""

import functools

import flax.linen as linen
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx
from jax import lax

import bayesprune as bp
from bayesprune.deploy import reader
from bayesprune.report.flops import flops

ROWS = 12
X = np.random.default_rng(0).normal(size=(ROWS, 4, 3)).astype(np.float32)


def flat(x):
    return x.reshape(len(x), -1)


def written(y):
    """Two columns of it in the middle of the rest, at a place that is known when the network is traced."""
    return lax.dynamic_update_slice(y, y[:, :2, 3:], (0, jnp.int32(1), 1))


def counted(turn, x):
    """Each token in turn into the place of another."""
    return lax.dynamic_update_index_in_dim(x, 2.0 * x[:, turn], 3 - turn, 1)


def noisy(x):
    """The same noise for every row, drawn in a loop from a key that is written down."""
    key = jax.random.key(3)
    return lax.scan(lambda c, i: (c + jax.random.normal(jax.random.fold_in(key, i), (6,)), None), x, jnp.arange(3))[0]


BODIES = {
    "a recurrent cell": lambda x: linen.RNN(linen.GRUCell(5))(x)[:, -1],
    "backwards": lambda x: flat(linen.RNN(linen.LSTMCell(4), reverse=True, keep_order=True)(x)),
    "a running sum": lambda x: flat(jnp.cumsum(linen.Dense(5)(x), 1)),
    "a running maximum": lambda x: flat(lax.cummax(linen.Dense(5)(x), 1, reverse=True)),
    "a running sum by halves": lambda x: flat(lax.associative_scan(jnp.add, linen.Dense(5)(x), axis=1)),
    "places by a counter": lambda x: flat(lax.fori_loop(0, 4, counted, linen.Dense(5)(x))),
    "noise of a key": lambda x: noisy(linen.Dense(6)(flat(x))),
    "transposed": lambda x: flat(jnp.tanh(linen.ConvTranspose(4, (3,), strides=(2,))(x))),
    "transposed, apart": lambda x: flat(linen.ConvTranspose(4, (2,), strides=(3,), padding="VALID")(x)),
    "put in its place": lambda x: flat(written(linen.Dense(5)(x))),
    "taken by places": lambda x: flat(linen.Dense(6)(x)[..., jnp.array([3, 0, 0, 5])]),
    "an inverse error function": lambda x: flat(lax.erf_inv(0.9 * jnp.tanh(linen.Dense(5)(x)))),
    "a running logarithm of sums": lambda x: flat(lax.cumlogsumexp(linen.Dense(5)(x), 1, reverse=True)),
    "put at places": lambda x: flat(linen.Dense(6)(x).at[..., jnp.array([4, 1])].set(x[..., :2]).at[:, -1].add(1.0)),
    "a barrier": lambda x: flat(jnp.add(*lax.optimization_barrier((linen.Dense(5)(x), linen.Dense(5)(x))))),
    "angles": lambda x: flat(jnp.fmod(jnp.arctan(linen.Dense(5)(x)) + jnp.round(x[..., :1]), 0.7)),
}


class Net(linen.Module):
    body: str

    @linen.compact
    def __call__(self, x):
        return linen.Dense(3)(BODIES[self.body](x))


class Closed(nnx.Module):
    """A cell that keeps its streams of noise, and draws nothing."""

    def __init__(self, rngs):
        self.rnn, self.out = nnx.RNN(nnx.GRUCell(3, 5, rngs=rngs)), nnx.Linear(5, 3, rngs=rngs)

    def __call__(self, x):
        return self.out(self.rnn(x)[:, -1])


NAMES = [*BODIES, "closed over"]


@functools.cache
def fitted(name: str):
    net = Closed(nnx.Rngs(0)) if name == "closed over" else Net(name)
    bnn = bp.BNN(net, prior=bp.priors.Gaussian(1.0), likelihood=bp.likelihoods.Categorical(), input_shape=(4, 3))
    data = bp.Dataset(X, np.arange(ROWS) % 3)
    return bnn, bp.fit_svi(jax.random.key(0), bnn, data, num_steps=2, batch_size=ROWS, progress=False).params


def pruned(name: str, density: float, keep: str):
    """The smaller network of random weights, and the probabilities of the masked one at the means."""
    bnn, params = fitted(name)
    rng, nodes = np.random.default_rng(1), bnn.posterior(params)
    mask = {site: rng.random(node.loc.shape) < density for site, node in nodes.items()}
    weights = {site: np.asarray(node.loc * node.unit) * mask[site] for site, node in nodes.items()}
    return bp.compact(bnn, params, mask, keep=keep), np.asarray(jax.nn.softmax(bnn.forward(weights, {}, X)))


@pytest.mark.slow_cases(1)
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.slow
def test_nothing_is_pinned_and_all_engines_agree(name, tmp_path) -> None:
    for keep in ("posterior", "mean"):
        small, wanted = pruned(name, 0.4, keep)
        assert not small.pinned and small.certify().holds
        for engine in ("jax", "kernels"):
            np.testing.assert_allclose(small.predict(X, engine=engine), wanted, atol=2e-6, err_msg=engine)
        small.save(tmp_path / "net.bayesprune")
        np.testing.assert_allclose(reader.predict(*reader.load(tmp_path / "net.bayesprune"), X), wanted, atol=2e-6)


@pytest.mark.slow_cases(4)
@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_onnx_has_them_too(name, tmp_path) -> None:
    pytest.importorskip("onnx")
    runtime = pytest.importorskip("onnxruntime")
    small, wanted = pruned(name, 0.7, "posterior")
    bp.export_onnx(small, tmp_path / "net.onnx")
    model = runtime.InferenceSession(str(tmp_path / "net.onnx"), providers=["CPUExecutionProvider"])
    np.testing.assert_allclose(model.run(["mean"], {"x": X})[0], wanted, atol=2e-6)


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_flops_are_those_of_the_network(name) -> None:
    """Whole, but for products with what is known to be zero."""
    (small, _), counted = pruned(name, 1.0, "mean"), flops(fitted(name)[0])["executed"]
    zero = {
        "a recurrent cell": 2 * 5 * 15,  # the state that the loop starts from
        "closed over": 2 * 5 * 15,
        "backwards": 2 * 4 * 16 + 2 * 3 * 4,  # the gate that forgets it, too
        "transposed, apart": 2 * 3 * 16,  # a third of the places, under no tap of the kernel
        "put at places": 2 * 4 * 3 * 2,  # columns in whose place others are put
        "taken by places": 2 * 4 * 3 * 3,  # columns that are not taken
    }
    assert small.cost.dense == counted
    assert small.cost.executed == counted - zero.get(name, 0)


@pytest.mark.slow
def test_a_loop_keeps_one_copy_of_its_weights() -> None:
    for keep in ("posterior", "mean"):
        small, _ = pruned("a recurrent cell", 1.0, keep)
        assert small.cost.numbers < 1.1 * small.cost.dense_numbers


@pytest.mark.every
@pytest.mark.slow
def test_a_loop_over_rows_is_kept_and_named(tmp_path) -> None:
    class Mapped(linen.Module):
        @linen.compact
        def __call__(self, x):
            return linen.Dense(3)(lax.map(jnp.tanh, linen.Dense(4)(flat(x))))

    bnn = bp.BNN(Mapped(), prior=bp.priors.Gaussian(1.0), likelihood=bp.likelihoods.Categorical(), input_shape=(4, 3))
    params = bp.fit_svi(jax.random.key(0), bnn, bp.Dataset(X, np.arange(ROWS) % 3), num_steps=2, progress=False).params
    small = bp.compact(bnn, params, keep="mean")
    assert small.pinned and small.certify().holds
    weights = {site: node.loc * node.unit for site, node in bnn.posterior(params).items()}
    np.testing.assert_allclose(small.predict(X), jax.nn.softmax(bnn.forward(weights, {}, X)), atol=2e-6)
    with pytest.raises(ValueError, match="single rows"):
        small.save(tmp_path / "net.bayesprune")
