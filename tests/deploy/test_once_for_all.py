"""What no weight enters is made once for all networks of a posterior."""

from collections import Counter

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from bayesprune.deploy import reader
from bayesprune.deploy.engines.by_jax import ByJax
from bayesprune.deploy.program import run as running
from bayesprune.deploy.program.weights import Draws
from tests.deploy.functions import compact_of, program_of

SHAPES = {"a": (3, 4), "b": (4, 2)}
X = np.random.default_rng(0).standard_normal((300, 3)).astype(np.float32)
DRAWS = {site: np.random.default_rng(1).standard_normal((5, *shape)).astype(np.float32) for site, shape in SHAPES.items()}


def ends(w, x):
    """Sines of the rows, a layer, and the rows' cosines beside its outputs: both are made before any weight."""
    return jnp.tanh(jnp.sin(x) @ w["a"]) @ w["b"] + jnp.cos(x[:, :2])


def wanted() -> np.ndarray:
    """Of each network, by NumPy."""
    return np.stack([np.tanh(np.sin(X) @ a) @ b + np.cos(X[:, :2]) for a, b in zip(DRAWS["a"], DRAWS["b"], strict=True)])


@pytest.fixture
def small():
    return compact_of(program_of(ends, SHAPES, (3,)), Draws(DRAWS))


def test_by_the_reader(small, monkeypatch) -> None:
    """Three portions of rows, five networks: a sine for each portion, a tanh for each network of each."""
    program, head = small.program, small.head
    plan = {
        "ops": [list(op) for op in program.ops],
        "head": {"ops": [], "constants": [], "rows": head.rows, "output": head.output},
        **{"rows": program.rows, "output": program.output, "weights": program.weights, "constants": list(program.constants)},
        **{"law": {"kind": "draws"}, "input_shape": [3]},
    }
    arrays = {f"draws/{site}": draws for site, draws in DRAWS.items()}
    arrays |= {f"constant/{number}": array for number, array in program.constants.items()}
    seen, step = Counter[str](), reader.step
    monkeypatch.setattr(reader, "step", lambda name, *of: (seen.update([name]), step(name, *of))[1])
    np.testing.assert_allclose(reader.predict(plan, arrays, X), wanted().mean(0), rtol=1e-5, atol=1e-5)
    assert (seen["sin"], seen["cos"], seen["tanh"]) == (3, 3, 15)


def test_by_jax(small) -> None:
    """None of it is in the loop over the networks."""
    engine, key = ByJax(small), jax.random.key(0)
    np.testing.assert_allclose(engine.predict_draws(key, X, 5), wanted(), rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(engine.mean(key, X, None), wanted().mean(0), rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(engine.exported(None).call(X), wanted().mean(0), rtol=1e-4, atol=1e-5)
    block, chosen = jnp.asarray(X[None]), jnp.arange(5)
    for function in (engine._draws, engine._mean):
        traced = jax.make_jaxpr(function)(block, engine._constants, engine._tensors, key, chosen)
        assert counted(traced.jaxpr, "sin") == {1: 1} and counted(traced.jaxpr, "tanh") == {2: 1}


def counted(jaxpr, name: str, loops: int = 0) -> Counter:
    """How often an operation is there, by the loops that it is in."""
    found = Counter({loops: sum(equation.primitive.name == name for equation in jaxpr.eqns)})
    for equation in jaxpr.eqns:
        deeper = loops + (equation.primitive.name in ("while", "scan"))
        for inner in (getattr(value, "jaxpr", value) for value in equation.params.values()):
            found += counted(inner, name, deeper) if hasattr(inner, "eqns") else Counter()
    return +found


def test_what_is_made_before_is_what_others_are_made_of(small) -> None:
    program = small.program
    made = running.before(program, jnp.asarray(X))
    first, rest = program.halves
    assert set(made) == {n for op in first for n in op.outputs} & {i for op in rest for i in op.inputs}
    weights = {site: draws[0] for site, draws in DRAWS.items()}
    whole, again = running.run(program, weights, X), running.run(program, weights, X, made=made)
    np.testing.assert_allclose(again, whole, rtol=1e-6)
