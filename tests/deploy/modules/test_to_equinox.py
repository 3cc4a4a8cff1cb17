"""An Equinox module of a compact network: the same outputs, trained on, and no parameter that is zero."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import bayesprune as bp
from bayesprune.model.transforms.entries import Entries
from tests.deploy.fits import DATA, fitted
from tests.deploy.functions import FUNCTIONS, compact_of, program_of, rows, sparse

RNG = np.random.default_rng(0)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_outputs_are_those_of_the_function_and_parameters_are_what_is_not_zero(name) -> None:
    function, shapes, input_shape = FUNCTIONS[name]
    weights = {site: sparse(RNG, shape) for site, shape in shapes.items()}
    constants = program_of(lambda _, x: function(weights, x), {}, input_shape)
    module, x = compact_of(constants).to_equinox(), rows(RNG, 7, *input_shape)
    np.testing.assert_allclose(jax.vmap(module)(x), function(weights, jnp.asarray(x)), rtol=1e-4, atol=1e-5)
    trained = jax.tree.leaves(eqx.filter(module, eqx.is_inexact_array))
    assert all(np.all(np.asarray(leaf)) for leaf in trained)
    assert sum(np.size(leaf) for leaf in trained) >= sum(np.count_nonzero(one) for one in weights.values())


def test_alive_of_nothing_and_of_all() -> None:
    assert len(Entries.living(np.zeros((2, 2)))) == 0 and Entries.living(np.ones(3)).places.tolist() == [0, 1, 2]


@pytest.mark.slow
def test_a_fit_is_trained_on_and_its_zeros_stay() -> None:
    bnn, params, mask = fitted("gaussian")
    small = bp.compact(bnn, params, mask)
    module = small.to_equinox()
    x, y = jnp.asarray(DATA.x), jnp.asarray(DATA.y)
    np.testing.assert_allclose(jax.nn.softmax(jax.vmap(module)(x)), small.predict(DATA.x), rtol=1e-4, atol=1e-6)
    alive_before = sum(np.count_nonzero(loc) for loc in small.law.loc.values())
    assert sum(value.size for value in module.values.values()) == alive_before

    @eqx.filter_value_and_grad
    def loss(module):
        return optax.softmax_cross_entropy_with_integer_labels(jax.vmap(module)(x), y).mean()

    tx = optax.adamw(0.05, weight_decay=0.1)
    state, before = tx.init(eqx.filter(module, eqx.is_inexact_array)), loss(module)[0]
    for _ in range(20):
        _, gradient = loss(module)
        updates, state = tx.update(gradient, state, eqx.filter(module, eqx.is_inexact_array))
        module = eqx.apply_updates(module, updates)
    assert loss(module)[0] < before
    for site, whole in module.weights().items():
        assert not np.asarray(whole)[np.asarray(small.law.loc[site]) == 0].any()
