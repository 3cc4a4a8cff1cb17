"""The smaller program of every kind of network: the same outputs, by JAX and by NumPy, and the same function over a field."""

import jax.numpy as jnp
import numpy as np
import pytest

from bayesprune.deploy import reader
from bayesprune.deploy.program.run import run
from bayesprune.deploy.shrinking.certificate import certify
from bayesprune.deploy.shrinking.plan import make_plan
from bayesprune.deploy.shrinking.shrink import build
from bayesprune.structure import reachable
from tests.deploy.functions import program_of
from tests.deploy.programs import NETS, plan_of, program, weights_of
from tests.structure.nets import case

COUPLED = ("chosen", "endless")  # what the first row says chooses a branch, or the turns of a loop, for all of them
APART = [name for name in NETS if name not in COUPLED]


def smaller_outputs(small, weights, x, numpy=False):
    mine = {site: np.where(small.alive[site], weights[site][np.ix_(*small.places[site])], 0) for site in small.program.weights}
    inner = small.program.single()
    mine = {site: value.astype(np.float32) for site, value in mine.items()}
    if not numpy:
        return np.asarray(run(inner, mine, x))
    values = {**inner.constants, inner.rows: np.asarray(x), **{inner.weights[site]: value for site, value in mine.items()}}
    return reader.run(inner.ops, values, len(x))[inner.output]


@pytest.mark.slow_cases(10)
@pytest.mark.parametrize("keep", ["posterior", "mean"])
@pytest.mark.parametrize("name", APART)
@pytest.mark.slow
def test_the_smaller_network_gives_the_outputs_of_the_masked_one(name, keep) -> None:
    """Unstructured and by units: equal in float32, over the field in every bit; every net's outputs vary with the rows."""
    varied = False
    for seed, (density, units) in enumerate([(1.0, 0.2), (0.7, 0.3), (0.4, 0.2)]):
        weights = weights_of(name, seed, density, units)
        plan, small = plan_of(name, weights, keep)
        x = case(name).drawn(0)[1]
        outputs = case(name).outputs(weights, 0)
        np.testing.assert_allclose(smaller_outputs(small, weights, x), outputs, rtol=2e-4, atol=2e-5)
        if not small.program.one_by_one:
            np.testing.assert_allclose(smaller_outputs(small, weights, x, numpy=True), outputs, rtol=2e-4, atol=2e-5)
        certificate = certify(plan, small)
        assert certificate.holds, certificate
        varied = varied or bool(np.std(outputs, axis=0).max() > 1e-6)
    assert varied or name == "narrow mlp"  # whose one unit is dead for these rows


@pytest.mark.parametrize("name", APART)
@pytest.mark.fast_cases(3)
def test_every_operation_is_followed(name) -> None:
    assert not program(name).opaque and not program(name).one_by_one


@pytest.mark.parametrize("name", COUPLED)
def test_rows_that_are_not_treated_alike_are_refused(name) -> None:
    with pytest.raises(ValueError, match="row"):
        program(name)


@pytest.mark.slow_cases(5)
@pytest.mark.parametrize("name", APART)
@pytest.mark.fast_cases(3)
def test_what_is_needed_is_what_is_connected(name) -> None:
    """The weights that outputs depend on are those that `structure.reachable` finds, which reads nets in another way."""
    for seed, (density, units) in enumerate([(1.0, 0.2), (0.7, 0.3), (0.4, 0.2)]):
        weights = weights_of(name, seed, density, units)
        plan, _ = plan_of(name, weights, "posterior")
        connected = reachable(case(name).graph, {site: value != 0 for site, value in weights.items()})
        for site, number in plan.program.weights.items():
            needed = plan.known.unknown[number] & plan.needed[number]
            np.testing.assert_array_equal(needed, connected[site], err_msg=site)


TRANSFORMED = {
    "multiplied with itself": lambda w: w @ w,  # each entry is needed as a part of the first factor or of the second
    "tiled": lambda w: jnp.tile(w, (1, 2))[:, 2:6],
    "stacked": lambda w: jnp.stack([w[:, :2], w[:, 2:]], axis=-1).reshape(4, 4),
    "taken apart": lambda w: sum(jnp.unstack(w, axis=1)[1:])[:, None] * w,
}


@pytest.mark.fast_cases(2)
@pytest.mark.parametrize("name", TRANSFORMED)
def test_kernels_that_are_computed_from_weights(name) -> None:
    def net(w, x):
        return jnp.tanh(x @ TRANSFORMED[name](w["inner"])) @ w["head"]

    shapes = {"inner": (4, 4), "head": (4, 2)}
    program = program_of(net, shapes, (4,))
    assert not program.opaque
    for seed in range(4):
        rng = np.random.default_rng(seed)
        weights = {site: rng.normal(size=shape) * (rng.random(shape) < 0.35) for site, shape in shapes.items()}
        plan = make_plan(program, {site: value != 0 for site, value in weights.items()}, {})
        small, x = build(plan, plan.known.values), rng.normal(size=(5, 4))
        np.testing.assert_allclose(smaller_outputs(small, weights, x, numpy=True), net(weights, x), rtol=1e-4, atol=1e-5)
        assert certify(plan, small).holds
