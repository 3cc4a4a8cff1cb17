"""Courses of a fit: its start, the weight of the divergence, the rate, and when weights are cut.

``bp.courses.Standard()`` is what `fit_svi` does with what it is not told; ``bp.courses.paper(name)`` are the papers' own.
"""

from bayesprune.courses.course import Course, Plan
from bayesprune.courses.plain import Plain, paper, papers
from bayesprune.courses.standard import Standard

__all__ = ["Course", "Plain", "Plan", "Standard", "paper", "papers"]
