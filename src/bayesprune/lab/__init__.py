"""The laboratory: every method tuned by one budget, trained for as many steps, compared at equal connected density."""

from bayesprune.lab.compare import Comparison, compare
from bayesprune.lab.entry import Entry, Fitted, rivals
from bayesprune.lab.task import Task

__all__ = ["Comparison", "Entry", "Fitted", "Task", "compare", "rivals"]
__dir__ = __all__.copy  # what completion offers
