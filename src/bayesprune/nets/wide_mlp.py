"""A multi-layer perceptron with a linear path beside it."""

from collections.abc import Callable, Sequence

import flax.linen as nn
import jax

from bayesprune.core.checks import check_integer
from bayesprune.nets.checks import check_activation, check_widths

LINEAR = "Linear"  # the layer of the linear path


class WideMLP(nn.Module):
    """x -> W_L g(... g(W_1 x + b_1) ...) + b_L + W x: an `MLP`, and what is linear in x beside it.

    A world that is linear is then found as one: W alone, every hidden unit dead.

    Args:
        hidden: units of each hidden layer.
        num_outputs: outputs of either path.
        activation: g.

    Inputs of shape (rows, ...) are flattened; outputs are (rows, num_outputs). Errors as of `MLP`.

    Example:
        >>> import jax
        >>> net = WideMLP(hidden=(16,), num_outputs=3)
        >>> variables = net.init(jax.random.key(0), jax.numpy.zeros((1, 8)))
        >>> sorted(variables["params"]), net.apply(variables, jax.numpy.zeros((5, 8))).shape
        (['Dense_0', 'Dense_1', 'Linear'], (5, 3))

    Source: Cheng et al. (2016), Wide & deep learning for recommender systems, section 3.
    """

    hidden: Sequence[int]
    num_outputs: int
    activation: Callable[[jax.Array], jax.Array] = nn.swish

    def __post_init__(self) -> None:
        check_widths(self.hidden, "hidden")
        check_integer(self.num_outputs, "num_outputs")
        check_activation(self.activation)
        super().__post_init__()

    @nn.compact
    def __call__(self, x: jax.Array, train: bool = False) -> jax.Array:
        x = units = x.reshape((x.shape[0], -1))
        for width in self.hidden:
            units = self.activation(nn.Dense(width)(units))
        return nn.Dense(self.num_outputs)(units) + nn.Dense(self.num_outputs, use_bias=False, name=LINEAR)(x)
