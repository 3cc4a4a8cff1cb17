"""Networks of several inputs, and of several outputs, made smaller: by every engine, in files, by NumPy alone, in ONNX."""

import dataclasses
import functools
from typing import NamedTuple

import flax.linen as linen
import jax
import jax.export
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pytest

import bayesprune as bp
from bayesprune import cli
from bayesprune.deploy import DrawsEngine, reader
from bayesprune.deploy.program.packing import Packing
from bayesprune.model.inputs import Inputs

WORDS, LENGTH, ROWS = 11, 5, 40
RNG = np.random.default_rng(0)
TOKENS, MASK = RNG.integers(0, WORDS, (ROWS, LENGTH)), RNG.random((ROWS, LENGTH)) < 0.7
AGE, IMAGE = RNG.normal(size=ROWS).astype(np.float32), RNG.normal(size=(ROWS, 3, 2)).astype(np.float32)
LABELS = np.arange(ROWS) % 3


class Record(linen.Module):
    """A dictionary: words, which of them count, an image and a number."""

    @linen.compact
    def __call__(self, row):
        words = linen.Embed(WORDS, 6)(row["tokens"]) * row["mask"][..., None]
        image = linen.Dense(6)(row["image"].reshape(len(row["image"]), -1))
        h = jnp.concatenate([words.mean(1), jnp.tanh(image), row["age"][:, None]], axis=1)
        return linen.Dense(3)(jnp.tanh(linen.Dense(8)(h)))


class Pair(linen.Module):
    """Two arguments."""

    @linen.compact
    def __call__(self, image, age):
        return linen.Dense(3)(jax.nn.relu(linen.Dense(8)(image.reshape(len(image), -1)) * age[:, None]))


class Two(linen.Module):
    """Two outputs of one input."""

    @linen.compact
    def __call__(self, x):
        h = jax.nn.relu(linen.Dense(8)(x.reshape(len(x), -1)))
        return {"loc": linen.Dense(2)(h), "log_scale": linen.Dense(1)(h)}


def noisy(out):
    return dist.Normal(out["loc"] + 0.1 * out["log_scale"], jnp.exp(out["log_scale"])).to_event(1)


CLASSES = bp.likelihoods.Categorical()
NETS = {
    "record": (Record, {"tokens": TOKENS, "mask": MASK, "image": IMAGE, "age": AGE}, LABELS, CLASSES),
    "pair": (Pair, (IMAGE, AGE), LABELS, CLASSES),
    "two outputs": (Two, IMAGE, np.stack([AGE, -AGE], 1), bp.likelihoods.Custom(noisy)),
}
EVERY = pytest.mark.parametrize("name", NETS)


@functools.cache
def fitted(name: str):
    net, x, y, likelihood = NETS[name]
    bnn = bp.BNN(net(), prior=bp.priors.Gaussian(1.0), likelihood=likelihood, example=jax.tree.map(lambda a: a[:1], x))
    fit = bp.fit_svi(jax.random.key(0), bnn, bp.Dataset(x, y), num_steps=3, batch_size=20, progress=False)
    rng, mask = np.random.default_rng(1), {}
    for spec in bnn.layout:
        if spec.bayesian:
            mask[str(spec.path)] = rng.random(spec.shape) < 0.6
            if spec.shape[-1] > 3:
                mask[str(spec.path)][..., -2:] = False
    return bnn, fit.params, mask, x, y


@functools.cache
def smaller(name: str, keep: str) -> bp.Compact:
    bnn, params, mask, *_ = fitted(name)
    return bp.compact(bnn, params, mask, keep=keep)


def at_mean(name: str) -> np.ndarray:
    """By the network itself, its weights at their means where they are alive."""
    bnn, params, mask, x, _ = fitted(name)
    weights = {site: np.where(mask[site], node.loc * node.unit, 0) for site, node in bnn.posterior(params).items()}
    return np.asarray(bnn.likelihood.mean(bnn.forward(weights, {}, bnn.inputs.as_rows(x))))


@pytest.mark.slow_cases(1)
@pytest.mark.slow
@EVERY
def test_it_predicts_as_the_network_does(name) -> None:
    small, x = smaller(name, "mean"), NETS[name][1]
    assert small.certify().holds and not small.pinned
    assert small.cost.numbers < small.cost.dense_numbers
    wanted = at_mean(name)
    assert np.ptp(wanted, axis=0).max() > 0.001
    for engine in ("auto", "jax", "kernels"):
        np.testing.assert_allclose(small.predict(x, engine=engine), wanted, atol=3e-6)


@pytest.mark.slow_cases(1)
@pytest.mark.slow
@EVERY
def test_drawn_networks_have_the_same_law(name) -> None:
    """Means of 4,000 networks: one is off by six of its deviations once in 5e8, and fewer than a hundred are compared."""
    bnn, params, mask, *_ = fitted(name)
    small, few = smaller(name, "posterior"), jax.tree.map(lambda a: a[:4], NETS[name][1])
    wanted = bp.predict_draws(jax.random.key(1), bnn, params, few, mask=mask, num_samples=4000)
    key = jax.random.key(2)
    for made in (small.predict_draws(key, few, 4000, engine="jax"), DrawsEngine(small).predict_draws(key, few, 4000)):
        assert made.shape == wanted.shape
        error = np.sqrt((wanted.var(0) + made.var(0)) / 4000)
        assert (abs(made.mean(0) - wanted.mean(0)) < 6 * error + 1e-7).all()


@pytest.mark.slow
@pytest.mark.fast_cases(1)
@EVERY
def test_files_of_it_take_the_same_rows(name, tmp_path) -> None:
    small, x = smaller(name, "posterior"), NETS[name][1]
    small.save(tmp_path / "net.bayesprune")
    again, probs = bp.load(tmp_path / "net.bayesprune"), small.predict(x)
    assert again.certify().holds and again.takes == small.takes and again.input_shape == small.input_shape
    np.testing.assert_allclose(again.predict(x), probs, atol=1e-6)
    np.testing.assert_allclose(reader.predict(*reader.load(tmp_path / "net.bayesprune"), x), probs, atol=1e-6)
    stable = jax.export.deserialize(small.exported().serialize())
    typed = jax.tree.map(lambda a, dtype: a.astype(dtype), x, small.takes)
    np.testing.assert_allclose(stable.call(typed), probs, atol=1e-6)


@pytest.mark.slow
@pytest.mark.fast_cases(1)
@EVERY
def test_an_onnx_model_of_it(name, tmp_path) -> None:
    pytest.importorskip("onnx")
    runtime = pytest.importorskip("onnxruntime")
    small, x = smaller(name, "mean"), NETS[name][1]
    bp.export_onnx(small, tmp_path / "net.onnx")
    model = runtime.InferenceSession(str(tmp_path / "net.onnx"), providers=["CPUExecutionProvider"])
    arrays = zip(small.inputs.leaves, jax.tree.leaves(x), strict=True)
    given = {leaf.name: array.astype(leaf.dtype) for leaf, array in arrays}
    assert sorted(given) == {"record": ["age", "image", "mask", "tokens"], "pair": ["x[0]", "x[1]"]}.get(name, ["x"])
    np.testing.assert_allclose(model.run(["mean"], given)[0], small.predict(x), atol=2e-6)


@pytest.mark.slow
def test_figures_and_measurements_of_it() -> None:
    bnn, params, mask, x, y = fitted("record")
    small = smaller("record", "posterior").measured((1, 8), num_repeats=1)
    np.testing.assert_allclose(small.predict(x), smaller("record", "posterior").predict(x, engine="jax"), atol=3e-6)
    ours, theirs = (
        bp.evaluate(jax.random.key(0), one, p, bp.Dataset(x, y), mask=m, num_samples=400)["nll"]
        for one, p, m in ((small, None, None), (bnn, params, mask))
    )
    assert ours == pytest.approx(theirs, abs=0.05)  # 400 networks of logits that differ by tenths
    assert small.takes == {"tokens": "int32", "mask": "bool", "image": "float32", "age": "float32"}


@pytest.mark.slow
@EVERY
def test_the_smaller_function_trains_on(name) -> None:
    x = NETS[name][1]
    apply, params = smaller(name, "posterior").net()
    outputs = apply(params, x)
    if name == "two outputs":
        assert {key: out.shape for key, out in outputs.items()} == {"loc": (ROWS, 2), "log_scale": (ROWS, 1)}
    grads = jax.grad(lambda p: sum(jnp.square(leaf).sum() for leaf in jax.tree.leaves(apply(p, x))))(params)
    assert any(np.abs(g).max() > 0 for g in jax.tree.leaves(grads))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        (lambda x: x["image"], TypeError, "x must be as the network's example= was, {'age': 'age'"),
        (lambda x: {k: v for k, v in x.items() if k != "age"}, TypeError, "age of shape"),
        (
            lambda x: x | {"tokens": x["tokens"] + 0.5},
            TypeError,
            "tokens must hold integers, as the network takes, got float64",
        ),
        (lambda x: x | {"mask": x["mask"].astype(int)}, TypeError, "mask must hold booleans"),
        (lambda x: x | {"tokens": x["tokens"] + (1 << 25)}, ValueError, "the network looks it up in Embed_0.embedding"),
        (lambda x: x | {"age": x["age"][:3]}, ValueError, r"as many rows each"),
        (lambda x: x | {"image": x["image"][:, :2]}, ValueError, r"image of shape \(40, 2, 2\)"),
        (lambda x: x | {"age": np.where(x["age"] > 1, np.nan, x["age"])}, ValueError, "age holds .* NaN"),
        (lambda x: {k: v[:0] for k, v in x.items()}, ValueError, "x is empty"),
    ],
)
def test_other_rows_are_refused(change, error, message) -> None:
    small, x = smaller("record", "mean"), NETS["record"][1]
    for engine in ("jax", "kernels"):
        with pytest.raises(error, match=message):
            small.predict(change(x), engine=engine)


def test_the_reader_refuses_other_rows(tmp_path) -> None:
    smaller("record", "mean").save(tmp_path / "net.bayesprune")
    plan, arrays = reader.load(tmp_path / "net.bayesprune")
    x = NETS["record"][1]
    with pytest.raises(KeyError, match="age"):
        reader.predict(plan, arrays, {k: v for k, v in x.items() if k != "age"})
    with pytest.raises(ValueError, match="rows must be integers, got float64"):
        reader.predict(plan, arrays, x | {"tokens": x["tokens"] + 0.5})
    with pytest.raises(ValueError, match=r"rows must have the shape \[3, 2\]"):
        reader.predict(plan, arrays, x | {"image": x["image"][:, :2]})


@pytest.mark.parametrize(
    "stated",
    [
        [],
        [{"path": ["a"], "shape": [2], "takes": "object"}],
        [{"path": ["a"], "shape": [-1], "takes": "float32"}],
        [{"path": [], "shape": [2], "takes": "float32"}, {"path": ["a"], "shape": [2], "takes": "float32"}],
        [{"path": ["a"] * 20, "shape": [2], "takes": "float32"}],
        [{"path": [[]], "shape": [2], "takes": "float32"}],
        [{"path": ["b"], "shape": [2], "takes": "float32"}, {"path": ["a"], "shape": [2], "takes": "float32"}],
        [{"path": ["a"], "shape": [2], "takes": "float32"}, {"path": ["a"], "shape": [2], "takes": "float32"}],
    ],
)
def test_a_file_that_claims_no_tree_of_rows_is_refused(stated) -> None:
    with pytest.raises((ValueError, TypeError)):
        Packing.of_data(stated)


def test_trees_come_back_from_their_data() -> None:
    shapes = {"a": ((2,), ()), "b": {"c": (1, 2)}}
    packing = Packing.of_shapes(shapes)
    again = Packing.of_data(packing.as_data())
    assert again == packing and again.shape == shapes and again.row_shape == (5,)
    assert [leaf.name for leaf in again.leaves] == ["a[0]", "a[1]", "b.c"]
    tree = packing.tree([np.arange(3.0 * leaf.size).reshape(3, *leaf.shape) for leaf in packing.leaves])
    jax.tree.map(np.testing.assert_array_equal, again.apart(packing.together(tree)), tree)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["record", "pair"])
def test_the_command_line_takes_arrays_by_their_names(name, tmp_path, capsys) -> None:
    small, (net, rows, made) = smaller(name, "mean"), (tmp_path / end for end in ("net.bayesprune", "rows.npz", "made.npz"))
    x = NETS[name][1]
    small.save(net)
    named = {leaf.name: array for leaf, array in zip(small.inputs.leaves, jax.tree.leaves(x), strict=True)}
    np.savez(rows, **named)
    assert cli.main(["predict", str(net), str(rows), "--to", str(made)]) == 0
    with np.load(made) as found:
        np.testing.assert_allclose(found["mean"], small.predict(x), rtol=1e-5)
    np.savez(rows, x=IMAGE)
    assert cli.main(["predict", str(net), str(rows)]) == 2
    told = " ".join(capsys.readouterr().err.split())
    assert f"Write it with numpy.savez with arrays {', '.join(named)}" in told


class Fields(NamedTuple):
    b: np.ndarray
    a: np.ndarray


@pytest.mark.parametrize("x", [Fields(AGE[:, None], AGE[:, None]), {0: AGE[:, None], 1: AGE[:, None]}])
def test_trees_that_no_file_can_name_are_refused(x) -> None:
    with pytest.raises(ValueError, match="dictionaries with keys of text, and tuples"):
        Packing.of_inputs(Inputs.of_example(x))


@pytest.mark.parametrize("names", [("mean", "b"), ("a.b", "a")])
def test_names_that_no_onnx_model_can_have_are_refused(names, tmp_path) -> None:
    pytest.importorskip("onnx")
    first, second = names
    tree = {first: AGE[:1], second: {"b": AGE[:1]} if second == "a" else AGE[:1]}
    small = dataclasses.replace(smaller("pair", "mean"), inputs=Packing.of_inputs(Inputs.of_example(tree)))
    with pytest.raises(ValueError, match="cannot all keep their names beside the output 'mean': rename"):
        bp.export_onnx(small, tmp_path / "net.onnx")
