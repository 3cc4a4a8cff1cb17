"""What a fit may go on from, and what is refused with the remedy."""

import jax.numpy as jnp
import numpy as np
import pytest
from numpyro.infer.svi import SVIRunResult

import bayesprune as bp
from bayesprune.infer.origins import as_origin
from tests.infer import programs

PARAMS = {"w_auto_loc": jnp.ones(3), "w_auto_scale": jnp.ones(3)}
FIT = bp.FitResult(PARAMS, None, np.ones(2), {}, {})
REFUSED = {
    "parameters": (PARAMS, TypeError, r"init must be a fit or a pruned one, got a dict: .*init_params="),
    "many fits": (bp.Replicates(PARAMS, np.ones((2, 3))), TypeError, r"got Replicates, many fits: .*leaf\[r\], fits\.params"),
    "NumPyro's": (SVIRunResult(PARAMS, None, jnp.ones(2)), TypeError, r"got SVIRunResult: give its parameters as init_params="),
    "a path": ("runs/first", TypeError, r"got 'runs/first': give what bp\.fit_svi returned"),
    "samples": (FIT._replace(params={"w$draws": jnp.ones((1, 2, 3))}), ValueError, r"samples of fit_sgmcmc.*init=fit\)"),
    "nodes": (bp.Pruned([bp.MeanField(0.0, 1.0)], [True], None), TypeError, r"pruned as a list, no parameters by name"),
}  # fmt: skip


@pytest.mark.parametrize(("init", "error", "told"), REFUSED.values(), ids=REFUSED)
def test_what_is_no_fit_is_refused(init, error, told) -> None:
    with pytest.raises(error, match=told):
        as_origin(init, None)


def test_fits_and_pruned_ones_are_taken() -> None:
    pruned = bp.Pruned(PARAMS, {"w": jnp.array([True, False, True])}, None)
    assert as_origin(None, PARAMS) is None
    assert as_origin(FIT, None).whole and not as_origin(pruned, None).whole and as_origin(pruned, None).mask is pruned.mask
    with pytest.raises(ValueError, match=r"init and init_params both say where to start"):
        as_origin(FIT, PARAMS)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"prior": bp.priors.Gaussian(2.0)}, r"in units of 0\.5, this program in units of 2: .*Give the prior of that fit"),
        ({"posterior": "map"}, r"another network, prior or kind of posterior: only init has 'Dense_0.bias_auto_loc'"),
        ({"prior": bp.priors.Flat()}, r"only this one has 'Dense_0\.precision_log_loc'"),
    ],
    ids=["another unit", "another posterior", "another prior"],
)
def test_fits_of_other_programs_are_refused(change, told, rng_key) -> None:
    data = programs.classes()
    fit = bp.fit_svi(rng_key, programs.small_bnn(prior=bp.priors.Gaussian(0.5)), data, num_steps=1)
    with pytest.raises(ValueError, match=told):
        bp.fit_svi(rng_key, programs.small_bnn(**{"prior": bp.priors.Gaussian(0.5)} | change), data, num_steps=1, init=fit)


@pytest.mark.slow
def test_another_net_is_refused(rng_key) -> None:
    data = programs.classes()
    fit = bp.fit_svi(rng_key, programs.small_bnn(), data, num_steps=1)
    wide = bp.BNN(
        bp.nets.MLP(hidden=(9, 6), num_outputs=3),
        prior=bp.priors.Flat(),
        likelihood=bp.likelihoods.Categorical(),
        input_shape=(4,),
    )
    with pytest.raises(ValueError, match=r"init\.params\['Dense_0\.\w+_auto_loc'\] has shape .*another network"):
        bp.fit_svi(rng_key, wide, data, num_steps=1, init=fit)
