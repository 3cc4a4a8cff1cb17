"""Statistics over a named axis: devices in Flax, rows in Equinox; here the axis is the batch."""

import equinox as eqx
import jax
import numpy as np
import pytest
from flax import linen, nnx

import bayesprune as bp
from bayesprune.model.adapters import adapt
from bayesprune.model.inputs import Inputs

X = np.random.default_rng(0).normal(size=(64, 4)).astype(np.float32)
KEY = jax.random.key(0)


class OverDevices(linen.Module):
    """A batch norm whose statistics are averaged over devices, and a mean of that kind by hand."""

    @linen.compact
    def __call__(self, x, train: bool = False):
        x = linen.BatchNorm(use_running_average=not train, axis_name="batch", momentum=0.5)(x)
        return linen.Dense(3)(jax.lax.pmean(x, "shards") if train else x)


class NnxOverDevices(nnx.Module):
    def __init__(self, rngs: nnx.Rngs):
        self.norm, self.head = nnx.BatchNorm(4, axis_name="batch", momentum=0.5, rngs=rngs), nnx.Linear(4, 3, rngs=rngs)

    def __call__(self, x):
        return self.head(self.norm(x))


class RowsOfEquinox(eqx.Module):
    """Statistics over the rows, which Equinox names; its state goes beside the row."""

    norm: eqx.nn.BatchNorm
    head: eqx.nn.Linear

    def __init__(self, key):
        self.norm, self.head = eqx.nn.BatchNorm(4, "batch", mode="batch", momentum=0.5), eqx.nn.Linear(4, 3, key=key)

    def __call__(self, x, state):
        x, state = self.norm(x, state)
        return self.head(x), state


NORMED = {
    "linen": OverDevices,
    "nnx": lambda: NnxOverDevices(nnx.Rngs(0)),
    "equinox": lambda: RowsOfEquinox(KEY),
    "equinox, a pair": lambda: eqx.nn.make_with_state(RowsOfEquinox)(KEY),
}


@jax.default_matmul_precision("highest")  # what is compared is in whole float32
@pytest.mark.parametrize("name", NORMED)
def test_a_named_axis_is_all_rows_of_the_batch(name) -> None:
    net = adapt(NORMED[name](), Inputs.of_example(X))
    params, state = net.init(KEY)
    outputs, moved = jax.jit(lambda p, s: net.apply(p, s, X, True, KEY))(params, state)
    head = next(site.rpartition(".")[0] for site in params if site.startswith(("Dense", "head")))
    transposed = "equinox" in name
    kernel = np.asarray(params[f"{head}.weight"]).T if transposed else np.asarray(params[f"{head}.kernel"])
    normal = (X - X.mean(0)) / np.sqrt(X.var(0) + 1e-5)
    np.testing.assert_allclose(outputs, normal @ kernel + np.asarray(params[f"{head}.bias"]), rtol=1e-3, atol=1e-4)
    halves = [leaf for leaf in jax.tree.leaves(moved) if np.shape(leaf) == (4,) and np.allclose(leaf, X.mean(0) / 2, atol=1e-6)]
    assert len(halves) == 1, "momentum 0.5, from zero"
    still, kept = net.apply(params, moved, X, False, None)
    assert np.isfinite(still).all() and jax.tree.all(jax.tree.map(np.array_equal, kept, moved))


@pytest.mark.slow
@pytest.mark.parametrize(("name", "estimator"), [("equinox", "local"), ("linen", "weight")])
def test_they_are_trained(name, estimator, rng_key) -> None:
    bnn = bp.BNN(NORMED[name](), prior=bp.priors.Flat(), likelihood=bp.likelihoods.Categorical(), example=X[:1])
    fit = bp.fit_svi(rng_key, bnn, bp.Dataset(X, np.arange(64) % 3), num_steps=2, estimator=estimator, progress=False)
    assert np.isfinite(fit.losses).all() and any(np.abs(leaf).max() > 0 for leaf in jax.tree.leaves(fit.params["net$state"]))
    one, two = (bp.predict(rng_key, bnn, fit.params, X, num_samples=2) for _ in range(2))
    assert np.array_equal(one, two) and bp.connected(bnn, fit.mask).keys() == fit.mask.keys()
