"""What lies directly before each kernel, and at the outputs, as the layout says it."""

import jax.numpy as jnp
import numpy as np
import pytest
from flax import linen as nn

import bayesprune as bp
from bayesprune.core.layout import MOVED, ROWS


class Net(nn.Module):
    """A function of x and of a maker of dense layers by name."""

    function: object

    @nn.compact
    def __call__(self, x):
        return self.function(lambda name, x: nn.Dense(4, use_bias=False, name=name)(x), x)


CASES = {
    "chain": (lambda d, x: d("b", nn.relu(d("a", x))), {"a": [ROWS], "b": ["a"]}, ["b"]),
    "branches": (lambda d, x: d("c", d("a", x) * d("b", x)), {"a": [ROWS], "b": [ROWS], "c": ["a", "b"]}, ["c"]),
    "residual": (lambda d, x: d("b", x + d("a", x)), {"a": [ROWS], "b": [ROWS, "a"]}, ["b"]),
    "past the kernels": (lambda d, x: x + d("b", d("a", x)), {"a": [ROWS], "b": ["a"]}, [ROWS, "b"]),
    "turned round": (lambda d, x: d("b", jnp.flip(d("a", x), 1)), {"a": [ROWS], "b": ["a", MOVED]}, ["b"]),
    "rolled": (lambda d, x: d("a", jnp.roll(x, 1, axis=1)), {"a": [ROWS, MOVED]}, ["a"]),
    "permuted": (lambda d, x: d("a", x[:, np.array([1, 0, 3, 2])]), {"a": [ROWS, MOVED]}, ["a"]),
    "sorted": (lambda d, x: d("a", jnp.sort(x, axis=1)), {"a": [ROWS, MOVED]}, ["a"]),
    "a part": (lambda d, x: d("a", x[:, :3]), {"a": [ROWS, MOVED]}, ["a"]),
    "padded": (lambda d, x: d("a", jnp.pad(x, ((0, 0), (0, 1)))), {"a": [ROWS, MOVED]}, ["a"]),
    "joined": (lambda d, x: d("a", jnp.concatenate([x, x**2], 1)), {"a": [ROWS, MOVED]}, ["a"]),
    "mixed by numbers": (lambda d, x: d("a", x @ np.ones((4, 4), np.float32)), {"a": [ROWS, MOVED]}, ["a"]),
    "of another axis": (
        lambda d, x: d("a", (x[:, :, None] * x[:, None, :]).transpose(0, 2, 1)[:, 0]),
        {"a": [ROWS, MOVED]},
        ["a"],
    ),
    "an axis of one": (lambda d, x: d("a", x[..., None][..., 0]), {"a": [ROWS]}, ["a"]),
    "apart": (lambda d, x: d("a", jnp.split(x, 2, axis=1)[0]), {"a": [ROWS, MOVED]}, ["a"]),
}


@pytest.mark.parametrize("name", CASES)
def test_what_lies_before_each_kernel(name: str) -> None:
    function, reads, outputs = CASES[name]
    settings = {"prior": bp.priors.Flat(), "likelihood": bp.likelihoods.Normal(1.0), "input_shape": (4,)}
    layout = bp.BNN(Net(function), **settings).layout
    long = lambda names: tuple(one if one in (ROWS, MOVED) else f"{one}.kernel" for one in names)  # noqa: E731
    assert {spec.path.layer: spec.reads for spec in layout} == {site: long(names) for site, names in reads.items()}
    last = f"{outputs[-1]}.kernel"
    assert next(spec for spec in layout if spec.path == last).beside == long(outputs)


@pytest.mark.parametrize("read", [lambda x: x.mean(-1), lambda x: jnp.fft.fft(x.reshape(len(x), -1)).real], ids=["mean", "fft"])
def test_a_kernel_that_reads_no_rows_as_they_are(read) -> None:
    """By its width, where nothing was moved; and behind an operation of which nothing is known."""
    settings = {"prior": bp.priors.Flat(), "likelihood": bp.likelihoods.Normal(1.0), "input_shape": (3, 4)}
    layout = bp.BNN(Net(lambda d, x: d("a", read(x))), **settings).layout
    assert [spec.reads for spec in layout] == [(ROWS, MOVED)]
