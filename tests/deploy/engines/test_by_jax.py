"""JAX draws all networks in one compiled call, and they are those of the law, one after another or side by side."""

import jax
import numpy as np
import pytest

from bayesprune.deploy.engines.by_jax import ByJax
from bayesprune.deploy.program.run import run
from bayesprune.deploy.program.weights import GaussianLaw
from tests.deploy.functions import FUNCTIONS, compact_of, numbers, program_of, rows

KEY = jax.random.key(2)


@pytest.mark.slow
@pytest.mark.parametrize("backend", ["cpu", "gpu"])
def test_draws_are_those_of_the_law_in_one_call(backend, monkeypatch) -> None:
    """ "gpu" lets networks go side by side; more rows than are taken at a time, so that some are filled up."""
    monkeypatch.setattr(jax, "default_backend", lambda: backend)
    function, shapes, shape = FUNCTIONS["dense"]
    program, rng = program_of(function, shapes, shape).single(), np.random.default_rng(0)
    loc = numbers(program, rng)
    law = GaussianLaw(loc, {site: (0.3 * (array != 0)).astype(np.float32) for site, array in loc.items()}, {}, {})
    engine, x = ByJax(compact_of(program, law)), rows(rng, 130, *shape)
    made = engine.predict_draws(KEY, x, 5)
    assert made.shape == (5, 130, 3)
    for index in range(5):
        expected = run(program, law.draw(KEY, index, law.tensors()), x)
        np.testing.assert_allclose(made[index], expected, rtol=1e-4, atol=1e-6)
    assert engine._draws._cache_size() == 1
    np.testing.assert_allclose(engine.mean(KEY, x, 5), made.mean(0), rtol=1e-4, atol=1e-6)
