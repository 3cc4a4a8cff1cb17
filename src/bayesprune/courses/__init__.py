"""Courses of a fit: its start, the weight of the divergence, the rate, and when weights are cut.

``bp.courses.Standard()`` is the default of `fit_svi`; ``bp.courses.paper(name)`` gives the course of a paper.
"""

from bayesprune.courses.course import Course, Plan
from bayesprune.courses.plain import Plain, paper, papers
from bayesprune.courses.standard import Standard

__all__ = ["Course", "Plain", "Plan", "Standard", "paper", "papers"]
__dir__ = __all__.copy  # what completion offers
