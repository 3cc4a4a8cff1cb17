"""Linen, nnx and Equinox modules behind one pure face: ``params`` a flat dict by dotted path, ``state`` what else changes."""

from bayesprune.model.adapters.adapt import adapt
from bayesprune.model.adapters.net import Net, check_predicts

__all__ = ["Net", "adapt", "check_predicts"]
