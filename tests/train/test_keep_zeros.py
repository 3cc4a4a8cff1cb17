"""Zeros that cannot come back, one test for each way in which a pruned network is handed on."""

import equinox as eqx
import flax.serialization
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from flax import nnx

import bayesprune as bp

X = jax.random.normal(jax.random.key(5), (32, 4))
Y = jnp.sin(X.sum(1))
TX = optax.chain(optax.clip_by_global_norm(1.0), optax.adamw(0.05, weight_decay=0.1))  # momentum and decay move zeros


def pruned_linen():
    """A network with half of each kernel dead, one weight of it that the data would have back at once."""
    net = bp.nets.MLP((8,), 1)
    params = net.init(jax.random.key(0), X[:1])
    masks = jax.tree.map(lambda w: jax.random.bernoulli(jax.random.key(1), 0.5, w.shape) | (w.ndim < 2), params)
    return net, jax.tree.map(lambda w, m: jnp.where(m, w, 0), params, masks), masks


def trained(loss, params, tx, steps: int = 20, state=None):
    state = tx.init(params) if state is None else state

    @jax.jit
    def step(params, state):
        updates, state = tx.update(jax.grad(loss)(params), state, params)
        return optax.apply_updates(params, updates), state

    for _ in range(steps):
        params, state = step(params, state)
    return params, state


def same_zeros(new, masks) -> bool:
    pairs = zip(jax.tree.leaves(new), jax.tree.leaves(masks), strict=True)
    return all(np.all(np.asarray(w)[~np.broadcast_to(m, w.shape)] == 0) for w, m in pairs)


def linen_loss(net):
    return lambda params: jnp.mean((net.apply(params, X)[:, 0] - Y) ** 2)


def test_without_it_zeros_come_back_and_with_it_they_do_not() -> None:
    net, params, masks = pruned_linen()
    loss = linen_loss(net)
    assert not same_zeros(trained(loss, params, TX)[0], masks), "nothing is tested here"
    new, _ = trained(loss, params, bp.keep_zeros(TX, masks))
    assert same_zeros(new, masks) and loss(new) < loss(params)


def test_the_living_move_as_under_a_mask_in_the_network() -> None:
    """The oracle: the same transformation on the parameters of a function that multiplies by the mask itself."""
    net, params, masks = pruned_linen()
    new, _ = trained(linen_loss(net), params, bp.keep_zeros(optax.adam(0.05), masks))
    inside = lambda params: linen_loss(net)(jax.tree.map(lambda w, m: w * m, params, masks))  # noqa: E731
    expected, _ = trained(inside, params, optax.adam(0.05))
    jax.tree.map(lambda a, b, m: np.testing.assert_allclose(a, b * m, rtol=1e-5, atol=1e-6), new, expected, masks)


def test_saved_and_loaded_in_the_midst() -> None:
    net, params, masks = pruned_linen()
    tx, loss = bp.keep_zeros(TX, masks), linen_loss(net)
    params, state = trained(loss, params, tx, 5)
    saved = flax.serialization.to_bytes((params, state))
    loaded, state = flax.serialization.from_bytes((params, tx.init(params)), saved)
    assert same_zeros(trained(loss, loaded, tx, 5, state)[0], masks)


@pytest.mark.slow
def test_a_fit_handed_on_by_its_net_params(rng_key) -> None:
    net = bp.nets.MLP((8,), 1)
    bnn = bp.BNN(net, prior=bp.priors.Gaussian(), likelihood=bp.likelihoods.Normal(), input_shape=(4,))
    fit = bp.fit_svi(rng_key, bnn, bp.Dataset(X, Y), num_steps=5, progress=False)
    params = bnn.net_params(*bp.prune_once(fit.params, bp.methods.SNR(0.3), program=bnn)[:2])
    masks = jax.tree.map(lambda w: w != 0, params)
    assert sum(int(np.sum(~np.asarray(m))) for m in jax.tree.leaves(masks)) > 0
    assert same_zeros(trained(linen_loss(net), params, bp.keep_zeros(TX))[0], masks), "no mask is needed"


def test_an_nnx_optimizer() -> None:
    model = nnx.Sequential(nnx.Linear(4, 8, rngs=nnx.Rngs(0)), jax.nn.relu, nnx.Linear(8, 1, rngs=nnx.Rngs(1)))
    for layer in (model.layers[0], model.layers[2]):
        layer.kernel[...] = layer.kernel[...] * jax.random.bernoulli(jax.random.key(2), 0.5, layer.kernel.shape)
    masks = jax.tree.map(lambda w: (w != 0) | (w.ndim < 2), nnx.state(model, nnx.Param))
    optimizer = nnx.Optimizer(model, bp.keep_zeros(TX, masks), wrt=nnx.Param)

    @nnx.jit
    def step(model, optimizer):
        optimizer.update(model, nnx.grad(lambda model: jnp.mean((model(X)[:, 0] - Y) ** 2))(model))

    before = jax.tree.map(jnp.array, nnx.state(model, nnx.Param))
    for _ in range(5):
        step(model, optimizer)
    after = nnx.state(model, nnx.Param)
    assert same_zeros(after, masks) and not np.allclose(jax.tree.leaves(before)[1], jax.tree.leaves(after)[1])


def test_an_equinox_module() -> None:
    module = eqx.nn.MLP(4, 1, 8, 1, key=jax.random.key(0))
    params, static = eqx.partition(module, eqx.is_inexact_array)
    masks = jax.tree.map(lambda w: jax.random.bernoulli(jax.random.key(1), 0.5, w.shape) | (w.ndim < 2), params)
    params = jax.tree.map(lambda w, m: jnp.where(m, w, 0), params, masks)
    loss = lambda params: jnp.mean((jax.vmap(eqx.combine(params, static))(X)[:, 0] - Y) ** 2)  # noqa: E731
    new, _ = trained(loss, params, bp.keep_zeros(TX, masks), 5)
    assert same_zeros(new, masks) and loss(new) < loss(params)


def test_a_low_rank_update_that_is_merged() -> None:
    _, params, masks = pruned_linen()
    merged = jax.tree.map(
        lambda w: w + 0.1 * jnp.ones((*w.shape[:-1], 1)) @ jnp.ones((1, w.shape[-1])) if w.ndim > 1 else w, params
    )
    assert not same_zeros(merged, masks)
    new = bp.restore_zeros(merged, params)
    assert same_zeros(new, masks)
    jax.tree.map(
        lambda a, b, m: np.testing.assert_array_equal(np.asarray(a)[m], np.asarray(b)[m]),
        new,
        merged,
        jax.tree.map(lambda w: np.asarray(w) != 0, params),
    )


@pytest.mark.slow
def test_a_compact_network_that_is_trained_on(rng_key) -> None:
    net = bp.nets.MLP((8,), 1)
    bnn = bp.BNN(net, prior=bp.priors.Gaussian(), likelihood=bp.likelihoods.Normal(0.1), input_shape=(4,))
    fit = bp.fit_svi(rng_key, bnn, bp.Dataset(X, Y), num_steps=5, progress=False)
    pruned = bp.prune_once(fit.params, bp.methods.SNR(0.5), program=bnn)
    apply, params = bp.compact(bnn, pruned.params, pruned.mask).net()
    masks = jax.tree.map(lambda w: w != 0, params)
    new, _ = trained(lambda params: jnp.mean((apply(params, X)[:, 0] - Y) ** 2), params, bp.keep_zeros(TX), 5)
    assert same_zeros(new, masks)


def test_dead_weights_that_are_no_zeros_become_zeros_in_a_step() -> None:
    tx = bp.keep_zeros(optax.sgd(0.1), {"w": jnp.array([True, False])})
    params = {"w": jnp.array([1.0, 3.0])}
    updates, _ = tx.update(params, tx.init(params), params)
    np.testing.assert_allclose(optax.apply_updates(params, updates)["w"], [0.9, 0.0], rtol=1e-6)


def test_a_gradient_that_is_not_finite_at_a_dead_weight_is_not_seen() -> None:
    tx = bp.keep_zeros(optax.adam(0.1), {"w": jnp.array([True, False])})
    params = {"w": jnp.array([1.0, 0.0])}
    updates, _ = tx.update({"w": jnp.array([1.0, jnp.nan])}, tx.init(params), params)
    assert np.isfinite(updates["w"]).all()


def test_what_leaves_a_doubt_is_refused() -> None:
    params = {"kernel": jnp.array([[1.0, 0.0]]), "bias": jnp.zeros(2)}
    with pytest.raises(ValueError, match=r"params\['bias'\] is zero throughout: dead, or new, .*mask="):
        bp.keep_zeros(TX).init(params)
    with pytest.raises(ValueError, match=r"params\['bias'\] is traced, .*dead for ever: give mask="):
        jax.jit(bp.keep_zeros(TX).init)(params)
    assert jax.jit(bp.keep_zeros(TX, True).init)(params).alive["bias"].all()
    with pytest.raises(ValueError, match="mask must have the tree and the shapes of the parameters"):
        bp.keep_zeros(TX, {"kernel": True}).init(params)
    with pytest.raises(ValueError, match="mask must have the tree and the shapes of the parameters"):
        bp.keep_zeros(TX, {"kernel": jnp.ones((3, 2), bool), "bias": True}).init(params)
    tx = bp.keep_zeros(TX, True)
    with pytest.raises(ValueError, match=r"needs the parameters: update\(gradients, state, params\)"):
        tx.update(params, tx.init(params))
    with pytest.raises(ValueError, match=r"of \['bias'\] the shapes are pruned none and params \(2,\)"):
        bp.restore_zeros(params, {"kernel": params["kernel"]})


@pytest.mark.parametrize("shape", [(3,), (3, 1), (1, 3)])
def test_no_mask_is_broadcast_where_rows_could_be_taken_for_columns(shape: tuple[int, ...]) -> None:
    params, zeros = {"kernel": jnp.ones((3, 3))}, jnp.zeros(shape)
    with pytest.raises(ValueError, match=r"mask\['kernel'\] has shape .* and its parameters \(3, 3\)"):
        bp.keep_zeros(TX, {"kernel": zeros == 0}).init(params)
    with pytest.raises(ValueError, match=r"of \['kernel'\] the shapes are pruned .* and params \(3, 3\)"):
        bp.restore_zeros(params, {"kernel": zeros})
    with pytest.raises(ValueError, match=r"of \['kernel'\] the shapes are pruned \(\) and params \(3, 3\)"):
        bp.restore_zeros(params, {"kernel": jnp.array(0.0)})
    with pytest.raises(ValueError, match=r"mask\['kernel'\] must be boolean"):
        bp.keep_zeros(TX, {"kernel": np.full((3, 3), 0.2)}).init(params)
