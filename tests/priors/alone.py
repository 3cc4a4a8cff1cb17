"""The priors that are made of nothing: by name, those of them that need no fit and no other argument."""

import inspect

import bayesprune as bp


def needs_nothing(name: str) -> bool:
    """Whether a prior can be made without arguments."""
    arguments = inspect.signature(getattr(bp.priors, name)).parameters.values()
    return all(one.default is not one.empty for one in arguments)


NAMES = tuple(name for name in bp.priors.__all__ if needs_nothing(name))
