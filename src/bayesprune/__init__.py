"""bayesprune: make Bayesian neural networks sparse, in JAX and NumPyro.

Define a network with a prior (`BNN`), fit it (`fit_svi`), prune it by its own evidence (`bmr_prune`), judge it (`predict`,
`metrics`, `evaluate`), look at it (`plots`), and hand it on (`report`).
"""

import importlib
from typing import TYPE_CHECKING, Any

from bayesprune import courses, data, features, methods, nets, priors, report
from bayesprune.core import schedules
from bayesprune.core.types import Dataset, Evidence, Info, Pruned, SparseState
from bayesprune.infer.diagnose import diagnose
from bayesprune.infer.evaluate import evaluate
from bayesprune.infer.from_trained import from_trained
from bayesprune.infer.laplace import laplace
from bayesprune.infer.observed import sample_targets
from bayesprune.infer.predict import predict, predict_draws
from bayesprune.infer.pricing.price import price
from bayesprune.infer.pricing.record import Price
from bayesprune.infer.prune_layers import prune_layers
from bayesprune.infer.recalibrate import recalibrate
from bayesprune.infer.refit_noise import refit_noise
from bayesprune.infer.replicates import Replicates, fit_replicates, predict_replicates
from bayesprune.infer.rewinding import Rewound, fit_rewound
from bayesprune.infer.second_level import Reduction, reduce_scales
from bayesprune.infer.sgmcmc import fit_sgmcmc
from bayesprune.infer.svi import fit_svi
from bayesprune.infer.swag import swag
from bayesprune.infer.to_arviz import to_arviz
from bayesprune.infer.uncertainty import Uncertainty, uncertainty
from bayesprune.methods.bmr import bmr_prune
from bayesprune.model import likelihoods, select
from bayesprune.model.bnn import BNN
from bayesprune.model.elbo import MeanFieldELBO
from bayesprune.model.handlers import masked
from bayesprune.model.local import LocalELBO
from bayesprune.model.mc_dropout import mc_dropout
from bayesprune.model.program import Program
from bayesprune.model.samples import stored_samples
from bayesprune.posteriors.mean_field import MeanField
from bayesprune.posteriors.spike_slab import SpikeSlab
from bayesprune.prune import scores
from bayesprune.prune.one_shot import prune_once
from bayesprune.prune.tolerance import prune_to_tolerance
from bayesprune.report import metrics
from bayesprune.report.cite import cite
from bayesprune.report.connected import connected
from bayesprune.train import callbacks, kernels, optimizers
from bayesprune.train.interruption import InterruptedFit
from bayesprune.train.ivon import IVONState, ivon, ivon_curvature, ivon_draw, ivon_posterior
from bayesprune.train.keep_zeros import KeepZerosState, keep_zeros, restore_zeros
from bayesprune.train.result import DivergedError, FitResult, Moment, UnsavedError
from bayesprune.train.stopping import EarlyStop

__version__ = "0.1.0"

__all__ = [
    "BNN",
    "BayesianFeatureSelector",
    "BayesianSparseClassifier",
    "BayesianSparseRegressor",
    "Compact",
    "Dataset",
    "DivergedError",
    "EarlyStop",
    "Evidence",
    "FitResult",
    "IVONState",
    "Info",
    "InterruptedFit",
    "KeepZerosState",
    "LocalELBO",
    "MeanField",
    "MeanFieldELBO",
    "Moment",
    "Price",
    "Program",
    "Pruned",
    "Reduction",
    "Replicates",
    "Rewound",
    "SparseState",
    "SpikeSlab",
    "Uncertainty",
    "UnsavedError",
    "bmr_prune",
    "callbacks",
    "cite",
    "compact",
    "compare",
    "connected",
    "courses",
    "data",
    "diagnose",
    "distil",
    "evaluate",
    "export_onnx",
    "features",
    "fit_replicates",
    "fit_rewound",
    "fit_sgmcmc",
    "fit_svi",
    "from_trained",
    "ivon",
    "ivon_curvature",
    "ivon_draw",
    "ivon_posterior",
    "keep_zeros",
    "kernels",
    "lab",
    "laplace",
    "likelihoods",
    "load",
    "masked",
    "mc_dropout",
    "methods",
    "metrics",
    "nets",
    "optimizers",
    "plots",
    "predict",
    "predict_draws",
    "predict_replicates",
    "price",
    "priors",
    "prune_layers",
    "prune_once",
    "prune_to",
    "prune_to_tolerance",
    "recalibrate",
    "reduce_scales",
    "refit_noise",
    "report",
    "restore_zeros",
    "sample_targets",
    "schedules",
    "scores",
    "select",
    "stored_samples",
    "swag",
    "to_arviz",
    "uncertainty",
]

# What needs Matplotlib or scikit-learn, which are extras, and what follows a fit are imported when they are first asked for: a
# third of the time that an import takes. Editors and type checkers run nothing, and see them by these imports; a test compares
# the two.
if TYPE_CHECKING:
    from bayesprune import lab
    from bayesprune.deploy.compact import Compact, compact
    from bayesprune.deploy.files.read import load
    from bayesprune.deploy.files.to_onnx import export_onnx
    from bayesprune.deploy.prune_to import prune_to
    from bayesprune.lab.compare import compare
    from bayesprune.report import plots
    from bayesprune.sklearn import BayesianFeatureSelector, BayesianSparseClassifier, BayesianSparseRegressor
    from bayesprune.sklearn.student import distil
else:
    _LATER = {
        "deploy": ("deploy", "Compact", "compact", "export_onnx", "load", "prune_to"),
        "lab": ("lab", "compare"),
        "report.plots": ("plots",),
        "sklearn": ("BayesianFeatureSelector", "BayesianSparseClassifier", "BayesianSparseRegressor", "distil"),
    }

    def __getattr__(name: str) -> Any:
        for place, names in _LATER.items():
            if name in names:
                module = importlib.import_module(f"bayesprune.{place}")
                return module if place.endswith(name) else getattr(module, name)
        raise AttributeError(f"module 'bayesprune' has no attribute {name!r}")


__dir__ = __all__.copy  # what completion offers
