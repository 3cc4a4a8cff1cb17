"""The papers' own courses, by name: only what is documented as theirs."""

from types import MappingProxyType

from bayesprune.core.checks import unknown_name
from bayesprune.courses.plain import Plain

# Start: the prior's authors'. Rates and rhythm: of the paper's settings.
_PAPERS = MappingProxyType({
    "bmr": Plain(rate=1e-2, every=500),  # Marković, Friston & Kiebel (2024), section III: an act after every 500 steps
    "flat": Plain(rate=5e-3),  # the same, without pruning: flat and tiered mean field
    "map": Plain(rate=1e-3),  # the same, maximum a posteriori
})  # fmt: skip


def papers() -> list[str]:
    """The names that `paper` knows.

    >>> papers()
    ['bmr', 'flat', 'map']
    """
    return sorted(_PAPERS)


def paper(name: str) -> Plain:
    """The course of a paper's experiments, with the start of its authors.

    "bmr", "flat", "map": Marković, Friston & Kiebel (2024), its stochastic Bayesian model reduction, its mean fields, its MAP.
    Settings that belong to one experiment alone, as SSVI's cold posterior, are presets of ``bayesprune run``.

    Raises `ValueError` for an unknown name.

    >>> paper("bmr").every
    500
    """
    if name not in _PAPERS:
        raise unknown_name("paper", name, _PAPERS)
    return _PAPERS[name]
