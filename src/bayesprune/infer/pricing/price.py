"""`price`: what a call costs, in memory, seconds and bytes on disk, before it runs."""

import inspect
from collections.abc import Callable, Mapping
from typing import Any

from bayesprune.core.checks import check_positive, got
from bayesprune.infer.laplace import laplace
from bayesprune.infer.predict import predict, predict_draws
from bayesprune.infer.pricing.curvature import of_laplace
from bayesprune.infer.pricing.fits import of_chains, of_svi
from bayesprune.infer.pricing.predictions import of_predict, of_predict_draws
from bayesprune.infer.pricing.record import Price
from bayesprune.infer.sgmcmc import fit_sgmcmc
from bayesprune.infer.svi import fit_svi

# Each takes the arguments of its call, by name, and for how long at least to try what is repeated.
PRICED: tuple[tuple[Callable[..., Any], Callable[[Mapping[str, Any], float], Price]], ...] = (
    (fit_svi, of_svi),
    (fit_sgmcmc, of_chains),
    (laplace, of_laplace),
    (predict, of_predict),
    (predict_draws, of_predict_draws),
)


def price(
    *arguments: object, of: Callable[..., Any] | Any = fit_svi, probe_seconds: float | int = 1.0, **named: object
) -> Price:
    """What ``of(*arguments, **named)`` will cost, before it runs: ``bp.price(rng_key, program, data, num_steps=...)`` of a fit.

    What is repeated is tried a few times, compiled as it will be: of a fit its steps, acts and evaluations; of `laplace`
    chunks of rows, then all that follows, on their curvature times the share of rows that they are; of `predict` networks
    on a block of rows. Memory is what the compiled programs say of themselves, and the arrays kept beside them: of a fit a
    copy of the parameters for the day the loss is not finite; of `laplace` matrices in double precision, the 60 to 180 MB of
    its compiler apart; of `predict` what it returns. Nothing is written, no callback is called. The fit or the predictions
    that follow in this process compile nothing anew, and take that much less; `laplace` compiles again.

    Args:
        arguments, named: of the call. With ``early_stop`` the price is that of all steps.
        of: `fit_svi`; `fit_sgmcmc`, of chains one after another: steps, acts and evaluations of all, and the networks that
            they keep are among the bytes held and in the file; `laplace`; `predict` or `predict_draws`.
        probe_seconds: how long steps are tried, at least; a busy machine needs more for the same certainty.

    Returns:
        A `Price`, whose ``seconds`` is the sum.

    Raises:
        TypeError: an argument that the call does not have. ValueError: ``of`` is another function, or of chains at once, or
            predictions are of a `Compact` or of rows read in order. ValueError, TypeError, DivergedError: as of the call.

    Example:
        >>> import jax, bayesprune as bp
        >>> train, test = bp.data.load("digits")
        >>> bnn = bp.BNN(bp.nets.MLP((16,), 10), prior=bp.priors.Flat(), likelihood=bp.likelihoods.Categorical(),
        ...              input_shape=(8, 8, 1))
        >>> price = bp.price(jax.random.key(0), bnn, train, num_steps=1_000, batch_size=64, probe_seconds=0.01)
        >>> price.steps, price.seconds > 1_000 * price.step_seconds, price.file_bytes > 8 * 1_210
        (1000, True, True)
    """
    check_positive(probe_seconds, "probe_seconds")
    priced = next((price_of for call, price_of in PRICED if call is of), None)
    if priced is None:
        *names, last = (f"bp.{call.__name__}" for call, _ in PRICED)
        raise ValueError(f"of must be {', '.join(names)} or {last}, got {got(of)}: other calls have no price.")
    bound = inspect.signature(of).bind(*arguments, **named)
    bound.apply_defaults()
    return priced(bound.arguments, probe_seconds)
