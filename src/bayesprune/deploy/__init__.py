"""A pruned network made smaller and faster for real: compaction, its certificate, and one file of it."""

from bayesprune.deploy.compact import Compact, compact
from bayesprune.deploy.engines.draws_engine import DrawsEngine
from bayesprune.deploy.engines.engine import Engine
from bayesprune.deploy.engines.measure import Choice, measure
from bayesprune.deploy.engines.moments import MomentEngine
from bayesprune.deploy.files.read import load
from bayesprune.deploy.files.to_c import export_c
from bayesprune.deploy.files.to_onnx import export_onnx
from bayesprune.deploy.held_out import evaluate_by_kernels
from bayesprune.deploy.prune_to import ToBudget, prune_to
from bayesprune.deploy.shrinking.certificate import Certificate

__all__ = [
    "Certificate",
    "Choice",
    "Compact",
    "DrawsEngine",
    "Engine",
    "MomentEngine",
    "ToBudget",
    "compact",
    "evaluate_by_kernels",
    "export_c",
    "export_onnx",
    "load",
    "measure",
    "prune_to",
]
