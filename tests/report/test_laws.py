"""Laws of Gaussian mixtures, by waves and by pairs: against SciPy's normal distribution, brentq and quadrature."""

import numpy as np
import pytest
from scipy import integrate, optimize, stats

from bayesprune.report.laws import FEW, Pairs, Waves, laws, periods

RNG = np.random.default_rng(0)
NOISE = {"one": np.full((9, 1), 0.4), "each draw's": RNG.uniform(0.3, 1.0, (9, 1)), "all": RNG.uniform(0.3, 1.0, (9, 5))}
CENTRE = 1e3 + RNG.normal(0.0, 1.5, (9, 5))


def waves(centre: np.ndarray, noise: np.ndarray) -> Waves:
    half, terms = periods(centre, noise)
    return Waves.of(centre, noise, float(half.max()), int(terms.max()))


@pytest.mark.parametrize("noise", NOISE.values(), ids=NOISE)
def test_waves_give_the_distribution(noise: np.ndarray) -> None:
    """(21.17), within the draws and three deviations beyond them."""
    found = waves(CENTRE, noise)
    for x in (CENTRE.min(0) - 3 * noise.max(0), CENTRE[0], CENTRE.mean(0), CENTRE.max(0) + 3 * noise.max(0)):
        np.testing.assert_allclose(found.cdf(x), stats.norm.cdf((x - CENTRE) / noise).mean(0), atol=3e-9)


@pytest.mark.parametrize("noise", NOISE.values(), ids=NOISE)
def test_waves_and_pairs_give_the_integral_of_what_is_below_and_above(noise: np.ndarray) -> None:
    """E|Y - Y'| / 2 is the integral of F (1 - F)."""
    whole = np.broadcast_to(noise, CENTRE.shape)
    for i in range(5):
        law = lambda t, i=i: stats.norm.cdf(t, CENTRE[:, i], whole[:, i]).mean()  # noqa: E731
        exact = integrate.quad(lambda t, law=law: law(t) * (1.0 - law(t)), 985, 1015, limit=200)[0]
        assert waves(CENTRE, noise).spread()[i] == pytest.approx(exact, abs=1e-8)
        assert Pairs(CENTRE, noise).spread()[i] == pytest.approx(exact, abs=1e-8)


@pytest.mark.parametrize("widest", [1.0, 10.0, 1e3])
def test_targets_of_unlike_noise_have_the_law_that_each_has_alone(widest: float) -> None:
    """Within one part of the targets, of scales from .1 to ``widest``; by waves and by pairs, as each takes."""
    scale = np.geomspace(0.1, widest, 40)
    centre, noise = scale * RNG.normal(size=(20, 40)), scale * RNG.uniform(0.8, 1.2, (20, 40))
    y = scale * RNG.normal(size=40)
    scores, quantiles = np.full(40, np.nan), np.full(40, np.nan)
    for law in laws(centre[:, :, None], noise[:, :, None]):
        scores[law.targets], quantiles[law.targets] = law.score(y[law.targets]), law.quantile(0.9)
    for i in range(40):
        cdf = lambda t, i=i: stats.norm.cdf(t, centre[:, i], noise[:, i]).mean()  # noqa: E731
        ends = [float(end(centre[:, i])) + sign * 10 * noise[:, i].max() for end, sign in ((np.min, -1), (np.max, 1))]
        below = integrate.quad(lambda t, cdf=cdf: cdf(t) ** 2, min(ends[0], y[i]), y[i], limit=400)[0]
        above = integrate.quad(lambda t, cdf=cdf: (1 - cdf(t)) ** 2, y[i], max(ends[1], y[i]), limit=400)[0]
        assert scores[i] == pytest.approx(below + above, rel=1e-6)
        root = optimize.brentq(lambda t, cdf=cdf: cdf(t) - 0.9, *ends, xtol=1e-13)
        assert quantiles[i] == pytest.approx(root, abs=1e-6 * scale[i])


@pytest.mark.parametrize("apart", [0.0, 0.1, 1.0, 10.0, 100.0, 1e6])
@pytest.mark.parametrize("number", [1, 2, 20])
def test_quantiles_are_roots_however_far_apart_the_draws_are(apart: float, number: int) -> None:
    """Gaps between draws, where the density is 0, included; by either way, and out to one in 1e9."""
    centre = apart * RNG.normal(size=(number, 6, 2)) * RNG.gamma(2.0, size=(1, 6, 1))
    noise = np.broadcast_to(0.7, centre.shape)
    seen = []
    for law in laws(centre, noise):
        for probability in (1e-9, 0.0251, 0.51, 0.972):
            for x, m in zip(law.quantile(probability), law.centre.T, strict=True):
                cdf = lambda t, m=m, p=probability: stats.norm.cdf(t, m, 0.7).mean() - p  # noqa: E731
                root = optimize.brentq(cdf, m.min() - 8, m.max() + 8, xtol=1e-13, rtol=1e-15)
                assert x == pytest.approx(root, abs=1e-8, rel=1e-12)
        seen += [*law.targets]
    assert sorted(seen) == list(range(12))


def test_targets_that_need_many_waves_are_taken_by_pairs() -> None:
    """And each is the score that it is alone, whatever its neighbours; without noise as well."""
    centre = RNG.normal(size=(6, 4, 1)) * np.array([0.1, 1.0, 50.0, 1e4])[:, None]
    noise = np.array([0.5, 0.5, 0.5, 0.0])[:, None] * np.ones(centre.shape)
    found, target = dict[int, float](), RNG.normal(size=4)
    ways = set()
    for law in laws(centre, noise):
        found |= dict(zip(map(int, law.targets), law.score(target[law.targets]), strict=True))
        ways |= {(type(law.by).__name__, int(i)) for i in law.targets}
    assert ways == {("Waves", 0), ("Waves", 1), ("Pairs", 2), ("Pairs", 3)} and FEW * 6 == 30
    for i in range(4):
        alone = Pairs(centre[:, i], noise[:, i])
        near = np.abs(target[i] - centre[:, i]).mean() if i == 3 else None
        exact = near - alone.spread()[0] if i == 3 else by_pairs(centre[:, i, 0], target[i])
        assert found[i] == pytest.approx(exact, rel=1e-8)


def by_pairs(m: np.ndarray, y: float) -> float:
    """(21.9) of noise .5 by SciPy's folded normal."""
    size = lambda d, s: stats.foldnorm.mean(abs(d) / s, scale=s)  # noqa: E731
    near = np.mean([size(y - a, 0.5) for a in m])
    return float(near - 0.5 * np.mean([size(a - b, 0.5 * 2**0.5) for a in m for b in m]))


@pytest.mark.parametrize(
    ("centre", "noise", "probability"),
    [
        ([-0.4946, 1.5726, -1.1067, -0.7061], [3.5711, 1.4453, 0.1408, 2.0765], 0.25),
        ([-0.5182, -0.4248, 1.5078, 0.519, 0.0191], [0.0204, 1.0877, 0.0155, 460.9556, 0.1498], 0.1),
    ],
)
def test_quantiles_between_unlike_components_are_roots(centre: list[float], noise: list[float], probability: float) -> None:
    """Where the steps of Newton's kind have cycles of two; beside brentq."""
    m, s = np.array(centre)[:, None], np.array(noise)[:, None]
    (law,) = laws(m[:, :, None], s[:, :, None])
    cdf = lambda t: stats.norm.cdf((t - m[:, 0]) / s[:, 0]).mean() - probability  # noqa: E731
    assert law.quantile(probability)[0] == pytest.approx(optimize.brentq(cdf, -2e3, 2e3, xtol=1e-13), abs=1e-6)


def test_quantiles_of_unlike_components_are_roots() -> None:
    """2,000 targets of five components whose scales differ by factors of hundreds."""
    rng = np.random.default_rng(3)
    centre, noise = rng.normal(size=(5, 2000)), np.exp(2.0 * rng.normal(size=(5, 2000)))
    for law in laws(centre[:, :, None], noise[:, :, None]):
        for probability in (0.1, 0.25, 0.5, 0.9):
            x = law.quantile(probability)
            found = stats.norm.cdf((x - centre[:, law.targets]) / noise[:, law.targets]).mean(0)
            np.testing.assert_allclose(found, probability, atol=2e-6)


@pytest.mark.parametrize("noise", [1e-12, 1e-30])
def test_quantiles_under_a_noise_below_the_rounding_of_the_draws_are_the_draws(noise: float) -> None:
    """All the probability lies within one step of float64."""
    centre = np.array([1e6, -3.0, 0.0])[None, :, None] * np.ones((4, 1, 1))
    for law in laws(centre, np.full_like(centre, noise)):
        for probability in (1e-6, 0.5, 0.975):
            np.testing.assert_allclose(law.quantile(probability), law.centre[0], rtol=1e-15, atol=1e-11)
