"""x as a tree of arrays: a fit, its prediction and its figures are those of the same numbers in one array."""

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import bayesprune as bp
from bayesprune.infer.observed import log_density

ROWS, KEY = 40, jax.random.key(0)
RNG = np.random.default_rng(0)
X = RNG.normal(size=(ROWS, 5)).astype(np.float32)
Y = (X[:, 0] > 0).astype(np.int32)
PARTS = {"a": X[:, :2], "b": X[:, 2:]}


class OfParts(nn.Module):
    """A layer of all numbers, however they come."""

    @nn.compact
    def __call__(self, x):
        return nn.Dense(2)(jnp.concatenate([x["a"], x["b"]], -1) if isinstance(x, dict) else x)


def bnn(example) -> bp.BNN:
    likelihood, prunable = bp.likelihoods.Categorical(), bp.select.everything
    return bp.BNN(OfParts(), prior=bp.priors.Gaussian(), likelihood=likelihood, example=example, prunable=prunable)


WHOLE, TREE = bnn(X[:1]), bnn(jax.tree.map(lambda part: part[:1], PARTS))
SETTINGS = {"num_steps": 6, "batch_size": 16, "progress": False}


def fits(x, program, **more) -> bp.FitResult:
    return bp.fit_svi(KEY, program, bp.Dataset(x, Y), **SETTINGS, **more)


@pytest.mark.slow
def test_a_fit_its_predictions_and_figures_are_those_of_one_array() -> None:
    whole, tree = fits(X, WHOLE), fits(PARTS, TREE)
    np.testing.assert_allclose(tree.losses, whole.losses, rtol=1e-5)
    few, some = jax.tree.map(lambda part: part[:7], PARTS), X[:7]
    for ask in (bp.predict, bp.predict_draws):
        one, other = (ask(KEY, p, whole.params, x, num_samples=3) for p, x in ((WHOLE, some), (TREE, few)))
        np.testing.assert_allclose(other, one, rtol=1e-5)
    figures = [bp.evaluate(KEY, p, whole.params, bp.Dataset(x, Y[:7]), num_samples=3) for p, x in ((WHOLE, some), (TREE, few))]
    assert figures[0] == pytest.approx(figures[1], rel=1e-4)


@pytest.mark.slow
@pytest.mark.parametrize("settings", [{"estimator": "local"}, {"sparsifier": bp.methods.SSVI(0.5), "every": 2}])
def test_noise_of_outputs_and_exchanges_of_weights_are_those_of_one_array(settings) -> None:
    whole, tree = fits(X, WHOLE, **settings), fits(PARTS, TREE, **settings)
    np.testing.assert_allclose(tree.losses, whole.losses, rtol=1e-4)


@pytest.mark.slow
def test_targets_and_log_densities_are_those_of_one_array() -> None:
    params = fits(X, WHOLE).params
    for ask in (bp.sample_targets, lambda *args, **more: log_density(*args[:3], bp.Dataset(args[3], Y), None, **more)):
        one, other = (ask(KEY, p, params, x, num_samples=3) for p, x in ((WHOLE, X), (TREE, PARTS)))
        np.testing.assert_allclose(other, one, rtol=1e-4)


@pytest.mark.slow
def test_a_tree_is_fed_from_files_and_batches(tmp_path) -> None:
    for name, part in PARTS.items():
        np.save(tmp_path / name, part)
    mapped = {name: np.load(tmp_path / f"{name}.npy", mmap_mode="r") for name in PARTS}
    assert fits(mapped, TREE).losses.tobytes() == fits(PARTS, TREE).losses.tobytes()
    batches = [(jax.tree.map(lambda part: part[first : first + 9], PARTS), Y[first : first + 9]) for first in range(0, 40, 9)]  # noqa: B023
    assert np.isfinite(bp.fit_svi(KEY, TREE, batches, num_rows=ROWS, **SETTINGS).losses).all()


REFUSED = {
    "another tree": ({"a": X[:, :2]}, TypeError, "x must be as the example="),
    "an array": (X, TypeError, "x must be as the example="),
    "uneven rows": (PARTS | {"b": X[:9, 2:]}, ValueError, r"one row per example|as many rows"),
    "NaN in a part": (PARTS | {"b": X[:, 2:] * np.nan}, ValueError, r"x\['b'\] holds 120 value"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_does_not_fit_the_tree_is_refused(case: str) -> None:
    x, kind, message = REFUSED[case]
    with pytest.raises(kind, match=message):
        fits(x, TREE)
    with pytest.raises(kind, match=message):
        bp.predict(KEY, TREE, fits(PARTS, TREE).params, x, num_samples=1)
