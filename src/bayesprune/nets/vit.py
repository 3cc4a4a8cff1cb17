"""The vision transformer: attention among the patches of an image."""

import flax.linen as nn
import jax
import jax.numpy as jnp

from bayesprune.core.checks import check_name
from bayesprune.nets.checks import check_counts, check_dropout
from bayesprune.nets.images import FeedForward, check_images, framed, patches

POOLS = ("token", "mean", "none")


class EncoderBlock(nn.Module):
    """Attention among the tokens, then a feed-forward net for each, each normed before, added after.

    Args:
        num_heads, hidden, dropout: see `ViT`.
    """

    num_heads: int
    hidden: int
    dropout: float = 0.0

    @nn.compact
    def __call__(self, x: jax.Array, train: bool = False) -> jax.Array:
        y = nn.MultiHeadDotProductAttention(num_heads=self.num_heads, name="attention")(nn.LayerNorm()(x))
        x = x + nn.Dropout(self.dropout, deterministic=not train)(y)
        return x + FeedForward(self.hidden, self.dropout, name="feed_forward")(nn.LayerNorm()(x), train)


class ViT(nn.Module):
    """Patches, embedded, with a class token and a learned place each; blocks of attention; a norm, a dense layer.

    The defaults are the BMR paper's.

    Args:
        num_outputs: number of classes.
        patch: side of a patch in pixels.
        features: channels of a token; a multiple of ``num_heads``.
        num_blocks: blocks of attention and feed-forward net.
        num_heads: heads of the attention, each of features / num_heads channels.
        hidden: hidden units of the feed-forward nets, gelu.
        pool: what the last layer reads: the class "token"; the "mean" of all tokens, or every token by itself ("none"), both
            without a class token.
        dropout: probability of dropping an output of a dense layer in training, but for those that make queries, keys and
            values; and of the embedded tokens. The BMR paper uses 0.2 for MAP.
        frame: images below frame x frame are centred in a frame of their corner's value; 0 leaves them as they are.

    Inputs are images (rows, height, width, channels). Outputs are (rows, num_outputs), or (rows, tokens, num_outputs). Dense
    layers are Bayesian and prunable by default, the last is not prunable; norms, class token and places are points.
    `bayesprune.select.everything` gives them posteriors too, as the BMR paper's authors do.

    Raises:
        ValueError: an unknown pool; inputs that are no images, or that patches do not fit; ``features`` that heads do not
            divide.

    Example:
        >>> import jax
        >>> net = ViT(num_outputs=10)
        >>> variables = jax.eval_shape(net.init, jax.random.key(0), jax.numpy.zeros((1, 28, 28, 1)))
        >>> sum(x.size for x in jax.tree.leaves(variables))
        3186954

    Source: Dosovitskiy et al. (2021), An Image is Worth 16x16 Words, section 3.1 and appendix B.1; Marković, Friston & Kiebel
    (2024), appendix A.
    """

    num_outputs: int
    patch: int = 4
    features: int = 256
    num_blocks: int = 6
    num_heads: int = 8
    hidden: int = 512
    pool: str = "token"
    dropout: float = 0.0
    frame: int = 32

    def __post_init__(self) -> None:
        check_counts(self, "num_outputs", "patch", "features", "num_blocks", "num_heads", "hidden")
        check_dropout(self.dropout)
        super().__post_init__()

    @nn.compact
    def __call__(self, x: jax.Array, train: bool = False) -> jax.Array:
        check_images(x, "ViT")
        check_name("pool", self.pool, POOLS)
        if self.features % self.num_heads:
            raise ValueError(
                f"features={self.features} cannot be split evenly over num_heads={self.num_heads}: choose a multiple of it."
            )
        x = nn.Dense(self.features, name="embed")(patches(framed(x, self.frame), self.patch, "ViT"))
        if self.pool == "token":
            token = self.param("class_token", nn.initializers.normal(0.02), (1, 1, self.features))
            x = jnp.concatenate([jnp.broadcast_to(token, (len(x), 1, self.features)), x], axis=1)
        x = x + self.param("position_embedding", nn.initializers.normal(0.02), (1, *x.shape[1:]))
        x = nn.Dropout(self.dropout, deterministic=not train)(x)
        for _ in range(self.num_blocks):
            x = EncoderBlock(self.num_heads, self.hidden, self.dropout)(x, train)
        x = nn.LayerNorm()(x)
        # Of pool "token" the first is the class's, of "mean" all are one, of "none" they stay apart.
        read = {"token": x[:, 0], "mean": x.mean(axis=1), "none": x}[self.pool]
        return nn.Dense(self.num_outputs, name="head")(read)
