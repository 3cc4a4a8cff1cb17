"""Fits and predictions in several threads: NumPyro's handlers are of no thread, so tracing is by one at a time."""

import functools
import itertools
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import jax
import numpyro.primitives
import pytest

import bayesprune as bp
from bayesprune.core import tracing
from bayesprune.sklearn import BayesianSparseRegressor
from tests.infer import programs

DATA = programs.classes(rows=36)
COUNTS = bp.Dataset(DATA.x, DATA.y)


def work(number: int) -> tuple:
    """A fit and a prediction that no other thread compiles: the numbers of rows are of its own."""
    bnn = bp.BNN(bp.nets.MLP((4,), 3), prior=bp.priors.Gaussian(), likelihood=bp.likelihoods.Categorical(), input_shape=(4,))
    fit = bp.fit_svi(jax.random.key(number), bnn, DATA, num_steps=3, batch_size=12 + number, progress=False)
    return fit.params, bp.predict(jax.random.key(1), bnn, fit.params, DATA.x[: 10 + number], num_samples=2)


@pytest.mark.slow
def test_threads_give_what_one_after_another_gives() -> None:
    with ThreadPoolExecutor(2) as pool:
        together = list(pool.map(work, range(2)))
    for number, (params, probs) in enumerate(together):
        alone = work(number)
        assert programs.same_bits(params, alone[0])
        assert probs.tobytes() == alone[1].tobytes()


class Stack(list):
    """NumPyro's stack of handlers, which notes each use of it by a thread that does not hold the lock of tracing."""

    def __init__(self) -> None:
        self.doing, self.unlocked = {}, set()

    def note(self) -> None:
        if not tracing._LOCK._is_owned():
            self.unlocked.add(self.doing.get(threading.get_ident(), "a fit"))

    def append(self, handler: Any) -> None:
        self.note()
        super().append(handler)

    def __bool__(self) -> bool:
        self.note()
        return len(self) > 0


def poisson(width: int) -> bp.BNN:
    return bp.BNN(
        bp.nets.MLP((width,), 1), prior=bp.priors.Gaussian(), likelihood=bp.likelihoods.Poisson(), input_shape=(4,)
    )  # fmt: skip


def cold_fit(width: int) -> Any:
    return bp.fit_svi(jax.random.key(0), poisson(width), COUNTS, num_steps=1, progress=False)


def regressor() -> BayesianSparseRegressor:
    return BayesianSparseRegressor(hidden=(3,), num_steps=2, num_samples=2, random_state=0)


def through_a_regressor(x: Any, y: Any) -> None:
    fitted = regressor().fit(x, y)
    fitted.predict_interval(x)
    fitted.log_density(x, y)


def through_an_ordinal() -> None:
    """Whose mean asks for cut points, which a compact network does not hold."""
    ordered = bp.likelihoods.Ordinal(3)
    bnn = bp.BNN(bp.nets.MLP((3,), 1), prior=bp.priors.Gaussian(), likelihood=ordered, input_shape=(4,))
    params = bp.fit_svi(jax.random.key(0), bnn, DATA, num_steps=1, progress=False).params
    bp.evaluate(jax.random.key(1), bnn, params, DATA, num_samples=2)
    with pytest.raises(ValueError, match="cut_gaps"):
        bp.compact(bnn, params)


def through_samples(bnn: bp.BNN, key: Any) -> None:
    """A sampler's fit, one that goes on from it, and a compact network of its draws."""
    fit = bp.fit_sgmcmc(key, bnn, COUNTS, num_steps=4, num_samples=2, progress=False)
    bp.fit_sgmcmc(key, bnn, COUNTS, num_steps=4, num_samples=2, init=fit, progress=False)
    bp.compact(bnn, fit.params)


def public_calls(bnn: bp.BNN, params: dict[str, Any]) -> dict[str, Callable[[], Any]]:
    """Each public call that runs a NumPyro program, cold."""
    key, x, y = jax.random.key(1), COUNTS.x, COUNTS.y
    given = functools.partial(functools.partial, rng_key=key, bnn=bnn, params=params, num_samples=2)
    return {
        "BNN": lambda: bp.BNN(
            bp.nets.MLP((3,), 1),
            prior=bp.priors.GroupHorseshoe(),
            likelihood=bp.likelihoods.Normal(),
            posterior="structured",
            input_shape=(4,),
        ),
        "predict": given(bp.predict, x=x),
        "predict_draws": given(bp.predict_draws, x=x),
        "sample_targets": given(bp.sample_targets, x=x),
        "evaluate": given(bp.evaluate, data=COUNTS),
        "to_arviz": given(bp.to_arviz, data=COUNTS),
        "fit_sgmcmc": lambda: through_samples(bnn, key),
        "from_trained": lambda: bp.from_trained(bnn, bnn.net_params(params)),
        "reduce_scales": lambda: bp.reduce_scales(key, bnn, params, bp.priors.Horseshoe(), num_steps=2),
        "compact": lambda: bp.compact(bnn, params).certify(),
        "compact, kept draws": lambda: bp.compact(bnn, params, rng_key=key, num_draws=2),
        "evaluate, of a likelihood with cut points": through_an_ordinal,
        "regressor": lambda: through_a_regressor(x, y),
        "predict, linearised": given(bp.predict, x=x, linearised=True),
        "laplace": lambda: [bp.laplace(key, bnn, params, COUNTS, structure=kind) for kind in ("ggn", "exact")],
        "prune_layers": lambda: bp.prune_layers(bnn, params, x),
        "price": lambda: bp.price(key, bnn, COUNTS, num_steps=2, probe_seconds=0.001),
        "fit_replicates": lambda: bp.fit_replicates(key, bnn, bp.Dataset(x[None], y[None]), num_steps=1, progress=False),
    }


@pytest.mark.slow
def test_every_public_call_traces_under_the_lock_beside_a_cold_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    bnn = poisson(5)
    calls, done, stack = public_calls(bnn, cold_fit(5).params), threading.Event(), Stack()

    def cold_fits() -> int:
        fits = (cold_fit(width) for width in itertools.count(6))
        return sum(bool(fit.losses.shape == (1,)) for fit in itertools.takewhile(lambda fit: not done.is_set(), fits))

    monkeypatch.setattr(numpyro.primitives, "_PYRO_STACK", stack)
    with ThreadPoolExecutor(1) as pool:
        beside = pool.submit(cold_fits)
        try:
            for name, call in calls.items():
                stack.doing[threading.get_ident()] = name
                call()
        finally:
            done.set()
        assert beside.result() > 0
    assert stack.unlocked == set()
    assert not list(stack)
