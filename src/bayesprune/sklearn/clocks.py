"""The clock that a column of dates is read by: that of its zone, or those that its times are written by."""

import datetime
import warnings
from typing import Any, NamedTuple

from bayesprune.core.given import GivenColumn

GREENWICH = ("Z", "UTC", "-00:00")


class Clock(NamedTuple):
    """``zone``: of a column that has one, its name. ``offsets``: of one that has none, what its times are ahead of Greenwich as
    they say, such as "+09:00", and "" of times that say nothing.
    """

    zone: str = ""
    offsets: tuple[str, ...] = ()


def clock_of(name: object, moments: GivenColumn, written: GivenColumn) -> Clock:
    """Of a column of the fit; ``moments``: a series of pandas; ``written``: of one without a zone the offset of each, or ""."""
    if moments.dt.tz is not None:
        return Clock(_name_of(name, moments.dt.tz))
    return Clock(offsets=tuple(sorted(set(written[moments.notna()]))))


def on_clock(name: object, moments: GivenColumn, written: GivenColumn, clock: Clock) -> Any:
    """Moments without a zone, as the clock of the fit shows them.

    The same moment is the same number whatever zone it is given in, where the fit's column had one. Where it had none nobody
    knows which zone is meant, and summer and winter have two offsets: hours are then those that are written, and offsets that
    the fit did not see are warned of.
    """
    import pandas as pd

    if moments.dt.tz is not None:
        if clock.zone:
            return moments.dt.tz_convert(clock.zone).dt.tz_localize(None)
        shown = moments.dt.tz_localize(None)
        greenwich = moments.dt.tz_convert("UTC").dt.tz_localize(None)
        _warn_of_offsets(name, {_text(ahead) for ahead in (shown - greenwich).dropna().unique()}, clock)
        return shown
    if not clock.zone:
        _warn_of_offsets(name, set(written[moments.notna()]), clock)
        return moments
    bare = written == ""
    if (bare & moments.notna()).any():
        warnings.warn(
            f"column {name!r} of X had the zone {clock.zone} when it was fitted, and has times without one now: their hours "
            f"are read as those of {clock.zone}. If they are others, say so, as by X[{name!r}].dt.tz_localize('UTC').",
            stacklevel=2,
        )
    ahead = pd.to_timedelta(written.where(~bare, "+00:00") + ":00")
    shown = (moments - ahead).dt.tz_localize("UTC").dt.tz_convert(clock.zone).dt.tz_localize(None)
    return moments.where(bare, shown)


def as_offset(text: str) -> str:
    """Of what is written behind a time.

    >>> [as_offset(text) for text in ("Z", "+0900", "-03", "")]
    ['+00:00', '+09:00', '-03:00', '']
    """
    if not text or text in GREENWICH:
        return "+00:00" if text else ""
    digits = text[1:].replace(":", "").ljust(4, "0")
    return f"{text[0]}{digits[:2]}:{digits[2:]}"


def _text(ahead: datetime.timedelta) -> str:
    minutes = round(ahead.total_seconds() / 60)
    return f"{'-' if minutes < 0 else '+'}{abs(minutes) // 60:02d}:{abs(minutes) % 60:02d}"


def _name_of(name: object, zone: datetime.tzinfo) -> str:
    """A name that pandas finds the zone by: a fit is kept in files, and what a zone is made of differs."""
    import pandas as pd

    ahead = zone.utcoffset(None)
    # A zone that never changes may have the name of one that does, such as CET. dateutil's have that of their file.
    names = [str(zone) if ahead is None else str(datetime.timezone(ahead))]
    names += [f"dateutil/{file}"] if (file := getattr(zone, "_filename", None)) else []  # without one it is this machine's zone
    for found in names:
        try:
            pd.DatetimeTZDtype(tz=found)
        except (LookupError, TypeError, ValueError, OSError):
            continue
        return found
    raise ValueError(
        f"column {name!r} of X has a zone that is known by no name, {zone!r}: give it in one that is, as by "
        f"X[{name!r}].dt.tz_convert('UTC')."
    )


def _warn_of_offsets(name: object, now: set[str], clock: Clock) -> None:
    if not clock.offsets or now <= set(clock.offsets):  # a fit to gaps alone has seen no clock
        return
    said = [", ".join(offset or "none" for offset in sorted(offsets)) for offsets in (now, set(clock.offsets))]
    warnings.warn(
        f"column {name!r} of X has times of other offsets from Greenwich ({said[0]}) than when it was fitted ({said[1]}), and "
        "hours are read as they are written. Fit and predict with a column that has a zone, and moments are read by it: "
        f"pd.to_datetime(X[{name!r}], utc=True).dt.tz_convert('Europe/Berlin').",
        stacklevel=2,
    )
