"""Likelihoods: how a network's outputs become a distribution of the targets, one file each."""

from bayesprune.model.likelihoods.bernoulli import Bernoulli
from bayesprune.model.likelihoods.beta import Beta
from bayesprune.model.likelihoods.categorical import Categorical
from bayesprune.model.likelihoods.custom import Custom
from bayesprune.model.likelihoods.masked import Masked
from bayesprune.model.likelihoods.negative_binomial import NegativeBinomial
from bayesprune.model.likelihoods.normal import Normal
from bayesprune.model.likelihoods.ordinal import Ordinal
from bayesprune.model.likelihoods.poisson import Poisson
from bayesprune.model.likelihoods.protocol import Likelihood, OutputShape
from bayesprune.model.likelihoods.student_t import StudentT

__all__ = [
    "Bernoulli",
    "Beta",
    "Categorical",
    "Custom",
    "Likelihood",
    "Masked",
    "NegativeBinomial",
    "Normal",
    "Ordinal",
    "OutputShape",
    "Poisson",
    "StudentT",
]
__dir__ = __all__.copy  # what completion offers
