"""Words and numbers of settings, from flags and from files alike: what the library would find too late, or would not see."""

from typing import TYPE_CHECKING, Any

from bayesprune.cli import likelihood, log
from bayesprune.core.checks import check_integer, check_not_negative, unknown_name

if TYPE_CHECKING:
    from bayesprune.cli.settings import RunSettings
else:  # which in turn asks here
    RunSettings = Any

WORDS = {
    "prunable": ("prior", "not_last", "everything", "kernels"),
    "bayesian": ("weights", "kernels", "everything"),
    "schedule": ("course", "constant", "cosine"),
    "augment": ("none", "crop-flip"),
    "choose": ("last", "best"),
    "choose_on": ("validation", "test"),
    "log": log.KINDS,
}


def check(settings: RunSettings) -> None:
    """Refuse an unknown word and a number out of its range."""
    for name, known in WORDS.items():
        if getattr(settings, name) not in known:
            raise unknown_name(f"choice of {name}", getattr(settings, name), known)
    likelihood.check(settings.likelihood)
    _check_numbers(settings)


def _check_numbers(settings: RunSettings) -> None:
    for name, minimum in {"steps": 1, "num_samples": 1, "seed": 0}.items():
        check_integer(getattr(settings, name), name, minimum)
    for name in ("learning_rate", "kl_weight"):  # a schedule of them would hide it
        check_not_negative(getattr(settings, name), name)
    if settings.init_spread and not settings.init_scale:
        raise ValueError(f"init_spread={settings.init_spread} spreads the scales about init_scale: give that too.")
    for name, of in {"kl_warmup": "of the steps", "validation": "of the training rows"}.items():
        left_out = getattr(settings, name) == getattr(type(settings), name)
        if not left_out and not 0.0 <= getattr(settings, name) <= 1.0:
            raise ValueError(f"{name} must lie in [0, 1], got {getattr(settings, name)}: it is a share {of}.")
    if not 0.0 < settings.test_share < 1.0:
        raise ValueError(f"test_share must lie in (0, 1), got {settings.test_share}: it is the share of rows held back.")
