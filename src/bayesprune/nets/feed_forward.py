"""The two dense layers of a mixer's and a transformer's blocks."""

import flax.linen as nn
import jax
from jaxtyping import Array, Float


class FeedForward(nn.Module):
    """x -> W_2 gelu(W_1 x + b_1) + b_2 over the last axis, whose size the result has again.

    Args:
        hidden: units between the two layers.
        dropout: probability of dropping an output of either layer in training.
    """

    hidden: int
    dropout: float = 0.0

    @nn.compact
    def __call__(self, x: Float[Array, "*batch features"], train: bool = False) -> Float[Array, "*batch features"]:
        def drop(values: jax.Array) -> jax.Array:
            return nn.Dropout(self.dropout, deterministic=not train)(values)

        hidden = drop(nn.gelu(nn.Dense(self.hidden)(x)))
        return drop(nn.Dense(x.shape[-1])(hidden))
