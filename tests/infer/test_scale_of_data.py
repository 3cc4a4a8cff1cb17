"""Data far from unit scale are told of once, with a call that mends them; data that are well are let alone."""

import functools
import re
import warnings

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pytest

import bayesprune as bp
from bayesprune.infer.scale_of_data import MOST_ROWS, warn_of_scale
from tests.infer.programs import linear_program

RNG = np.random.default_rng(0)
X = np.tile(np.array([[-1, 1, -1], [1, 1, 1], [1, -1, -1], [-1, -1, 1]], np.float32), (100, 1))
Y = np.tile(np.array([-1, 1], np.float32), 200)
IMAGES = RNG.integers(0, 256, size=(400, 4, 4, 1)).astype(np.uint8)
LABELS = np.arange(400) % 3
BITS = (RNG.random((400, 1000)) < 0.01).astype(np.float32)


class First(nn.Module):
    """Something of its own before the first weight."""

    does: str

    @nn.compact
    def __call__(self, x):
        x = {"layer norm": nn.LayerNorm(), "division": lambda x: x / 255.0}[self.does](x)
        return nn.Dense(1)(x.reshape(len(x), -1))


class Both(nn.Module):
    @nn.compact
    def __call__(self, x):
        return nn.Dense(1)(x["age"][:, None]) + nn.Embed(9, 1)(x["token"])


class Tokens(nn.Module):
    @nn.compact
    def __call__(self, x):
        return nn.Dense(1)(nn.Embed(500, 2)(x).mean(1))


@functools.cache
def bnn(likelihood=None, net=None, num_outputs=1, **settings) -> bp.BNN:
    chosen = {"prior": bp.priors.Flat(), "input_shape": (3,)} | settings
    return bp.BNN(net or bp.nets.MLP((4,), num_outputs), likelihood=likelihood or bp.likelihoods.Normal(), **chosen)


def told(program, x, y=Y) -> str:
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        warn_of_scale(program, bp.Dataset(x, y))
    assert len(found) < 2 and all(one.category is UserWarning for one in found), "one warning, or none"
    return str(found[0].message) if found else ""


def of_images(net=None, **settings) -> bp.BNN:
    return bnn(bp.likelihoods.Categorical(), net or bp.nets.MLP((4,), 3), input_shape=(4, 4, 1), **settings)


def beside(x) -> bp.BNN:
    """A network of several or whole inputs; not cached, for arrays do not hash."""
    net = Both() if isinstance(x, dict) else Tokens()
    rows = jax.tree.map(lambda part: part[:1], x)
    return bp.BNN(net, prior=bp.priors.Flat(), likelihood=bp.likelihoods.Normal(), example=rows)


NORMAL = bp.likelihoods.Normal
TREE = {"age": X[:, 0], "token": LABELS}
FAR = {
    "huge x": (lambda: bnn(), 1e9 * X, Y, r"data\.x has root mean square 1e\+09: "),
    "tiny x": (lambda: bnn(), 1e-6 * X, Y, r"data\.x has root mean square 1e-06: "),
    "an offset": (lambda: bnn(), X + 300, Y, r"data\.x has root mean square 3e\+02: "),
    "a small offset": (lambda: bnn(), X + 10, Y, r"data\.x has a mean that is 10 standard deviations from zero: "),
    "an offset of small numbers": (lambda: bnn(), 0.1 * X + 0.5, Y, r"data\.x has a mean that is 5 standard deviations from"),
    "an offset of images": (lambda: of_images(), IMAGES / 255 + 1.0, LABELS, r"data\.x has a mean that is 5\.\d standard"),
    "one column": (lambda: bnn(), X * np.array([1, 1, 1e3]), Y, r"data\.x has root mean square 5\.8e\+02: "),
    "a device's": (lambda: bnn(), jnp.asarray(1e9 * X), jnp.asarray(Y), r"data\.x has root mean square 1e\+09: "),
    "half precision": (lambda: bnn(), jnp.asarray(1e9 * X, jnp.bfloat16), Y, r"data\.x has root mean square 1e\+09: "),
    "whole numbers": (lambda: bnn(), (1e5 * X).astype(int), Y, r"data\.x has root mean square 1e\+05: "),
    "written out": (lambda: bnn(), (1e9 * X).tolist(), Y, r"data\.x has root mean square 1e\+09: "),
    "huge y": (lambda: bnn(), X, 1e9 * Y, r"data\.y has standard deviation 1e\+09: "),
    "tiny y": (lambda: bnn(), X, 1e-6 * Y, r"data\.y has standard deviation 1e-06: "),
    "years": (lambda: bnn(), X, (1990 + 5 * Y).astype(int), r"data\.y has mean 2e\+03: "),
    "constant and far": (lambda: bnn(), X, np.full(400, 1e3), r"data\.y has mean 1e\+03: "),
    "both": (lambda: bnn(), 1e9 * X, 1e9 * Y, r"data\.x has root mean square 1e\+09 and data\.y has standard deviation"),
    "y below its noise's prior": (lambda: bnn(), X, 0.1 * Y, r"data\.y has standard deviation 0\.1: "),
    "so of heavy tails": (lambda: bnn(bp.likelihoods.StudentT()), X, 0.1 * Y, r"data\.y has standard deviation 0\.1: "),
    "predicted noise": (lambda: bnn(NORMAL("predicted"), num_outputs=2), X, 1e3 * Y, r"data\.y has standard deviation"),
    "any distribution": (
        lambda: bnn(bp.likelihoods.Custom(lambda f: dist.Laplace(f[..., 0], 1.0))), X, 999.5 * Y, r"data\.y has standard dev",
    ),
    "bytes as reals": (lambda: of_images(), IMAGES.astype(np.float32), LABELS, r"data\.x has root mean square 1\.5e\+02"),
    "bytes": (lambda: of_images(), IMAGES, LABELS, r"data\.x has .*: BNN\(\.\.\., scaling=bp\.data\.Scaling\(0\.0, 255\.0\)\)"),
    "one of several": (lambda: beside(TREE), TREE | {"age": 1e9 * X[:, 0]}, Y, r"data\.x\['age'\] has root mean square"),
    "a program of one's own": (lambda: linear_program(), 1e9 * X, 1e9 * Y, r"^data\.x has root mean square 1e\+09: "),
}  # fmt: skip


@pytest.mark.parametrize("case", FAR)
def test_far_from_unit_scale(case) -> None:
    program, x, y, message = FAR[case]
    assert re.search(message, told(program(), x, y))


COUNTS = RNG.poisson(1e4, size=400)
WELL = {
    "standardised": (lambda: bnn(), X, Y),
    "percentages": (lambda: bnn(), 100 * RNG.random((400, 3)), Y),
    "pixels from 0 to 1": (lambda: of_images(), IMAGES / 255.0, LABELS),
    "bits that are mostly one": (lambda: bnn(input_shape=(5,)), (RNG.random((400, 5)) < 0.8).astype(np.float32), Y),
    "a column of ones beside": (lambda: bnn(), X * np.array([1, 1, 0]) + np.array([0, 0, 30]), Y),
    "images that are alike": (lambda: of_images(), (IMAGES[:1] - 128) / 74.0 + RNG.normal(size=IMAGES.shape) / 9, LABELS),
    "an offset that the net removes": (lambda: bnn(net=First("layer norm")), X + 10, Y),
    "few rows": (lambda: bnn(), X[:4] + 10, Y[:4]),
    "nothing": (lambda: bnn(), np.zeros((400, 3)), Y),
    "fingerprints": (lambda: bnn(input_shape=(1000,)), BITS, Y),
    "one of a million": (lambda: bnn(input_shape=(1000,)), np.eye(1000, dtype=np.float32)[:1] * np.ones((4, 1)), Y[:4]),
    "bytes that are scaled": (lambda: of_images(scaling=bp.data.Scaling(0.0, 255.0)), IMAGES, LABELS),
    "tokens": (lambda: beside(LABELS[:, None]), LABELS[:, None] * 100, Y),
    "tokens beside reals": (lambda: beside(TREE), TREE, Y),
    "a net that normalises": (lambda: bnn(net=First("layer norm")), 1e6 * X, Y),
    "a net that divides": (lambda: bnn(net=First("division"), input_shape=(4, 4, 1)), IMAGES, Y),
    "a constant y": (lambda: bnn(), X, np.full(400, 0.1, np.float32)),
    "y of a scale that is known": (lambda: bnn(NORMAL(0.07)), X, 0.1 * Y),
    "as many rows as the prior of the noise counts for": (lambda: bnn(), X[:12], Y[:12] / Y[:12].std()),
    "counts whose mean the outputs start at": (lambda: bnn(bp.likelihoods.Poisson(start=COUNTS.mean())), X, COUNTS),
    "counts of any distribution": (
        lambda: bnn(bp.likelihoods.Custom(lambda f: dist.Poisson(jnp.exp(f[..., 0])))), X, COUNTS.astype(float),
    ),
    "labels": (lambda: bnn(bp.likelihoods.Categorical(), num_outputs=1000), X, LABELS + 900),
    "shares": (lambda: bnn(bp.likelihoods.Beta()), X, 1e-4 * (1 + RNG.random(400))),
    "whole numbers of a program of one's own": (lambda: linear_program(), LABELS[:, None] * 1000, Y),
    "no rows": (lambda: bnn(), X[:0], Y[:0]),
    "text": (lambda: bnn(), X.astype(str), Y.astype(str)),
}  # fmt: skip


@pytest.mark.parametrize("case", WELL)
def test_what_is_well_is_let_alone(case) -> None:
    program, x, y = WELL[case]
    assert told(program(), x, y) == ""


def test_embedded_data_are_well() -> None:
    digits, diabetes = bp.data.load("digits")[0], bp.data.load("diabetes")[0]
    assert told(of_images(), digits.x, digits.y) == ""
    assert told(bnn(), diabetes.x, diabetes.y) == ""
    assert "data.x" in told(bnn(), *bp.data.load("diabetes", standardise=False)[0])


@pytest.mark.parametrize(
    "case",
    [
        "huge x",
        "tiny x",
        "an offset",
        "a small offset",
        "an offset of images",
        "one column",
        "bytes as reals",
        "one of several",
        "years",
        "both",
    ],
)
def test_the_remedy_mends_it(case) -> None:
    """What the message says is run as it stands."""
    program, x, y, _ = FAR[case]
    data = bp.Dataset(x, y)
    calls = told(program(), x, y).partition("alike: ")[2].removesuffix(".").split("; ")
    mended = {call.partition(")")[0]: eval(call.partition(", whose")[0], {"bp": bp, "data": data}) for call in calls}
    for call, values in mended.items():
        if "['age']" in call:
            x = x | {"age": values}
        elif "data.x" in call:
            x = values
        else:
            assert "data.y" in call
            y = values
    assert mended and told(program(), x, y) == ""


def test_the_remedy_of_bytes_mends_them() -> None:
    assert "scaling=bp.data.Scaling(0.0, 255.0)" in told(of_images(), IMAGES, LABELS)
    assert told(of_images(scaling=bp.data.Scaling(0.0, 255.0)), IMAGES, LABELS) == ""


class OnDisk:
    """Very many rows, of which somebody keeps count."""

    def __init__(self, *shape) -> None:
        self.shape, self.dtype, self.read = shape, np.dtype(np.float32), []

    def __getitem__(self, rows):
        self.read += range(*rows.indices(self.shape[0]))
        return np.full((len(self.read), *self.shape[1:]), 1e9, np.float32)


@pytest.mark.parametrize("shape", [(10**9, 3), (10**6, 50_000), (1001, 3)])
def test_few_rows_are_read_from_all_over(shape) -> None:
    x, y = OnDisk(*shape), OnDisk(shape[0])
    assert "data.x has root mean square 1e+09 and data.y has mean 1e+09" in told(bnn(), x, y)
    for rows in (x.read, y.read):
        assert 8 <= len(rows) <= MOST_ROWS and len(set(np.diff(rows))) == 1
        assert rows[-1] > 0.8 * shape[0]


@pytest.mark.parametrize(
    "data", [[(1e9 * X, Y)], lambda: iter([(1e9 * X, Y)]), (1e9 * X, Y), bp.Dataset], ids=["list", "function", "pair", "class"]
)
def test_what_has_no_fields_is_not_looked_at(data) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warn_of_scale(bnn(), data)
