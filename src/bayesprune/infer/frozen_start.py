"""What a fit warns of where frozen parameters were never trained."""

import warnings

from bayesprune.model.bnn import BNN
from bayesprune.model.program import Trainable


def warn_of_frozen(program: Trainable, given: object) -> None:
    """Warn where parameters are frozen at a random start; ``given``: parameters that the fit starts from, None for none.

    An nnx or Equinox module brings its own, a linen module has none.
    """
    still = [str(spec.path) for spec in getattr(program, "layout", ()) if spec.frozen]
    if still and given is None and isinstance(program, BNN) and program.starts_at_random:
        warnings.warn(
            f"{still[0]!r}{' and others' if len(still) > 1 else ''} are frozen where a linen module starts, at random: give "
            "what was trained, init_params=bp.from_trained(bnn, trained).",
            UserWarning,
            stacklevel=3,
        )
