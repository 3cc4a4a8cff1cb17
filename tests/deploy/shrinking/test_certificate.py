"""The certificate: whatever goes wrong in a plan is seen. Faults are injected, and every one of them must be caught."""

from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from bayesprune.deploy.program.trace import trace
from bayesprune.deploy.shrinking import shrink
from bayesprune.deploy.shrinking.certificate import Certificate, certify
from bayesprune.deploy.shrinking.plan import ShrinkPlan, make_plan, slim
from bayesprune.deploy.shrinking.shrink import build
from bayesprune.deploy.shrinking.ties import Ties, tie
from tests.deploy.programs import plan_of, weights_of
from tests.structure.nets import NETS

FOLLOWED = [name for name in NETS if name not in ("chosen", "endless", "lenet")]
MOST = 12  # faults of a kind for each network


def components(plan: ShrinkPlan) -> tuple[Ties, np.ndarray]:
    ties = Ties(plan.program, plan.known.of_rows)
    for op in plan.program.ops:
        tie(op, ties)
    return ties, ties.components()


def without(plan: ShrinkPlan, ties: Ties, component: np.ndarray, gone: int) -> ShrinkPlan:
    """The plan, one component of slices that is needed cut away."""
    keep = {}
    for number, shape in plan.program.shapes.items():
        stays = [component[ties.slices(number, axis)] != gone for axis in range(len(shape))]
        keep[number] = [a & b for a, b in zip(plan.keep[number], stays, strict=True)]
    return replace(plan, keep=keep)


def needed_components(plan: ShrinkPlan, ties: Ties, component: np.ndarray) -> list[int]:
    """Components that some output depends on and that are not pinned; not those of constants, which no plan cuts."""
    found = set()
    for number, axis in ties.first:
        others = tuple(a for a in range(plan.needed[number].ndim) if a != axis)
        varies = plan.needed[number] & plan.known.unknown[number]
        found |= set(component[ties.slices(number, axis)][varies.any(axis=others)].tolist())
    return sorted(found - set(component[ties.pinned | _ends(plan, ties)].tolist()))


def _ends(plan: ShrinkPlan, ties: Ties) -> np.ndarray:
    ends = np.zeros(ties.count, bool)
    for number in (plan.program.rows, plan.program.output):
        for axis in range(len(plan.program.shapes[number])):
            ends[ties.slices(number, axis)] = True
    return ends


def caught(plan: ShrinkPlan) -> bool:
    """Whether a faulty plan cannot be built, or its certificate does not hold."""
    try:
        with np.errstate(all="ignore"):
            small = build(plan, plan.known.values)
            return not certify(plan, small, rounds=2).holds
    except (ValueError, TypeError, IndexError, KeyError):
        return True


@pytest.mark.slow_cases(8)
@pytest.mark.parametrize("keep", ["posterior", "mean"])
@pytest.mark.parametrize("name", FOLLOWED)
@pytest.mark.fast_cases(2)
def test_a_slice_too_many_is_caught(name, keep) -> None:
    """21 networks, two ways of keeping, up to twelve faults of each: more than 350, every one caught."""
    plan, _ = plan_of(name, weights_of(name, 1, 0.9, 0.1), keep)
    ties, component = components(plan)
    faults = needed_components(plan, ties, component)
    chosen = np.random.default_rng(0).permutation(faults)[:MOST]
    for gone in chosen:
        assert caught(without(plan, ties, component, int(gone))), f"component {gone}"


@pytest.mark.slow
def test_there_are_more_than_two_hundred_faults() -> None:
    """That the test above is not empty: in one of the two ways alone."""
    count = 0
    for name in FOLLOWED:
        plan, _ = plan_of(name, weights_of(name, 1, 0.9, 0.1), "posterior")
        count += min(MOST, len(needed_components(plan, *components(plan))))
    assert count >= 200


@pytest.mark.parametrize(("name", "seed"), [("mlp", 1), ("branches", 0), ("nnx", 1), ("resnet, group", 1)])
@pytest.mark.fast_cases(2)
def test_a_fold_that_is_forgotten_is_caught(name, seed, monkeypatch) -> None:
    plan, small = plan_of(name, weights_of(name, seed, 0.35, 0.3), "mean")
    folds = []
    write = shrink._Builder.write

    def counting(self, op, inputs, folded=None):
        out = op.outputs[0]
        if folded is not None and slim(np.where(plan.needed[out], folded, 0), self.keep[out]).any():
            folds.append(out)
        return write(self, op, inputs, folded)

    monkeypatch.setattr(shrink._Builder, "write", counting)
    assert certify(plan, small, rounds=1).holds
    places = sorted(set(folds))
    assert places
    for place in places:

        def forgetting(self, op, inputs, folded=None, place=place):
            return write(self, op, inputs, None if op.outputs[0] == place else folded)

        monkeypatch.setattr(shrink._Builder, "write", forgetting)
        assert caught(plan), f"array {place}"


def test_another_constant_is_caught() -> None:
    """A number of the program in use that is a millionth off: the comparison in float64 sees it."""
    plan, small = plan_of("sigmoid", weights_of("sigmoid", 0, 1.0), "mean")
    largest = max(small.program.constants, key=lambda n: small.program.constants[n].size)
    constants = {n: c * (1 + 1e-6) if n == largest else c for n, c in small.program.constants.items()}
    faulty = replace(small, program=replace(small.program, constants=constants))
    assert certify(plan, small).holds
    assert not certify(plan, faulty).holds


def test_constants_that_are_no_numbers_are_caught() -> None:
    plan, small = plan_of("sigmoid", weights_of("sigmoid", 0, 1.0), "mean")
    for kept in (np.nan, np.inf):
        constants = {n: np.full_like(c, kept) for n, c in small.program.constants.items()}
        faulty = replace(small.program, constants=constants)
        assert not certify(plan, replace(small, program=faulty)).holds
        assert not certify(plan, small, faulty).holds


def test_constants_that_cancel_are_no_fault() -> None:
    """w2 = (.7, -.7, .3) on two dead units of the same bias: their constant parts cancel in numbers, not over the field."""
    sites, shapes = ["b1", "w1", "w2"], [(3,), (2, 3), (3, 1)]
    net = lambda weights, x: jnp.tanh(x @ weights[1] + weights[0]) @ weights[2]  # noqa: E731
    given = [jax.ShapeDtypeStruct(shape, jnp.float32) for shape in shapes]
    program = trace(lambda rows: jax.make_jaxpr(net)(given, jnp.zeros((rows, 2))), sites, [])
    kernel = np.array([[0, 0, 0.3], [0, 0, 0.2]], np.float32)
    weights = {"b1": np.array([0.5, 0.5, 0.1]), "w1": kernel, "w2": np.array([[0.7], [-0.7], [0.3]])}
    plan = make_plan(program, {}, weights)
    assert certify(plan, build(plan, plan.known.values)).holds


def test_another_operation_is_caught() -> None:
    plan, small = plan_of("mlp", weights_of("mlp", 0, 0.9), "posterior")
    ops: list[Any] = [op._replace(name="sub") if op.name == "add" else op for op in small.program.ops]
    assert not certify(plan, replace(small, program=replace(small.program, ops=tuple(ops)))).holds


def test_it_is_the_same_in_every_process() -> None:
    """No hash that differs from process to process enters."""
    plan, small = plan_of("mlp", weights_of("mlp", 0, 0.9), "posterior")
    assert certify(plan, small, seed=3) == certify(plan, small, seed=3)


def test_what_was_not_compared_does_not_hold() -> None:
    assert not Certificate(131071, 0, 0, 0, True, 0.0, 0.0).holds
