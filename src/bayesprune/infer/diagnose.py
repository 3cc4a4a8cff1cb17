"""The health of a fit: what its losses, parameters, data and predictions show, each finding with its remedy."""

import jax
import numpy as np
from numpyro.diagnostics import effective_sample_size, split_gelman_rubin

from bayesprune.core.checks import check_integer, check_key
from bayesprune.core.fields import check_fields
from bayesprune.core.given import RandomKey
from bayesprune.core.numbers import arrays_in, real_numbers, rows_in, without_mask
from bayesprune.core.types import Dataset
from bayesprune.infer.data import check_same_length, takes_nan
from bayesprune.infer.end_of_fit import baseline, has_bound
from bayesprune.infer.observed import draws_of_targets, kind_of
from bayesprune.infer.predict import part_of, predict, predict_draws
from bayesprune.infer.refit_noise import present_in
from bayesprune.infer.scale_of_data import far_from_unit_scale
from bayesprune.model.bnn import BNN
from bayesprune.posteriors.samples import count, draws_of
from bayesprune.report.health import NOT_FINITE, Health, checked, of_draws, of_fit, of_labels, of_numbers
from bayesprune.structure import Graph, has_path, reachable
from bayesprune.train.result import FitResult

MOST_ROWS = 2_000  # that are predicted: every check's standard error is small by then
CHAIN_ROWS = 50  # whose predictions' chains are compared
MOST_RHAT, FEWEST_DRAWS = 1.1, 50.0  # Vehtari et al. (2021) ask 1.01 of what is reported: predictions are averages of many
LONGER = "run longer chains, with more steps before the first draw"


def diagnose(
    rng_key: RandomKey,
    bnn: BNN,
    fit: FitResult,
    data: Dataset,
    *,
    held_out: Dataset | None = None,
    num_samples: int = 50,
) -> Health:
    """Look for what a fit's figures can show to be wrong.

    Without predictions: parameters that are not finite, losses that still fall or end above predicting without the inputs,
    a layer without a weight (biases apart), a mask through which no path leads, x or y far from unit scale. By predictions of
    at most 2,000 rows, held-out ones where given: draws that are all one point; of labels, confidence beside accuracy, and
    labels that predictions contradict; of numbers, noise that has collapsed or exploded, a shrunk signal, coverage of 90 %
    intervals; of several chains, R-hat and effective draws of predictions. A figure that varies by chance is said where it is
    off by more than four of its standard errors.

    Args:
        rng_key: a JAX random key.
        bnn: the network, of any likelihood; the checks of predictions are for labels and Gaussian numbers, one a row, and of
            masked ones for those that are observed.
        fit: of `fit_svi` or `fit_sgmcmc`.
        data: the rows it was fitted to.
        held_out: rows it was not fitted to. Training rows flatter calibration and noise.
        num_samples: drawn networks.

    Returns:
        A `Health`: ``findings`` with ``name`` and ``says``, ``checks``, ``is_sound``; ``print`` it for lines.

    Raises:
        TypeError: ``fit`` is no result of a fit, or ``bnn`` no `BNN`: of a hand-written program see ``fit.diagnose()``.
        ValueError: as of `predict` and `evaluate`; masked entries of a NumPy array.

    Example:
        >>> import jax, bayesprune as bp
        >>> train, test = bp.data.load("digits")
        >>> bnn = bp.BNN(bp.nets.MLP((16,), 10), prior=bp.priors.Flat(), likelihood=bp.likelihoods.Categorical(),
        ...              input_shape=(8, 8, 1))
        >>> fit = bp.fit_svi(jax.random.key(0), bnn, train, num_steps=2, batch_size=64)
        >>> bp.diagnose(jax.random.key(1), bnn, fit, train, held_out=test).checks
        ('not finite', 'end of training', 'dead layer', 'no path', 'unit scale', 'one point', 'calibration', 'labels')
    """
    rng_key = check_key(rng_key)
    check_integer(num_samples, "num_samples")
    if not isinstance(fit, FitResult):
        raise TypeError(
            f"diagnose takes the result of fit_svi or fit_sgmcmc, got a {type(fit).__name__}: see also fit.diagnose()."
        )
    if not isinstance(bnn, BNN):
        raise TypeError(f"diagnose takes the BNN that was fitted, got a {type(bnn).__name__}: see also fit.diagnose().")
    data = _checked(bnn, data, "data")
    judged = data if held_out is None else _checked(bnn, held_out, "held_out")
    found = without_predictions(bnn, fit, data)
    if any(one.name == NOT_FINITE for one in found.findings):  # such a network predicts nothing
        return found
    rows = part_of(judged, slice(0, MOST_ROWS))
    return found + _of_predictions(rng_key, bnn, fit, Dataset(*rows), held_out is not None, num_samples)


def _checked(bnn: BNN, data: Dataset, name: str) -> Dataset:
    """Rows without masked entries, and as many targets, which the likelihood takes: of NaN no check would find anything."""
    check_fields(data, name)
    x, y = arrays_in(data.x), arrays_in(data.y)
    found = Dataset(jax.tree.map(lambda leaf: without_mask(leaf, f"{name}.x"), x), without_mask(y, f"{name}.y"))
    check_same_length(found.x, found.y, name)
    bnn.likelihood.check(np.asarray(real_numbers(found.y, f"{name}.y", takes_nan(bnn))), bnn.output_shape)
    return found


def without_predictions(bnn: BNN, fit: FitResult, data: Dataset) -> Health:
    """What losses, parameters, mask and data say alone."""
    floor = baseline(bnn.likelihood, data.y) if has_bound(bnn) and not draws_of(fit.params) else None
    found = of_fit(fit.losses, fit.params, fit.mask, floor, rows_in(data.x))
    return found + checked("no path", _cut_off(bnn, fit)) + checked("unit scale", far_from_unit_scale(bnn, data))


def _cut_off(bnn: BNN, fit: FitResult) -> str:
    """What to do where the mask leaves no path through the network."""
    if not fit.mask or not isinstance(bnn.graph, Graph) or has_path(bnn.graph, reachable(bnn.graph, jax.device_get(fit.mask))):
        return ""
    return "no path of alive weights leads from the input to the output, and all rows are predicted alike; keep more weights."


def of_chains(draws: np.ndarray) -> Health:
    """R-hat (95th percentile) and effective draws (median) of predictions that move, of (chains, draws, numbers)."""
    moving = draws[..., np.ptp(draws, axis=(0, 1)) > 0].astype(np.float64)
    if moving.shape[-1] == 0 or moving.shape[1] < 4:
        return Health((), ())
    total = moving.shape[0] * moving.shape[1]
    rhat = float(np.quantile(split_gelman_rubin(moving), 0.95))
    effective = float(np.median(effective_sample_size(moving)))
    apart = f"R-hat of predictions is {rhat:.2f}, above {MOST_RHAT}: chains have not met; {LONGER}."
    few = f"predictions have {effective:.0f} effective draws of {total}; {LONGER}, or thin less."
    return checked("chains apart", apart if rhat > MOST_RHAT else "") + checked(
        "few effective draws", few if effective < min(FEWEST_DRAWS, 0.1 * total) else ""
    )


def _of_predictions(rng_key: jax.Array, bnn: BNN, fit: FitResult, rows: Dataset, held_out: bool, num_samples: int) -> Health:
    found = Health((), ())
    chains, stored = count(fit.params) if draws_of(fit.params) else (1, 0)
    few = part_of(rows.x, slice(0, CHAIN_ROWS))
    if stored or getattr(bnn.family, "spread", True):
        number = chains * stored or num_samples
        draws = np.asarray(predict_draws(rng_key, bnn, fit.params, few, mask=fit.mask, num_samples=number))
        found += of_draws(draws)
        if chains > 1:
            found += of_chains(draws.reshape(chains, stored, -1))
    kind, y = kind_of(bnn, fit.params), np.asarray(rows.y)
    seen = present_in(bnn, y)
    if not seen.any():
        return found
    if kind == "classes" and y.ndim == 1:
        probs = np.asarray(predict(rng_key, bnn, fit.params, rows.x, mask=fit.mask, num_samples=num_samples), np.float64)
        return found + (of_labels(probs[seen], y[seen].astype(np.int64), held_out) if probs.ndim == 2 else Health((), ()))
    if kind == "gaussian":
        read = draws_of_targets(rng_key, bnn, fit.params, rows.x, fit.mask, num_samples, read=("mean", "variance"))
        means, variances = (np.asarray(read[name], np.float64) for name in ("mean", "variance"))
        if means[0].size == y.size == seen.size:
            there, whole = seen.ravel(), np.broadcast_to(np.sqrt(variances.mean(0)), means[0].shape)
            mean, noise, spread = (values.ravel()[there] for values in (means.mean(0), whole, means.std(0)))
            return found + of_numbers(mean, noise, spread, y.ravel()[there].astype(np.float64), held_out)
    return found
