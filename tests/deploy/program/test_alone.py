"""No network is made smaller whose rows depend on one another, however alike three rows may be."""

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import bayesprune as bp
from bayesprune.deploy.program.from_bnn import check_alone


class Between(nn.Module):
    """Something between two layers."""

    kind: str

    @nn.compact
    def __call__(self, x):
        h = nn.tanh(nn.Dense(5)(x))
        kinds = {
            "any": lambda: jnp.where(jnp.any(x > 50), -h, h),
            "sorted": lambda: jnp.sort(h, axis=0),
            "number": lambda: -h if x.shape[0] > 7 else h,
            "length": lambda: -h if len(x) > 7 else h,
            "far number": lambda: -h if x.shape[0] > 5000 else h,
            "quarter": lambda: h * (1 + x.shape[0] // 4),
            "normed": lambda: h / (1e-3 + jnp.linalg.norm(h, axis=0)),
            "tiled": lambda: jnp.concatenate([jnp.tile(self.param("first", nn.initializers.ones, (1, 2)), (len(x), 1)), h], 1),
            "plain": lambda: h.reshape(len(h), -1),
        }
        return nn.Dense(2)(kinds[self.kind]())


def compacted(kind: str) -> bp.deploy.Compact:
    bnn = bp.BNN(Between(kind), prior=bp.priors.Gaussian(), likelihood=bp.likelihoods.Categorical(), input_shape=(3,))
    params = start(bnn)
    return bp.compact(bnn, params)


def start(bnn: bp.BNN) -> dict:
    data = bp.Dataset(np.ones((4, 3), np.float32), np.array([0, 1, 0, 1]))
    return bp.fit_svi(jax.random.key(0), bnn, data, num_steps=1).params


@pytest.mark.parametrize(
    ("kind", "by"),
    [
        ("any", "reduce_or"),
        ("sorted", "sort"),
        ("normed", "reduce_sum"),
        ("number", r"a comparison with their number \(test_alone.py, line \d+\)"),
        ("far number", r"a comparison with their number \(test_alone.py, line \d+\)"),
        ("length", "the program, which is another"),
        ("quarter", "the number of rows, which is counted with"),
    ],
)
def test_it_is_refused_and_says_by_what(kind, by) -> None:
    with pytest.raises(ValueError, match=rf"depend on the rows beside it, or on how many there are, by {by}"):
        compacted(kind)


def test_code_for_one_number_of_rows_is_found() -> None:
    """A number that is only a name is equal to none: those that are tried find it."""

    def jaxpr(rows):
        return jax.make_jaxpr(lambda x: -x if len(x) == 8 else x)(jax.ShapeDtypeStruct((rows, 3), jnp.float32))

    with pytest.raises(ValueError, match="the program, which is another for another number of rows"):
        check_alone(jaxpr)


@pytest.mark.slow
def test_a_length_alone_decides_nothing() -> None:
    assert compacted("plain").certify().holds


def test_a_likelihood_s_mean_of_all_rows_is_refused() -> None:
    class Centred(type(bp.likelihoods.Normal())):
        def mean(self, outputs):
            return super().mean(outputs) - super().mean(outputs).mean()

    bnn = bp.BNN(bp.nets.MLP((4,), 1), prior=bp.priors.Gaussian(), likelihood=Centred(), input_shape=(3,))
    data = bp.Dataset(np.ones((4, 3), np.float32), np.ones(4, np.float32))
    fit = bp.fit_svi(jax.random.key(0), bnn, data, num_steps=1)
    with pytest.raises(ValueError, match="by reduce_sum"):
        bp.compact(bnn, fit.params)


@pytest.mark.slow
def test_an_array_tiled_for_the_rows_is_written_otherwise() -> None:
    """A class token, say: its rows do not meet, but the program has as many arrays as there are rows."""
    with pytest.raises(ValueError, match=r"joins as many arrays as there are rows.*write jnp\.broadcast_to"):
        compacted("tiled")
