"""Operations that are not followed: what is left when they fall away, what they cost, keys that a net closes over."""

import functools

import flax.linen as linen
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx

import bayesprune as bp
from bayesprune.deploy import reader
from bayesprune.deploy.program import from_bnn
from bayesprune.deploy.program.ops import GONE
from bayesprune.report.flops import flops

ROWS = 12
X = np.random.default_rng(0).normal(size=(ROWS, 4, 3)).astype(np.float32)
Y = np.arange(ROWS) % 3


class Branches(linen.Module):
    """A chain through a reshape, and beside it one through a sort, joined by the kernel "joins"."""

    @linen.compact
    def __call__(self, x):
        x = x.reshape(len(x), -1)
        a = jax.nn.relu(linen.Dense(4)(x)).reshape(len(x), 2, 2)
        chain = linen.Dense(3)(a.reshape(len(x), -1))
        return chain + linen.Dense(3, name="joins")(jnp.sort(linen.Dense(4)(x), -1))


class Places(linen.Module):
    """The same, with rows and places in one axis."""

    @linen.compact
    def __call__(self, x):
        a = jnp.tanh(linen.Dense(2)(x.reshape(-1, 3))).reshape(len(x), -1)
        sorted_ = jnp.sort(linen.Dense(4)(x.reshape(len(x), -1)), -1)
        return linen.Dense(3)(a) + linen.Dense(3, name="joins")(sorted_)


class Spread(linen.Module):
    """Standardised by `jnp.var`, in which there is a constant that is no number."""

    @linen.compact
    def __call__(self, x):
        h = linen.Dense(6)(x.reshape(len(x), -1))
        return linen.Dense(3)((h - h.mean(-1, keepdims=True)) / jnp.sqrt(jnp.var(h, -1, keepdims=True) + 1e-5))


class Normed(linen.Module):
    """Divided by its own length, which is nothing where all of it is dead."""

    @linen.compact
    def __call__(self, x):
        h = linen.Dense(4, use_bias=False)(x.reshape(len(x), -1))
        return linen.Dense(3)(h / jnp.sqrt(jnp.square(h).sum(-1, keepdims=True)))


class Recurrent(nnx.Module):
    """A cell that keeps its streams of noise, and draws nothing."""

    def __init__(self, rngs):
        self.rnn, self.out = nnx.RNN(nnx.GRUCell(3, 5, rngs=rngs)), nnx.Linear(5, 3, rngs=rngs)

    def __call__(self, x):
        return self.out(self.rnn(x)[:, -1])


NETS = {net.__name__: net for net in (Branches, Places, Spread, Normed)}


@functools.cache
def fitted(name: str):
    net = Recurrent(nnx.Rngs(0)) if name == "Recurrent" else NETS[name]()
    bnn = bp.BNN(net, prior=bp.priors.Gaussian(1.0), likelihood=bp.likelihoods.Categorical(), input_shape=(4, 3))
    fit = bp.fit_svi(jax.random.key(0), bnn, bp.Dataset(X, Y), num_steps=2, batch_size=ROWS, progress=False)
    return bnn, fit.params


def without(name: str, *sites: str, keep: str = "mean") -> bp.Compact:
    """The network without some sites."""
    bnn, params = fitted(name)
    shapes = {str(spec.path): spec.shape for spec in bnn.layout if spec.bayesian}
    return bp.compact(bnn, params, {site: np.full(shape, site not in sites) for site, shape in shapes.items()}, keep=keep)


def at_mean(name: str, *dead: str) -> np.ndarray:
    """By the network itself."""
    bnn, params = fitted(name)
    weights = {site: node.loc * node.unit * (site not in dead) for site, node in bnn.posterior(params).items()}
    return np.asarray(jax.nn.softmax(bnn.forward(weights, {}, X)))


@pytest.mark.slow
def test_what_is_left_of_a_network_is_for_any_rows(tmp_path) -> None:
    small, whole = without("Branches", "joins.kernel"), without("Branches")
    assert not small.pinned and small.certify().holds and list(whole.pinned) == ["sort"]
    wanted = at_mean("Branches", "joins.kernel")
    small.save(tmp_path / "net.bayesprune")
    again = bp.load(tmp_path / "net.bayesprune")
    for made in (small.predict(X, engine="jax"), small.predict(X, engine="kernels"), again.predict(X)):
        np.testing.assert_allclose(made, wanted, atol=2e-6)
    np.testing.assert_allclose(reader.predict(*reader.load(tmp_path / "net.bayesprune"), X), wanted, atol=2e-6)
    np.testing.assert_allclose(whole.predict(X), at_mean("Branches"), atol=2e-6)


@pytest.mark.slow
def test_an_onnx_model_of_what_is_left_takes_any_rows(tmp_path) -> None:
    pytest.importorskip("onnx")
    runtime = pytest.importorskip("onnxruntime")
    bp.export_onnx(without("Branches", "joins.kernel"), tmp_path / "net.onnx")
    model = runtime.InferenceSession(str(tmp_path / "net.onnx"), providers=["CPUExecutionProvider"])
    np.testing.assert_allclose(model.run(["mean"], {"x": X})[0], at_mean("Branches", "joins.kernel"), atol=2e-6)


@pytest.mark.slow
def test_where_rows_share_an_axis_it_is_told_and_runs_by_jax(tmp_path) -> None:
    small = without("Places", "joins.kernel")
    assert list(small.pinned) == [GONE]
    np.testing.assert_allclose(small.predict(X), at_mean("Places", "joins.kernel"), atol=2e-6)
    with pytest.raises(ValueError, match=GONE):
        small.save(tmp_path / "net.bayesprune")
    with pytest.raises(ValueError, match=GONE):
        small.predict(X, engine="kernels")
    with pytest.raises(ValueError, match=GONE):
        bp.export_onnx(small, tmp_path / "net.onnx")


@pytest.mark.slow
def test_constants_that_are_no_numbers_are_the_same_on_both_sides(tmp_path) -> None:
    small = without("Spread")
    assert small.certify().holds
    small.save(tmp_path / "net.bayesprune")
    np.testing.assert_allclose(bp.load(tmp_path / "net.bayesprune").predict(X), at_mean("Spread"), atol=2e-6)


@pytest.mark.slow
@pytest.mark.parametrize(("name", "dead"), [("Branches", ""), ("Branches", "joins.kernel")])
def test_flops_of_what_is_not_followed_count(name, dead) -> None:
    """Those of the report, whole; executed without the branch that fell away: two of four products of 12 x 4 and 4 x 3."""
    small = without(name, dead)
    assert small.cost.dense == flops(fitted(name)[0])["executed"]
    left = small.cost.dense if not dead else 2 * (12 * 4 + 4 * 3)
    assert small.cost.executed == small.cost.theoretical == left


@pytest.mark.slow
def test_random_keys_that_a_network_closes_over_stay(monkeypatch) -> None:
    """Of a loop that is not written out."""
    monkeypatch.setattr("bayesprune.structure.jaxprs.MOST_EQUATIONS", 1)
    from_bnn._without_state.cache_clear()
    small = without("Recurrent")
    assert list(small.pinned) == ["scan"] and small.certify().holds
    np.testing.assert_allclose(small.predict(X), at_mean("Recurrent"), atol=2e-6)
    draws = without("Recurrent", keep="posterior").predict_draws(jax.random.key(0), X, 3)
    assert draws.shape == (3, ROWS, 3) and np.isfinite(draws).all()
    from_bnn._without_state.cache_clear()


@pytest.mark.slow
def test_a_measurement_of_it_is_jax_s() -> None:
    small = without("Branches").measured((1, 8), num_repeats=1)
    assert small.choice.at(8)["engine"] == "jax" and set(small.choice.at(8)["seconds"]) == {"jax"}
    np.testing.assert_allclose(small.predict(X), at_mean("Branches"), atol=2e-6)


@pytest.mark.slow
def test_a_network_without_a_finite_output_says_so(tmp_path) -> None:
    with np.errstate(invalid="ignore"):
        small = without("Normed", "Dense_0.kernel")
        with pytest.raises(ValueError, match="none of its outputs is finite"):
            small.save(tmp_path / "net.bayesprune")
