"""Which inputs matter: importance and inclusion read off a sparse posterior, and selections with an error rate under control.

Statistics of a posterior (`importance`, `inclusion_probabilities`, `selected`) are JAX and may be jitted; decisions
(`control_fdr`, `knockoff_select`, `top_fraction`, `choose_fraction`) are taken once, in float64, with NumPy.
"""

from bayesprune.features.copies import gaussian_knockoffs, knockoff_e_values, knockoff_select, knockoffs, select_by_e_values
from bayesprune.features.cross_validation import FractionChoice, choose_fraction, top_fraction
from bayesprune.features.false_discovery import control_fdr, expected_fdr
from bayesprune.features.groups import correlated_groups
from bayesprune.features.inclusion import Importance, importance, inclusion_probabilities, log_unused, scaled, selected
from bayesprune.features.shapley import Shared, shapley_exact, shapley_of_worlds, shapley_sampled

__all__ = [
    "FractionChoice",
    "Importance",
    "Shared",
    "choose_fraction",
    "control_fdr",
    "correlated_groups",
    "expected_fdr",
    "gaussian_knockoffs",
    "importance",
    "inclusion_probabilities",
    "knockoff_e_values",
    "knockoff_select",
    "knockoffs",
    "log_unused",
    "scaled",
    "select_by_e_values",
    "selected",
    "shapley_exact",
    "shapley_of_worlds",
    "shapley_sampled",
    "top_fraction",
]
__dir__ = __all__.copy  # what completion offers
