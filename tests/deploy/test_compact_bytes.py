"""A network that scales bytes itself, made smaller: it takes the same bytes, by JAX, NumPy alone, StableHLO and ONNX."""

import functools

import jax
import jax.export
import numpy as np
import pytest

import bayesprune as bp
from bayesprune.deploy import reader
from tests.deploy.fits import mask_of
from tests.infer import programs

SCALING = bp.data.Scaling(np.array([100.0, 0.0, 30.0, 7.0]), np.array([60.0, 255.0, 1.0, 3.0]))
RAW = bp.Dataset(np.random.default_rng(0).integers(0, 256, (60, 4), dtype=np.uint8), programs.classes().y)
SCALED = SCALING.apply(RAW.x)


@functools.cache
def networks(keep: str) -> tuple[bp.Compact, bp.Compact]:
    """The network that scales bytes, and the one of the same weights that does not."""
    bnn = programs.small_bnn(scaling=SCALING)
    fit = bp.fit_svi(jax.random.key(0), bnn, RAW, num_steps=8, batch_size=16, progress=False)
    one, other = (bp.compact(net, fit.params, mask_of(bnn), keep=keep) for net in (bnn, programs.small_bnn()))
    return one, other


@pytest.mark.slow
def test_bytes_give_what_scaled_rows_give_to_the_network_without_scaling() -> None:
    """To float32's rounding; and rows that were scaled before are refused wherever they are given."""
    small, plain = networks("mean")
    assert small.certify().holds and (small.takes, plain.takes) == ("uint8", "float32")
    probs = small.predict(RAW.x)
    np.testing.assert_allclose(probs, plain.predict(SCALED), atol=2e-6)
    assert np.ptp(probs, axis=0).max() > 0.01  # else rows would not matter
    np.testing.assert_allclose(small.predict(RAW.x, engine="kernels"), probs, atol=2e-6)
    for given in (small.predict, lambda x: small.predict_draws(jax.random.key(1), x, 2)):
        with pytest.raises(TypeError, match="x must be bytes, dtype uint8"):
            given(SCALED)


@pytest.mark.slow
def test_files_of_it_take_the_same_bytes(tmp_path) -> None:
    small, _ = networks("mean")
    probs = small.predict(RAW.x)
    small.save(tmp_path / "net.bayesprune")
    again = bp.load(tmp_path / "net.bayesprune")
    assert again.takes == "uint8" and again.certify().holds
    np.testing.assert_allclose(again.predict(RAW.x), probs, atol=1e-6)
    np.testing.assert_allclose(reader.predict(*reader.load(tmp_path / "net.bayesprune"), RAW.x), probs, atol=1e-6)
    with pytest.raises(ValueError, match="rows must be bytes"):
        reader.predict(*reader.load(tmp_path / "net.bayesprune"), SCALED)
    stable = jax.export.deserialize(small.exported().serialize())
    np.testing.assert_allclose(stable.call(RAW.x), probs, atol=1e-6)


@pytest.mark.slow
def test_an_onnx_model_of_it_has_a_uint8_input(tmp_path) -> None:
    pytest.importorskip("onnx")
    runtime = pytest.importorskip("onnxruntime")
    small, _ = networks("mean")
    bp.export_onnx(small, tmp_path / "net.onnx")
    model = runtime.InferenceSession(str(tmp_path / "net.onnx"), providers=["CPUExecutionProvider"])
    assert model.get_inputs()[0].type == "tensor(uint8)"
    np.testing.assert_allclose(model.run(["mean"], {"x": RAW.x})[0], small.predict(RAW.x), atol=2e-6)


@pytest.mark.slow
def test_the_whole_posterior_is_that_of_the_network() -> None:
    """`evaluate` and `predict_draws` take bytes; one key draws the same networks as without scaling."""
    small, plain = networks("posterior")
    draws = [net.predict_draws(jax.random.key(1), x, 3, engine="jax") for net, x in ((small, RAW.x), (plain, SCALED))]
    np.testing.assert_allclose(*draws, atol=2e-6)
    pairs = ((small, RAW), (plain, RAW._replace(x=SCALED)))
    figures, same = (bp.evaluate(jax.random.key(1), net, None, data, num_samples=3) for net, data in pairs)
    assert figures["nll"] == pytest.approx(same["nll"], rel=1e-4)
