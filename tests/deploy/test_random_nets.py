"""Networks and masks that nobody has chosen: the smaller program is the same function, whatever is put together."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jax import lax

from bayesprune.deploy import reader
from bayesprune.deploy.shrinking.certificate import certify
from bayesprune.deploy.shrinking.plan import make_plan
from bayesprune.deploy.shrinking.shrink import build
from tests.deploy.functions import chained, program_of

DIMS = ("NHWC", "HWIO", "NHWC")
ACTIVATIONS = [jax.nn.relu, jnp.tanh, jax.nn.sigmoid, jax.nn.swish, lambda x: x, lambda x: jnp.maximum(x, 0.3) - 0.3]


@dataclass
class Net:
    """A network being put together: its weights' shapes, its steps, the width of its last axis."""

    width: int
    rank: int
    shapes: dict[str, tuple[int, ...]] = field(default_factory=dict)
    steps: list[Callable[[dict[str, Any], Any], Any]] = field(default_factory=list)

    def weight(self, *shape: int) -> str:
        name = f"w{len(self.shapes)}"
        self.shapes[name] = shape
        return name

    def dense(self, width: int, bias: bool) -> Callable[[dict[str, Any], Any], Any]:
        kernel = self.weight(self.width, width)
        shift = self.weight(width) if bias else None
        return lambda p, x: x @ p[kernel] + (p[shift] if shift else 0.0)

    def conv(self, width: int, padding: str, stride: int) -> Callable[[dict[str, Any], Any], Any]:
        kernel, shift = self.weight(2, 2, self.width, width), self.weight(width)
        return lambda p, x: lax.conv_general_dilated(x, p[kernel], (stride, stride), padding, dimension_numbers=DIMS) + p[shift]


def add(net: Net, kind: str, draw: Callable[[Any], Any]) -> None:
    width, act = draw(st.integers(1, 4)), draw(st.sampled_from(ACTIVATIONS))
    if kind == "dense":
        layer = net.dense(width, draw(st.booleans()))
        net.steps.append(lambda p, x: act(layer(p, x)))
        net.width = width
    elif kind == "conv" and net.rank == 4:
        layer = net.conv(width, "SAME", draw(st.sampled_from([1, 2])))
        net.steps.append(lambda p, x: act(layer(p, x)))
        net.width = width
    elif kind == "residual":
        layer = net.dense(net.width, True)
        net.steps.append(lambda p, x: x + act(layer(p, x)))
    elif kind == "gate":
        one, other = net.dense(width, True), net.dense(width, False)
        net.steps.append(lambda p, x: act(one(p, x)) * other(p, x))
        net.width = width
    elif kind == "concatenate":
        one, other = net.dense(width, True), net.dense(1, False)
        net.steps.append(lambda p, x: jnp.concatenate([act(one(p, x)), other(p, x), x], -1))
        net.width += width + 1
    elif kind == "split" and net.width > 1:
        half = net.width // 2
        net.steps.append(lambda p, x: act(x[..., :half]) - x[..., half : 2 * half])
        net.width = half
    elif kind == "norm":
        scale = net.weight(net.width)
        net.steps.append(lambda p, x: (x - x.mean(-1, keepdims=True)) * p[scale])
    elif kind == "pool" and net.rank == 4:
        net.steps.append(lambda p, x: lax.reduce_window(x, -jnp.inf, lax.max, (1, 2, 2, 1), (1, 1, 1, 1), "SAME"))
    elif kind == "reverse":
        net.steps.append(lambda p, x: x[..., ::-1])


@st.composite
def nets(draw: Callable[[Any], Any]) -> tuple[Net, tuple[int, ...]]:
    image = draw(st.booleans())
    shape = (3, 3, 2) if image else (3,)
    net = Net(shape[-1], len(shape) + 1)
    kinds = ["dense", "conv", "residual", "gate", "concatenate", "split", "norm", "pool", "reverse"]
    for kind in draw(st.lists(st.sampled_from(kinds), min_size=1, max_size=5)):
        add(net, kind, draw)
    if image:
        net.steps.append(lambda p, x: x.mean((1, 2)))
    head = net.dense(2, True)
    net.steps.append(head)
    return net, shape


def check(net: Net, shape: tuple[int, ...], seed: int, density: float, keep: str) -> None:
    rng = np.random.default_rng(seed)
    function = chained(net.steps)
    weights = {s: np.where(rng.random(n) < density, rng.normal(size=n), 0).astype(np.float32) for s, n in net.shapes.items()}

    program = program_of(function, net.shapes, shape)
    random = {site: value != 0 for site, value in weights.items()} if keep == "posterior" else {}
    plan = make_plan(program, random, {} if random else weights)
    small = build(plan, plan.known.values)
    certificate = certify(plan, small, rounds=2, seed=seed)
    assert certificate.holds, certificate
    x = rng.normal(size=(4, *shape)).astype(np.float32)
    values: dict[int, Any] = {**small.program.constants, small.program.rows: x}
    for site, number in small.program.weights.items():
        values[number] = np.where(small.alive[site], weights[site][np.ix_(*small.places[site])], 0)
    made = reader.run(small.program.ops, values, 4)[small.program.output]
    np.testing.assert_allclose(made, function(weights, x), rtol=1e-3, atol=1e-4)


@pytest.mark.slow
@settings(max_examples=60, deadline=None, derandomize=True)
@given(nets(), st.integers(0, 2**31), st.floats(0.1, 1.0), st.sampled_from(["posterior", "mean"]))
def test_random_networks(drawn, seed, density, keep) -> None:
    check(*drawn, seed, density, keep)
