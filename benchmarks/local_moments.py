"""Outputs under local noise against outputs under sampled weights: how wide they spread, and how much gradients vary.

    python benchmarks/local_moments.py                                          # prints the table
    python benchmarks/local_moments.py --write docs/local_reparameterisation.md # puts it between the page's two marks

Every network is small, every weight N(loc, 0.3²). Ratios are of standard deviations over 10,000 keys, known to one percent;
given are the smallest and the largest among all outputs. Takes some minutes on two cores.
"""

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np

from bayesprune.model.transforms.gaussian_array import GaussianArray
from bayesprune.model.transforms.local_noise import local_noise
from bayesprune.nets import MLPMixer, ViT

DRAWS, SCALE = 10_000, 0.3
MARK = "<!-- written by benchmarks/local_moments.py -->"
Case = tuple[Any, Callable[[Any, Any], Any], Any]  # weights, network, data


def normal(number: int, *shape: int) -> jax.Array:
    return jax.random.normal(jax.random.key(number), shape)


ROWS, TOKENS = normal(2, 6, 4), normal(3, 6, 5, 4)
IMAGES = normal(4, 6, 6, 6, 2)
KERNEL, SQUARE = 0.5 * normal(1, 4, 3), 0.5 * normal(1, 4, 4)


def of(layers: Callable[[Any], Any], x: jax.Array) -> Case:
    """A linen net written as a function of its input."""

    class Net(nn.Module):
        @nn.compact
        def __call__(self, x: jax.Array) -> jax.Array:
            return layers(x)

    variables = Net().init(jax.random.key(0), x)
    rest = {name: value for name, value in variables.items() if name != "params"}
    return variables["params"], lambda p, x: Net().apply({"params": p, **rest}, x, mutable=list(rest))[0], x


def tied(ids: jax.Array) -> jax.Array:
    embed = nn.Embed(5, 4)
    return embed.attend(embed(ids).mean(1))


def convolution() -> nn.Module:
    return nn.Conv(3, (3, 3), padding="VALID")


def batch_norm() -> nn.Module:
    return nn.BatchNorm(use_running_average=False)


CASES: dict[str, Callable[[], Case]] = {
    "two dense layers": lambda: of(lambda x: nn.Dense(3)(nn.tanh(nn.Dense(8)(x))), ROWS),
    "dense, layer norm, dense": lambda: of(lambda x: nn.Dense(3)(nn.relu(nn.LayerNorm()(nn.Dense(8)(x)))), ROWS),
    "cosine head, `x @ (W / norm(W))`": lambda: (KERNEL, lambda w, x: x @ (w / jnp.linalg.norm(w, axis=0)), ROWS),
    "token under an RMS norm": lambda: (
        0.1 * normal(1, 4),
        lambda w, x: x * w * jax.lax.rsqrt(jnp.mean(w**2) + 1e-6),
        ROWS,
    ),
    "`WeightNorm(use_scale=False)`": lambda: of(lambda x: nn.WeightNorm(nn.Dense(3), use_scale=False)(x), ROWS),
    "`x @ (B @ W)`, B fixed": lambda: (normal(1, 6, 3), lambda w, x: x @ (normal(5, 4, 6) @ w), ROWS),
    "tied, `tanh(x @ W) @ W.T`": lambda: (KERNEL, lambda w, x: jnp.tanh(x @ w) @ w.T, ROWS),
    "embedding with `attend`": lambda: of(tied, jax.random.randint(jax.random.key(6), (6, 2), 0, 5)),
    "one kernel three times": lambda: (SQUARE, lambda w, x: jnp.tanh(jnp.tanh(x @ w) @ w) @ w, ROWS),
    "self-attention": lambda: of(lambda x: nn.MultiHeadDotProductAttention(2)(x), TOKENS),
    "dense on tokens, their mean": lambda: of(lambda x: nn.tanh(nn.Dense(3)(x)).mean(1), TOKENS),
    "vision transformer, one block": lambda: of(lambda x: ViT(2, 2, 16, 1, 2, 16, frame=0)(x), IMAGES),
    "mixer, one block": lambda: of(lambda x: MLPMixer(2, 2, 16, 1, 16, 16, frame=0)(x), IMAGES),
    "dense before batch norm": lambda: of(lambda x: nn.tanh(batch_norm()(nn.Dense(3)(x))), ROWS),
    "convolution, positions apart": lambda: of(lambda x: nn.tanh(convolution()(x)), IMAGES),
    "convolution, mean of positions": lambda: of(lambda x: convolution()(x).mean((1, 2)), IMAGES),
    "convolution, tanh, mean": lambda: of(lambda x: nn.tanh(convolution()(x)).mean((1, 2)), IMAGES),
    "convolution, max pool, dense": lambda: of(
        lambda x: nn.Dense(3)(nn.max_pool(nn.tanh(convolution()(x)), (2, 2), (2, 2)).reshape(len(x), -1)), IMAGES
    ),
    "convolution, batch norm, tanh, mean": lambda: of(lambda x: nn.tanh(batch_norm()(convolution()(x))).mean((1, 2)), IMAGES),
}


def lift(params: Any, scale: Any, rng_key: jax.Array) -> Any:
    leaves, structure = jax.tree.flatten(params)
    scales, keys = jax.tree.leaves(scale), jax.random.split(rng_key, len(leaves))
    return jax.tree.unflatten(structure, [GaussianArray(*of) for of in zip(leaves, scales, keys, strict=True)])


def by_weights(net: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    draw = lambda weight: weight.materialise()  # noqa: E731
    return lambda params, x: net(jax.tree.map(draw, params, is_leaf=lambda leaf: isinstance(leaf, GaussianArray)), x)


def spread_and_slopes(sampler: Callable[[Any, Any], Any], case: Case) -> tuple[np.ndarray, float]:
    """Standard deviation of every output; variance of the gradient of a sum of squares in the scales, summed."""
    params, _, x = case
    scales = jax.tree.map(lambda leaf: jnp.full_like(leaf, SCALE), params)

    def one(rng_key: jax.Array) -> tuple[Any, Any]:
        loss = lambda scales: (sampler(lift(params, scales, rng_key), x) ** 2).sum()  # noqa: E731
        return sampler(lift(params, scales, rng_key), x), jax.grad(loss)(scales)

    draws, slopes = jax.jit(lambda keys: jax.lax.map(one, keys, batch_size=500))(jax.random.split(jax.random.key(7), DRAWS))
    return np.asarray(draws, np.float64).std(0), sum(float(np.var(leaf, axis=0).sum()) for leaf in jax.tree.leaves(slopes))


def row(name: str) -> str:
    case = CASES[name]()
    weights, varies = spread_and_slopes(by_weights(case[1]), case)
    cells = []
    for shared in ("convolutions", "draw") if name.startswith("convolution") else ("convolutions",):
        ours, ours_varies = spread_and_slopes(local_noise(case[1], shared), case)
        ratio = ours[weights > 1e-6] / weights[weights > 1e-6]
        cells += [f"{ratio.min():.2f} to {ratio.max():.2f}", f"{ours_varies / varies:.2f}"]
    return f"| {name} | {' | '.join(cells if len(cells) == 4 else [*cells, 'the same', ''])} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", type=Path, metavar="PAGE")
    arguments = parser.parse_args()
    lines = [
        '| network | sd local / weight | gradient variance | sd, `shared="draw"` | gradient variance |',
        "| --- | --- | ---: | --- | ---: |",
    ]
    for name in CASES:
        lines.append(row(name))
        print(lines[-1], flush=True)
    if arguments.write:
        before, _, after = arguments.write.read_text(encoding="utf-8").split(MARK)
        arguments.write.write_text(MARK.join([before, "\n" + "\n".join(lines) + "\n", after]), encoding="utf-8")


if __name__ == "__main__":
    main()
