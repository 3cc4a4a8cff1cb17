"""Layers of units, in a chain and with a residual sum."""

import flax.linen as nn
import numpy as np

import bayesprune as bp
from bayesprune.prune.layers import layers_of


class Residual(nn.Module):
    @nn.compact
    def __call__(self, x):
        hidden = nn.relu(nn.Dense(4, name="first")(x))
        inner = nn.relu(nn.Dense(3, name="inner")(hidden))
        return nn.Dense(2, name="last")(hidden + nn.Dense(4, name="back")(inner))


def test_arrays_that_make_the_same_units_make_one_layer() -> None:
    bnn = bp.BNN(
        Residual(), prior=bp.priors.Gaussian(), likelihood=bp.likelihoods.Categorical(), input_shape=(5,),
        prunable=bp.select.everything,
    )  # fmt: skip
    groups = bnn.groups("unit")
    layer = layers_of(groups)
    numbers = {site: set(layer[ids[ids >= 0]]) for site, ids in groups.members.items()}
    assert numbers["first.kernel"] == numbers["back.kernel"] == numbers["back.bias"] and len(numbers["first.kernel"]) == 1
    assert numbers["inner.kernel"] == numbers["inner.bias"] and numbers["inner.kernel"] != numbers["first.kernel"]
    assert np.bincount(layer).tolist() in ([4, 3], [3, 4])
