"""A hierarchical program: of a centred one the evidence is not known, and the error says how to write it non-centred."""

import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
from numpyro.handlers import reparam
from numpyro.infer.autoguide import AutoNormal
from numpyro.infer.reparam import LocScaleReparam

import bayesprune as bp
from tests.infer import programs

DATA, _ = programs.line()


def centred(x, y=None):
    tau = numpyro.sample("tau", dist.HalfNormal(1.0))
    w = numpyro.sample("w", dist.Normal(0.0, tau).expand([3]))
    with numpyro.plate("rows", len(x)):
        numpyro.sample("obs", dist.Normal(x @ w, programs.NOISE), obs=y)


def non_centred(x, y=None):
    tau = numpyro.sample("tau", dist.HalfNormal(1.0))
    w = tau * numpyro.sample("w", dist.Normal(0.0, 1.0).expand([3]))
    with numpyro.plate("rows", len(x)):
        numpyro.sample("obs", dist.Normal(x @ w, programs.NOISE), obs=y)


def params_of(site: str) -> dict[str, jnp.ndarray]:
    """Of a mean field: the second weight is about zero, the others are far from it."""
    loc, scale = jnp.array([2.0, 0.0, -1.0]), jnp.array([0.1, 1e-3, 0.1])
    scalar = {"tau_auto_loc": jnp.zeros(()), "tau_auto_scale": jnp.ones(())}
    return scalar | {f"{site}_auto_loc": loc, f"{site}_auto_scale": scale}


def test_a_centred_one_is_refused_with_what_to_write() -> None:
    program = bp.Program(centred, AutoNormal(centred))
    with pytest.raises(ValueError, match=r"site 'w'.*w ~ Normal\(0, tau\).*non-centred.*tau \* w.*LocScaleReparam\(0.0\)"):
        bp.bmr_prune(params_of("w"), program=program, data=DATA)


@pytest.mark.parametrize("by", ["hand", "NumPyro"])
def test_what_the_error_says_is_pruned(by: str) -> None:
    by_numpyro = reparam(centred, config={"w": LocScaleReparam(0.0)})
    model, site = (non_centred, "w") if by == "hand" else (by_numpyro, "w_decentered")
    params = params_of(site)
    pruned = bp.bmr_prune(params | bp.Program(model, AutoNormal(model)).describe(params, DATA))
    np.testing.assert_array_equal(pruned.mask[site], [True, False, True])
