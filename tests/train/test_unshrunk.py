"""What cannot be trained on slices of its arrays is refused at the door, with the reason."""

import jax
import optax
import pytest
from numpyro.infer import Trace_ELBO
from tests.infer import programs

import bayesprune as bp

DATA = programs.classes(rows=60)
CUT = bp.methods.Cut(score="magnitude", density=0.5, scope="layer")


def fit(bnn=None, sparsifier=CUT, **settings):
    bnn = programs.small_bnn() if bnn is None else bnn
    settings = {"num_steps": 4, "every": 2, "batch_size": 30, "storage": "compact", "progress": False} | settings
    return bp.fit_svi(jax.random.key(0), bnn, DATA, sparsifier=sparsifier, **settings)


@pytest.mark.slow_cases(2)
@pytest.mark.fast_cases(2)
@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"sparsifier": bp.methods.SSVI(0.5)}, "SSVI brings weights back.*'active'"),
        ({"estimator": Trace_ELBO()}, "estimator=Trace_ELBO.*'weight' or 'local'"),
        ({"optimizer": optax.lamb(1e-3)}, "every entry alone"),
        ({"optimizer": optax.adafactor(1e-3)}, "every entry alone"),
        ({"optimizer": optax.adaptive_grad_clip(0.1)}, "every entry alone"),
        ({"optimizer": optax.chain(optax.add_noise(0.1, 0.5, 0), optax.sgd(0.1))}, "every entry alone"),
        ({"optimizer": bp.kernels.IVON()}, "every entry alone"),
    ],
)
def test_settings(settings, message) -> None:
    with pytest.raises(ValueError, match=message):
        fit(**settings)


@pytest.mark.slow_cases(2)
@pytest.mark.fast_cases(1)
@pytest.mark.parametrize(
    "optimizer",
    [
        optax.MultiSteps(optax.lamb(1e-2), 4).gradient_transformation(),
        optax.lamb(1e-6),
        optax.lamb(optax.join_schedules([optax.constant_schedule(0.0), optax.constant_schedule(1e-2)], [5])),
        optax.chain(optax.clip_by_block_rms(5.0), optax.sgd(0.1)),
    ],
)
def test_norms_of_arrays_are_seen_however_late_or_slight(optimizer) -> None:
    """Behind gathered steps, a rate that is zero at first or low throughout, a limit that small gradients do not reach."""
    with pytest.raises(ValueError, match="every entry alone"):
        fit(optimizer=optimizer)


@pytest.mark.slow
@pytest.mark.parametrize(
    "prior",
    [bp.priors.Horseshoe(), bp.priors.DiracSlab(), bp.priors.GroupHorseshoe()],
)
def test_priors_with_numbers_of_their_own(prior) -> None:
    with pytest.raises(ValueError, match=r"trains on what is connected, and .*storage='masked'"):
        fit(programs.small_bnn(prior=prior))


class Wider(bp.priors.Gaussian):
    """A prior of one's own, whose scale goes by an array's shape."""


def test_priors_of_ones_own() -> None:
    with pytest.raises(ValueError, match="Wider, written elsewhere, may go by the shapes"):
        fit(programs.small_bnn(prior=Wider()))


@pytest.mark.slow
def test_programs_written_by_hand() -> None:
    with pytest.raises(ValueError, match="written by hand"):
        bp.fit_svi(
            jax.random.key(0),
            programs.linear_program(),
            programs.line()[0],
            num_steps=4,
            every=2,
            sparsifier=CUT,
            storage="compact",
        )


def test_nothing_dead_is_nothing_to_shrink_by() -> None:
    with pytest.raises(ValueError, match="nothing is dead"):
        bp.fit_svi(jax.random.key(0), programs.small_bnn(), DATA, num_steps=4, storage="compact")


@pytest.mark.slow
def test_auto_keeps_whole_arrays_in_their_place() -> None:
    assert len(fit(programs.small_bnn(prior=bp.priors.Horseshoe()), storage="auto").losses) == 4
