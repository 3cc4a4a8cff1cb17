"""Predicates on (path, shape)."""

import pytest

from bayesprune.model import select
from bayesprune.model.layout import ParamPath


@pytest.mark.fast_cases(1)
@pytest.mark.parametrize(
    ("path", "chosen"),
    [
        ("Dense_0.kernel", True),
        ("encoder.layers_3.attention.query.kernel", True),
        ("BatchNorm_0.scale", False),
        ("encoder.LayerNorm_12.bias", False),
        ("norm1.weight", False),
        ("layer_norm.scale", False),
        ("blocks.0.bn2.weight", False),
        ("normal_head.kernel", True),
        ("renorm.kernel", True),
    ],
)
def test_weights_are_kernels_and_biases_but_not_normalisation(path, chosen) -> None:
    assert select.weights(ParamPath(path), (3,)) is chosen


def test_the_others() -> None:
    path = ParamPath("Dense_0.kernel", is_last=True)
    assert select.everything(path, ()) and not select.nothing(path, ())
    assert not select.not_last(path, (2, 2)) and select.not_last(ParamPath("Dense_0.kernel"), (2, 2))
    assert select.kernels(path, (2, 2)) and not select.kernels(path, (2,))


def test_a_path_knows_its_layer() -> None:
    assert ParamPath("a.b.kernel").layer == "a.b" and ParamPath("kernel").layer == "kernel"
    assert ParamPath("a.b") == "a.b" and not ParamPath("a.b").is_last
