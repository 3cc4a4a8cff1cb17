"""Where a run's weights start: what its settings say, in the posterior's coordinates; what they leave out is the course's."""

import dataclasses
from typing import Any

from bayesprune.cli.settings import RunSettings, own_knobs
from bayesprune.model.bnn import BNN
from bayesprune.model.families import Family, authors_family


def unit(settings: RunSettings) -> float:
    """What one unit of the posterior's coordinates is in the network, where it is the same for all weights."""
    return own_knobs(settings, "prior")["scale"] if settings.prior == "gaussian" else 1.0


def family(settings: RunSettings, prior: Any) -> str | Family:
    """The family by name, which the course gives its start; or with the start that was asked for."""
    name, start = settings.posterior.replace("-", "_"), _asked(settings)
    if not start or _partly_sound(settings):
        return name
    return dataclasses.replace(authors_family(name, prior), **start)  # type: ignore[type-var]


def started(settings: RunSettings, bnn: BNN) -> BNN:
    """The network whose standard start has been overridden in part."""
    start, sound = _asked(settings), getattr(bnn.family, "sound", ())
    if not start or not _partly_sound(settings):
        return bnn
    if not sound:  # of the prior's authors
        return bnn.under(dataclasses.replace(bnn.family, **start))  # type: ignore[type-var]
    if start.get("init_spread"):
        what = f"init_spread={settings.init_spread} with course=standard, whose start has one scale for each array"
        raise ValueError(f"{what}: give init_loc too, or --course plain.")
    loc, scale = start.get("init_range"), start.get("init_scale")
    sound = tuple((site, loc or mean, scale or spread) for site, mean, spread in sound)
    latent = {"init_scale": scale} if scale else {}  # of the prior's own scales
    return bnn.under(dataclasses.replace(bnn.family, sound=sound, **latent))  # type: ignore[type-var]


def _asked(settings: RunSettings) -> dict[str, Any]:
    """The fields of a family that were asked for."""
    start: dict[str, Any] = {}
    if settings.init_loc:
        start |= {"init_loc": "normal", "init_range": settings.init_loc / unit(settings)}
    if settings.init_scale and settings.posterior != "map":
        start |= {"init_scale": settings.init_scale / unit(settings), "init_spread": settings.init_spread / unit(settings)}
    return start


def _partly_sound(settings: RunSettings) -> bool:
    """Whether the standard course still has a say: a mean or a scale was not asked for."""
    return settings.course == "standard" and not (settings.init_loc and settings.init_scale)
