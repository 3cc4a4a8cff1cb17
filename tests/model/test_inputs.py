"""What a network is called on: read off an example, handed on in its types, and refused where it is something else."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import linen
from numpyro.handlers import seed, trace

import bayesprune as bp
from bayesprune.model.inputs import Inputs, inputs_of

TWO = {"tokens": np.zeros((5, 4), np.int64), "seen": np.ones((5, 4), bool)}


class Looks(linen.Module):
    """Tokens and which of them to look at, as two arguments or as the parts of one."""

    @linen.compact
    def __call__(self, tokens, seen=None):
        if seen is None:
            tokens, seen = tokens["tokens"], tokens["seen"]
        assert jnp.issubdtype(tokens.dtype, jnp.integer) and seen.dtype == bool
        x = jnp.where(seen[..., None], linen.Embed(7, 3)(tokens), 0.0)
        return linen.Dense(2)(x.sum(1))


def built(**inputs) -> bp.BNN:
    return bp.BNN(Looks(), prior=bp.priors.Flat(), likelihood=bp.likelihoods.Categorical(), **inputs)


@pytest.mark.parametrize(
    ("dtype", "wanted"), [(np.float64, "float32"), (np.int64, "int32"), (np.uint8, "int32"), (bool, "bool")]
)
def test_types_are_those_of_the_example(dtype, wanted) -> None:
    inputs = Inputs.of_example(np.zeros((3, 2), dtype))
    assert inputs.leaves == (((2,), wanted),) and inputs.zeros(4).shape == (4, 2) and str(inputs.zeros(4).dtype) == wanted
    assert str(inputs.as_rows(np.ones((2, 2), dtype)).dtype) == wanted


def test_an_example_of_real_numbers_is_an_input_shape() -> None:
    assert inputs_of(None, np.zeros((1, 3))) == inputs_of((3,), None) == inputs_of(3, np.zeros((9, 3), np.float32))
    assert Inputs.of_shape((3,)).is_real and not Inputs.of_example(TWO).is_array


def test_a_tree_is_one_argument_and_a_tuple_several() -> None:
    as_one, as_two = built(example=TWO), built(example=(TWO["tokens"], TWO["seen"]))
    assert as_one.input_shape == {"tokens": (4,), "seen": (4,)} and as_two.input_shape == ((4,), (4,))
    assert as_one == built(example=TWO) and as_one != as_two and hash(as_one) == hash(built(example=TWO))
    rng = np.random.default_rng(0)
    tokens, seen = rng.integers(0, 7, (6, 4)), rng.random((6, 4)) < 0.5
    weights = {str(s.path): jnp.asarray(rng.normal(size=s.shape), jnp.float32) for s in as_one.layout}
    table, kernel, bias = (np.asarray(weights[f"{name}"]) for name in ("Embed_0.embedding", "Dense_0.kernel", "Dense_0.bias"))
    wanted = np.einsum("rt,rtf,fo->ro", seen, table[tokens], kernel) + bias
    np.testing.assert_allclose(as_one.forward(weights, {}, {"tokens": tokens, "seen": seen}), wanted, rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(as_two.forward(weights, {}, (tokens, seen)), wanted, rtol=1e-5, atol=1e-5)


def test_replicates_of_several_inputs_are_refused_with_the_remedy(rng_key) -> None:
    with pytest.raises(TypeError, match=r"several inputs.*stack them"):
        bp.fit_replicates(rng_key, built(example=TWO), bp.Dataset(TWO, np.zeros((1, 5), int)), num_steps=1)


@pytest.mark.slow
def test_a_tuple_of_inputs_is_fitted_and_predicted(rng_key) -> None:
    x = (TWO["tokens"], TWO["seen"])
    bnn = built(example=x)
    fit = bp.fit_svi(rng_key, bnn, bp.Dataset(x, np.zeros(5, int)), num_steps=1)
    assert len(bp.predict(rng_key, bnn, fit.params, x, num_samples=1)) == 5


def test_the_model_itself_takes_a_tree(rng_key) -> None:
    bnn = built(example=TWO)
    outputs = trace(seed(bnn.network, rng_key)).get_trace(TWO)
    assert outputs["Embed_0.embedding"]["value"].shape == (7, 3)


def test_the_model_itself_takes_no_fractions_for_places_in_a_table(rng_key) -> None:
    for wrong in (TWO | {"tokens": np.full((5, 4), 1.7)}, TWO | {"seen": np.full((5, 4), 0.3)}):
        with pytest.raises(TypeError, match=r"x must hold (integers|booleans), .*got dtype float32"):
            trace(seed(built(example=TWO).model, rng_key)).get_trace(wrong)
    with pytest.raises(TypeError, match="real numbers, got dtype complex64"):
        Inputs.of_shape((3,)).as_rows(np.ones((2, 3), complex))


def test_every_input_counts_as_rows() -> None:
    """A column of the table's that nothing reads is idle; what both inputs reach is not."""
    bnn = built(example=TWO)
    mask = {
        "Dense_0.kernel": np.array([[False, False], [True, True], [True, True]]),
        "Embed_0.embedding": np.ones((7, 3), bool),
    }
    used = bp.connected(bnn, mask)
    assert not used["Embed_0.embedding"][:, 0].any() and used["Embed_0.embedding"][:, 1:].all()
    assert bp.metrics.flops(bnn)["executed"] == 2 * 3 * 2


REFUSED = {
    "nothing": (lambda: inputs_of(None, None), TypeError, r"give example=x\[:1\].*or input_shape="),
    "both, of two shapes": (lambda: inputs_of((3,), np.zeros((1, 2))), ValueError, r"rows of shape \(2,\).*input_shape is"),
    "one number": (lambda: Inputs.of_example(np.float32(1)), ValueError, r"give x\[:1\], not x\[0\]"),
    "a text": (lambda: Inputs.of_example("digits"), TypeError, r"arrays of numbers, such as x\[:1\], got str"),
    "complex numbers": (lambda: Inputs.of_example(np.ones((1, 3), complex)), TypeError, "real numbers, got dtype complex128"),
    "an empty tree": (lambda: Inputs.of_example({}), ValueError, "example is empty"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_is_no_example_is_refused(case) -> None:
    make, kind, message = REFUSED[case]
    with pytest.raises(kind, match=message):
        make()


ROWS = {
    "another shape": (np.zeros((1, 3), int), np.zeros((5, 4), int), ValueError, r"x must have shape \(rows, 3\), got \(5, 4\)"),
    "no rows": (np.zeros((1, 3), int), np.int32(1), ValueError, r"x must have shape \(rows, 3\), got \(\)"),
    "reals": (np.zeros((1, 3), int), np.zeros((5, 3)), TypeError, r"x must hold integers.*got dtype float64"),
    "reals for booleans": (np.ones((1, 3), bool), np.zeros((5, 3)), TypeError, "x must hold booleans"),
    "numbers for booleans": (np.ones((1, 3), bool), np.full((5, 3), 2), ValueError, "x must hold booleans.*other integers"),
    "another tree": (TWO, np.zeros((5, 4)), TypeError, "x must be as the example="),
    "a part of a tree": (TWO, TWO | {"seen": np.zeros((5, 4))}, TypeError, r"x\['seen'\] must hold booleans"),
}


@pytest.mark.parametrize("case", ROWS)
def test_other_rows_are_refused(case) -> None:
    example, x, kind, message = ROWS[case]
    inputs = Inputs.of_example(example)
    with pytest.raises(kind, match=message):
        inputs.check(x, "x")
    inputs.check(jax.tree.map(np.asarray, example), "x")


def test_booleans_are_no_whole_numbers(rng_key) -> None:
    """At every door, as of a compact network: what a fit or a prediction would take for entries 0 and 1 of a table."""
    tokens, y = np.arange(24).reshape(6, 4) % 7, np.arange(6) % 2
    net = linen.Sequential([linen.Embed(7, 3), lambda x: x.mean(1), linen.Dense(2)])
    bnn = bp.BNN(net, prior=bp.priors.Flat(), likelihood=bp.likelihoods.Categorical(), example=tokens[:1])
    params = bp.from_trained(bnn, net.init(rng_key, tokens))
    for booleans in (tokens > 3, jnp.asarray(tokens > 3), (tokens > 3).tolist()):
        with pytest.raises(TypeError, match=r"x must hold integers.*got booleans: if 0 and 1 are meant, \.astype"):
            bp.predict(rng_key, bnn, params, booleans)
    with pytest.raises(TypeError, match=r"data\.x must hold integers.*got booleans"):
        bp.fit_svi(rng_key, bnn, bp.Dataset(tokens > 3, y), num_steps=1, progress=False)
    with pytest.raises(TypeError, match=r"x must hold integers.*got booleans"):
        bp.prune_layers(bnn, params, tokens > 3)
    many = bp.Dataset(np.stack([tokens > 3] * 2), np.stack([y] * 2))
    with pytest.raises(TypeError, match=r"data\.x must hold integers.*got booleans"):
        bp.fit_replicates(rng_key, bnn, many, num_steps=1)
    two = built(example=(TWO["tokens"], TWO["seen"])).inputs
    two.check_given((TWO["tokens"], TWO["seen"]), "x")
    with pytest.raises(TypeError, match=r"x\[0\] must hold integers"):
        two.check_given((TWO["seen"], TWO["seen"]), "x")
    assert np.isfinite(bp.predict(rng_key, bnn, params, tokens.astype(np.uint8), num_samples=1)).all()


def test_whole_numbers_are_taken_where_real_ones_are() -> None:
    inputs = Inputs.of_shape((3,))
    inputs.check(np.zeros((5, 3), np.int32), "x")
    assert inputs.as_rows(np.ones((5, 3), np.int32)).dtype == jnp.float32
