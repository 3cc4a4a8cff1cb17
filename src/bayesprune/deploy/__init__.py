"""A pruned network made smaller and faster for real: compaction, its certificate, and one file of it."""

from bayesprune.deploy.certificate import Certificate
from bayesprune.deploy.compact import Compact, compact
from bayesprune.deploy.load import load
from bayesprune.deploy.to_onnx import export_onnx

__all__ = ["Certificate", "Compact", "compact", "export_onnx", "load"]
