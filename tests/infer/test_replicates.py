"""Fits side by side are the fits one by one."""

import json

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import bayesprune as bp
from bayesprune.prune.keep_all import KeepAll
from bayesprune.train.recipe import make_recipe
from bayesprune.train.side_by_side import side_by_side
from bayesprune.train.sites import Example
from tests.infer.processes import output_of

ROWS, REPLICATES = 40, 3
OPTIMIZER = optax.adam(1e-2)


class Normed(nn.Module):
    @nn.compact
    def __call__(self, x, train=False):
        return nn.Dense(1)(nn.BatchNorm(use_running_average=not train)(nn.Dense(4)(x)))


class Tokens(nn.Module):
    @nn.compact
    def __call__(self, tokens):
        return nn.Dense(1)(nn.Embed(5, 3)(tokens).mean(1))


@pytest.fixture(scope="module")
def bnn() -> bp.BNN:
    return bp.BNN(bp.nets.MLP((4,), 1), prior=bp.priors.DiracSlab(), likelihood=bp.likelihoods.Normal(), input_shape=(3,))


@pytest.fixture(scope="module")
def data() -> bp.Dataset:
    x = np.random.default_rng(0).normal(size=(REPLICATES, ROWS, 3)).astype(np.float32)
    return bp.Dataset(x, x[..., 0] - x[..., 2])


@pytest.mark.slow
def test_each_replication_is_the_fit_of_its_own_key(bnn, data, rng_key) -> None:
    """Two epochs and a bit, so that every replication shuffles anew; equal but for the order of sums."""
    settings = {"num_steps": 11, "batch_size": 16, "optimizer": OPTIMIZER, "progress": False}
    fits = bp.fit_replicates(rng_key, bnn, data, **settings)
    for r, key in enumerate(jax.random.split(rng_key, REPLICATES)):
        alone = bp.fit_svi(key, bnn, bp.Dataset(data.x[r], data.y[r]), **settings)
        np.testing.assert_allclose(fits.losses[r], alone.losses, rtol=1e-4)
        for name, value in alone.params.items():
            np.testing.assert_allclose(fits.params[name][r], value, rtol=1e-3, atol=1e-5)


@pytest.mark.slow_cases(1)
@pytest.mark.slow
@pytest.mark.parametrize(
    "optimizer",
    [
        optax.chain(optax.adam(1e-2), optax.contrib.reduce_on_plateau(factor=0.5, patience=1)),
        optax.contrib.schedule_free_adamw(1e-2),
        optax.lookahead(optax.sgd(1e-2), 2, 0.5),
        optax.polyak_sgd(0.1),
    ],
    ids=["plateau", "schedule-free", "lookahead", "polyak"],
)
def test_optimisers_that_ask_for_more_do_what_they_do_alone(optimizer, bnn, data, rng_key) -> None:
    """Each replication has its own loss, and the parameters for evaluation."""
    settings = {"num_steps": 7, "batch_size": 16, "optimizer": optimizer, "progress": False}
    fits = bp.fit_replicates(rng_key, bnn, data, **settings)
    last = bp.Dataset(data.x[-1], data.y[-1])
    key = jax.random.split(rng_key, REPLICATES)[-1]
    alone = bp.fit_svi(key, bnn, last, **settings)
    np.testing.assert_allclose(fits.losses[-1], alone.losses, rtol=1e-4)
    for name, value in alone.params.items():
        np.testing.assert_allclose(fits.params[name][-1], value, rtol=1e-3, atol=1e-5)


def test_an_optimiser_that_noise_misleads_is_refused(bnn, data, rng_key) -> None:
    with pytest.raises(ValueError, match=r"optimizer is L-BFGS.*minibatches, 16 of 40 rows"):
        bp.fit_replicates(rng_key, bnn, data, num_steps=2, batch_size=16, optimizer=optax.lbfgs(), progress=False)
    with pytest.raises(ValueError, match=r"optimizer is L-BFGS.*weights that are drawn"):
        bp.fit_replicates(rng_key, bnn, data, num_steps=2, optimizer=optax.lbfgs(), progress=False)


@pytest.mark.slow
def test_one_compilation_serves_any_number_of_steps(bnn, data, rng_key) -> None:
    settings = {"batch_size": 16, "optimizer": OPTIMIZER, "estimator": "weight", "kl_weight": 1.0, "progress": False}
    for num_steps in (1, 7, 501):
        bp.fit_replicates(rng_key, bnn, data, num_steps=num_steps, **settings)
    assert side_by_side.cache_info().currsize >= 1
    assert all(run._cache_size() == 1 for _, run, *_ in [_latest(bnn, data)])


def _latest(bnn, data):
    """The functions that the fits above have used, found again by an equal recipe."""
    example = Example.of(bp.Dataset(jnp.asarray(data.x[0]), jnp.asarray(data.y[0])))
    recipe = make_recipe(
        bnn, example, 16, optimizer=OPTIMIZER, sparsifier=KeepAll(), kl_weight=bp.schedules.Constant(1.0), estimator="weight",
        num_particles=1,
    )  # fmt: skip
    return side_by_side(recipe, example, shared=False, mesh=None)


@pytest.mark.slow
def test_predictions_are_those_of_each_network(bnn, data, rng_key) -> None:
    """At scale 0 and inclusion 1 every draw is the same network: its outputs by hand."""
    fits = bp.fit_replicates(rng_key, bnn, data, num_steps=3, optimizer=OPTIMIZER, progress=False)
    sure = {n: jnp.zeros_like(v) if n.endswith("auto_scale") else v for n, v in fits.params.items()}
    sure |= {n: jnp.full_like(v, 100.0) for n, v in sure.items() if n.endswith("logit")}
    draws = bp.predict_replicates(rng_key, bnn, sure, data.x, num_samples=2)
    assert draws.shape == (REPLICATES, 2, ROWS)
    unit = bnn.prior.slab_scale
    for r in range(REPLICATES):
        kernel, bias, out, last = (
            unit * np.asarray(sure[f"Dense_{layer}.{kind}_auto_loc"][r]) for layer in (0, 1) for kind in ("kernel", "bias")
        )
        hidden = data.x[r] @ kernel + bias
        expected = (hidden / (1 + np.exp(-hidden))) @ out + last
        np.testing.assert_allclose(draws[r], np.stack([expected[:, 0]] * 2), rtol=1e-4, atol=1e-5)


@pytest.mark.slow
def test_dead_weights_stay_zero(bnn, data, rng_key) -> None:
    mask = {"Dense_0.kernel": np.zeros((REPLICATES, 3, 4), bool)}
    fits = bp.fit_replicates(rng_key, bnn, data, num_steps=3, optimizer=OPTIMIZER, mask=mask, progress=False)
    assert not np.asarray(fits.params["Dense_0.kernel_auto_loc"]).any()
    draws = bp.predict_replicates(rng_key, bnn, fits.params, data.x, mask=mask, num_samples=1)
    assert np.ptp(draws, axis=2).max() < 1e-5  # no input reaches an output


@pytest.mark.parametrize(
    ("x", "y", "message"),
    [
        (np.zeros((3, 3)), np.zeros(3), "shapes .replications, rows"),
        (np.zeros((2, 5, 4)), np.zeros((2, 5)), "must have shape .rows, 3., got .5, 4."),
        (np.zeros((2, 5, 3)), np.zeros((2, 4)), "as many rows"),
        (np.full((2, 5, 3), np.nan), np.zeros((2, 5)), "NaN"),
    ],
)
def test_bad_data_are_named(bnn, rng_key, x, y, message) -> None:
    with pytest.raises(ValueError, match=message):
        bp.fit_replicates(rng_key, bnn, bp.Dataset(x, y), num_steps=2, progress=False)


@pytest.mark.slow
def test_a_loss_that_breaks_names_its_replication(bnn, data, rng_key) -> None:
    y = np.array(data.y)
    y[1] = 1e19  # its square is no float32 once rows are added up
    with pytest.raises(bp.DivergedError, match=r"replication\(s\) \[1\]"):
        bp.fit_replicates(rng_key, bnn, bp.Dataset(data.x, y), num_steps=3, optimizer=OPTIMIZER, progress=False)


def test_a_mask_of_another_network_is_refused(bnn, data, rng_key) -> None:
    """As one fit refuses it: a name that is not known would prune nothing, without a word."""
    for mask, message in (
        ({"Dense_0.kernels": np.ones((REPLICATES, 3, 4), bool)}, "Dense_0.kernel"),
        ({"Dense_0.kernel": np.ones((3, 4), bool)}, "its site"),
    ):
        with pytest.raises(ValueError, match=message):
            bp.fit_replicates(rng_key, bnn, data, num_steps=1, mask=mask, progress=False)
        with pytest.raises(ValueError, match=message):
            bp.predict_replicates(rng_key, bnn, {}, data.x, mask=mask, num_samples=1)


@pytest.mark.every
@pytest.mark.slow
def test_replications_over_four_devices_are_those_on_one() -> None:
    told = json.loads(output_of("four_devices.py", 4, "replications"))
    assert told["losses"] and not told["differs"] and not told["bound"]
    assert "data of 8 replications cannot be spread evenly over the 3 devices: make it a multiple of 3" in told["uneven"]


def test_meshes_over_which_replications_cannot_be_spread_are_refused(bnn, data, rng_key) -> None:
    two = jax.make_mesh((1, 1), ("replications", "rows"))
    with pytest.raises(ValueError, match="mesh has the axes replications, rows, and replications are spread over a single one"):
        bp.fit_replicates(rng_key, bnn, data, num_steps=1, mesh=two)
    with pytest.raises(TypeError, match=r"mesh must be a jax\.sharding\.Mesh, got 4"):
        bp.fit_replicates(rng_key, bnn, data, num_steps=1, mesh=4)


@pytest.mark.slow_cases(1)
@pytest.mark.slow
@pytest.mark.parametrize("prior", ["Flat", "DiracSlab", "Horseshoe", "GroupHorseshoe"])
def test_parameters_of_several_fits_are_no_network(prior, rng_key) -> None:
    """Of as many fits as a layer has units their scales broadcast: four networks were cut as one."""
    x = np.random.default_rng(0).normal(size=(4, ROWS, 3)).astype(np.float32)
    settings = {"likelihood": bp.likelihoods.Normal(0.3), "input_shape": (3,)}
    bnn = bp.BNN(bp.nets.MLP((4,), 1), prior=getattr(bp.priors, prior)(), **settings)
    fits = bp.fit_replicates(rng_key, bnn, bp.Dataset(x, x[..., 0]), num_steps=3, progress=False)
    message = "params are of 4 fits side by side.*give those of one"
    calls = [
        lambda: bp.bmr_prune(fits.params),
        lambda: bp.prune_once(fits.params, bp.methods.SNR(0.5)),
        lambda: bnn.net_params(fits.params),
        lambda: bp.laplace(rng_key, bnn, fits.params, bp.Dataset(x[0], x[0, :, 0])),
    ]
    for call in calls:
        with pytest.raises(ValueError, match=message):
            call()
    one = jax.tree.map(lambda leaf: leaf[1], fits.params)
    assert bp.prune_once(one, bp.methods.SNR(0.5)).mask["Dense_0.kernel"].shape == (3, 4)


@pytest.mark.slow
def test_what_predict_refuses_of_one_network_is_refused_of_several(bnn: bp.BNN, data: bp.Dataset) -> None:
    fits = bp.fit_replicates(jax.random.key(0), bnn, data, num_steps=2, progress=False)
    x, one = np.array(data.x), jax.tree.map(lambda leaf: leaf[1], fits.params)
    x[1, 3, 0] = np.nan
    for given, params, said in (
        (x, fits.params, r"x holds 1 value\(s\) that are NaN"),
        (data.x[:2], fits.params, "x is of 2 replications: give the params of fit_replicates on as many"),
        (data.x, one, "or of one network bp.predict"),
        (data.x[:, :0], fits.params, "at least one row"),
    ):
        with pytest.raises(ValueError, match=said):
            bp.predict_replicates(jax.random.key(1), bnn, params, given, num_samples=2)


def test_a_replication_without_a_target_is_refused_by_its_number(data: bp.Dataset) -> None:
    likelihood, y = bp.likelihoods.Masked(bp.likelihoods.Normal()), np.array(data.y)
    bnn = bp.BNN(bp.nets.MLP((4,), 1), prior=bp.priors.Gaussian(), likelihood=likelihood, input_shape=(3,))
    y[1] = np.nan
    with pytest.raises(ValueError, match=r"replication 1: .*no target at all"):
        bp.fit_replicates(jax.random.key(0), bnn, bp.Dataset(data.x, y), num_steps=2, progress=False)


def test_a_loss_that_is_lost_on_the_way_is_told(bnn: bp.BNN, data: bp.Dataset, rng_key) -> None:
    """The optimiser steps over it, so that the last loss and the parameters are finite; one fit is refused there too."""
    weight, optimizer = (lambda step: jnp.where(step == 50, jnp.inf, 1.0)), optax.apply_if_finite(optax.adam(1e-3), 5)
    with pytest.raises(bp.DivergedError, match=r"the loss of replication.*finite at step 51"):
        bp.fit_replicates(rng_key, bnn, data, num_steps=100, kl_weight=weight, optimizer=optimizer, progress=False)


def test_parameters_of_another_network_are_refused_of_several(bnn: bp.BNN, data: bp.Dataset, rng_key) -> None:
    """What is missing would be initialised at random, without a word."""
    fits = bp.fit_replicates(rng_key, bnn, data, num_steps=1, progress=False)
    lost = {name: value for name, value in fits.params.items() if not name.startswith("Dense_1.kernel")}
    with pytest.raises(ValueError, match=r"params have no .*Dense_1\.kernel.*not of this network"):
        bp.predict_replicates(rng_key, bnn, lost, data.x, num_samples=1)


def test_running_statistics_are_predicted_with(data: bp.Dataset, rng_key) -> None:
    net = bp.BNN(Normed(), prior=bp.priors.Gaussian(), likelihood=bp.likelihoods.Normal(), input_shape=(3,))
    fits = bp.fit_replicates(rng_key, net, data, num_steps=1, progress=False)
    draws = bp.predict_replicates(rng_key, net, fits.params, data.x, num_samples=1)
    assert draws.shape == (REPLICATES, 1, ROWS) and np.isfinite(draws).all()


def test_tokens_are_checked_in_every_replication(rng_key) -> None:
    tokens, y = np.zeros((2, 10, 2), np.int32), np.zeros((2, 10), np.float32)
    net = bp.BNN(Tokens(), prior=bp.priors.Gaussian(), likelihood=bp.likelihoods.Normal(), example=tokens[0, :1])
    tokens[1, 0, 0] = 9
    with pytest.raises(ValueError, match=r"data\.x\[:, 0\] holds 9, and the network looks it up"):
        bp.fit_replicates(rng_key, net, bp.Dataset(tokens, y), num_steps=1, progress=False)


def test_a_mask_of_what_may_not_be_pruned_is_refused(data: bp.Dataset, rng_key) -> None:
    net = bp.BNN(bp.nets.MLP((4,), 1), prior=bp.priors.Gaussian(), likelihood=bp.likelihoods.Normal(), input_shape=(3,))
    with pytest.raises(ValueError, match=r"unknown site in mask 'Dense_1\.kernel'"):
        bp.fit_replicates(
            rng_key, net, data, num_steps=1, mask={"Dense_1.kernel": np.zeros((REPLICATES, 4, 1), bool)}, progress=False
        )
