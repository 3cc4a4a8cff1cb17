"""Lottery tickets: rounds against plain fits under their masks, to the bit."""

import jax
import numpy as np
import optax
import pytest

import bayesprune as bp
from tests.infer import programs

SETTINGS = {"batch_size": 20, "optimizer": optax.adam(1e-2), "course": bp.courses.Plain()}


@pytest.mark.slow
def test_a_round_is_a_fit_from_the_first_start_under_the_mask(rng_key) -> None:
    """(15.1) with k = 0: alive .7^R, and each round the bits of one fit."""
    bnn, data = programs.small_bnn(posterior="map", prior=bp.priors.Gaussian()), programs.classes()
    found = bp.fit_rewound(rng_key, bnn, data, method=bp.methods.Magnitude, num_steps=6, rounds=2, keep=0.7, **SETTINGS)
    np.testing.assert_allclose(found.densities, [1.0, 0.7, 0.49], atol=0.01)
    cut = bp.prune_once(found.fits[0].params, bp.methods.Magnitude(0.7), program=bnn)
    again = bp.fit_svi(rng_key, bnn, data, num_steps=6, mask=cut.mask, **SETTINGS)
    assert programs.same_bits(found.fits[1].params, again.params)
    assert all((found.fits[2].mask[site] <= alive).all() for site, alive in found.fits[1].mask.items())


@pytest.mark.slow
def test_survivors_go_back_to_where_they_were_at_step_k(rng_key) -> None:
    """With a rate that is 0 from step 3 on, w_3 is what every round ends with, loc and scale."""
    bnn, data = programs.small_bnn(prior=bp.priors.Gaussian()), programs.classes()
    still = optax.adam(optax.piecewise_constant_schedule(1e-2, {3: 0.0}))
    settings = SETTINGS | {"optimizer": still}
    found = bp.fit_rewound(rng_key, bnn, data, method=bp.methods.SNR, num_steps=7, rounds=2, keep=0.5, rewind_to=3, **settings)
    at_three = bp.fit_svi(rng_key, bnn, data, num_steps=3, **settings).params
    for fit in found.fits:
        assert len(fit.losses) == 4
        for site, alive in (fit.mask or {"Dense_0.kernel": np.ones((4, 8), bool)}).items():
            for field in ("loc", "scale"):
                name = f"{site}_auto_{field}"
                np.testing.assert_allclose(np.asarray(fit.params[name])[alive], np.asarray(at_three[name])[alive], rtol=1e-6)
    assert found.densities[2] < 0.26


@pytest.mark.slow
@pytest.mark.parametrize("rewind_to", [0, 2])
def test_rounds_are_resumed_from_folders_of_their_own(rewind_to, rng_key, tmp_path) -> None:
    bnn, data = programs.small_bnn(prior=bp.priors.Gaussian()), programs.classes()
    given = {"method": bp.methods.SNR, "num_steps": 6, "rewind_to": rewind_to, "checkpoint_every": 2} | SETTINGS
    plain = bp.fit_rewound(rng_key, bnn, data, **{n: v for n, v in given.items() if n != "checkpoint_every"}, rounds=2)
    first = bp.fit_rewound(rng_key, bnn, data, **given, rounds=1, checkpoint=tmp_path)
    again = bp.fit_rewound(rng_key, bnn, data, **given, rounds=2, checkpoint=tmp_path)
    wanted = {"round_0", "round_1", "round_2"} | ({"begun"} if rewind_to else set())
    assert {path.name for path in tmp_path.iterdir()} == wanted
    assert all(programs.same_bits(one.params, other.params) for one, other in zip(first.fits, again.fits[:2], strict=True))
    assert all(programs.same_bits(one.params, other.params) for one, other in zip(plain.fits, again.fits, strict=True))


def test_what_makes_no_rounds_is_refused(rng_key) -> None:
    bnn, data = programs.small_bnn(), programs.classes()
    given = {"method": bp.methods.SNR, "num_steps": 5}
    with pytest.raises(TypeError, match="method must be"):
        bp.fit_rewound(rng_key, bnn, data, method="snr", num_steps=5)
    for bad, words in (
        ({"keep": 1.0}, "keep must lie"),
        ({"rewind_to": 5}, "below num_steps"),
        ({"rewind_to": 2}, "needs optimizer"),
        ({"mask": {}}, "mask is what fit_rewound gives"),
        ({"rounds": 0}, "rounds"),
    ):
        with pytest.raises(ValueError, match=words):
            bp.fit_rewound(rng_key, bnn, data, **given | bad)


def test_a_method_that_finds_its_own_density_is_refused() -> None:
    """Its first knob is something else: `keep` would be a probability, or a prior's parameter."""
    bnn, data = programs.small_bnn(), programs.classes(rows=30)
    with pytest.raises(ValueError, match="BMR has no density to set"):
        bp.fit_rewound(jax.random.key(0), bnn, data, method=bp.methods.BMR, num_steps=2)
