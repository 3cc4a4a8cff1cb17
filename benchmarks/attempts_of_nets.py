"""Nets of others, as `attempts.py` times them: the words that a fit of each ended with once, and how it is handed over now.

The classes are those of the tests, which need the extra `test`.
"""

import importlib
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np
from flax import nnx

import bayesprune as bp

ROOT, KEY = Path(__file__).resolve().parents[1], jax.random.key(0)


class Attempt(NamedTuple):
    """``run``: of nets without arguments, the network and its data; else of the number of steps, what comes of it."""

    title: str
    before: str
    now: str
    run: Callable[..., Any]


def of(name: str) -> Any:
    """A module of the tests of others' nets."""
    if str(ROOT) not in sys.path:
        sys.path.insert(0, str(ROOT))
    return importlib.import_module(f"tests.{name}")


def net(file: str, make: Callable[[Any], Any], rows: str = "X", **settings: Any) -> Callable[[], tuple[bp.BNN, bp.Dataset]]:
    """The network that ``make`` builds of a file's classes, and that file's rows."""

    def built() -> tuple[bp.BNN, bp.Dataset]:
        module = of(file)
        x = getattr(module, rows)
        given = {name: value(module) if callable(value) else value for name, value in settings.items()}
        first = jax.tree.map(lambda part: part[:1], x)
        y = given.pop("y", np.arange(len(jax.tree.leaves(x)[0])) % 2)
        given = {"prior": bp.priors.Flat(), "likelihood": bp.likelihoods.Categorical(), "example": first} | given
        return bp.BNN(make(module), **given), bp.Dataset(x, y)

    return built


OTHERS = "model.others.test_"
NETS = {
    "tokens": Attempt(
        "tokens through an embedding",
        "`Input type must be an integer`", "`example=x[:1]`", net(f"{OTHERS}tokens", lambda m: m.Averaged(nnx.Rngs(0)))
    ),
    "inputs": Attempt(
        "two inputs, such as tokens and a mask",
        "no way to say so", "`example=` with both, as a dict or a tuple",
        net("infer.test_trees", lambda m: m.OfParts(), "PARTS"),
    ),
    "tutorial": Attempt(
        "nnx, `rngs` in the call, as in Flax's first tutorial",
        "`no rngs argument was provided to Dropout`", "as it is",
        net(f"{OTHERS}noise_of_nets", lambda m: m.Tutorial(nnx.Rngs(0)), "IMAGES"),
    ),
    "dropout": Attempt(
        "nnx, dropout without its own `rngs`",
        "the same", "as it is", net(f"{OTHERS}noise_of_nets", lambda m: m.NoSource(nnx.Rngs(0)))
    ),
    "scan": Attempt(
        "nnx, layers stacked by `nnx.vmap`, run by `nnx.scan`, with dropout",
        "`Cannot reseed stream ... non-scalar key`", "as it is",
        net(f"{OTHERS}noise_of_nets", lambda m: m.Scanned(nnx.Rngs(0))),
    ),
    "streams": Attempt(
        "noise from a stream of its own name, linen or nnx",
        '`needs PRNG for "jitter"`; in nnx the same noise at every step', "as it is",
        net(f"{OTHERS}noise_of_nets", lambda m: m.OtherNoise()),
    ),
    "keywords": Attempt(
        "keyword-only `is_training`, `enable_dropout` or `inference`",
        "`missing 1 required keyword-only argument`", "as it is", net(f"{OTHERS}noise_of_nets", lambda m: m.KeywordOnly())
    ),
    "arguments": Attempt(
        "a second argument, or a constant by name",
        "`missing 2 required positional arguments`", '`apply_kwargs={"temperature": 2.0}`',
        net(f"{OTHERS}calls", lambda m: m.Asks(), apply_kwargs={"temperature": 2.0, "shift": 0.0}),
    ),
    "straight_through": Attempt(
        "`jax.custom_vjp`: straight-through signs",
        "`must override process_custom_vjp_call`", 'as it is, with "weight" and "local"',
        net(f"{OTHERS}own_derivatives", lambda m: m.Binary()),
    ),
    "ode": Attempt(
        "`jax.custom_vjp`: an ODE and its adjoint",
        "the same", 'as it is, with "weight" and "local"', net(f"{OTHERS}own_derivatives", lambda m: m.Flow())
    ),
    "axis_name": Attempt(
        'batch norm with `axis_name="batch"`',
        "`Found an unbound axis name: batch`", "as it is", net(f"{OTHERS}named_axes", lambda m: m.OverDevices())
    ),
    "outputs": Attempt(
        "a tuple of outputs, or a dict of what was on the way",
        "`net must give one array of outputs`", '`output=0`, `output="logits"`, or a function',
        net(f"{OTHERS}heads", lambda m: m.Described(), output=0),
    ),
    "heads": Attempt(
        "several heads",
        "the same", "`likelihoods.Custom(fn)` takes them all",
        net(f"{OTHERS}heads", lambda m: m.MeanAndScale(), likelihood=lambda m: bp.likelihoods.Custom(m.noisy),
            y=lambda m: m.X[:, 0]),
    ),
    "autoencoder": Attempt(
        "a variational autoencoder",
        '`needs PRNG for "latent"`', "one net with `train=`, its likelihood in ten lines: below",
        net(f"{OTHERS}heads", lambda m: m.Autoencoder(), likelihood=lambda m: m.Reconstruction(), y=lambda m: m.X),
    ),
    "equinox_key": Attempt(
        "Equinox, `key` and `enable_dropout` without defaults",
        "`missing 2 required positional arguments`", "as it is", net(f"{OTHERS}noise_of_nets", lambda m: m.Enabled(KEY))
    ),
    "equinox_state": Attempt(
        "Equinox with `eqx.nn.State`: batch norm, spectral norm",
        "refused", "as it is, or `BNN((model, state), ...)`", net(f"{OTHERS}named_axes", lambda m: m.RowsOfEquinox(KEY))
    ),
}  # fmt: skip
