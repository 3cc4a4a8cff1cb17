"""What goes with a unit: counted beside the FLOPs that a mask without the unit's weights and their readers has left."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from tests.structure.nets import NETS, case

import bayesprune as bp
from bayesprune.structure import flops_of_units, multiply_adds, units


def left(graph, mask) -> int:
    return sum(2 * alive for _, _, alive in multiply_adds(graph, mask))


@pytest.mark.fast_cases(2)
@pytest.mark.parametrize("name", NETS)
def test_a_unit_costs_what_a_network_without_it_saves(name) -> None:
    """Each unit taken by itself."""
    graph = case(name).graph
    if graph.unsettled:
        with pytest.raises(ValueError, match="is not known before it runs"):
            flops_of_units(graph, units(graph))
        return
    found = units(graph)
    costs = flops_of_units(graph, found)
    whole = left(graph, {})
    for unit in range(found.count):
        mask = {s: (found.producers[s] != unit) & (found.consumers[s] != unit) for s in graph.roles}
        assert costs[unit] == pytest.approx(whole - left(graph, mask)), unit


def test_a_small_network_by_hand() -> None:
    graph = case("mlp").graph
    np.testing.assert_array_equal(flops_of_units(graph, units(graph)), [2 * (4 + 6)] * 5 + [2 * (5 + 2)] * 6)


class LowRank(eqx.Module):
    """A kernel that is the product of two."""

    a: jax.Array
    b: jax.Array
    head: jax.Array

    def __call__(self, x):
        return self.head @ jax.nn.relu((self.a @ self.b) @ x)


def test_a_kernel_made_of_two_by_hand() -> None:
    """a @ b is 2 * 5 * 2 * 4 FLOPs; its product with data, 2 * 5 * 4, goes with the ten entries of a, the larger of both.

    Units are the two columns of a, which the rows of b read, and the four columns of b.
    """
    net = LowRank(jnp.ones((5, 2)), jnp.ones((2, 4)), jnp.ones((2, 5)))
    bnn = bp.BNN(net, prior=bp.priors.Flat(), likelihood=bp.likelihoods.Categorical(), input_shape=(4,))
    entry_of_a, entry_of_b = 2 * 4 + 4, 2 * 5
    expected = [5 * entry_of_a + 4 * entry_of_b] * 2 + [2 * entry_of_b] * 4
    np.testing.assert_allclose(flops_of_units(bnn.graph, bnn.units), expected)
