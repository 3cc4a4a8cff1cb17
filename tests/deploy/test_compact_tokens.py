"""Networks of tokens and of booleans, made smaller: look-ups by JAX, NumPy alone, kernels, files, StableHLO and ONNX."""

import functools
import json

import flax.linen as linen
import jax
import jax.export
import jax.numpy as jnp
import numpy as np
import pytest
from safetensors import safe_open

import bayesprune as bp
from bayesprune.core.files import DamagedFileError
from bayesprune.core.formats import pack_tensors
from bayesprune.deploy import reader

WORDS, LENGTH, WIDTH = 11, 5, 6
TOKENS = np.random.default_rng(0).integers(0, WORDS, (40, LENGTH))
BITS = TOKENS % 2 == 0
LABELS = np.arange(40) % 3


class Words(linen.Module):
    """Embeddings of words and of places, of which there are more than a row has; their mean."""

    @linen.compact
    def __call__(self, tokens):
        h = linen.Embed(WORDS, WIDTH)(tokens) + linen.Embed(LENGTH + 2, WIDTH)(jnp.arange(LENGTH))
        return linen.Dense(3)(jnp.tanh(linen.Dense(8)(h)).mean(1))


class Clipped(linen.Module):
    """Numbers beyond the table's ends are its ends, and matrices are looked up."""

    @linen.compact
    def __call__(self, tokens):
        table = self.param("table", linen.initializers.normal(1.0), (WORDS, 2, 3))
        return linen.Dense(3)(jnp.tanh(table.at[tokens].get(mode="clip")).reshape(len(tokens), -1))


class OneHot(linen.Module):
    """Integers without a table: counted with, and one of many."""

    @linen.compact
    def __call__(self, tokens):
        return linen.Dense(3)(jnp.tanh(linen.Dense(4)(jax.nn.one_hot((tokens + 1) - 1, WORDS)).mean(1)))


class Switches(linen.Module):
    @linen.compact
    def __call__(self, bits):
        return linen.Dense(3)(jnp.where(bits, jnp.tanh(linen.Dense(LENGTH)(bits.astype(jnp.float32))), -1.0))


NETS = {"words": (Words, TOKENS), "clipped": (Clipped, TOKENS), "one hot": (OneHot, TOKENS), "switches": (Switches, BITS)}


def mask_of(bnn: bp.BNN) -> dict[str, np.ndarray]:
    """Half of the weights, and of tables and hidden layers the last two columns too."""
    rng, mask = np.random.default_rng(1), {}
    for spec in bnn.layout:
        if len(spec.shape) > 1:
            alive = rng.random(spec.shape) < 0.5
            if spec.shape[-1] > 3:
                alive[..., -2:] = False
            mask[str(spec.path)] = alive
    return mask


@functools.cache
def fitted(name: str, posterior: str):
    net, x = NETS[name]
    select = bp.select.everything
    bnn = bp.BNN(
        net(), prior=bp.priors.Gaussian(1.0), likelihood=bp.likelihoods.Categorical(), example=x[:1], posterior=posterior,
        bayesian=select, prunable=lambda _, shape: len(shape) > 1,
    )  # fmt: skip
    fit = bp.fit_svi(jax.random.key(0), bnn, bp.Dataset(x, LABELS), num_steps=3, batch_size=20, progress=False)
    return bnn, fit.params, mask_of(bnn), x


@functools.cache
def smaller(name: str) -> bp.Compact:
    bnn, params, mask, _ = fitted(name, "map")
    return bp.compact(bnn, params, mask, keep="mean")


@pytest.mark.slow_cases(1)
@pytest.mark.slow
@pytest.mark.parametrize("name", NETS)
def test_it_predicts_as_the_network_does(name) -> None:
    bnn, params, mask, x = fitted(name, "map")
    small, wanted = smaller(name), bp.predict(jax.random.key(0), bnn, params, x, mask=mask, num_samples=1)
    assert small.takes == ("bool" if name == "switches" else "int32") and not small.pinned
    assert small.certify().holds, small.certify()
    assert np.ptp(wanted, axis=0).max() > 0.001  # else rows would not matter
    for made in (small.predict(x), small.predict(x, engine="jax"), small.predict(x, engine="kernels")):
        np.testing.assert_allclose(made, wanted, atol=2e-6)
    assert bp.evaluate(jax.random.key(0), small, None, bp.Dataset(x, LABELS))["nll"] == pytest.approx(
        bp.evaluate(jax.random.key(0), bnn, params, bp.Dataset(x, LABELS), mask=mask, num_samples=1)["nll"], rel=1e-5
    )


@pytest.mark.slow
def test_dead_columns_of_a_table_leave_and_its_rows_stay() -> None:
    mask = fitted("words", "map")[2]
    read = mask["Dense_1.kernel"].any(axis=1) & mask["Embed_0.embedding"].any(axis=0)
    assert read.sum() < WIDTH
    assert (WORDS, read.sum()) in {array.shape for array in smaller("words").program.constants.values()}


@pytest.mark.slow
@pytest.mark.parametrize("name", NETS)
def test_files_of_it_take_the_same_rows(name, tmp_path) -> None:
    small, x = smaller(name), NETS[name][1]
    probs = small.predict(x)
    small.save(tmp_path / "net.bayesprune")
    again = bp.load(tmp_path / "net.bayesprune")
    assert again.takes == small.takes and again.certify().holds
    np.testing.assert_allclose(again.predict(x), probs, atol=1e-6)
    np.testing.assert_allclose(reader.predict(*reader.load(tmp_path / "net.bayesprune"), x), probs, atol=1e-6)
    with pytest.raises(ValueError, match=r"rows must be (integers|booleans), got float"):
        reader.predict(*reader.load(tmp_path / "net.bayesprune"), x + 0.5)
    if small.takes == "int32":
        with pytest.raises(ValueError, match="rows hold integers beyond 16,777,216"):
            reader.predict(*reader.load(tmp_path / "net.bayesprune"), x + (1 << 25))
    stable = jax.export.deserialize(small.exported().serialize())
    np.testing.assert_allclose(stable.call(x.astype(small.takes)), probs, atol=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize("name", NETS)
def test_an_onnx_model_of_it(name, tmp_path) -> None:
    pytest.importorskip("onnx")
    runtime = pytest.importorskip("onnxruntime")
    small, x = smaller(name), NETS[name][1]
    bp.export_onnx(small, tmp_path / "net.onnx")
    model = runtime.InferenceSession(str(tmp_path / "net.onnx"), providers=["CPUExecutionProvider"])
    assert model.get_inputs()[0].type == f"tensor({small.takes})"
    np.testing.assert_allclose(model.run(["mean"], {"x": x.astype(small.takes)})[0], small.predict(x), atol=2e-6)
    if name == "clipped":  # beyond the ends of the table, by the rule of the network
        away = x + np.where(np.arange(LENGTH) == 2, 30, 0)
        np.testing.assert_allclose(model.run(["mean"], {"x": away.astype("int32")})[0], small.predict(away), atol=2e-6)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["words", "clipped"])
@pytest.mark.parametrize("beyond", [WORDS, 3 * WORDS, -1, -WORDS - 1])
def test_beyond_the_ends_of_a_table(name, beyond) -> None:
    """NaN, or the last row, and from the end where it is below zero, as JAX has it in the network itself: refused, if it does
    not clip."""
    bnn, params, mask, _ = fitted(name, "map")
    x = TOKENS[:3].copy()
    x[0, 2] = beyond
    nodes = bnn.posterior(params)
    means = {site: node.loc * node.unit * mask.get(site, 1.0) for site, node in nodes.items()}
    wanted = bnn.forward(means, {}, jnp.asarray(x))
    assert bool(jnp.isnan(wanted[0]).all()) == (name == "words" and not -WORDS <= beyond < WORDS)
    small = smaller(name)
    apply, arrays = small.net()
    np.testing.assert_allclose(apply(arrays, jnp.asarray(x, jnp.float32)), wanted, atol=2e-6)
    if name == "words":
        with pytest.raises(ValueError, match=rf"x\[:, 2\] holds {beyond}, and .* looks it up in .*takes 0 to 10"):
            small.predict(x)
        return
    probs = small.predict(x, engine="jax")
    np.testing.assert_allclose(probs, jax.nn.softmax(wanted), atol=2e-6)
    np.testing.assert_allclose(small.predict(x, engine="kernels"), probs, atol=2e-6)


@pytest.mark.slow_cases(1)
@pytest.mark.slow
@pytest.mark.parametrize("name", NETS)
def test_the_whole_posterior(name) -> None:
    """Stored draws by JAX and by kernels; a Gaussian law has the moments of the network's own draws."""
    bnn, params, mask, x = fitted(name, "mean_field")
    small = bp.compact(bnn, params, mask, rng_key=jax.random.key(1), num_draws=4)
    assert small.certify().holds
    by_jax, by_kernels = (small.predict_draws(jax.random.key(1), x, 4, engine=engine) for engine in ("jax", "kernels"))
    np.testing.assert_allclose(by_jax, by_kernels, atol=2e-6)
    law = bp.compact(bnn, params, mask)
    assert law.certify().holds
    ours = law.predict_draws(jax.random.key(2), x, 400, engine="kernels")
    theirs = np.asarray(bp.predict_draws(jax.random.key(3), bnn, params, x, mask=mask, num_samples=400))
    # 120 means of 400 draws each: five standard errors of a difference are passed by chance once in 14,000 such tests.
    error = np.sqrt((ours.var(0) + theirs.var(0)) / 400)
    assert (np.abs(ours.mean(0) - theirs.mean(0)) < 5 * error + 1e-6).all()


class Fields(linen.Module):
    """Two arrays: fields of one table, which start one after the other, beside an entry that is free; and real numbers."""

    @linen.compact
    def __call__(self, x):
        h = linen.Embed(WORDS, WIDTH)(x["fields"][:, :2] + jnp.array([0, 4])).reshape(len(x["fields"]), -1)
        return linen.Dense(3)(jnp.concatenate([jnp.tanh(h), x["fields"][:, 2:].astype(float), x["real"]], 1))


@functools.cache
def of_fields() -> bp.Compact:
    x = {"fields": TOKENS[:, :3] % 4, "real": np.ones((40, 2), np.float32)}
    bnn = bp.BNN(Fields(), prior=bp.priors.Gaussian(), likelihood=bp.likelihoods.Categorical(), example=x, posterior="map")
    fit = bp.fit_svi(jax.random.key(0), bnn, bp.Dataset(x, LABELS), num_steps=1, batch_size=20, progress=False)
    return bp.compact(bnn, fit.params, keep="mean")


@pytest.mark.slow
@pytest.mark.parametrize("beyond", [WORDS, -1])
def test_a_file_says_what_its_tables_take(beyond, tmp_path) -> None:
    smaller("words").save(tmp_path / "net.bayesprune")
    again, x = bp.load(tmp_path / "net.bayesprune"), TOKENS[:3].copy()
    x[1, 2] = beyond
    with pytest.raises(ValueError, match=rf"x\[:, 2\] holds {beyond}, and .* Embed_0.embedding, which takes 0 to 10"):
        again.predict(x)
    with pytest.raises(ValueError, match=rf"x\[:, 2\] holds {beyond}"):
        again.predict_draws(jax.random.key(0), x, 2)
    for looked_up in (again.predict, functools.partial(bp.deploy.DrawsEngine(again).predict, jax.random.key(0))):
        with pytest.raises(ValueError, match=rf"x\[:, 2\] holds {beyond}"):
            looked_up(x.tolist())
    with pytest.raises(
        ValueError, match=rf"entry 2 of a row holds {beyond}, and Embed_0.embedding, where it is looked up, takes 0 to 10"
    ):
        reader.predict(*reader.load(tmp_path / "net.bayesprune"), x)
    again.save(tmp_path / "again.bayesprune")
    (bounds,) = bp.load(tmp_path / "again.bayesprune").bounds
    assert (bounds.low == 0).all() and (bounds.high == WORDS - 1).all()


@pytest.mark.slow
def test_fields_of_one_table_have_limits_of_their_own_in_a_file(tmp_path) -> None:
    of_fields().save(tmp_path / "net.bayesprune")
    again, plan = bp.load(tmp_path / "net.bayesprune"), reader.load(tmp_path / "net.bayesprune")
    for bounds, read in zip(of_fields().bounds, again.bounds, strict=True):
        assert (bounds is None) == (read is None)
        for one, other in zip(bounds or (), read or (), strict=True):
            np.testing.assert_array_equal(one, other)
    real = np.ones((1, 2), np.float32)
    for row, holds in (([10, 6, 99], True), ([11, 6, 0], False), ([0, -5, 0], False), ([0, -4, -9], True)):
        x = {"fields": np.array([row]), "real": real}
        if holds:
            np.testing.assert_allclose(again.predict(x), reader.predict(*plan, x), atol=1e-6)
            continue
        with pytest.raises(ValueError, match=r"fields\[:, \d\] holds .* looks it up in Embed_0.embedding"):
            again.predict(x)
        with pytest.raises(ValueError, match="of a row holds"):
            reader.predict(*plan, x)


LIMITS = {
    "of another array": lambda bounds: bounds.append(None),
    "of fewer entries": lambda bounds: bounds[0]["entries"].pop(),
    "that are not there": lambda bounds: bounds[0]["entries"].__setitem__(0, 7),
    "upside down": lambda bounds: bounds[0]["limits"][0].__setitem__(1, -9),
    "that are no numbers": lambda bounds: bounds[0]["limits"][0].__setitem__(0, "0"),
    "without end": lambda bounds: bounds[0]["limits"][0].__setitem__(1, 10**40),
    "with a long name": lambda bounds: bounds[0]["limits"][0].__setitem__(2, "x" * 10**5),
}


@pytest.mark.parametrize("what", LIMITS)
def test_limits_of_a_stranger_are_refused(what, tmp_path) -> None:
    of_fields().save(tmp_path / "net.bayesprune")
    with safe_open(tmp_path / "net.bayesprune", framework="np") as file:
        header, streams = file.metadata(), {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    plan = json.loads(header["plan"])
    LIMITS[what](plan["bounds"])
    texts = {name: header[name] for name in ("format", "version", "metadata")} | {"plan": json.dumps(plan)}
    (tmp_path / "bad.bayesprune").write_bytes(pack_tensors(streams, texts))
    with pytest.raises(DamagedFileError, match=r"bad\.bayesprune.*limits"):
        bp.load(tmp_path / "bad.bayesprune")


@pytest.mark.slow
def test_rows_of_another_type_are_refused() -> None:
    small = smaller("words")
    with pytest.raises(TypeError, match="x must hold integers, as the network takes, got float64"):
        small.predict(TOKENS + 0.5)
    with pytest.raises(ValueError, match="the network looks it up in"):
        small.predict_draws(jax.random.key(0), TOKENS + (1 << 25), 2)
    with pytest.raises(ValueError, match="integers beyond 16,777,216"):
        smaller("clipped").predict_draws(jax.random.key(0), TOKENS + (1 << 25), 2)


@pytest.mark.slow
def test_booleans_are_no_integers() -> None:
    with pytest.raises(TypeError, match="x must hold booleans"):
        smaller("switches").predict(TOKENS)
