"""The multi-layer perceptron of the papers."""

from collections.abc import Callable, Sequence

import flax.linen as nn
import jax

from bayesprune.core.checks import check_integer
from bayesprune.nets.checks import check_activation, check_dropout, check_widths


class MLP(nn.Module):
    """Dense layers with one activation between them: x -> W_L g(... g(W_1 x + b_1) ...) + b_L.

    Args:
        hidden: units of each hidden layer; the BMR paper uses ``(400,) * 5``.
        num_outputs: outputs of the last layer (classes, or regression targets).
        activation: g, applied after every hidden layer; swish in the BMR paper.
        dropout: probability of dropping an input of a dense layer in training (0 = never); the BMR paper uses 0.2 for MAP.

    Inputs of shape (rows, ...) are flattened to (rows, features); outputs are (rows, num_outputs). Widths that are no positive
    integers, and an activation that is no function, are a `ValueError` or `TypeError`.

    Example:
        >>> import jax
        >>> net = MLP(hidden=(16,), num_outputs=3)
        >>> variables = net.init(jax.random.key(0), jax.numpy.zeros((1, 8)))
        >>> net.apply(variables, jax.numpy.zeros((5, 8))).shape
        (5, 3)

    Source: Marković, Friston & Kiebel (2024), appendix A.
    """

    hidden: Sequence[int]
    num_outputs: int
    activation: Callable[[jax.Array], jax.Array] = nn.swish
    dropout: float = 0.0

    def __post_init__(self) -> None:
        check_widths(self.hidden, "hidden")
        check_integer(self.num_outputs, "num_outputs")
        check_activation(self.activation)
        check_dropout(self.dropout)
        super().__post_init__()

    @nn.compact
    def __call__(self, x: jax.Array, train: bool = False) -> jax.Array:
        x = x.reshape((x.shape[0], -1))
        for units in self.hidden:
            x = self.activation(nn.Dense(units)(x))
            x = nn.Dropout(self.dropout, deterministic=not train)(x)
        return nn.Dense(self.num_outputs)(x)
