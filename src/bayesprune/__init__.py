"""bayesprune: make Bayesian neural networks sparse, in JAX and NumPyro."""

from bayesprune import data, methods, nets, priors, report
from bayesprune.core import schedules
from bayesprune.core.types import Dataset, Evidence, Info, MeanField, Pruned, SparseState, SpikeSlab
from bayesprune.infer.evaluate import evaluate
from bayesprune.infer.fit import fit_svi
from bayesprune.infer.predict import predict, predict_draws
from bayesprune.infer.result import FitResult
from bayesprune.infer.stopping import EarlyStop
from bayesprune.methods.bmr import bmr_prune
from bayesprune.model import likelihoods, select
from bayesprune.model.bnn import BNN, Program
from bayesprune.model.handlers import masked
from bayesprune.model.local import LocalELBO
from bayesprune.prune import scores
from bayesprune.prune.once import prune_once
from bayesprune.report import metrics
from bayesprune.report.cite import cite

__version__ = "0.1.0"
