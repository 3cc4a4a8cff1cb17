"""Wanda and SparseGPT: their masks and means by hand, through the doors of a fit, and what is refused."""

import re

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import bayesprune as bp
from bayesprune.formulas.layer_inputs import best_without, damped
from tests.infer import programs

EVERY = lambda path, shape: True  # noqa: E731


@pytest.fixture(scope="module")
def trained():
    data = programs.classes(rows=200)
    bnn = programs.small_bnn(posterior="map", prunable=EVERY)
    return data, bnn, bp.fit_svi(jax.random.key(0), bnn, data, num_steps=300, progress=False)


@pytest.mark.slow
@pytest.mark.parametrize("rule", ["wanda", "sparsegpt"])
def test_masks_and_means_are_those_of_the_inputs(rule, trained, rng_key) -> None:
    data, bnn, fit = trained
    pruned = bp.prune_layers(bnn, fit, data.x, density=0.5, rule=rule)
    w = np.asarray(bnn.net_params(fit.params)["params"]["Dense_0"]["kernel"], float)
    moments = data.x.T.astype(float) @ data.x
    p = damped(moments, 0.01)
    worth = np.abs(w) * np.sqrt(np.diag(moments))[:, None] if rule == "wanda" else w**2 / np.diag(np.linalg.inv(p))[:, None]
    alive = np.asarray(pruned.mask["Dense_0.kernel"])
    assert (alive.sum(0) == 2).all()
    assert all(set(np.flatnonzero(alive[:, j])) == set(np.argsort(-worth[:, j])[:2]) for j in range(8))
    after = np.asarray(bnn.net_params(pruned.params, pruned.mask)["params"]["Dense_0"]["kernel"])
    np.testing.assert_allclose(after, w * alive if rule == "wanda" else best_without(p, w, alive), rtol=1e-4, atol=1e-5)
    assert np.asarray(pruned.mask["Dense_0.bias"]).all()
    assert float(pruned.info.num_pruned) == sum(int((~np.asarray(m)).sum()) for m in pruned.mask.values())
    probs = bp.predict(rng_key, bnn, pruned.params, data.x, mask=pruned.mask, num_samples=1)
    assert probs.shape == (200, 3) and np.isfinite(probs).all()


@pytest.mark.slow
def test_what_stays_moves_so_that_the_outputs_move_less(trained, rng_key) -> None:
    """Of the first kernel's outputs on the rows it was calibrated with: least squares cannot be worse than standing still."""
    data, bnn, fit = trained
    w = np.asarray(bnn.net_params(fit.params)["params"]["Dense_0"]["kernel"])
    x = data.x + 0.8 * data.x[:, ::-1]  # inputs in correlated pairs, so that one can stand for another
    pruned = bp.prune_layers(bnn, fit, x, density=0.5, damping=1e-6)
    after = np.asarray(bnn.net_params(pruned.params, pruned.mask)["params"]["Dense_0"]["kernel"])
    still = w * np.asarray(pruned.mask["Dense_0.kernel"])
    assert np.sum((x @ (after - w)) ** 2) < 0.9 * np.sum((x @ (still - w)) ** 2)


@pytest.mark.slow
def test_nets_as_they_were_trained_and_fits_that_were_cut_before(trained, rng_key) -> None:
    data, bnn, fit = trained
    own = programs.small_bnn(prunable=EVERY)
    pruned = bp.prune_layers(own, bnn.net_params(fit.params), data.x, density=0.5, scope="layer")
    assert int(np.asarray(pruned.mask["Dense_0.kernel"]).sum()) == 16
    before = bp.prune_once(fit.params, bp.methods.Magnitude(density=0.6), program=bnn)
    again = bp.prune_layers(bnn, before, data.x, density=0.5)
    assert all(not (np.asarray(again.mask[s]) & ~np.asarray(before.mask[s])).any() for s in again.mask)


def test_what_cannot_be_is_refused(trained) -> None:
    data, bnn, fit = trained
    for told, settings in {"rule": {"rule": "wnada"}, "scope": {"scope": "unit"}, "density": {"density": 0.0}}.items():
        with pytest.raises(ValueError, match=told):
            bp.prune_layers(bnn, fit, data.x, **settings)
    with pytest.raises(ValueError, match=r"no prunable array meets its inputs"):
        biases = programs.small_bnn(posterior="map", prunable=lambda path, shape: path.endswith("bias"))
        bp.prune_layers(biases, bnn.net_params(fit.params), jnp.asarray(data.x))


class Tied(nn.Module):
    """An autoencoder whose second layer is the first one's transpose."""

    units: int

    @nn.compact
    def __call__(self, x):
        w = self.param("w", nn.initializers.normal(1.0), (6, self.units))
        return jnp.tanh(x @ w) @ w.T


@pytest.mark.parametrize("units", [6, 4])
def test_what_is_read_by_two_axes_is_refused(units, rng_key) -> None:
    """Moments of two axes would be one sum, of inputs and of units."""
    bnn = bp.BNN(
        Tied(units), prior=bp.priors.Gaussian(), likelihood=bp.likelihoods.Normal(1.0), input_shape=(6,), prunable=EVERY
    )
    params = {"params": {"w": np.random.default_rng(0).normal(size=(6, units)).astype(np.float32)}}
    with pytest.raises(ValueError, match="'w' is read by other axes at one place than at another"):
        bp.prune_layers(bnn, params, np.ones((5, 6), np.float32), density=0.5)


class Mixed(nn.Module):
    """A convolution in groups, a loop over many steps, a table, and dense layers if wanted."""

    dense: bool

    @nn.compact
    def __call__(self, image, steps, tokens):
        grouped = nn.Conv(4, (2, 2), feature_group_count=2, name="grouped")(image).mean((1, 2))
        looped = nn.RNN(nn.SimpleCell(3, name="cell"))(steps)[:, -1]
        joined = jnp.concatenate([nn.tanh(grouped), looped, nn.Embed(5, 3, name="table")(tokens)], axis=1)
        return nn.Dense(2, name="out")(nn.Dense(4, name="dense")(joined) if self.dense else joined)


LEFT = [
    r"grouped\.kernel \(a convolution in 2 groups of channels\)",
    r"cell\.h\.kernel \(enters scan, which is not followed\)",
    r"table\.embedding \(a table that is looked up\)",
]


@pytest.mark.slow
@pytest.mark.parametrize("dense", [True, False])
def test_prunable_kernels_that_stay_whole_are_named(dense, recwarn) -> None:
    rng = np.random.default_rng(0)
    x = (rng.normal(size=(3, 4, 4, 2)), rng.normal(size=(3, 3000, 2)), rng.integers(0, 5, 3))
    x = jax.tree.map(lambda leaf: leaf.astype(np.float32) if leaf.dtype == np.float64 else leaf, x)
    net, settings = (
        Mixed(dense),
        {"likelihood": bp.likelihoods.Normal(1.0), "posterior": "map", "prior": bp.priors.Gaussian(1.0)},
    )
    bnn, variables = bp.BNN(net, example=x, **settings), net.init(jax.random.key(0), *x)
    if dense:
        pruned = bp.prune_layers(bnn, variables, x, density=0.5, rule="wanda")
        whole = {site for site, alive in pruned.mask.items() if np.asarray(alive).all()}
        assert "dense.kernel" not in whole and {"grouped.kernel", "cell.h.kernel", "table.embedding"} <= whole
        (said,) = [str(one.message) for one in recwarn if "leaves prunable kernels whole" in str(one.message)]
    else:
        with pytest.raises(
            ValueError, match="no prunable array meets its inputs in a product that prune_layers follows"
        ) as found:
            bp.prune_layers(bnn, variables, x, density=0.5)
        said = str(found.value)
    assert all(re.search(one, said) for one in LEFT) and "out.kernel" not in said and "dense.kernel" not in said


def test_nothing_is_said_where_every_prunable_kernel_is_cut(trained, recwarn) -> None:
    data, bnn, fit = trained
    bp.prune_layers(bnn, fit, data.x, density=0.5, rule="wanda")
    assert not [one for one in recwarn if "whole" in str(one.message)]


def test_weights_with_gates_are_refused(rng_key) -> None:
    """Their means were taken times the gates' probabilities twice."""
    bnn = programs.small_bnn(prior=bp.priors.DiracSlab(log_inclusion=-1.0))
    fit = bp.fit_svi(rng_key, bnn, programs.classes(), num_steps=1, batch_size=20, progress=False)
    with pytest.raises(ValueError, match=r"'Dense_0\.\w+' have gates"):
        bp.prune_layers(bnn, fit, programs.classes().x)
