"""Stored samples as ArviZ reads them: effective sample sizes, R-hat, traces."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from bayesprune.posteriors.samples import count, draws_of
from bayesprune.report.inputs import ArrayLike, finite


def to_arviz(params: Mapping[str, Any], functionals: Mapping[str, ArrayLike] | None = None) -> Any:
    """ArviZ's `InferenceData` (a `DataTree` since ArviZ 1) of stored samples, in its group "posterior".

    Weights of networks are no good functionals: units can be exchanged and signs flipped without any change of the outputs.
    Give what does not depend on that, such as predictions of some rows.

    Args:
        params: of `fit_sgmcmc`, or `stored_samples`.
        functionals: name -> (chains * draws, ...), such as `predict_draws` gives, or (chains, draws, ...), in place of all
            sites.

    Raises:
        ImportError: ArviZ is not installed.
        ValueError: ``params`` hold no samples; a functional has another number of draws.

    Example:
        >>> params = {"w$draws": np.zeros((2, 10, 3))}
        >>> dict(to_arviz(params).posterior["w"].sizes)["draw"]
        10
    """
    draws = draws_of(params)
    if not draws:
        raise ValueError(
            "params hold no samples: those of bp.fit_sgmcmc do. A fit of fit_svi is a density, which bp.to_arviz draws from: "
            "bp.to_arviz(rng_key, bnn, fit.params, data, mask=fit.mask)."
        )
    chains, number = count(params)
    values = {name: np.asarray(value) for name, value in draws.items() if not isinstance(value, Mapping)}
    if functionals is not None:
        values = {name: _by_chain(name, value, chains, number) for name, value in functionals.items()}
    return inference_data({"posterior": values})


def inference_data(groups: Mapping[str, Any], **named: Any) -> Any:
    """What ArviZ makes of groups of arrays by name; ``named``: its own ``coords`` and ``dims``."""
    try:
        import arviz
    except ImportError as error:
        raise ImportError("ArviZ is not installed: pip install 'bayesprune[arviz]'.") from error
    # Until ArviZ 1 groups were arguments, since then they are entries.
    if int(arviz.__version__.partition(".")[0]) < 1:
        return arviz.from_dict(**groups, **named)
    return arviz.from_dict(groups, **named)


def _by_chain(name: str, value: ArrayLike, chains: int, draws: int) -> np.ndarray:
    array = finite(value, f"functionals[{name!r}]")
    if array.shape[:2] == (chains, draws):
        return array
    if array.shape[:1] != (chains * draws,):
        raise ValueError(
            f"functionals[{name!r}] has shape {array.shape}, and there are {chains} chains of {draws} draws: its first "
            f"axis must have all {chains * draws}, chain after chain: predict_draws(..., num_samples={chains * draws}) does."
        )
    return array.reshape((chains, draws, *array.shape[1:]))
