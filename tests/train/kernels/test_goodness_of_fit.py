"""Every sampler's draws are of the law that it is for: their moments, and a kernel Stein discrepancy from the exact score.

Two thousand chains side by side, run far longer than they remember, give independent draws. Their discrepancy

  KSD² = mean_ij u(x_i, x_j),  u(x, y) = s(x)·s(y) k + s(x)·grad_y k + s(y)·grad_x k + tr grad_x grad_y k

has k(x, y) = (1 + |x - y|²)^(-1/2) and s the score. For n draws of the law itself n KSD² is the sum of l_i z_i², l the
eigenvalues of u under that law, found from NumPy's own draws, and z standard normal; a case fails above the 1 - 1/1000
quantile, so that one of a right sampler does with a chance of 1/1000, any with 1 in 60, and the keys are fixed. Step sizes
leave at most 3 % in a variance by (7.8) and (7.9), which that many draws do not see; a temperature of 1.3 they do.

Source: Liu, Lee & Jordan (2016); Gorham & Mackey (2017) for the kernel.
"""

import dataclasses
import functools
from typing import Any, NamedTuple

import blackjax
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import linen

import bayesprune as bp
from bayesprune.train.kernel import Kernel

CHAINS, EXACT = 2000, 700
COVARIANCE = np.array([[1.0, 0.6], [0.6, 1.0]])
CENTRES, SHARES, WIDTH = np.array([[-1.5, 0.0], [1.5, 0.5]]), np.array([0.3, 0.7]), 0.8


def gaussian(w: jax.Array) -> jax.Array:
    """-log density, up to a constant."""
    return 0.5 * w @ jnp.asarray(np.linalg.inv(COVARIANCE), jnp.float32) @ w


def mixture(w: jax.Array) -> jax.Array:
    """Of two Gaussians, unlike in weight."""
    apart = jnp.sum((w - jnp.asarray(CENTRES, jnp.float32)) ** 2, -1) / (2 * WIDTH**2)
    return -jax.nn.logsumexp(jnp.log(jnp.asarray(SHARES, jnp.float32)) - apart)


def of_gaussian(rng: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    return rng.normal(size=(*shape, 2)) @ np.linalg.cholesky(COVARIANCE).T


def of_mixture(rng: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    return CENTRES[rng.choice(2, p=SHARES, size=shape)] + WIDTH * rng.normal(size=(*shape, 2))


class Target(NamedTuple):
    energy: Any
    draw: Any
    mean: np.ndarray
    covariance: np.ndarray


MEAN = SHARES @ CENTRES
TARGETS = {
    "gaussian": Target(gaussian, of_gaussian, np.zeros(2), COVARIANCE),
    "mixture": Target(
        mixture, of_mixture, MEAN, WIDTH**2 * np.eye(2) + (SHARES[:, None] * CENTRES).T @ CENTRES - np.outer(MEAN, MEAN)
    ),
}


def stein_kernel(x: np.ndarray, scores: np.ndarray) -> np.ndarray:
    """u of all pairs, (draws, draws)."""
    squares, mixed = (x**2).sum(1), x @ scores.T
    apart = np.maximum(squares[:, None] + squares - 2 * x @ x.T, 0.0)
    q, own = 1.0 + apart, np.diag(mixed)
    along = own[:, None] + own - mixed - mixed.T  # (s(x) - s(y))·(x - y)
    return scores @ scores.T * q**-0.5 + (along + x.shape[1]) * q**-1.5 - 3.0 * apart * q**-2.5


def scores_of(energy: Any, draws: np.ndarray) -> np.ndarray:
    return -np.asarray(jax.vmap(jax.grad(energy))(jnp.asarray(draws, jnp.float32)), np.float64)


@functools.cache
def largest(name: str) -> float:
    """The quantile of n KSD² for draws of the target itself."""
    rng, target = np.random.default_rng(5), TARGETS[name]
    exact = target.draw(rng, (EXACT,))
    values = np.linalg.eigvalsh(stein_kernel(exact, scores_of(target.energy, exact)))[::-1] / EXACT
    sums = rng.chisquare(1, size=(100_000, 50)) @ values[:50] + values[50:].sum()  # those of the rest hardly vary
    return float(np.quantile(sums, 1 - 1e-3))


def draws_of(kernel: Kernel, energy: Any, steps: int) -> np.ndarray:
    """Where the chains stand after so many steps from one place, (chains, 2)."""
    slopes = jax.vmap(jax.grad(energy))

    def body(number: jax.Array, carry: tuple[Any, Any]) -> tuple[Any, Any]:
        params, state = carry
        return kernel.step(jax.random.fold_in(jax.random.key(11), number), {"w": slopes(params["w"])}, params, state)

    first = {"w": jnp.full((CHAINS, 2), 0.5)}
    params, _ = jax.jit(lambda: jax.lax.fori_loop(0, steps, body, (first, kernel.init(first))))()
    return np.asarray(params["w"], np.float64)


def is_right(name: str, draws: np.ndarray) -> tuple[bool, bool]:
    """By the moments: within four standard errors, and 3 % of a variance for the step. By the discrepancy."""
    target = TARGETS[name]
    variances, about = np.diag(target.covariance), draws - target.mean
    products = about[:, :, None] * about[:, None]
    of_mean = np.abs(about.mean(0)) / np.sqrt(variances)
    of_products = np.abs(products.mean(0) - target.covariance) - 0.03 * np.sqrt(np.outer(variances, variances))
    moments = np.all(of_mean < 4 / CHAINS**0.5) and np.all(of_products < 4 * products.std(0) / CHAINS**0.5)
    found = CHAINS * stein_kernel(draws, scores_of(target.energy, draws)).mean()
    return bool(moments), bool(found <= largest(name))


EPS = 0.02


def spl(momentum: float = 0.1) -> bp.kernels.SGHMCSPL:
    """With tau at rest, 1/2, it is SGHMC of step tau C² and temperature Temp² C tau (1 + b²)/(1 - b), which is 1 here."""
    squared_step = 2 * EPS
    temperature = ((1 - momentum) / (squared_step**0.5 * 0.5 * (1 + momentum**2))) ** 0.5
    return bp.kernels.SGHMCSPL(
        step_size=squared_step, temperature=temperature, momentum=momentum, rate=0.0, num_cycles=0, num_rows=1
    )


def thermostat(position: Any) -> Any:
    return blackjax.sgmcmc.sgnht.init(position, jax.random.key(2), 1.0)


KERNELS: dict[str, tuple[Kernel, int]] = {
    "SGLD": (bp.kernels.SGLD(EPS), 2000),
    "SGLD in cycles": (bp.kernels.SGLD(4 * EPS, num_cycles=2, num_steps=4000), 4000),
    "SGHMC": (bp.kernels.SGHMC(EPS / 10, friction=0.1), 2000),
    "SGHMC of much friction": (bp.kernels.SGHMC(EPS, friction=0.9), 2000),
    "SGHMC-SPL": (spl(), 2000),
    "BlackJAX's sgld": (bp.kernels.BlackJAX(blackjax.sgld.build_kernel(), step_size=EPS), 2000),
    "BlackJAX's sgnht": (bp.kernels.BlackJAX(blackjax.sgnht.build_kernel(1.0), thermostat, step_size=0.05), 1000),
}


def test_the_stein_kernel_is_its_definition() -> None:
    """By automatic differentiation, at one pair."""
    k = lambda x, y: (1.0 + jnp.sum((x - y) ** 2)) ** -0.5  # noqa: E731
    (x, y), (of_x, of_y) = pair, scores = np.random.default_rng(0).normal(size=(2, 2, 2)).astype(np.float32)
    trace = jnp.trace(jax.jacobian(jax.grad(k, 0), 1)(x, y))
    expected = of_x @ of_y * k(x, y) + of_x @ jax.grad(k, 1)(x, y) + of_y @ jax.grad(k, 0)(x, y) + trace
    assert stein_kernel(pair, scores)[0, 1] == pytest.approx(float(expected), rel=1e-5)


@pytest.mark.slow_cases(7)
@pytest.mark.slow
@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("name", KERNELS)
def test_draws_are_of_the_target(name: str, target: str) -> None:
    kernel, steps = KERNELS[name]
    assert is_right(target, draws_of(kernel, TARGETS[target].energy, steps)) == (True, True)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["SGLD", "SGHMC", "SGHMC-SPL"])
def test_a_wrong_sampler_is_found(name: str) -> None:
    """Of temperature 1.3, without noise, and of a gradient by a quarter too small: by the discrepancy alone."""
    kernel, steps = KERNELS[name]
    heat = kernel.temperature  # type: ignore[attr-defined]
    hot = dataclasses.replace(kernel, temperature=heat * (1.3**0.5 if name == "SGHMC-SPL" else 1.3))  # type: ignore[type-var]
    still = dataclasses.replace(kernel, temperature=0.0)  # type: ignore[type-var]
    weak = lambda w: 0.75 * gaussian(w)  # noqa: E731
    for wrong, energy in ((hot, gaussian), (still, gaussian), (kernel, weak)):
        assert not is_right("gaussian", draws_of(wrong, energy, steps))[1]


@pytest.mark.slow
def test_networks_of_the_door_are_draws_of_the_exact_posterior() -> None:
    """`fit_sgmcmc`, one network of each chain: a linear one, whose posterior is N(mean, precision^-1); whitened."""
    rng, noise = np.random.default_rng(3), 0.7
    x = rng.normal(size=(30, 2)).astype(np.float32)
    y = (x @ np.array([1.0, -0.5]) + noise * rng.normal(size=30)).astype(np.float32)
    bnn = bp.BNN(
        linen.Dense(1, use_bias=False), prior=bp.priors.Gaussian(0.8), likelihood=bp.likelihoods.Normal(noise), input_shape=2
    )
    fit = bp.fit_sgmcmc(
        jax.random.key(0), bnn, bp.Dataset(x, y), num_steps=1200, kernel=bp.kernels.SGHMC(1e-4, friction=0.1), num_samples=1,
        num_chains=CHAINS, chain_method="vectorized", progress=False,
    )  # fmt: skip
    found = np.asarray(fit.params["kernel$draws"] * fit.params["kernel$unit"], np.float64).reshape(CHAINS, 2)
    precision = x.T.astype(np.float64) @ x / noise**2 + np.eye(2) / 0.8**2
    mean = np.linalg.solve(precision, x.T.astype(np.float64) @ y / noise**2)
    white = (found - mean) @ np.linalg.cholesky(precision)  # N(0, I)
    assert is_right("gaussian", white @ np.linalg.cholesky(COVARIANCE).T) == (True, True)
