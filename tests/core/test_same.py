"""Keys of values, and their spelling for other processes."""

import functools
import os
import subprocess
import sys

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from flax import nnx

import bayesprune as bp
from bayesprune.core.same import key, spelled
from bayesprune.core.traced import OpaqueError, fingerprint


class Net(nnx.Module):
    def __init__(self, seed: int) -> None:
        self.layer = nnx.Linear(3, 2, rngs=nnx.Rngs(seed))


def scaled(by):
    return lambda x: x * by


def equinox_net(seed: int):
    eqx = pytest.importorskip("equinox")
    return eqx.nn.MLP(3, 2, 4, 1, key=jax.random.key(seed))


SAME = {
    "frozen dataclass": lambda: bp.priors.Flat(0.2),
    "linen": lambda: bp.nets.MLP((3,), 2),
    "linen in a list": lambda: [bp.nets.MLP((3,), 2)],
    "nnx": lambda: Net(0),
    "equinox": lambda: equinox_net(0),
    "array": lambda: np.arange(3.0),
    "random key": lambda: jax.random.key(1),
    "partial": lambda: functools.partial(scaled, by=2),
    "NaN": lambda: float("nan"),
}
OTHER = {
    "another number": (lambda: bp.priors.Flat(0.2), lambda: bp.priors.Flat(0.3)),
    "another type of number": (lambda: 1, lambda: True),
    "another type": (lambda: bp.priors.Flat(1.0), lambda: bp.priors.Gaussian(1.0)),
    "another net": (lambda: bp.nets.MLP((3,), 2), lambda: bp.nets.MLP((3,), 2, activation=jax.nn.relu)),
    "other weights, nnx": (lambda: Net(0), lambda: Net(1)),
    "other weights, equinox": (lambda: equinox_net(0), lambda: equinox_net(1)),
    "other bytes": (lambda: np.array([0.0]), lambda: np.array([-0.0])),
    "other shape": (lambda: np.zeros((2, 3)), lambda: np.zeros((3, 2))),
    "other key": (lambda: jax.random.key(0), lambda: jax.random.key(1)),
}


@pytest.mark.parametrize("case", SAME)
def test_equal_parts_have_equal_keys_and_spellings(case) -> None:
    one, other = SAME[case](), SAME[case]()
    assert key(one) == key(other) and hash(key(one)) == hash(key(other))
    assert spelled(one) == spelled(other)


@pytest.mark.parametrize("case", OTHER)
def test_other_parts_have_other_keys(case) -> None:
    one, other = (make() for make in OTHER[case])
    assert key(one) != key(other)
    assert spelled(one) != spelled(other)


def test_functions_equal_themselves_alone_but_are_spelled_by_their_code() -> None:
    one, same, other = scaled(2), scaled(2), scaled(3)
    assert key(one) == key(one) and key(one) != key(same)
    assert spelled(one) == spelled(same) != spelled(other)
    # Sets of equal parts come in another order in another process, or when they are made in another one, as these.
    one, same, other = (spelled(eval(f"lambda s: s in {numbers}")) for numbers in ("{0, 8}", "{8, 0}", "{8}"))
    assert one == same != other


def test_long_arrays_are_not_taken_for_one_another() -> None:
    one, other = np.zeros(10_000), np.zeros(10_000)
    other[5_000] = 1.0
    assert repr(one) == repr(other) and spelled(one) != spelled(other)


# What an optimiser computes, told by its trace.
WEIGHTS = {"w": jax.ShapeDtypeStruct((3,), jnp.float32), "b": jax.ShapeDtypeStruct((), jnp.float32)}


def update_of(optimizer) -> str:
    state = jax.eval_shape(optimizer.init, WEIGHTS)
    return fingerprint(optimizer.update, WEIGHTS, state, WEIGHTS)


EQUAL = {
    "adabelief": lambda: optax.adabelief(5e-3),
    "a schedule": lambda: optax.adam(optax.piecewise_constant_schedule(1e-2, {100: 0.1})),
    "two": lambda: optax.multi_transform({"a": optax.sgd(0.1), "b": optax.adam(1e-3)}, {"w": "a", "b": "b"}),
    "an array": lambda: optax.scale_by_schedule(lambda step: jnp.array([0.1, 0.2])[step]),
}
UNEQUAL = {
    "rate": (optax.adam(1e-3), optax.adam(2e-3)),
    "rule": (optax.adam(1e-3), optax.adabelief(1e-3)),
    "schedule": (optax.sgd(lambda step: 1.0 / (step + 1)), optax.sgd(lambda step: 1.0 / (step + 2))),
    "an array": tuple(optax.sgd(lambda step, a=a: jnp.array([0.1, a])[step]) for a in (0.2, 0.3)),
    "operands": (
        optax.stateless(lambda g, p: {"w": g["w"] - p["w"], "b": g["b"]}),
        optax.stateless(lambda g, p: {"w": p["w"] - g["w"], "b": g["b"]}),
    ),
}


@pytest.mark.parametrize("case", EQUAL)
def test_equal_traces(case) -> None:
    assert update_of(EQUAL[case]()) == update_of(EQUAL[case]())


@pytest.mark.parametrize("case", UNEQUAL)
def test_other_traces(case) -> None:
    one, other = map(update_of, UNEQUAL[case])
    assert one != other


def test_a_callback_to_python_is_opaque() -> None:
    shape = jax.ShapeDtypeStruct((), jnp.float32)
    with pytest.raises(OpaqueError, match="trace"):
        fingerprint(lambda x: jax.pure_callback(lambda v: v, shape, x), 1.0)


ELSEWHERE = """
import jax, optax, bayesprune as bp
from bayesprune.core.same import spelled
from bayesprune.core.traced import fingerprint, of_jaxpr
from tests.core.test_same import update_of, scaled
from tests.infer.programs import small_bnn
print(spelled(bp.methods.SSVI()), spelled(scaled(3)), spelled(bp.MeanFieldELBO()), update_of(optax.adabelief(1e-3)))
print(of_jaxpr(small_bnn().jaxpr()))
"""


@pytest.mark.slow
def test_another_process_spells_alike() -> None:
    def run(seed: str) -> str:
        settings = {"capture_output": True, "text": True, "check": True, "env": os.environ | {"PYTHONHASHSEED": seed}}
        return subprocess.run([sys.executable, "-c", ELSEWHERE], **settings).stdout

    assert run("1") == run("2") != ""
