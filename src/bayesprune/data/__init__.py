"""Data sets by name, checked and standardised: `load` gives (train, test)."""

from bayesprune.data.augment import CropFlip
from bayesprune.data.catalogue import names
from bayesprune.data.images import pad_to
from bayesprune.data.loading import load, load_test, uci_splits
from bayesprune.data.saha import saha_1, saha_2, saha_3, saha_influence
from bayesprune.data.scaling import Scaling, fit_scaling, standardise
from bayesprune.data.simulations import linear_regression, simulate
from bayesprune.data.teachers import Layer, teacher, teacher_student
from bayesprune.data.truth import Simulation

__all__ = [
    "CropFlip",
    "Layer",
    "Scaling",
    "Simulation",
    "fit_scaling",
    "linear_regression",
    "load",
    "load_test",
    "names",
    "pad_to",
    "saha_1",
    "saha_2",
    "saha_3",
    "saha_influence",
    "simulate",
    "standardise",
    "teacher",
    "teacher_student",
    "uci_splits",
]
__dir__ = __all__.copy  # what completion offers
