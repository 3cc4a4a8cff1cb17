"""A pruned network made smaller and faster for real: compaction, its certificate, and one file of it."""

from bayesprune.deploy.certificate import Certificate
from bayesprune.deploy.compact import Compact, compact
from bayesprune.deploy.draws_engine import DrawsEngine
from bayesprune.deploy.engine import Engine
from bayesprune.deploy.held_out import evaluate_by_kernels
from bayesprune.deploy.load import load
from bayesprune.deploy.measure import Choice, measure
from bayesprune.deploy.moments import MomentEngine
from bayesprune.deploy.to_onnx import export_onnx

__all__ = [
    "Certificate",
    "Choice",
    "Compact",
    "DrawsEngine",
    "Engine",
    "MomentEngine",
    "compact",
    "evaluate_by_kernels",
    "export_onnx",
    "load",
    "measure",
]
