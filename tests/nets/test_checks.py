"""Nets say at their door what they are made with."""

from functools import partial
from types import SimpleNamespace

import jax
import pytest
from jaxtyping import TypeCheckError

import bayesprune as bp
from bayesprune.core.checks import check_integer, check_key
from bayesprune.nets.checks import check_activation, check_counts, check_widths


@pytest.mark.parametrize(
    ("settings", "error", "message"),
    [
        ({"hidden": 10}, TypeError, r"hidden must be a sequence.*got 10: write hidden=\(10,\)"),
        ({"hidden": "10"}, TypeError, "hidden must be a sequence"),
        ({"hidden": map(int, "88")}, TypeError, "hidden must be a sequence"),
        ({"hidden": {8, 4}}, TypeError, "hidden must be a sequence"),
        ({"hidden": (4, -1)}, ValueError, "hidden must be an integer of at least 1, got -1"),
        ({"num_outputs": "2"}, ValueError, "num_outputs must be an integer of at least 1, got '2'"),
        ({"activation": "relu"}, TypeError, r"activation must be a function, got 'relu': give jax\.nn\.relu"),
        ({"activation": 3}, TypeError, r"activation must be a function, got 3: give jax\.nn\.swish"),
    ],
)
def test_what_an_mlp_is_not_made_with(settings, error, message) -> None:
    """Where types are checked at run time, as in these tests, that check speaks first: so the net's own are called too."""
    with pytest.raises((error, TypeCheckError)):
        bp.nets.MLP(**{"hidden": (4,), "num_outputs": 2} | settings)
    ((name, value),) = settings.items()
    checks = {"hidden": lambda: check_widths(value, "hidden"), "num_outputs": lambda: check_integer(value, "num_outputs")}
    with pytest.raises(error, match=message):
        checks.get(name, lambda: check_activation(value))()


@pytest.mark.parametrize("net", [bp.nets.LeNet5, bp.nets.MLPMixer, bp.nets.ResNet, bp.nets.VGG, bp.nets.ViT])
@pytest.mark.parametrize(("name", "value"), [("num_outputs", "3"), ("num_outputs", 0), ("features", "wide")])
def test_what_nets_of_images_are_not_made_with(net, name, value) -> None:
    with pytest.raises((ValueError, TypeError, TypeCheckError), match=name):
        net(**{"num_outputs": 3} | {name: value})


@pytest.mark.parametrize("net", [bp.nets.LeNet5, bp.nets.MLPMixer, bp.nets.VGG, bp.nets.ViT, partial(bp.nets.MLP, (4,))])
@pytest.mark.parametrize("dropout", [20.0, 1.0, -0.2])
def test_dropout_is_a_probability(net, dropout) -> None:
    with pytest.raises(ValueError, match=rf"dropout must lie in \[0, 1\), got {dropout}: 0\.2 drops a fifth"):
        net(num_outputs=3, dropout=dropout)


def test_counts_are_refused_by_name() -> None:
    with pytest.raises(ValueError, match=r"units must be an integer of at least 1, got 3\.5"):
        check_counts(SimpleNamespace(num_outputs=2, units=3.5), "num_outputs", "units")


@pytest.mark.parametrize("make", [jax.random.key, jax.random.PRNGKey])
def test_several_keys_are_not_one(make) -> None:
    keys = jax.random.split(make(0), 3)
    assert check_key(keys[1]).shape == ()
    with pytest.raises(TypeError, match=r"rng_key must be one JAX random key, got 3 of them in an array: .* keys\[0\]"):
        check_key(keys)
    with pytest.raises(TypeError, match="rng_key must be a JAX random key"):
        check_key(jax.random.key_data(jax.random.key(0))[:1])
