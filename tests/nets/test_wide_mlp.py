"""The perceptron with a linear path: the sum of both, and each by itself."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import bayesprune as bp


def test_it_is_an_mlp_and_a_matrix_beside_it() -> None:
    net = bp.nets.WideMLP(hidden=(5, 4), num_outputs=2)
    x = jnp.asarray(np.random.default_rng(0).normal(size=(7, 3)), jnp.float32)
    params = net.init(jax.random.key(0), x)["params"]
    deep = {name: value for name, value in params.items() if name != "Linear"}
    alone = bp.nets.MLP(hidden=(5, 4), num_outputs=2).apply({"params": deep}, x)
    np.testing.assert_allclose(net.apply({"params": params}, x), alone + x @ params["Linear"]["kernel"], rtol=1e-5, atol=1e-6)


@pytest.mark.slow
def test_a_bnn_of_it_prunes_both_paths_and_compacts() -> None:
    bnn = bp.BNN(
        net := bp.nets.WideMLP(hidden=(4,), num_outputs=1),
        prior=bp.priors.DiracSlab(log_inclusion=-1.0),
        likelihood=bp.likelihoods.Normal(),
        input_shape=(3,),
    )
    prunable = {str(spec.path) for spec in bnn.layout if spec.prunable}
    assert {"Linear.kernel", "Dense_0.kernel", "Dense_1.kernel"} <= prunable
    x = jnp.asarray(np.random.default_rng(0).normal(size=(20, 3)), jnp.float32)
    params = bp.fit_svi(jax.random.key(0), bnn, bp.Dataset(x, x[:, 0]), num_steps=3, progress=False).params
    mask = {site: np.ones(node.loc.shape, bool) for site, node in bnn.read(params).items()}
    mask["Dense_0.kernel"][:, 1:] = False
    mask["Linear.kernel"][1:] = False
    params = bnn.cut(params, mask)
    small = bp.compact(bnn, params, mask, keep="mean")
    np.testing.assert_allclose(small.predict(x), net.apply(bnn.net_params(params, mask), x)[:, 0], rtol=1e-5, atol=1e-6)
