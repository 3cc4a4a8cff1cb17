"""Keys in a chain are those of splitting in turn."""

import itertools

import jax
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
from numpyro.handlers import seed, trace

from bayesprune.core.keys import chain
from bayesprune.model.handlers import seeded


@pytest.fixture(params=["cpu", "gpu"])
def backend(request, monkeypatch):
    """What the chain takes for the backend; the splits themselves run on what there is."""
    monkeypatch.setattr(jax, "default_backend", lambda: request.param)


@pytest.mark.usefixtures("backend")
@pytest.mark.parametrize("number", [2, 3])
def test_they_are_those_of_splits_one_after_another(number):
    key, found = jax.random.key(3), itertools.islice(chain(jax.random.key(3), number), 19)
    for keys in found:
        key, *wanted = jax.random.split(key, number)
        assert len(keys) == number - 1
        for one, other in zip(keys, wanted, strict=True):
            np.testing.assert_array_equal(jax.random.key_data(one), jax.random.key_data(other))


def _in_a_loop(fn):
    return lambda key: jax.tree.map(lambda leaf: leaf[0], jax.lax.map(fn, key[None]))


def test_the_loop_is_compiled_once_for_many_chains(caplog):
    run = lambda seed: [next(keys) for keys in [chain(jax.random.key(seed), 5)] for _ in range(9)]  # noqa: E731
    run(0)
    with jax.log_compiles():
        run(1)
    assert not [record.getMessage() for record in caplog.records if "Compiling" in record.getMessage()]


def test_keys_may_be_asked_for_where_a_part_is_traced_by_itself():
    """The key that goes into a checkpointed part is concrete, as those of an eager call are."""
    keys = chain(jax.random.key(0), 2)
    first = next(keys)
    inside = jax.checkpoint(lambda x: x + jax.random.normal(next(keys)[0]))(1.0)
    again = jax.checkpoint(lambda x: x + jax.random.normal(next(keys)[0]))(1.0)
    wanted = list(itertools.islice(chain(jax.random.key(0), 2), 3))
    assert jax.random.key_data(first[0]).tolist() == jax.random.key_data(wanted[0][0]).tolist()
    np.testing.assert_allclose([inside, again], [1.0 + jax.random.normal(key) for (key,) in wanted[1:]], rtol=1e-6)


@pytest.mark.fast_cases(1)
@pytest.mark.usefixtures("backend")
@pytest.mark.parametrize("around", [lambda fn: fn, jax.jit, _in_a_loop])
def test_a_program_draws_what_it_draws_under_numpyros_seed(around):
    def program():
        a = numpyro.sample("a", dist.Normal(0, 1))
        start = numpyro.param("start", lambda key: jax.random.normal(key, (2,)))
        with numpyro.plate("rows", 3, subsample_size=2):
            b = numpyro.sample("b", dist.Gamma(2.0, 1.0))
        numpyro.sample("seen", dist.Normal(a, 1), obs=1.0)
        return a, b, start, jax.random.normal(numpyro.prng_key())

    found = around(lambda key: seeded(program, key)())(jax.random.key(5))
    for one, other in zip(found, seed(program, jax.random.key(5))(), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-6)  # the numbers of a key, compiled or not, to rounding


def test_what_has_its_value_takes_no_key():
    def program():
        return [numpyro.sample(name, dist.Normal(0, 1)) for name in "abc"]

    given = {"b": 2.0}
    wanted = trace(numpyro.handlers.substitute(seed(program, jax.random.key(0)), given)).get_trace()
    found = trace(numpyro.handlers.substitute(seeded(program, jax.random.key(0)), given)).get_trace()
    assert [site["value"] for site in found.values()] == [site["value"] for site in wanted.values()]


def test_a_call_begins_anew():
    twice = seeded(lambda: numpyro.sample("a", dist.Normal(0, 1)), jax.random.key(0))
    assert twice() == twice()
