"""Every net that trains is saved and loaded: of each adapter, and with state, noise and shared weights."""

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
from flax import linen, nnx
from numpyro.contrib.module import eqx_module, flax_module, nnx_module, random_eqx_module, random_flax_module
from numpyro.infer import Predictive
from numpyro.infer.autoguide import AutoNormal
from tests.infer import programs

import bayesprune as bp

DATA = programs.classes(rows=12)
HALF = 0.5  # of dropout


class Linen(linen.Module):
    """``kind``: what it has beside dense layers."""

    kind: str

    @linen.compact
    def __call__(self, x: Any, train: bool = False) -> Any:
        middle = linen.Dense(4)
        x = jnp.tanh(middle(x))
        if self.kind == "shared":
            x = jnp.tanh(middle(x))
        if self.kind == "state":
            x = linen.BatchNorm(use_running_average=not train)(x)
            x = x + self.variable("constants", "shift", jnp.ones, (4,)).value
        if self.kind == "dropout":
            x = linen.Dropout(HALF, deterministic=not train)(x)
        return linen.Dense(3)(x)


class Fixed(nnx.Variable):
    """A constant of a user's own kind."""


class Nnx(nnx.Module):
    def __init__(self, kind: str, rngs: nnx.Rngs) -> None:
        self.kind, self.middle, self.last = kind, nnx.Linear(4, 4, rngs=rngs), nnx.Linear(4, 3, rngs=rngs)
        if kind == "shared":
            self.again = self.middle
        if kind == "state":
            self.norms, self.shift = nnx.List([nnx.BatchNorm(4, rngs=rngs)]), Fixed(jnp.ones(4))
        if kind == "dropout":
            self.dropout = nnx.Dropout(HALF, rngs=rngs)

    def __call__(self, x: Any) -> Any:
        x = jnp.tanh(self.middle(x))
        if self.kind == "shared":
            x = jnp.tanh(self.again(x))
        if self.kind == "state":
            x = self.norms[0](x) + self.shift[...]
        if self.kind == "dropout":
            x = self.dropout(x)
        return self.last(x)


class Equinox(eqx.Module):
    middle: eqx.nn.Linear
    last: eqx.nn.Linear
    norm: eqx.nn.BatchNorm | None
    dropout: eqx.nn.Dropout
    kind: str = eqx.field(static=True)

    def __init__(self, kind: str, key: Any) -> None:
        one, two = jax.random.split(key)
        self.kind, self.middle, self.last = kind, eqx.nn.Linear(4, 4, key=one), eqx.nn.Linear(4, 3, key=two)
        self.norm = eqx.nn.BatchNorm(4, "batch", mode="batch") if kind == "state" else None
        self.dropout = eqx.nn.Dropout(HALF if kind == "dropout" else 0.0)

    def hidden(self, x: Any) -> Any:
        x = jnp.tanh(self.middle(x))
        return jnp.tanh(self.middle(x)) if self.kind == "shared" else x


class EquinoxPlain(Equinox):
    def __call__(self, x: Any, key: Any = None) -> Any:
        return self.last(self.dropout(self.hidden(x), key=key))


class EquinoxWithState(Equinox):
    def __call__(self, x: Any, state: Any) -> Any:
        x, state = self.norm(self.hidden(x), state)
        return self.last(x), state


def equinox_of(kind: str) -> Any:
    if kind == "state":
        return eqx.nn.make_with_state(EquinoxWithState)(kind, jax.random.key(0))
    return EquinoxPlain(kind, jax.random.key(0))


ADAPTERS: dict[str, Callable[[str], Any]] = {
    "linen": Linen,
    "nnx": lambda kind: Nnx(kind, nnx.Rngs(0)),
    "equinox": equinox_of,
}


@pytest.mark.slow_cases(1)
@pytest.mark.slow
@pytest.mark.parametrize("kind", ["plain", "state", "dropout", "shared"])
@pytest.mark.parametrize("adapter", ADAPTERS)
def test_a_fit_predicts_after_its_file_as_before(adapter: str, kind: str, tmp_path, rng_key) -> None:
    bnn = bp.BNN(
        ADAPTERS[adapter](kind), prior=bp.priors.Gaussian(), likelihood=bp.likelihoods.Categorical(), input_shape=(4,)
    )  # fmt: skip
    fit = bp.fit_svi(rng_key, bnn, DATA, num_steps=2, batch_size=6, progress=False)
    fit.save(tmp_path / "fit")
    bp.report.save_fit(tmp_path / "posterior", bnn, fit)
    back, posterior = bp.load(tmp_path / "fit"), bp.report.load_posterior(tmp_path / "posterior")
    assert ("net$state" in fit.params) == (kind == "state")
    before, *after = (
        bp.predict(jax.random.key(1), bnn, params, DATA.x, num_samples=2)
        for params in (fit.params, back.params, posterior.params)
    )
    for probs in after:
        assert probs.tobytes() == before.tobytes()
    on, on_again = (bp.fit_svi(rng_key, bnn, DATA, num_steps=1, batch_size=6, init=f, progress=False) for f in (fit, back))
    assert programs.same_bits(on.params, on_again.params)
    bnn.net_params(back.params)  # the module's own form is found again


class Two(eqx.Module):
    first: eqx.nn.Linear
    last: eqx.nn.Linear

    def __init__(self) -> None:
        one, two = jax.random.split(jax.random.key(0))
        self.first, self.last = eqx.nn.Linear(4, 3, key=one), eqx.nn.Linear(3, 1, key=two)

    def __call__(self, x: Any) -> Any:
        return self.last(jnp.tanh(self.first(x)))


def some_random(x: Any) -> Any:
    """Of an Equinox module the first layer's weights; the others are trained as they are."""
    return jax.vmap(random_eqx_module("nn", Two(), {"first.weight": dist.Normal()}))(x)


NETS: dict[str, Callable[[Any], Any]] = {
    "random_eqx_module": some_random,
    "eqx_module": lambda x: jax.vmap(eqx_module("nn", Two()))(x),
    "nnx_module": lambda x: nnx_module("nn", nnx.Linear(4, 1, rngs=nnx.Rngs(0)))(x),
    "flax_module": lambda x: flax_module("nn", linen.Dense(1), input_shape=(4,))(x),
}


def program_of(net: Callable[[Any], Any]) -> bp.Program:
    def model(x: Any, y: Any = None) -> None:
        scale, outputs = numpyro.sample("scale", dist.LogNormal()), net(x)[:, 0]
        with numpyro.plate("rows", x.shape[0]):
            numpyro.sample("obs", dist.Normal(outputs, scale), obs=y)

    return bp.Program(model, AutoNormal(model))


@pytest.mark.slow_cases(1)
@pytest.mark.slow
@pytest.mark.parametrize("net", NETS)
def test_a_program_around_a_module_goes_on_and_predicts_after_its_file(net: str, tmp_path, rng_key) -> None:
    program, data = program_of(NETS[net]), bp.Dataset(DATA.x, DATA.x[:, 0])
    fit = bp.fit_svi(rng_key, program, data, num_steps=3, progress=False)
    fit.save(tmp_path / "fit")
    back = bp.load(tmp_path / "fit")
    params = program.take(back.params, data)
    assert jax.tree.structure(params) == jax.tree.structure(dict(fit.params))
    assert programs.same_bits(params, dict(fit.params))
    before, after = (
        Predictive(program.model, guide=program.guide, params=found, num_samples=2)(jax.random.key(1), DATA.x)["obs"]
        for found in (fit.params, params)
    )
    assert np.asarray(before).tobytes() == np.asarray(after).tobytes()
    # What a module was trained to is where a fit that goes on begins.
    settings = {"num_steps": 1, "progress": False}
    on, on_again, anew = (
        bp.fit_svi(rng_key, program, data, **start, **settings) for start in ({"init": fit}, {"init": back}, {})
    )
    assert programs.same_bits(on.params, on_again.params)
    assert not programs.same_bits(on.params["nn$params"], anew.params["nn$params"])


@pytest.mark.slow
def test_a_random_flax_module_predicts_after_its_file(tmp_path, rng_key) -> None:
    """Its parameters are shapes, which no file holds; without them NumPyro would draw by other keys."""
    net = lambda x: random_flax_module("nn", linen.Dense(1), dist.Normal(), input_shape=(4,))(x)  # noqa: E731
    program, data = program_of(net), bp.Dataset(DATA.x, DATA.x[:, 0])
    fit = bp.fit_svi(rng_key, program, data, num_steps=3, progress=False)
    fit.save(tmp_path / "fit")
    params = program.take(bp.load(tmp_path / "fit").params, data)
    draws = [
        Predictive(program.model, guide=program.guide, params=found, num_samples=2)(jax.random.key(1), DATA.x)["obs"]
        for found in (fit.params, params)
    ]
    np.testing.assert_array_equal(*draws)


@pytest.mark.slow
def test_a_prior_of_whole_numbers_comes_back(tmp_path, rng_key) -> None:
    """``dist.Normal(0, 1)``: its standard deviation is an integer."""

    def model(x: Any, y: Any = None) -> None:
        weights = numpyro.sample("w", dist.Normal(0, 1).expand([4]).to_event(1))
        with numpyro.plate("rows", x.shape[0]):
            numpyro.sample("obs", dist.Normal(x @ weights, 1.0), obs=y)

    fit = bp.fit_svi(
        rng_key, bp.Program(model, AutoNormal(model)), bp.Dataset(DATA.x, DATA.x[:, 0]), num_steps=2, progress=False
    )
    fit.save(tmp_path / "fit")
    assert programs.same_bits(bp.load(tmp_path / "fit").params, dict(fit.params))


def test_parameters_of_another_program_are_refused() -> None:
    program, data = program_of(NETS["eqx_module"]), bp.Dataset(DATA.x, DATA.x[:, 0])
    with pytest.raises(ValueError, match=r"nn\$params is of another program: \.first\.bias"):
        program.take({"nn$params": {".first.weight": jnp.zeros((3, 4))}}, data)
