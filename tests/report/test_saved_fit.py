"""A fit in a file: back as it went, of every kind; what is no file of a fit is refused."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from safetensors.numpy import load_file
from tests.infer import programs

import bayesprune as bp
from bayesprune.core.formats import pack_tensors, read_tensors
from bayesprune.report.saved_fit import FORMAT

BNN, DATA = programs.small_bnn(), programs.classes()


def assert_same(one: bp.FitResult, other: bp.FitResult) -> None:
    """In names, order, types and bits, all but the state."""
    assert jax.tree.structure((one.params, one.mask)) == jax.tree.structure((other.params, other.mask))
    assert list(one.params) == list(other.params) and list(one.history) == list(other.history)
    assert programs.same_bits((one.params, one.mask), (other.params, other.mask))
    for name in one.history:
        assert one.history[name].dtype == other.history[name].dtype
        np.testing.assert_array_equal(one.history[name], other.history[name])
    assert one.losses.tobytes() == other.losses.tobytes() and one.losses.dtype == other.losses.dtype
    assert repr(one) == repr(other)


def test_every_part_comes_back_to_the_bit(tmp_path) -> None:
    params = {
        "w_auto_loc": jnp.array([0.5, -0.0, 1e-45]), "w_auto_scale": jnp.ones(3, jnp.bfloat16), "w$unit": jnp.float32(2),
        "net$state": {"rest": {0: jnp.arange(3), 1: {}}},
    }  # fmt: skip
    history = {"prune/step": np.array([4, 8]), "eval/nll": np.array([0.5, np.nan]), "returned/step": np.array([8])}
    losses = np.array([2.0, 1.0, np.inf], np.float32)
    fit = bp.FitResult(params, None, losses, {"w": jnp.array([True, False, True])}, history)
    fit.save(tmp_path / "new" / "fit")
    back = bp.load(tmp_path / "new" / "fit")
    assert isinstance(back, bp.FitResult) and back.state is None
    assert_same(back, fit)
    np.testing.assert_array_equal(load_file(tmp_path / "new" / "fit")["losses"], losses)  # and anyone may read it
    back.save(tmp_path / "again")
    assert_same(bp.load(tmp_path / "again"), fit)


@pytest.mark.slow
def test_a_loaded_fit_is_pruned_and_predicts_as_the_fit_does(tmp_path, rng_key) -> None:
    settings = {"sparsifier": bp.methods.BMR(), "every": 2, "eval_data": DATA, "eval_every": 3, "eval_samples": 2}
    fit = bp.fit_svi(rng_key, BNN, DATA, num_steps=6, batch_size=16, **settings)
    fit.save(tmp_path / "fit")
    back = bp.load(tmp_path / "fit")
    assert_same(back, fit)
    assert programs.same_bits(bp.bmr_prune(back.params, mask=back.mask), bp.bmr_prune(fit.params, mask=fit.mask))
    draws = [bp.predict(jax.random.key(1), BNN, f.params, DATA.x, mask=f.mask, num_samples=2) for f in (fit, back)]
    np.testing.assert_array_equal(*draws)


@pytest.mark.slow
def test_samples_and_hand_written_programs_come_back(tmp_path, rng_key) -> None:
    bnn = programs.small_bnn(prior=bp.priors.Gaussian())
    sampler = {"num_steps": 6, "num_samples": 2, "num_chains": 2, "sample_every": 1}
    chains = bp.fit_sgmcmc(rng_key, bnn, DATA, sparsifier=bp.methods.Magnitude(0.5), every=2, **sampler)
    line = bp.fit_svi(rng_key, programs.linear_program(), programs.line()[0], num_steps=3)
    for fit in (chains, line):
        fit.save(tmp_path / "fit")
        assert_same(bp.load(tmp_path / "fit"), fit)


def test_dead_weights_take_a_bit_and_nothing_is_lost(tmp_path) -> None:
    """A tenth alive: a tenth of the bytes and a bit a number; negative zeros, tiny numbers and halves as they were."""
    rng = np.random.default_rng(0)
    draws = np.where(rng.random((2, 30, 40, 50)) < 0.1, rng.normal(size=(2, 30, 40, 50)), 0.0).astype(np.float32)
    draws.reshape(-1)[:4] = [-0.0, 1e-45, -1e-45, 0.0]
    params = {"w$draws": jnp.asarray(draws), "half": jnp.asarray(draws[0], jnp.bfloat16), "none": jnp.zeros((30, 20))}
    params |= {"v": jnp.zeros(1000), "v$alive": jnp.arange(125.0)}  # a name that the bits of another would have
    whole = bp.FitResult(params, None, np.ones(1), {}, {})
    whole.save(tmp_path / "fit")
    assert_same(bp.load(tmp_path / "fit"), whole)
    assert (tmp_path / "fit").stat().st_size < 1.5 * draws.nbytes * (0.1 + 1 / 32) + 10_000


def test_bits_that_do_not_belong_to_the_numbers_are_told(tmp_path) -> None:
    bp.FitResult({"w": jnp.arange(1000.0) * (jnp.arange(1000) % 2)}, None, np.ones(1), {}, {}).save(tmp_path / "fit")
    tensors, header = read_tensors(tmp_path / "fit", "fit", "")
    header = {name: text for name, text in header.items() if name not in ("tensors", "checksum")}
    for changed in (
        {"param/w": tensors["param/w"][:-1]},
        {"param/w$alive": tensors["param/w$alive"][:-1]},
        {"param/w$alive": tensors["param/w$alive"] | 128},
        {"param/w$alive": tensors["param/w$alive"][:, None]},
    ):
        (tmp_path / "other").write_bytes(pack_tensors(tensors | changed, header))
        with pytest.raises(ValueError, match=r"other is no whole file of a fit.*make no array of shape \[1000\]"):
            bp.load(tmp_path / "other")


def test_other_versions_and_parts_that_are_missing_are_told(tmp_path) -> None:
    header, tensors = {"format": FORMAT, "params": "[]", "mask": "[]"}, {"losses": np.ones(1)}
    (tmp_path / "later").write_bytes(pack_tensors(tensors, header | {"version": "6"}))
    with pytest.raises(ValueError, match=r"later is no fit of bayesprune in version 5, .* version '6'"):
        bp.load(tmp_path / "later")
    (tmp_path / "bare").write_bytes(pack_tensors(tensors, header | {"version": "5"}))
    with pytest.raises(ValueError, match=r"bare .*it has no sites, metadata"):
        bp.load(tmp_path / "bare")


def test_a_reader_of_posteriors_says_who_reads_it(tmp_path) -> None:
    bp.FitResult({}, None, np.ones(1), {}, {}).save(tmp_path / "fit")
    with pytest.raises(ValueError, match=r"fit without the laws of its weights.*read it with bp\.load"):
        bp.report.load_posterior(tmp_path / "fit")


def test_what_is_no_parameter_is_told_before_anything_is_written(tmp_path) -> None:
    with pytest.raises(TypeError, match="param/w is a str, which cannot be saved"):
        bp.FitResult({"w": "text"}, None, np.ones(1), {}, {}).save(tmp_path / "fit")
    assert not (tmp_path / "fit").exists()
