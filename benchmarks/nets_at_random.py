"""Small networks of all kinds, drawn by a fixed seed, each on a small data set, and about how long a step of one takes."""

import itertools
import math

import flax.linen as nn
import jax
import numpy as np

import bayesprune as bp

SEED, BATCH = 20, 128
KINDS = ("mlp", "lenet5", "mlp", "resnet", "mlp", "mixer", "vit", "gru")  # one after the other
SIDES = {"digits": 8, "fashion_mnist": 28}
TRAINED, JUDGED = 5_000, 1_000  # rows of Fashion-MNIST


class RowsInTurn(nn.Module):
    """A recurrent cell that reads an image row by row."""

    features: int

    @nn.compact
    def __call__(self, x: jax.Array) -> jax.Array:
        return nn.Dense(10)(nn.RNN(nn.GRUCell(self.features))(x[..., 0])[:, -1])


def draw(number: int) -> tuple[str, str]:
    """Data set and network, as in "mlp-64-300"; the numbers are the arguments of `build`."""
    rng = np.random.default_rng([SEED, number])
    kind = KINDS[number % len(KINDS)]
    data = str(rng.choice(list(SIDES)))
    if kind == "gru":
        data = "digits"
    patch = {"digits": (1, 2, 4), "fashion_mnist": (4, 7)}[data]
    blocks = (rng.choice(patch), rng.choice([16, 32, 64]), rng.integers(1, 4), rng.choice([32, 64, 128]))
    numbers = {
        "mlp": rng.integers(16, 401, rng.integers(1, 9)),
        "lenet5": (),
        "resnet": (rng.choice([4, 8]), rng.integers(1, 4)),
        "mixer": blocks,
        "vit": blocks,
        "gru": (rng.choice([16, 32, 64, 128]),),
    }[kind]
    return data, "-".join([kind, *(str(int(one)) for one in numbers)])


def build(name: str) -> nn.Module:
    """The network of a name."""
    kind, *rest = name.split("-")
    size = tuple(map(int, rest))
    if kind in ("mixer", "vit"):
        patch, features, blocks, hidden = size
        same = {"patch": patch, "features": features, "num_blocks": blocks, "frame": 0}
        if kind == "vit":
            return bp.nets.ViT(10, num_heads=4, hidden=hidden, **same)
        return bp.nets.MLPMixer(10, hidden_tokens=hidden, hidden_channels=hidden, **same)
    if kind == "resnet":
        return bp.nets.ResNet(10, stage_sizes=(1,) * size[1], features=size[0], norm="group")
    return {"mlp": lambda: bp.nets.MLP(size, 10), "lenet5": lambda: bp.nets.LeNet5(10), "gru": lambda: RowsInTurn(*size)}[
        kind
    ]()


def load(data: str) -> tuple[bp.Dataset, bp.Dataset]:
    """The digits; the first rows of Fashion-MNIST."""
    train, test = bp.data.load(data)
    return bp.Dataset(train.x[:TRAINED], train.y[:TRAINED]), bp.Dataset(test.x[:JUDGED], test.y[:JUDGED])


def step_seconds(data: str, name: str) -> float:
    """About what a step costs on one core: so much for each weight, and for each product of 128 rows."""
    weights, products = _work(SIDES[data], name)
    return 1e-3 + 2e-8 * weights + 1.5e-10 * BATCH * products


def _work(side: int, name: str) -> tuple[int, int]:
    """Weights, and products of one row, both nearly."""
    kind, *rest = name.split("-")
    size = tuple(map(int, rest))
    if kind == "mlp":
        widths = (side**2, *size, 10)
        weights = sum(a * b for a, b in itertools.pairwise(widths))
        return weights, weights
    if kind == "lenet5":
        return 62_000, 420_000
    if kind == "gru":
        weights = 3 * size[0] * (size[0] + side)
        return weights, side * weights
    if kind == "resnet":
        stages = [size[0] * 2**stage for stage in range(size[1])]
        weights = sum(18 * wide**2 for wide in stages)
        return weights, sum(27 * wide**2 * math.ceil(side / 2**stage) ** 2 for stage, wide in enumerate(stages))
    patch, features, blocks, hidden = size
    tokens = (side // patch) ** 2
    mixing = 4 * features**2 + 2 * features * tokens if kind == "vit" else 2 * features * hidden  # of a token
    return blocks * features * (4 * features + 2 * hidden), blocks * tokens * (mixing + 2 * features * hidden)
