"""Small fits that the tests of compact networks share."""

from functools import cache
from typing import Any

import jax
import numpy as np

import bayesprune as bp
from tests.infer.programs import classes, line, small_bnn

DATA = classes(rows=90)
PRIORS = {
    "flat": bp.priors.Flat(),
    "gaussian": bp.priors.Gaussian(0.7),
    "gaussian slab": bp.priors.GaussianSlab(),
    "scale mixture": bp.priors.ScaleMixture(),
}


@cache
def fitted(prior: str = "flat", posterior: str = "mean_field") -> tuple[bp.BNN, dict[str, Any], dict[str, np.ndarray]]:
    """A network of three classes, its parameters after some steps, and a mask with dead weights and two dead units."""
    bnn = small_bnn(prior=PRIORS[prior], posterior=posterior)
    fit = bp.fit_svi(jax.random.key(0), bnn, DATA, num_steps=60, batch_size=30, progress=False)
    return bnn, fit.params, mask_of(bnn)


@cache
def regression() -> tuple[bp.BNN, dict[str, Any], bp.Dataset]:
    data, _ = line()
    bnn = bp.BNN(bp.nets.MLP((5,), 1), prior=bp.priors.Flat(), likelihood=bp.likelihoods.Normal(), input_shape=(3,))
    return bnn, bp.fit_svi(jax.random.key(0), bnn, data, num_steps=40, progress=False).params, data


def mask_of(bnn: bp.BNN, density: float = 0.6) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(0)
    mask = {str(spec.path): rng.random(spec.shape) < density for spec in bnn.layout if spec.prunable}
    for site in ("Dense_0.kernel", "Dense_0.bias"):
        if site in mask:
            mask[site][..., :2] = False
    return mask
