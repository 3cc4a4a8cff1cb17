"""The sparsest pruning that a held-out loss allows."""

import jax.numpy as jnp
import numpy as np
import pytest

from bayesprune.core.types import Pruned
from bayesprune.methods.sbnn import SBNN
from bayesprune.methods.snr import SNR
from bayesprune.posteriors.mean_field import MeanField
from bayesprune.prune.one_shot import prune_once
from bayesprune.prune.tolerance import prune_to_tolerance


def search(losses: dict[float, float], **settings):
    """Over made-up losses by density; remembers what was asked for."""
    asked: list[float] = []

    def prune(density: float) -> Pruned:
        asked.append(density)
        return Pruned(density, {}, None)

    found = prune_to_tolerance(prune, lambda pruned: losses[pruned.params], densities=tuple(losses), **settings)
    return found, asked


def test_the_lowest_density_within_the_tolerance_is_found() -> None:
    found, asked = search({1.0: 2.0, 0.1: 2.3, 0.5: 1.9, 0.3: 2.09}, tolerance=0.05)
    assert found.density == found.pruned.params == 0.3
    assert asked == [1.0, 0.5, 0.3, 0.1]
    np.testing.assert_array_equal(found.losses, [2.0, 1.9, 2.09, 2.3])


def test_a_lucky_density_beyond_the_first_failure_is_not_taken() -> None:
    found, asked = search({1.0: 1.0, 0.5: 2.0, 0.1: 0.5})
    assert found.density == 1.0
    assert asked == [1.0, 0.5] and np.isnan(found.losses[2])


def test_a_loss_that_is_not_finite_is_a_failure() -> None:
    assert search({1.0: 1.0, 0.5: 1.0, 0.2: float("nan")})[0].density == 0.5


def test_it_works_on_a_real_posterior() -> None:
    """Weights 0 to 9: without the two smallest the loss grows by 1, without a third by 3."""
    posterior = {"w": MeanField(jnp.arange(10.0), jnp.ones(10))}
    found = prune_to_tolerance(
        lambda density: prune_once(posterior, SNR(density=density)),
        lambda pruned: 55.0 - float(pruned.params["w"].loc.sum()),
        tolerance=0.2,
        densities=(1.0, 0.8, 0.7),
    )
    assert found.density == 0.8 and int(found.pruned.info.num_alive) == 8


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"densities": ()}, "densities is empty"),
        ({"densities": (1.5,)}, "densities must lie in"),
        ({"tolerance": -0.1}, "tolerance must be"),
        ({"loss": lambda pruned: float("nan")}, "loss must be finite"),
    ],
)
def test_bad_arguments_are_named(settings: dict, message: str) -> None:
    good = {"prune": lambda density: Pruned(density, {}, None), "loss": lambda pruned: 1.0}
    with pytest.raises(ValueError, match=message):
        prune_to_tolerance(**(good | settings))


def test_a_posterior_without_inclusion_probabilities_is_refused() -> None:
    with pytest.raises(TypeError, match="no inclusion probabilities"):
        prune_once({"w": MeanField(jnp.ones(3), jnp.ones(3))}, SBNN())
