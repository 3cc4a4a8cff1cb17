"""LeNet-5, in the two widths of the BMR paper."""

from collections.abc import Sequence

import flax.linen as nn
import jax
import jax.numpy as jnp

from bayesprune.nets.checks import check_counts, check_dropout, check_widths
from bayesprune.nets.images import check_images, framed


class LeNet5(nn.Module):
    """Three 5x5 convolutions, average pooling after the first two, two dense layers, tanh throughout.

    Args:
        num_outputs: number of classes.
        features: channels of the convolutions; (6, 16, 120) for Fashion-MNIST, (18, 48, 360) for CIFAR.
        units: units of the hidden dense layer; 84 for Fashion-MNIST, 256 for CIFAR.
        dropout: probability of dropping an input of a dense layer in training; the BMR paper uses 0.2 for MAP.

    Inputs are images of shape (rows, height, width, channels); images below 32x32 are centred in a frame of the border's own
    value (each image's first pixel) up to 32x32, so that a 28x28 digit keeps its background. Outputs are (rows, num_outputs).

    Raises:
        ValueError: inputs that are no images.

    Example:
        >>> import jax
        >>> net = LeNet5(num_outputs=10)
        >>> variables = jax.eval_shape(net.init, jax.random.key(0), jax.numpy.zeros((1, 28, 28, 1)))
        >>> sum(x.size for x in jax.tree.leaves(variables))
        61706

    Source: LeCun et al. (1998); Marković, Friston & Kiebel (2024), appendix A.
    """

    num_outputs: int
    features: Sequence[int] = (6, 16, 120)
    units: int = 84
    dropout: float = 0.0

    def __post_init__(self) -> None:
        check_counts(self, "num_outputs", "units")
        check_widths(self.features, "features")
        check_dropout(self.dropout)
        super().__post_init__()

    @nn.compact
    def __call__(self, x: jax.Array, train: bool = False) -> jax.Array:
        check_images(x, "LeNet5")
        x = framed(x, 32)
        for channels in self.features[:-1]:
            x = nn.avg_pool(jnp.tanh(nn.Conv(channels, (5, 5), padding="VALID")(x)), (2, 2), strides=(2, 2))
        x = jnp.tanh(nn.Conv(self.features[-1], (5, 5), padding="VALID")(x))
        x = x.reshape((x.shape[0], -1))
        x = nn.Dropout(self.dropout, deterministic=not train)(x)
        x = jnp.tanh(nn.Dense(self.units)(x))
        x = nn.Dropout(self.dropout, deterministic=not train)(x)
        return nn.Dense(self.num_outputs)(x)
