"""Residual networks for small images, ResNet-18 above all."""

from collections.abc import Sequence
from typing import Any

import flax.linen as nn
import jax
from jax.typing import DTypeLike

from bayesprune.nets.checks import check_counts, check_widths
from bayesprune.nets.images import check_images
from bayesprune.nets.norms import at_least_single, pick_norm


class BasicBlock(nn.Module):
    """Two 3x3 convolutions and a way around them; the first convolution, and the way around, may halve the image.

    Args:
        features: channels of both convolutions; where they differ from x's, or the image shrinks, the way around is a 1x1
            convolution with a norm of its own.
        strides: pixels between outputs of the first convolution.
        norm, dtype: see `ResNet`.
    """

    features: int
    strides: int = 1
    norm: str = "batch"
    dtype: Any = None

    @nn.compact
    def __call__(self, x: jax.Array, train: bool = False) -> jax.Array:
        normalise, activate = pick_norm(self.norm, train, self.dtype)
        y = activate(normalise(_conv(self.features, 3, self.strides, self.dtype)(x)))
        y = normalise(_conv(self.features, 3, 1, self.dtype)(y))
        if x.shape != y.shape:
            x = normalise(_conv(self.features, 1, self.strides, self.dtype)(x))
        return activate(x + y)


class ResNet(nn.Module):
    """Basic blocks after a 3x3 convolution that keeps the image's size, as is usual for CIFAR; the defaults are ResNet-18.

    Args:
        num_outputs: number of classes.
        stage_sizes: blocks in each stage; every stage but the first halves the image and doubles the channels.
        features: channels of the first stage.
        norm: "batch" (running statistics for prediction), "group", or "frn": filter response normalisation with learned
            thresholds. The last two treat each row by itself.
        dtype: type to compute in, such as "bfloat16"; None: that of the data. Parameters and statistics stay float32, and so do
            the outputs.

    Inputs are images (rows, height, width, channels), outputs (rows, num_outputs). Convolutions have no bias. ResNet-18 for
    (32, 32, 3) and ten classes has 11,173,962 parameters, 11,164,352 of them in the kernels of convolutions and head.

    Raises:
        ValueError: an unknown norm, inputs that are no images.

    Example:
        >>> import jax
        >>> net = ResNet(num_outputs=10, stage_sizes=(1, 1), features=8)
        >>> variables = net.init(jax.random.key(0), jax.numpy.zeros((1, 8, 8, 3)))
        >>> net.apply(variables, jax.numpy.zeros((5, 8, 8, 3))).shape
        (5, 10)

    Source: He et al. (2016), Deep Residual Learning for Image Recognition, sections 3.3 and 4.2.
    """

    num_outputs: int
    stage_sizes: Sequence[int] = (2, 2, 2, 2)
    features: int = 64
    norm: str = "batch"
    dtype: Any = None

    def __post_init__(self) -> None:
        check_counts(self, "num_outputs", "features")
        check_widths(self.stage_sizes, "stage_sizes")
        super().__post_init__()

    @nn.compact
    def __call__(self, x: jax.Array, train: bool = False) -> jax.Array:
        check_images(x, "ResNet")
        normalise, activate = pick_norm(self.norm, train, self.dtype)
        x = activate(normalise(_conv(self.features, 3, 1, self.dtype)(x)))
        for stage, num_blocks in enumerate(self.stage_sizes):
            for block in range(num_blocks):
                strides = 2 if stage > 0 and block == 0 else 1
                x = BasicBlock(self.features * 2**stage, strides, self.norm, self.dtype)(x, train)
        outputs = nn.Dense(self.num_outputs, dtype=self.dtype)(x.mean(axis=(1, 2)))
        return outputs.astype(at_least_single(outputs.dtype))


# The name that flags and papers know; the defaults above are its sizes.
ResNet18 = ResNet


def _conv(features: int, size: int, strides: int, dtype: DTypeLike | None) -> nn.Conv:
    """A square convolution padded alike on all sides: "SAME" would pad one side only where it strides over an even image."""
    return nn.Conv(features, (size, size), strides, padding=size // 2, use_bias=False, dtype=dtype)
