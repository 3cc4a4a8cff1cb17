"""What a fit is judged by and handed on as: metrics, files, figures (`bayesprune.report.plots`), citations."""

from bayesprune.core.formats import write_json
from bayesprune.report.arviz import to_arviz
from bayesprune.report.bits import bits_per_weight
from bayesprune.report.cite import cite
from bayesprune.report.export import load_posterior, save_fit, save_posterior

__all__ = ["bits_per_weight", "cite", "load_posterior", "save_fit", "save_posterior", "to_arviz", "write_json"]
__dir__ = __all__.copy  # what completion offers
