"""The VGG-like network for CIFAR-10 that is compressed in the literature."""

from collections.abc import Sequence
from typing import Any

import flax.linen as nn
import jax

from bayesprune.core.checks import check_name
from bayesprune.nets.checks import check_counts, check_dropout, check_widths
from bayesprune.nets.images import check_images, framed
from bayesprune.nets.norms import at_least_single, pick_norm

NORMS = ("batch", "group")


class VGG(nn.Module):
    """Stages of 3x3 convolutions, each halved by a max pool; two dense layers; a norm and a relu after all but the last.

    The defaults are the net of 13 convolutions and 512 hidden units of the Bayesian-compression papers on CIFAR-10.

    Args:
        num_outputs: number of classes.
        stage_sizes: convolutions in each stage.
        features: channels of each stage's convolutions.
        units: units of the hidden dense layer.
        norm: "batch" (running statistics for prediction) or "group" (each row by itself).
        dropout: probability of dropping an input of a dense layer in training.
        dtype: type to compute in, such as "bfloat16"; None: that of the data. Parameters, statistics and outputs stay float32.
        frame: images below frame x frame are centred in a frame of their corner's value; 0 leaves them as they are.

    Inputs are images (rows, height, width, channels), outputs (rows, num_outputs). What a norm follows has no bias. Kernels are
    Bayesian and, but for the last layer's, prunable by default; scales and shifts of norms are points.

    Raises:
        ValueError: an unknown norm, not as many stages as ``features``, inputs that are no images.

    Example:
        >>> import jax
        >>> net = VGG(num_outputs=10)
        >>> variables = jax.eval_shape(net.init, jax.random.key(0), jax.numpy.zeros((1, 32, 32, 3)))
        >>> sum(x.size for x in jax.tree.leaves(variables["params"]))
        14987210

    Source: Simonyan & Zisserman (2015), configuration D, as Zagoruyko (2015), 92.45 % on CIFAR-10 in Torch, and Louizos,
    Ullrich & Welling (2017), table 1, have it.
    """

    num_outputs: int
    stage_sizes: Sequence[int] = (2, 2, 3, 3, 3)
    features: Sequence[int] = (64, 128, 256, 512, 512)
    units: int = 512
    norm: str = "batch"
    dropout: float = 0.0
    dtype: Any = None
    frame: int = 32

    def __post_init__(self) -> None:
        check_counts(self, "num_outputs", "units")
        check_widths(self.stage_sizes, "stage_sizes")
        check_widths(self.features, "features")
        check_dropout(self.dropout)
        super().__post_init__()

    @nn.compact
    def __call__(self, x: jax.Array, train: bool = False) -> jax.Array:
        check_images(x, "VGG")
        check_name("norm", self.norm, NORMS)  # filter responses need more positions than the last maps have
        if len(self.stage_sizes) != len(self.features):
            raise ValueError(
                f"features must name the channels of each of the {len(self.stage_sizes)} stages in stage_sizes, got "
                f"{tuple(self.features)}."
            )
        normalise, activate = pick_norm(self.norm, train, self.dtype)
        x = framed(x, self.frame)
        for size, channels in zip(self.stage_sizes, self.features, strict=True):
            for _ in range(size):
                x = activate(normalise(nn.Conv(channels, (3, 3), padding=1, use_bias=False, dtype=self.dtype)(x)))
            x = nn.max_pool(x, (2, 2), (2, 2))
        x = nn.Dropout(self.dropout, deterministic=not train)(x.reshape((x.shape[0], -1)))
        x = activate(normalise(nn.Dense(self.units, use_bias=False, dtype=self.dtype)(x)))
        x = nn.Dropout(self.dropout, deterministic=not train)(x)
        outputs = nn.Dense(self.num_outputs, dtype=self.dtype)(x)
        return outputs.astype(at_least_single(outputs.dtype))
