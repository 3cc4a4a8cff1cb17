"""Priors of network weights, one file each: what the model samples, its guide, and the paper it is from."""

from bayesprune.priors.flat import Flat
from bayesprune.priors.gaussian import Gaussian
from bayesprune.priors.scale_mixture import ScaleMixture

__all__ = ["Flat", "Gaussian", "ScaleMixture"]
