"""Curvatures against their definitions by brute-force Jacobians and Hessians, and the precision by the evidence."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import integrate, optimize, stats
from tests.infer import programs

import bayesprune as bp
from bayesprune.infer.curvature.forms import FORMS, hessian
from bayesprune.infer.curvature.gaussians import Asked, PrecisionGroups, by_evidence, of_diagonal
from bayesprune.infer.curvature.over_rows import Trained, directions, log_density, root_of_negative_hessian, sum_over_rows

LIKELIHOODS = {
    "classes": (bp.likelihoods.Categorical(), lambda y: y),
    "numbers": (bp.likelihoods.Normal(0.5), lambda y: np.stack([y, y == 1, y == 2], 1).astype(np.float32)),
    "counts": (bp.likelihoods.Poisson(), lambda y: np.stack([y, y + 1, y * 2], 1)),
}


def at_weights(kind="classes"):
    """A network of 3 outputs, its weights in the order of a dict's leaves, and rows."""
    likelihood, target = LIKELIHOODS[kind]
    data = programs.classes(rows=21)
    data = bp.Dataset(data.x, target(data.y))
    net = bp.nets.MLP((3,), 3)
    bnn = bp.BNN(net, prior=bp.priors.Gaussian(), likelihood=likelihood, input_shape=(4,))
    values, _ = bnn.take(net.init(jax.random.key(3), jnp.ones((1, 4))))
    weights = {site: values[site] for site in sorted(values)}
    return bnn, Trained(weights, {}, {}, jax.tree.map(lambda w: jnp.ones(w.shape, bool), weights)), data


def brute(bnn, trained, data, structure) -> np.ndarray:
    """The curvature of all weights, by Jacobians of each row or by the Hessian of the sum."""
    density = log_density(bnn, {})
    flat, shaped = jax.flatten_util.ravel_pytree(trained.weights)

    def outputs(w, x):
        return bnn.forward(shaped(w), {}, jnp.asarray(x)[None])[0]

    if structure == "exact":
        return -jax.hessian(lambda w: sum(density(outputs(w, x), y) for x, y in zip(data.x, data.y, strict=True)))(flat)
    total = 0.0
    for x, y in zip(data.x, data.y, strict=True):
        f = outputs(flat, x)
        jacobian = np.asarray(jax.jacobian(outputs)(flat, x), float)
        gradient = np.asarray(jax.grad(density)(f, y))
        middle = np.outer(gradient, gradient) if structure == "empirical" else -np.asarray(jax.hessian(density)(f, y))
        total = total + jacobian.T @ middle @ jacobian
    return np.asarray(total)


def summed(kind, structure, form, num_draws=None, key=0):
    bnn, trained, data = at_weights(kind)
    density = log_density(bnn, {})
    find = directions(density, structure, num_draws)
    return trained, sum_over_rows(jax.random.key(key), trained, data, density, find, *FORMS[form](bnn, trained, data)).total()


@pytest.mark.slow_cases(2)
@pytest.mark.slow
@pytest.mark.parametrize("structure", ["ggn", "empirical"])
@pytest.mark.parametrize("kind", LIKELIHOODS)
def test_25_3_the_diagonal_and_the_whole_are_those_of_the_jacobians(kind, structure) -> None:
    """(25.3), and the empirical Fisher in its place."""
    bnn, trained, data = at_weights(kind)
    expected = brute(bnn, trained, data, structure)
    _, full = summed(kind, structure, "full")
    np.testing.assert_allclose(full.form, expected, rtol=2e-4, atol=2e-4)
    _, diagonal = summed(kind, structure, "diag")
    flat = np.concatenate([np.ravel(diagonal.form[site]) for site in sorted(diagonal.form)])
    np.testing.assert_allclose(flat, np.diag(expected), rtol=2e-4, atol=2e-4)
    nats = sum(
        float(log_density(bnn, {})(bnn.forward(trained.weights, {}, jnp.asarray(x)[None])[0], y))
        for x, y in zip(*data, strict=True)
    )
    assert float(diagonal.log_likelihood) == pytest.approx(nats, rel=1e-4)


@pytest.mark.slow
def test_25_3_of_classes_is_diag_p_minus_p_p(rng_key) -> None:
    bnn, _, _ = at_weights()
    f = jnp.array([0.3, -1.0, 2.0])
    root, p = root_of_negative_hessian(log_density(bnn, {}), f, jnp.array(1)), np.asarray(jax.nn.softmax(f))
    np.testing.assert_allclose(root.T @ root, np.diag(p) - np.outer(p, p), atol=1e-6)


@pytest.mark.slow
def test_exact_is_the_hessian() -> None:
    bnn, trained, data = at_weights()
    expected = brute(bnn, trained, data, "exact")
    found = hessian(bnn, trained, data, log_density(bnn, {}), diagonal=False).total()
    np.testing.assert_allclose(found.form, expected, rtol=1e-3, atol=1e-3)
    diagonal = hessian(bnn, trained, data, log_density(bnn, {}), diagonal=True).total().form
    flat = np.concatenate([np.ravel(diagonal[site]) for site in sorted(diagonal)])
    np.testing.assert_allclose(flat, np.diag(expected), rtol=1e-3, atol=1e-3)


@pytest.mark.slow
def test_25_5_factors_are_the_partial_traces_of_each_arrays_curvature() -> None:
    """(25.5), and of a curvature that is a Kronecker product the product is that one: of one output, of one row."""
    bnn, trained, data = at_weights()
    expected = brute(bnn, trained, data, "ggn")
    _, sums = summed("classes", "ggn", "kron")
    first = 0
    for site, weights in trained.weights.items():
        block = expected[first : first + weights.size, first : first + weights.size]
        first += weights.size
        rows, columns = len(sums.form[site].rows), len(sums.form[site].columns)
        four = block.reshape(rows, columns, rows, columns)
        np.testing.assert_allclose(sums.form[site].rows, np.einsum("ijkj->ik", four), rtol=1e-3, atol=1e-4)
        np.testing.assert_allclose(sums.form[site].columns, np.einsum("ijik->jk", four), rtol=1e-3, atol=1e-4)
        if rows == 1:
            np.testing.assert_allclose(sums.form[site].columns, block, rtol=1e-3, atol=1e-4)


@pytest.mark.slow
def test_random_directions_have_the_mean_of_all_of_them() -> None:
    """400 draws a row: each diagonal entry within 5 standard errors of its mean, as the draws themselves give them.

    A draw's spread is below its mean times sqrt(2); of 27 entries at 5 errors it fails once in 6e4.
    """
    _, all_of_them = summed("classes", "ggn", "diag")
    _, drawn = summed("classes", "ggn", "diag", num_draws=400)
    for site, value in all_of_them.form.items():
        error = np.sqrt(2.0 / 400) * np.asarray(value)
        assert (np.abs(drawn.form[site] - value) <= 5 * error + 1e-6).all()


@pytest.mark.parametrize(("h", "w", "delta"), [(3.0, 0.5, 1.0), (0.0, 0.0, 2.0), (40.0, -1.2, 0.1)])
def test_25_1_is_the_integral_of_the_parabola(h: float, w: float, delta: float) -> None:
    """(25.1): exp(-P (v - w)²/2) times the joint density at w, over v; the log likelihood at w is left out."""
    density = lambda v: np.exp(-0.5 * (h + delta) * (v - w) ** 2) * stats.norm(0, delta**-0.5).pdf(w)  # noqa: E731
    area = integrate.quad(density, w - 40 / np.sqrt(h + delta), w + 40 / np.sqrt(h + delta), points=[w])[0]
    alone = PrecisionGroups({"a": np.array([0])}, ["a"])
    found = of_diagonal({"a": np.array([h])}, Asked({"a": np.array([w])}, alone, np.array([delta]), False))
    assert found.evidence == pytest.approx(np.log(area), rel=1e-6, abs=1e-9)


def test_25_2_the_precision_is_the_maximum_of_the_evidence() -> None:
    """(25.2) against SciPy's bounded search of (25.1), for two groups of their own."""
    rng = np.random.default_rng(0)
    h, w = rng.gamma(1.0, 30.0, (2, 50)), rng.normal(size=(2, 50)) * np.array([[0.3], [2.0]])
    gamma = lambda delta: (h / (h + delta[:, None])).sum(1)  # noqa: E731
    found = by_evidence(gamma, (w**2).sum(1), np.ones(2), ["a", "b"])
    for curvature, weights, delta in zip(h, w, found, strict=True):
        best = optimize.minimize_scalar(
            lambda log, h=curvature, w=weights: 0.5 * float(np.sum(np.exp(log) * w**2 + np.log1p(h * np.exp(-log)))),
            bounds=(-8, 8),
            method="bounded",
        )
        assert np.log(delta) == pytest.approx(best.x, abs=0.02)


@pytest.mark.slow
def test_a_search_that_ends_at_its_edge_warns() -> None:
    with pytest.warns(UserWarning, match=r"precision of idle found no maximum.*all lie at 0.*'scalar'"):
        found = by_evidence(lambda delta: 1.0 / (1.0 + delta), np.array([1.0, 0.0])[:1] * 0, np.ones(1), ["idle"])
    assert found[0] == 1e8


@pytest.mark.slow
@pytest.mark.parametrize("dead", [False, True])
def test_convolutions_dead_weights_and_chunks(dead) -> None:
    """Convolutions, whose weights meet a row often, beside dense layers; more rows than a chunk; half of a kernel dead."""
    rng = np.random.default_rng(0)
    data = bp.Dataset(rng.normal(size=(150, 6, 6, 1)).astype(np.float32), rng.integers(3, size=150))
    net = bp.nets.LeNet5(num_outputs=3, features=(2, 2, 4), units=5)
    data = data._replace(x=np.pad(data.x, ((0, 0), (13, 13), (13, 13), (0, 0))))
    bnn = bp.BNN(net, prior=bp.priors.Gaussian(), likelihood=bp.likelihoods.Categorical(), input_shape=(32, 32, 1))
    values, _ = bnn.take(net.init(jax.random.key(3), jnp.ones((1, 32, 32, 1))))
    alive = {site: jnp.ones(w.shape, bool) for site, w in values.items()}
    if dead:
        alive["Dense_0.kernel"] = jnp.arange(alive["Dense_0.kernel"].size).reshape(alive["Dense_0.kernel"].shape) % 2 == 0
    density = log_density(bnn, {})
    trained, find = Trained(values, {}, {}, alive), directions(density, "empirical", None)
    found, factors = (
        sum_over_rows(jax.random.key(0), trained, data, density, find, *FORMS[form](bnn, trained, data)).total().form
        for form in ("diag", "kron")
    )
    living = {site: jnp.where(alive[site], w, 0) for site, w in values.items()}
    rows = jax.vmap(jax.grad(lambda w, x, y: density(bnn.forward(w, {}, x[None])[0], y)), (None, 0, 0))(living, *data)
    for site, gradients in rows.items():
        g = np.where(alive[site], gradients, 0).astype(float)
        np.testing.assert_allclose(found[site], np.square(g).sum(0), rtol=1e-3, atol=1e-6, err_msg=site)
        matrix = g.reshape(len(g), -1, g.shape[-1])
        atol = 1e-5 * np.abs(factors[site].rows).max()
        np.testing.assert_allclose(factors[site].rows, np.einsum("nij,nkj->ik", matrix, matrix), rtol=1e-3, atol=atol)
        np.testing.assert_allclose(factors[site].columns, np.einsum("nij,nik->jk", matrix, matrix), rtol=1e-3, atol=atol)
