"""What a fit starts from: the order of the sites, a mask that was given, parameters that were pruned before."""

import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import optax
import pytest
from tests.infer import programs

import bayesprune as bp
from bayesprune.posteriors.mean_field import MeanField
from bayesprune.prune.choose import allocate
from bayesprune.train.start import dead_so_far, start_mask

DATA = programs.classes(rows=40)
SHAPES = {str(spec.path): spec.shape for spec in programs.small_bnn().layout if spec.prunable}


def fit(key, mask, sparsifier):
    return bp.fit_svi(
        key, programs.small_bnn(prior=bp.priors.Gaussian(0.5)), DATA, num_steps=2, batch_size=20, optimizer=optax.sgd(1e-3),
        sparsifier=sparsifier, every=1_000, mask=mask, progress=False,
    )  # fmt: skip


@pytest.mark.slow
def test_a_mask_of_the_same_counts_is_taken_as_it_is(rng_key) -> None:
    sparsifier = bp.methods.SSVI(0.5)
    counts = allocate(SHAPES, 0.5)
    rng = np.random.default_rng(0)
    mask = {s: rng.permutation(np.arange(np.prod(shape)) < counts[s]).reshape(shape) for s, shape in SHAPES.items()}
    result = fit(rng_key, mask, sparsifier)
    for site, alive in mask.items():
        np.testing.assert_array_equal(result.mask[site], alive)


@pytest.mark.slow
@pytest.mark.parametrize("distribution", ["uniform", "global"])
def test_a_mask_of_other_counts_is_refused(distribution, rng_key) -> None:
    site, shape = next(iter(SHAPES.items()))
    mask = {site: np.zeros(shape, bool)}
    with pytest.raises(ValueError, match=r"SSVI of these settings keeps .* or the density that the mask has"):
        fit(rng_key, mask, bp.methods.SSVI(0.5, distribution=distribution))


@pytest.mark.slow
def test_the_first_array_of_a_program_is_the_one_that_its_model_uses_first(rng_key) -> None:
    shapes = {"stem": (2, 2, 1, 3), "block": (2, 2, 3, 4), "out": (4, 2)}

    def sample(name):
        shape = shapes[name]
        return numpyro.sample(name, dist.Normal(jnp.zeros(shape), 1.0).to_event(0))

    def model(x, y=None):
        kernel, block, out = (sample(name) for name in shapes)
        total = x.sum(1) * (kernel.sum() + block.sum() + out.sum())
        numpyro.sample("obs", dist.Normal(total, 1.0), obs=y)

    data = bp.Dataset(jnp.ones((5, 3)), jnp.ones(5))
    program = bp.Program(model, numpyro.infer.autoguide.AutoNormal(model))
    # As a compiled function returns them: by name.
    params = {f"{name}_auto_{field}": jnp.ones(shapes[name]) for name in sorted(shapes) for field in ("loc", "scale")}
    state = start_mask(rng_key, bp.methods.SSVI(0.5), program.read(params | program.describe({}, data)), None)
    alive = {name: int(jnp.sum(mask)) for name, mask in state.mask.items()}
    assert alive["stem"] == 12 and alive["block"] < 48 and sum(alive.values()) == 34


SITE = "Dense_0.kernel"
START = {
    f"{SITE}_auto_loc": np.where(np.arange(32) < 20, 0.0, 1.5).reshape(4, 8),
    f"{SITE}_auto_scale": np.where(np.arange(32) < 20, 0.0, 0.2).reshape(4, 8),
}


def went_on(key, **settings) -> bp.FitResult:
    bnn = programs.small_bnn(prior=bp.priors.Gaussian(0.5))
    return bp.fit_svi(key, bnn, DATA, num_steps=2, batch_size=20, init_params=START, progress=False, **settings)


@pytest.mark.slow
def test_what_was_pruned_before_stays_dead_and_that_is_told(rng_key) -> None:
    with pytest.warns(UserWarning, match=r"init_params hold 20 weights at loc = scale = 0.*stay dead.*mask=\{\}"):
        result = went_on(rng_key)
    np.testing.assert_array_equal(result.mask[SITE], START[f"{SITE}_auto_scale"] > 0)
    assert list(result.mask) == [SITE] and not np.any(result.params[f"{SITE}_auto_loc"][~result.mask[SITE]])


@pytest.mark.slow
def test_a_mask_says_what_becomes_of_what_was_pruned_before(rng_key, recwarn) -> None:
    assert went_on(rng_key, mask={}).mask == {}
    alive = np.arange(32).reshape(4, 8) > 3
    np.testing.assert_array_equal(went_on(rng_key, mask={SITE: alive}).mask[SITE], alive)
    assert not [w for w in recwarn if issubclass(w.category, UserWarning)]


def test_points_at_zero_throughout_are_a_start_and_others_were_pruned() -> None:
    zeros = jnp.zeros(3)
    nodes = {"bias": MeanField(zeros, zeros), "kernel": MeanField(jnp.array([0.0, 1.0, 2.0]), zeros)}
    with pytest.warns(UserWarning, match="hold 1 weights"):
        found = dead_so_far(nodes)
    assert list(found) == ["kernel"] and found["kernel"].tolist() == [False, True, True]


@pytest.mark.slow
def test_a_mask_without_sites_is_refused(rng_key) -> None:
    with pytest.raises(TypeError, match=r"mask must map sites to booleans.*Dense_0\.kernel"):
        went_on(rng_key, mask=np.ones((4, 8), bool))
