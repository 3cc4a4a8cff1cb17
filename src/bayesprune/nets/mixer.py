"""The MLP-Mixer: dense layers over patches and over channels in turn, nothing else."""

import flax.linen as nn
import jax

from bayesprune.core.checks import check_name
from bayesprune.nets.checks import check_counts, check_dropout
from bayesprune.nets.images import FeedForward, check_images, framed, patches

POOLS = ("mean", "none")


class MixerBlock(nn.Module):
    """Dense layers over the tokens of each channel, then over the channels of each token, normed before, added after.

    Args:
        tokens, channels: hidden units of the two, D_S and D_C.
        dropout: see `MLPMixer`.
    """

    tokens: int
    channels: int
    dropout: float = 0.0

    @nn.compact
    def __call__(self, x: jax.Array, train: bool = False) -> jax.Array:
        y = nn.LayerNorm()(x).swapaxes(1, 2)
        x = x + FeedForward(self.tokens, self.dropout, name="over_tokens")(y, train).swapaxes(1, 2)
        y = nn.LayerNorm()(x)
        return x + FeedForward(self.channels, self.dropout, name="over_channels")(y, train)


class MLPMixer(nn.Module):
    """Patches, embedded; blocks of dense layers over tokens and over channels; a norm, the mean of the tokens, a dense layer.

    The defaults are the BMR paper's, gelu throughout.

    Args:
        num_outputs: number of classes.
        patch: side of a patch in pixels.
        features: C, channels of a token.
        num_blocks: blocks of two feed-forward nets each.
        hidden_tokens: D_S, hidden units over the tokens.
        hidden_channels: D_C, hidden units over the channels.
        pool: "mean" of the tokens; "none" for the outputs of every token.
        dropout: probability of dropping an output of a block's dense layers in training. The BMR paper's MAP nets have 0.2,
            but for this one.
        frame: images below frame x frame are centred in a frame of their corner's value; 0 leaves them as they are.

    Inputs are images (rows, height, width, channels). Outputs are (rows, num_outputs), or (rows, tokens, num_outputs). Dense
    layers are Bayesian and prunable by default, the last is not prunable; scales and shifts of norms are points.
    `bayesprune.select.everything` gives them posteriors too.

    Raises:
        ValueError: an unknown pool; inputs that are no images, or that patches do not fit.

    Example:
        >>> import jax
        >>> net = MLPMixer(num_outputs=10)
        >>> variables = jax.eval_shape(net.init, jax.random.key(0), jax.numpy.zeros((1, 28, 28, 1)))
        >>> sum(x.size for x in jax.tree.leaves(variables))
        1987722

    Source: Tolstikhin et al. (2021), MLP-Mixer; Marković, Friston & Kiebel (2024), appendix A.
    """

    num_outputs: int
    patch: int = 4
    features: int = 256
    num_blocks: int = 6
    hidden_tokens: int = 512
    hidden_channels: int = 512
    pool: str = "mean"
    dropout: float = 0.0
    frame: int = 32

    def __post_init__(self) -> None:
        check_counts(self, "num_outputs", "patch", "features", "num_blocks", "hidden_tokens", "hidden_channels")
        check_dropout(self.dropout)
        super().__post_init__()

    @nn.compact
    def __call__(self, x: jax.Array, train: bool = False) -> jax.Array:
        check_images(x, "MLPMixer")
        check_name("pool", self.pool, POOLS)
        x = nn.Dense(self.features, name="embed")(patches(framed(x, self.frame), self.patch, "MLPMixer"))
        for _ in range(self.num_blocks):
            x = MixerBlock(self.hidden_tokens, self.hidden_channels, self.dropout)(x, train)
        x = nn.LayerNorm()(x)
        return nn.Dense(self.num_outputs, name="head")(x.mean(axis=1) if self.pool == "mean" else x)


# The name that flags know; the defaults above are its sizes.
Mixer = MLPMixer
