"""Priors of network weights, one file each: what the model samples, its guide, and the paper it is from."""

from bayesprune.priors.cauchy import Cauchy
from bayesprune.priors.concrete_dropout import ConcreteDropout
from bayesprune.priors.dirac_slab import DiracSlab
from bayesprune.priors.empirical import Empirical
from bayesprune.priors.flat import Flat
from bayesprune.priors.gaussian import Gaussian
from bayesprune.priors.gaussian_slab import GaussianSlab
from bayesprune.priors.group_horseshoe import GroupHorseshoe
from bayesprune.priors.group_normal_jeffreys import GroupNormalJeffreys
from bayesprune.priors.horseshoe import Horseshoe
from bayesprune.priors.log_uniform import LogUniform
from bayesprune.priors.moped import moped
from bayesprune.priors.posterior import Posterior
from bayesprune.priors.scale_mixture import ScaleMixture
from bayesprune.priors.unit_noise import UnitNoise

__all__ = [
    "Cauchy",
    "ConcreteDropout",
    "DiracSlab",
    "Empirical",
    "Flat",
    "Gaussian",
    "GaussianSlab",
    "GroupHorseshoe",
    "GroupNormalJeffreys",
    "Horseshoe",
    "LogUniform",
    "Posterior",
    "ScaleMixture",
    "UnitNoise",
    "moped",
]
__dir__ = __all__.copy  # what completion offers
