"""The network by JAX's sparse matrices is the network."""

import jax
import numpy as np
import pytest

from bayesprune.deploy.engines.by_jax import ByBCSR
from bayesprune.deploy.engines.engine import DENSE
from bayesprune.deploy.program.weights import GaussianLaw
from tests.deploy.functions import FUNCTIONS, compact_of, numbers, program_of


@pytest.mark.slow
@pytest.mark.parametrize("name", ["dense", "tokens", "branches", "images"])
def test_it_gives_what_jax_gives(name) -> None:
    function, shapes, shape = FUNCTIONS[name]
    program, rng = program_of(function, shapes, shape).single(), np.random.default_rng(0)
    loc = numbers(program, rng, 0.15)
    small = compact_of(program, GaussianLaw(loc, {site: np.abs(array) for site, array in loc.items()}, {}, {}))
    engine = ByBCSR(small)
    sparse = [a for site, a in loc.items() if a.ndim == 2 and 0 < np.count_nonzero(a) < DENSE * a.size]
    assert len(engine.matrices) <= len(sparse)
    assert engine.matrices or not sparse
    for rows in (1, 6):
        x = rng.standard_normal((rows, *shape)).astype(np.float32)
        np.testing.assert_allclose(engine(x), small.predict(x, engine="jax"), rtol=1e-4, atol=1e-5)


def test_rows_are_checked() -> None:
    program = program_of(lambda _, x: jax.nn.relu(x), {}, (4,))
    engine = ByBCSR(compact_of(program))
    assert not engine.matrices
    with pytest.raises(ValueError, match="x must have shape"):
        engine(np.zeros((2, 3)))
