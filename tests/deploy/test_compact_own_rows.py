"""Networks that read at the rows' own numbers, or loop for each row as long as it asks, are compacted and certified."""

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import bayesprune as bp

X = np.random.default_rng(0).normal(size=(5, 4)).astype(np.float32)


class Net(nn.Module):
    """Two dense layers, and between them what is asked for."""

    kind: str

    @nn.compact
    def __call__(self, x):
        return nn.Dense(2)(BETWEEN[self.kind](nn.Dense(4)(x)))


def recurrent(h, both=False):
    rnn = nn.RNN(nn.GRUCell(3))
    rnn = nn.Bidirectional(rnn, nn.RNN(nn.GRUCell(3))) if both else rnn
    return rnn(h[..., None], seq_lengths=1 + (h[:, :3] > 0).sum(1))[:, 0]


BETWEEN = {
    "a place of each row": lambda h: h + h[jnp.arange(len(h)), h.argmax(1)][:, None],
    "a loop of each row": jax.vmap(lambda r: jax.lax.while_loop(lambda c: c.sum() < 9, lambda c: c + 1, r)),
    "texts of several lengths": recurrent,
    "texts both ways": lambda h: recurrent(h, both=True),
}


def started(kind) -> tuple[bp.BNN, dict]:
    """The network where it starts: JAX has no gradient of a loop that ends by what it carries."""
    bnn = bp.BNN(
        Net(kind), prior=bp.priors.Gaussian(), likelihood=bp.likelihoods.Categorical(), input_shape=(4,), posterior="map"
    )
    return bnn, bp.from_trained(bnn, Net(kind).init(jax.random.key(0), X))


@pytest.mark.slow_cases(1)
@pytest.mark.slow
@pytest.mark.parametrize("kind", BETWEEN)
def test_the_compact_network_is_the_network(kind) -> None:
    bnn, params = started(kind)
    mask = {str(spec.path): np.arange(np.prod(spec.shape)).reshape(spec.shape) % 3 > 0 for spec in bnn.layout}
    small = bp.compact(bnn, params, mask, keep="mean")
    assert small.certify().holds
    whole = Net(kind).apply(bnn.net_params(params, mask), X)
    np.testing.assert_allclose(small.predict(X), jax.nn.softmax(whole), rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(small.predict(X[::-1]), jax.nn.softmax(whole)[::-1], rtol=1e-4, atol=1e-6)


def test_a_loop_over_some_rows_at_a_time_is_refused_by_its_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(BETWEEN, "batches", lambda h: jax.lax.map(jnp.tanh, h, batch_size=2))
    bnn, params = started("batches")
    with pytest.raises(ValueError, match=r"lax.map.*leave batch_size out"):
        bp.compact(bnn, params)
