"""How nets of other hands are called: further arguments, constants by name, and what cannot be called."""

import re

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import linen, nnx
from tests.model.others.test_named_axes import RowsOfEquinox
from tests.model.others.test_noise_of_nets import KEY, KeywordOnly, X

import bayesprune as bp
from bayesprune.model.adapters import adapt
from bayesprune.model.inputs import Inputs


class Asks(linen.Module):
    """A second argument, and one by name alone."""

    @linen.compact
    def __call__(self, x, temperature, *, shift):
        return linen.Dense(3, use_bias=False)(x) / temperature + shift


def build(net, **settings) -> bp.BNN:
    given = {"prior": bp.priors.Flat(), "likelihood": bp.likelihoods.Categorical(), "example": X[:1]}
    return bp.BNN(net, **(given | settings))


def test_constants_by_name() -> None:
    bnn = build(Asks(), apply_kwargs={"temperature": 2.0, "shift": 1.0})
    kernel = np.random.default_rng(1).normal(size=(4, 3)).astype(np.float32)
    np.testing.assert_allclose(bnn.forward({"Dense_0.kernel": kernel}, {}, X), X @ kernel / 2 + 1, rtol=1e-4, atol=1e-5)
    assert bnn == build(Asks(), apply_kwargs={"shift": 1.0, "temperature": 2.0})
    assert bnn != build(Asks(), apply_kwargs={"temperature": 3.0, "shift": 1.0})


def test_a_word_for_training_that_is_fixed_stays_so() -> None:
    still = adapt(KeywordOnly(), Inputs.of_example(X), {"is_training": False})
    params, state = still.init(KEY)
    assert np.array_equal(still.apply(params, state, X, True, KEY)[0], still.apply(params, state, X, False, None)[0])


class StateOfRows(eqx.Module):
    """A state that holds the last row."""

    linear: eqx.nn.Linear
    last: eqx.nn.StateIndex

    def __init__(self, key):
        self.linear, self.last = eqx.nn.Linear(4, 3, key=key), eqx.nn.StateIndex(jnp.zeros(4))

    def __call__(self, x, state):
        return self.linear(x + state.get(self.last)), state.set(self.last, x)


class Draws(linen.Module):
    """Noise wherever it is called."""

    @linen.compact
    def __call__(self, x):
        return linen.Dense(3)(x) + jax.random.normal(self.make_rng("noise"), (3,))


class AlwaysTrains(linen.Module):
    """Statistics of batches that no argument holds still."""

    @linen.compact
    def __call__(self, x, train: bool = True):
        return linen.Dense(3)(linen.BatchNorm(use_running_average=False)(x))


class NnxAlwaysTrains(nnx.Module):
    def __init__(self, rngs: nnx.Rngs):
        self.head, self.norm = nnx.Linear(4, 3, rngs=rngs), nnx.BatchNorm(4, rngs=rngs)

    def __call__(self, x):
        return self.head(self.norm(x, use_running_average=False))


class NnxDraws(nnx.Module):
    def __init__(self, rngs: nnx.Rngs):
        self.head, self.rngs = nnx.Linear(4, 3, rngs=rngs), rngs

    def __call__(self, x):
        return self.head(x) + self.rngs.noise.normal((3,))


class EquinoxDraws(eqx.Module):
    linear: eqx.nn.Linear

    def __init__(self, key):
        self.linear = eqx.nn.Linear(4, 3, key=key)

    def __call__(self, x, key):
        return self.linear(x) + jax.random.normal(key, (3,))


class Silent(linen.Module):
    """Parts, and no call."""

    features: int = 3


class NoRow(eqx.Module):
    linear: eqx.nn.Linear

    def __init__(self, key):
        self.linear = eqx.nn.Linear(4, 3, key=key)

    def __call__(self, x):
        return self.linear(x)


REFUSED = {
    "too few arguments": (Asks, {}, TypeError, r"missing a required argument: 'temperature'.*apply_kwargs="),
    "an unknown keyword": (
        KeywordOnly, {"apply_kwargs": {"training": True}}, ValueError, r"'training'. Did you mean 'is_training'",
    ),
    "no dict": (KeywordOnly, {"apply_kwargs": "train"}, TypeError, "apply_kwargs must be a dict"),
    "too many inputs": (KeywordOnly, {"example": (X, X)}, TypeError, r"on 2 input\(s\).*too many positional"),
    "noise in prediction": (Draws, {}, TypeError, 'needs PRNG for "noise".*draw in training alone'),
    "statistics that always move": (
        AlwaysTrains, {}, TypeError,
        r"updates its state where it predicts \(Cannot update variable \"mean\".*immutable\).*use_running_average=not train",
    ),
    "statistics that always move, nnx": (
        lambda: NnxAlwaysTrains(nnx.Rngs(0)), {}, TypeError, r"updates its state where it predicts \(norm.mean is set anew\)",
    ),
    "noise in prediction, nnx": (lambda: NnxDraws(nnx.Rngs(0, noise=1)), {}, TypeError, "outputs depend on the key"),
    "noise in prediction, equinox": (lambda: EquinoxDraws(KEY), {}, TypeError, "outputs depend on the key"),
    "a state of rows": (lambda: StateOfRows(KEY), {}, TypeError, "changes row by row"),
    "a module without its state": (
        lambda: eqx.nn.make_with_state(RowsOfEquinox)(KEY)[0], {}, TypeError, r"give the pair.*BNN\(\(model, state\)",
    ),
    "no call": (Silent, {}, TypeError, "has no __call__"),
    "numbers for rows": (lambda: NoRow(KEY), {"example": None, "input_shape": ()}, ValueError, r"input_shape=\(1,\)"),
    "reals for integers": (lambda: linen.Embed(3, 2), {}, ValueError, r"give example=x\[:1\] in place of input_shape="),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_called_is_refused(name) -> None:
    make, settings, kind, message = REFUSED[name]
    with pytest.raises(kind) as caught:
        build(make(), **settings)
    told = "\n".join([str(caught.value), *getattr(caught.value, "__notes__", [])])
    assert re.search(message, told.replace("\n", " ")), told
