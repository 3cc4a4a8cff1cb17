"""The main paths of the library, each as small as it can be: they are run under JAX's stricter modes, see `test_modes`."""

from collections.abc import Callable

import equinox as eqx
import jax
import numpy as np
import optax
from flax import linen, nnx

import bayesprune as bp
from tests.infer import programs

ROWS = np.random.default_rng(0).normal(size=(24, 4)).astype(np.float32)
CLASSES = bp.Dataset(ROWS, np.argmax(ROWS[:, :3], axis=1).astype(np.int32))
REAL = bp.Dataset(ROWS, ROWS[:, 0] - ROWS[:, 1])
BITS = bp.Dataset(ROWS, (ROWS[:, 0] > 0).astype(np.int32))
IMAGES = bp.Dataset(np.random.default_rng(1).normal(size=(8, 8, 8, 1)).astype(np.float32), np.arange(8, dtype=np.int32) % 2)
OPTIMIZER = optax.adabelief(1e-2)


def net(prior, likelihood=None, **settings) -> bp.BNN:
    likelihood = bp.likelihoods.Categorical() if likelihood is None else likelihood
    outputs = 3 if isinstance(likelihood, bp.likelihoods.Categorical) else 1
    return bp.BNN(bp.nets.MLP((5,), outputs), prior=prior, likelihood=likelihood, input_shape=(4,), **settings)


def fit(key, bnn, data=CLASSES, **settings) -> bp.FitResult:
    chosen = {"num_steps": 4, "batch_size": 12, "optimizer": OPTIMIZER, "progress": False} | settings
    return bp.fit_svi(key, bnn, data, **chosen)


def finish(key, bnn, fitted, data=CLASSES) -> None:
    """Prediction in all its forms, with what the fit has pruned."""
    bp.predict(key, bnn, fitted.params, data.x, mask=fitted.mask, num_samples=2)
    bp.evaluate(key, bnn, fitted.params, data, mask=fitted.mask, num_samples=2)
    bp.sample_targets(key, bnn, fitted.params, data.x, mask=fitted.mask, num_samples=2)


def bmr(key) -> None:
    """Flat, stochastic BMR, evaluation on the way, then once more."""
    bnn = net(bp.priors.Flat())
    done = fit(key, bnn, sparsifier=bp.methods.BMR(), every=2, eval_data=CLASSES, eval_every=2, eval_samples=2)
    pruned = bp.bmr_prune(done.params)
    finish(key, bnn, pruned)


def local(key) -> None:
    """Local reparameterisation, a learned noise, warm-up."""
    bnn = net(bp.priors.Gaussian(), bp.likelihoods.Normal())
    warm = bp.schedules.LinearWarmup(0, 2)
    done = fit(key, bnn, REAL, estimator="local", sparsifier=bp.methods.BMR(), every=2, kl_weight=warm)
    finish(key, bnn, done, REAL)


def dirac(gate: str) -> Callable[..., None]:
    def run(key) -> None:
        bnn = net(bp.priors.DiracSlab(gate=gate), bp.likelihoods.Bernoulli())
        done = fit(key, bnn, BITS, sparsifier=bp.methods.SVBNN(), every=2)
        finish(key, bnn, done, BITS)
        bp.features.selected(bnn.read(done.params), mask=done.mask)

    return run


def gaussian_slab(key) -> None:
    bnn = net(bp.priors.GaussianSlab(0.1, 1.0))
    finish(key, bnn, fit(key, bnn, sparsifier=bp.methods.SBNN(), every=2, kl_weight=bp.schedules.Halving(2)))


def scale_mixture(key) -> None:
    bnn = net(bp.priors.ScaleMixture())
    finish(key, bnn, fit(key, bnn, sparsifier=bp.methods.SNR(density=0.5), every=2))


def mbnn(key) -> None:
    bnn = net(bp.priors.Cauchy(), prunable=bp.select.everything)
    method = bp.methods.MBNN(penalty=0.5)
    done = bp.fit_sgmcmc(
        key, bnn, CLASSES, num_steps=6, batch_size=4, sparsifier=method, every=1, num_samples=2, sample_every=1, progress=False
    )
    finish(key, bnn, done, CLASSES)


def ssvi(storage: str) -> Callable[..., None]:
    def run(key) -> None:
        bnn = net(bp.priors.Gaussian())
        finish(key, bnn, fit(key, bnn, sparsifier=bp.methods.SSVI(density=0.5), every=2, storage=storage))

    return run


def magnitude(key) -> None:
    """A point, cut gradually, and once."""
    bnn = net(bp.priors.Gaussian(), posterior="map")
    cubic = bp.schedules.Cubic(0.2, 0, 2)
    done = fit(key, bnn, sparsifier=bp.methods.Magnitude(density=cubic), every=2)
    finish(key, bnn, bp.prune_once(done.params, bp.methods.Magnitude(density=0.3), program=bnn))


def units(key) -> None:
    """Whole units, on the way, and which of the weights left are in use."""
    bnn = net(bp.priors.Gaussian())
    done = fit(key, bnn, sparsifier=bp.methods.Cut(score="snr", density=0.5, scope="unit"), every=2)
    bp.connected(bnn, done.mask)
    finish(key, bnn, done)


def scales(prior, *methods) -> Callable[..., None]:
    """Units by the law of their scales, on the way and once."""

    def run(key) -> None:
        bnn = net(prior)
        for method in methods:
            done = fit(key, bnn, sparsifier=method, every=2, estimator="local")
            finish(key, bnn, bp.prune_once(done.params, method, program=bnn))

    return run


class Normed(nnx.Module):
    def __init__(self, rngs: nnx.Rngs) -> None:
        self.first, self.norm, self.last = nnx.Linear(4, 5, rngs=rngs), nnx.LayerNorm(5, rngs=rngs), nnx.Linear(5, 3, rngs=rngs)

    def __call__(self, x):
        return self.last(jax.nn.relu(self.norm(self.first(x))))


def other_modules(key) -> None:
    """Nets of Flax nnx and Equinox."""
    for module in (Normed(nnx.Rngs(0)), eqx.nn.MLP(4, 3, 5, 1, key=key)):
        bnn = bp.BNN(module, prior=bp.priors.Flat(), likelihood=bp.likelihoods.Categorical(), input_shape=(4,))
        finish(key, bnn, fit(key, bnn, num_steps=2, sparsifier=bp.methods.BMR(), every=1))


def program(key) -> None:
    """A hand-written NumPyro program."""
    data, _ = programs.line(rows=24)
    linear = programs.linear_program()
    fit(key, linear, data, sparsifier=bp.methods.BMR(), every=2)


def replicates(key) -> None:
    bnn = net(bp.priors.Gaussian(), bp.likelihoods.Normal(1.0))
    data = bp.Dataset(np.stack([REAL.x, REAL.x]), np.stack([REAL.y, REAL.y]))
    done = bp.fit_replicates(key, bnn, data, num_steps=2, batch_size=12, optimizer=OPTIMIZER)
    bp.predict_replicates(key, bnn, done.params, data.x, num_samples=2)


def estimators(key) -> None:
    settings = {"hidden": (3,), "num_steps": 4, "num_samples": 2, "random_state": 0}
    bp.BayesianSparseClassifier(**settings).fit(ROWS, CLASSES.y).predict_proba(ROWS)
    regressor = bp.BayesianSparseRegressor(**settings).fit(ROWS, REAL.y)
    regressor.predict(ROWS, return_std=True)
    bp.BayesianFeatureSelector(bp.BayesianSparseRegressor(**settings), rule="fdr").fit(ROWS, REAL.y)


def features(key) -> None:
    bnn = net(bp.priors.DiracSlab(), bp.likelihoods.Normal(1.0))
    done = fit(key, bnn, REAL)
    posterior = bnn.read(done.params)
    bp.features.importance(posterior)
    bp.features.inclusion_probabilities(posterior)
    bp.features.control_fdr(bp.features.inclusion_probabilities(posterior), 0.1)
    bp.features.knockoffs(key, ROWS)


class Convolutional(linen.Module):
    """One convolution, pooled, and a dense layer."""

    @linen.compact
    def __call__(self, x, train=False):
        x = linen.max_pool(jax.nn.relu(linen.Conv(2, (3, 3))(x)), (2, 2), (2, 2))
        return linen.Dense(2)(x.reshape(len(x), -1))


def convolution(key) -> None:
    """Matrix products in place of convolutions, by a local estimate."""
    bnn = bp.BNN(
        Convolutional(), prior=bp.priors.Flat(), likelihood=bp.likelihoods.Categorical(), input_shape=IMAGES.x.shape[1:]
    )
    settings = {"batch_size": 4, "num_steps": 2, "estimator": "local"}
    finish(key, bnn, fit(key, bnn, IMAGES, sparsifier=bp.methods.BMR(), every=1, **settings), IMAGES)


def resnet(norm: str, dtype: str | None = None) -> Callable[..., None]:
    def run(key) -> None:
        small = bp.nets.ResNet(2, stage_sizes=(1,), features=2, norm=norm, dtype=dtype)
        bnn = bp.BNN(small, prior=bp.priors.Gaussian(), likelihood=bp.likelihoods.Categorical(), input_shape=(8, 8, 1))
        done = fit(key, bnn, IMAGES, batch_size=4, num_steps=2, sparsifier=bp.methods.BMR(), every=1, estimator="local")
        params = bp.recalibrate(key, bnn, done.params, IMAGES, batch_size=4) if norm == "batch" else done.params
        bp.predict(key, bnn, params, IMAGES.x, mask=done.mask, num_samples=2)

    return run


def vit(key) -> None:
    """Attention by a local estimate, whole units, norms and tokens with posteriors."""
    bnn = bp.BNN(
        bp.nets.ViT(2, 4, 4, 1, 2, 5, frame=0), prior=bp.priors.Gaussian(), likelihood=bp.likelihoods.Categorical(),
        input_shape=(8, 8, 1), bayesian=bp.select.everything,
    )  # fmt: skip
    units = bp.methods.Cut(score="snr", density=0.5, scope="unit")
    done = fit(key, bnn, IMAGES, batch_size=4, num_steps=2, sparsifier=units, every=1, estimator="local")
    bp.connected(bnn, done.mask)
    finish(key, bnn, done, IMAGES)


PATHS: dict[str, Callable[[jax.Array], None]] = {
    "bmr": bmr,
    "local": local,
    "dirac hard": dirac("hard"),
    "dirac inverse_cdf": dirac("inverse_cdf"),
    "dirac relaxed": dirac("relaxed"),
    "gaussian slab": gaussian_slab,
    "scale mixture": scale_mixture,
    "ssvi masked": ssvi("masked"),
    "ssvi active": ssvi("active"),
    "magnitude": magnitude,
    "units": units,
    "horseshoe": scales(bp.priors.Horseshoe(), bp.methods.Shrinkage()),
    "group horseshoe": scales(bp.priors.GroupHorseshoe(), bp.methods.WidestGap()),
    "group normal-jeffreys": scales(bp.priors.GroupNormalJeffreys(), bp.methods.WidestGap()),
    "unit noise": scales(bp.priors.UnitNoise(), bp.methods.SBP(), bp.methods.BMRS(), bp.methods.BMRS("uniform")),
    "other modules": other_modules,
    "program": program,
    "replicates": replicates,
    "estimators": estimators,
    "features": features,
    "convolution": convolution,
    "resnet batch": resnet("batch"),
    "resnet frn": resnet("frn"),
    "vit": vit,
    "resnet half": resnet("group", "bfloat16"),
    "mbnn": mbnn,
}
