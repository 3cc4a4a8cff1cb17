"""The main paths under JAX's stricter modes: no NaN is made, nothing is promoted unasked, and double precision is double.

One path in all is fast; the others, which compile a program each, are slow.
"""

import contextlib
import itertools
from collections.abc import Iterator

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpyro.handlers import seed, trace

import bayesprune as bp
from tests import main_paths


@contextlib.contextmanager
def without_promotion() -> Iterator[None]:
    with jax.debug_nans(True), jax.numpy_dtype_promotion("strict"):
        yield


@contextlib.contextmanager
def in_double_precision() -> Iterator[None]:
    with jax.debug_nans(True), jax.enable_x64(True):
        yield


MODES = {"strict": without_promotion, "x64": in_double_precision}


@pytest.mark.slow
@pytest.mark.parametrize(("path", "mode"), list(zip(main_paths.PATHS, itertools.cycle(MODES), strict=False)))
def test_a_main_path_runs(path: str, mode: str, rng_key: jax.Array) -> None:
    """Each under one of the modes, in turn: every part of the library is in several paths."""
    with MODES[mode]():
        main_paths.PATHS[path](rng_key)


def test_training_pruning_and_prediction_without_promotion_and_without_nan(rng_key: jax.Array) -> None:
    with without_promotion():
        bnn = main_paths.net(bp.priors.Gaussian())
        fit = main_paths.fit(rng_key, bnn, num_steps=2, sparsifier=bp.methods.BMR(), every=1)
        bp.predict(rng_key, bnn, fit.params, main_paths.ROWS, mask=fit.mask, num_samples=1)


def test_the_modes_object() -> None:
    """That the two above can fail."""
    with pytest.raises(ValueError, match="promotion"), without_promotion():
        jnp.ones(2, jnp.int32) * jnp.ones(2)
    with pytest.raises(FloatingPointError), in_double_precision():
        jnp.log(-jnp.ones(2))


@pytest.mark.slow
def test_parameters_are_double_in_double_precision(rng_key: jax.Array) -> None:
    with in_double_precision():
        sites = trace(seed(main_paths.net(bp.priors.DiracSlab()).guide, rng_key)).get_trace()
        values = jax.tree.leaves({name: site["value"] for name, site in sites.items() if site["type"] in ("param", "sample")})
        assert {value.dtype for value in values} == {np.dtype(np.float64)}


@pytest.mark.slow
def test_double_precision_is_double_from_the_data_to_the_prediction(rng_key: jax.Array) -> None:
    """One rule for dtypes: see `docs/dtypes.md`."""
    with in_double_precision():
        bnn = main_paths.net(bp.priors.Gaussian())
        fit = main_paths.fit(rng_key, bnn, num_steps=2, sparsifier=bp.methods.SNR(density=0.5), every=1)
        for site, node in bnn.read(fit.params).items():
            assert node.loc.dtype == node.scale.dtype == np.float64
            assert fit.mask[site].dtype == bool
        assert bp.predict(rng_key, bnn, fit.params, main_paths.ROWS, num_samples=1).dtype == np.float64
