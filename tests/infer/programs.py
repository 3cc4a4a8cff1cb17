"""Small programs and data that the tests of fitting share."""

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
from numpyro.infer.autoguide import AutoNormal

import bayesprune as bp

NOISE = 0.5


def classes(rows: int = 60, features: int = 4, seed: int = 0) -> bp.Dataset:
    """Three classes that a small net can tell apart."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(rows, features)).astype(np.float32)
    return bp.Dataset(x, np.argmax(x[:, :3], axis=1).astype(np.int32))


def small_bnn(**settings) -> bp.BNN:
    chosen = {"prior": bp.priors.Flat(), "likelihood": bp.likelihoods.Categorical(), "input_shape": (4,)} | settings
    return bp.BNN(bp.nets.MLP(hidden=(8, 6), num_outputs=3), **chosen)


def line(rows: int = 50, features: int = 3, seed: int = 0) -> tuple[bp.Dataset, np.ndarray]:
    """Linear data with known weights, one of them zero."""
    rng = np.random.default_rng(seed)
    weights = np.array([1.5, 0.0, -0.7])[:features]
    x = rng.normal(size=(rows, features))
    y = x @ weights + NOISE * rng.normal(size=rows)
    return bp.Dataset(x.astype(np.float32), y.astype(np.float32)), weights


def linear_program(prior_scale: float = 1.0, features: int = 3) -> bp.Program:
    """Bayesian linear regression with known noise, and an AutoNormal guide."""

    def model(x, y=None):
        w = numpyro.sample("w", dist.Normal(0.0, prior_scale).expand([features]))
        with numpyro.plate("rows", x.shape[0]):
            numpyro.sample("obs", dist.Normal(x @ w, NOISE), obs=y)

    return bp.Program(model, AutoNormal(model))


def best_mean_field(data: bp.Dataset, prior_scale: float) -> tuple[np.ndarray, np.ndarray, float]:
    """The mean-field optimum of linear regression, and its exact negative ELBO, by linear algebra in float64.

    The optimum's loc is the exact posterior mean, its precision the diagonal of the exact posterior precision.
    """
    x, y = np.asarray(data.x, np.float64), np.asarray(data.y, np.float64)
    precision = x.T @ x / NOISE**2 + np.eye(x.shape[1]) / prior_scale**2
    loc = np.linalg.solve(precision, x.T @ y / NOISE**2)
    scale = np.diag(precision) ** -0.5
    residual = np.sum((y - x @ loc) ** 2) + np.sum(scale**2 * np.sum(x**2, axis=0))
    nll = 0.5 * len(y) * np.log(2 * np.pi * NOISE**2) + 0.5 * residual / NOISE**2
    kl = np.sum(np.log(prior_scale / scale) + (scale**2 + loc**2) / (2 * prior_scale**2) - 0.5)
    return loc, scale, nll + kl


def count_traces(net):
    """A net whose every trace leaves a mark in the returned list."""
    marks: list[int] = []

    class Counting(type(net)):
        def __call__(self, x, train=False):
            marks.append(1)
            return super().__call__(x, train)

    fields = {name: getattr(net, name) for name in net.__dataclass_fields__ if name not in ("parent", "name")}
    return Counting(**fields), marks


def same_bits(one, other) -> bool:
    leaves = zip(jax.tree.leaves(one), jax.tree.leaves(other), strict=True)
    raw = lambda v: np.asarray(jax.random.key_data(v) if jnp.issubdtype(v.dtype, jax.dtypes.prng_key) else v)  # noqa: E731
    return all(raw(a).tobytes() == raw(b).tobytes() for a, b in leaves)
