# %% [markdown]
# # The horseshoe: what does a prior switch off by itself?
#
# **Question.** A shrinkage prior lets a few scales be large and draws all others to nothing. In a regression whose truth
# we know: does its variational posterior find the inputs that matter, as NUTS on the same model does, and what do a flat
# prior and a spike and slab find? And in a network: what does each switch off, weights, units or inputs?
#
# Run it with `python examples/04_horseshoe.py`, or cell by cell; it takes some three minutes of two cores. The figures
# go to `runs/` beside this file.

# %%
import os
import warnings
from pathlib import Path

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
from matplotlib.figure import Figure
from numpyro.diagnostics import split_gelman_rubin
from numpyro.infer import MCMC, NUTS

import bayesprune as bp
from bayesprune.formulas.log_normal import expected_shrinkage

HERE = Path(__file__).resolve().parent
OUT = Path(os.environ.get("BAYESPRUNE_OUT", HERE / "runs" / "04_horseshoe"))
STEPS = int(os.environ.get("BAYESPRUNE_STEPS", 3000))
SEED = int(os.environ.get("BAYESPRUNE_SEED", 0))
OUT.mkdir(parents=True, exist_ok=True)

# %% [markdown]
# ## Data
#
# First 100 rows of 20 inputs, of which three matter: y = 2 x1 - x2 + x3 / 2 + noise. Then the digits, 1,797 images of
# 8 x 8 pixels.

# %%
rng = np.random.default_rng(SEED)
TRUE = np.zeros(20)
TRUE[:3] = 2.0, -1.0, 0.5
x = rng.normal(size=(100, 20))
line = bp.Dataset(x.astype(np.float32), (x @ TRUE + 0.5 * rng.normal(size=100)).astype(np.float32))
train, test = bp.data.load("digits")

# %% [markdown]
# ## Regression: model and fit
#
# One linear layer. `local` gives every weight a half-Cauchy scale of its own; with the scale of the layer that is the
# horseshoe of the statisticians, and the slab bounds what it lets through. Two guides: all sites independent, and each
# weight together with the scale of its unit ("structured"). Beside it the same layer under the flat prior and the
# spike and slab.


# %%
class Linear(nn.Module):
    @nn.compact
    def __call__(self, x: jax.Array, train: bool = False) -> jax.Array:
        return nn.Dense(1, use_bias=False)(x)


OF_WEIGHTS = bp.priors.Horseshoe(tau0=0.1, local="Dense_0", last="unit")


def regression(prior: object = OF_WEIGHTS, posterior: object = "mean_field") -> bp.BNN:
    return bp.BNN(
        Linear(),
        prior=prior,
        likelihood=bp.likelihoods.Normal(),
        input_shape=(20,),
        posterior=posterior,
        prunable=bp.select.kernels,
    )


guides = {"mean field": regression(), "structured": regression(posterior="structured")}
others = {"flat": regression(bp.priors.Flat()), "spike and slab": regression(bp.priors.DiracSlab())}
fits = {
    name: bp.fit_svi(jax.random.key(SEED), bnn, line, num_steps=STEPS, batch_size=100, progress=False)
    for name, bnn in {**guides, **others}.items()
}

# %% [markdown]
# `bnn.model` is a plain NumPyro model, so NUTS takes it as it is.

# %%
mcmc = MCMC(
    NUTS(guides["mean field"].model, target_accept_prob=0.95, max_tree_depth=8),
    num_warmup=max(10, STEPS // 5),
    num_samples=max(10, STEPS // 5),
    num_chains=2,
    chain_method="sequential",
    progress_bar=False,
)
mcmc.run(jax.random.key(SEED), jnp.asarray(line.x), jnp.asarray(line.y))
draws = mcmc.get_samples()

# %% [markdown]
# ## What the posteriors say
#
# kappa = 1/(1 + s²), s = nu tau lambda: 1 where a weight is shrunk to nothing, 0 where it is let through. The scales of
# the layer are common to both, so kappa is taken of the whole product, in units of the layer's mean under NUTS.


# %%
def logs(sites: dict) -> np.ndarray:
    parts = [sites[name].reshape(len(sites[name]), -1) for name in ("Dense_0.nu", "Dense_0.tau_1", "Dense_0.kernel.lambda")]
    return np.log(np.asarray(0.1 * parts[0] * parts[1] * parts[2]))


nuts_logs = logs(draws)
r_hat = split_gelman_rubin(nuts_logs.reshape(2, -1, 20)).max()
diverging = np.asarray(mcmc.get_extra_fields()["diverging"])
print(f"NUTS, two chains: R-hat of the log scales at most {r_hat:.3f}; {diverging.sum()} of {diverging.size} draws diverged\n")
unit = nuts_logs.mean()
kappa = {"NUTS": (1 / (1 + np.exp(2 * (nuts_logs - unit)))).mean(0)}
for name, bnn in guides.items():
    law = bnn.read(fits[name].params)["Dense_0.kernel"].law
    kappa[name] = np.asarray(expected_shrinkage(law.log_mean() - unit, law.log_std())).ravel()

print(f"{'':12}  kappa of x1, x2, x3   the others: mean (lowest)")
for name, values in kappa.items():
    told = " ".join(f"{value:.2f}" for value in values[:3])
    print(f"{name:12}  {told:20}  {values[3:].mean():.2f} ({values[3:].min():.2f})")

# %% [markdown]
# What each prior switches off, by its own rule: the flat one where evidence is against a weight, the horseshoe where kappa
# is above a half, the spike and slab where a weight is more likely out than in. The output at a unit vector is a weight.

# %%
rules = {
    "flat": (others["flat"], fits["flat"], bp.methods.Cut("evidence", threshold=0.0)),
    "horseshoe": (guides["mean field"], fits["mean field"], bp.methods.Shrinkage()),
    "spike and slab": (others["spike and slab"], fits["spike and slab"], bp.methods.SVBNN()),
}
weights = {}
print(f"\n{'':14}  inputs kept  error of the weights  mean spread of the other seventeen")
for name, (bnn, fitted, rule) in rules.items():
    kept = np.flatnonzero(bp.prune_once(fitted.params, rule, program=bnn).mask["Dense_0.kernel"]) + 1
    drawn = bp.predict_draws(jax.random.key(SEED), bnn, fitted.params, np.eye(20, dtype=np.float32), num_samples=500)
    weights[name] = center, spread = np.asarray(drawn).reshape(-1, 20).mean(0), np.asarray(drawn).reshape(-1, 20).std(0)
    error = np.sqrt(np.mean(np.square(center - TRUE)))
    print(f"{name:14}  {' '.join(map(str, kept)):11}  {error:20.3f}  {spread[3:].mean():34.3f}")

# %% [markdown]
# ## Digits: weights, units, inputs
#
# One net under four priors. Flat, pruned by evidence on the way; the horseshoe, its units cut by their shrinkage
# factor, or its weights by their evidence as well; the spike and slab; and the group normal-Jeffreys prior, whose scales are
# of a layer's inputs, cut where noise exceeds signal.

# %%
HORSESHOE, FLAT, SLAB = bp.priors.Horseshoe(), bp.priors.Flat(), bp.priors.DiracSlab()


def network(prior: object, prunable: object = bp.select.not_last) -> bp.BNN:
    return bp.BNN(
        bp.nets.MLP(hidden=(64, 64), num_outputs=10),
        prior=prior,
        likelihood=bp.likelihoods.Categorical(),
        input_shape=train.x.shape[1:],
        prunable=prunable,
    )


def fit(bnn: bp.BNN, **pruning: object) -> bp.FitResult:
    return bp.fit_svi(jax.random.key(SEED), bnn, train, num_steps=STEPS, batch_size=128, progress=False, **pruning)


flat, shoe, slab = network(FLAT), network(HORSESHOE), network(SLAB)
pruned_flat = fit(flat, sparsifier=bp.methods.BMR())
tiered = fit(shoe)
by_units = bp.prune_once(tiered.params, bp.methods.Shrinkage(), program=shoe)
by_weights = bp.bmr_prune(by_units.params, mask=by_units.mask)
warnings.filterwarnings("ignore", "The loss ends")  # of the spike and slab: see the end
gated = fit(slab)
included = bp.prune_once(gated.params, bp.methods.SVBNN(), program=slab)
jeffreys = network(bp.priors.GroupNormalJeffreys(), bp.select.hidden_kernels)
noisy = fit(jeffreys)
by_noise = bp.prune_once(noisy.params, bp.methods.WidestGap(threshold=0.0), program=jeffreys)
rows = {
    "flat, BMR on the way": (flat, pruned_flat.params, pruned_flat.mask),
    "horseshoe, dense": (shoe, tiered.params, {}),
    "horseshoe, units": (shoe, by_units.params, by_units.mask),
    "horseshoe, units, BMR": (shoe, by_weights.params, by_weights.mask),
    "spike and slab": (slab, included.params, included.mask),
    "normal-Jeffreys": (jeffreys, by_noise.params, by_noise.mask),
}


def in_use(bnn: bp.BNN, mask: dict) -> tuple[int, int, int]:
    """Connected weights, hidden units and inputs; of a net of which nothing is cut, all."""
    used = bp.connected(bnn, mask or {str(s.path): np.ones(s.shape, bool) for s in bnn.layout if s.prunable})
    kernels = [np.asarray(used[f"Dense_{layer}.kernel"]) for layer in (0, 1)]
    units = sum(int(kernel.any(0).sum()) for kernel in kernels)
    return sum(int(np.asarray(part).sum()) for part in used.values()), units, int(kernels[0].any(1).sum())


print(f"\n{'':22}  accuracy    nll    ece  weights  units  inputs (in use)")
for name, (bnn, params, mask) in rows.items():
    scores = bp.evaluate(jax.random.key(SEED + 1), bnn, params, test, mask=mask, num_samples=100)
    told = "  ".join(f"{scores[key]:.3f}" for key in ("accuracy", "nll", "ece"))
    print(f"{name:22}     {told}  {in_use(bnn, mask)[0]:7,}  {in_use(bnn, mask)[1]:5}  {in_use(bnn, mask)[2]:6}")

# %% [markdown]
# ## What it buys
#
# Compaction takes out what nothing reads. Of the network at the posterior mean: the numbers that are left, the file, and
# the FLOPs of a row on dense arrays. Nothing was cut of "horseshoe, dense": it is what the others stand beside.

# %%
print(f"\n{'':22}  numbers  file, kB   FLOPs")
for name, (bnn, params, mask) in rows.items():
    small = bp.compact(bnn, params, mask, keep="mean")
    small.save(file := OUT / f"{name.replace(', ', '_').replace(' ', '_')}.bayesprune")
    size = file.stat().st_size / 1e3
    print(f"{name:22}  {small.cost.alive:7,}  {size:8.1f}  {small.cost.executed:6,}")

# %% [markdown]
# Figures: the shrinkage of the twenty inputs, their weights under the three priors, and the sorted scales of the first
# layer's units.

# %%
figure = Figure(figsize=(13.0, 3.6), layout="constrained")
left, middle, right = figure.subplots(1, 3)
for offset, (name, values), marker in zip((-0.2, 0.0, 0.2), kappa.items(), "osD", strict=True):
    left.plot(np.arange(1, 21) + offset, values, marker, markersize=4, label=name)
left.axvspan(0.5, 3.5, color="0.92", zorder=0)
left.set(xlabel="input (shaded: those that matter)", ylabel="E kappa (1: shrunk to nothing)", ylim=(-0.02, 1.02))
left.set_xticks([1, 5, 10, 15, 20])
left.set_title("regression: NUTS and two guides")
left.legend(frameon=False)
for offset, (name, (center, spread)), marker in zip((-0.2, 0.0, 0.2), weights.items(), "osD", strict=True):
    middle.errorbar(np.arange(1, 21) + offset, center, 2 * spread, fmt=marker, markersize=3, elinewidth=0.8, label=name)
middle.hlines(TRUE, np.arange(1, 21) - 0.4, np.arange(1, 21) + 0.4, color="black", linewidth=0.8, label="truth")
middle.set(xlabel="input", ylabel="weight, two standard deviations", xticks=[1, 5, 10, 15, 20])
middle.set_title("regression: three priors")
middle.legend(frameon=False)
law = shoe.read(tiered.params)["Dense_0.kernel"].law
center, spread = (np.ravel(np.broadcast_to(value, (1, 64))) for value in (law.log_mean(), law.log_std()))
order = np.argsort(-center)
right.errorbar(np.arange(1, 65), center[order], 2 * spread[order], fmt=".", markersize=4, elinewidth=0.8)
right.set(xlabel="unit, by scale", ylabel="log(nu tau), two standard deviations", xticks=[1, 16, 32, 48, 64])
right.set_title("digits: the scales of the first layer's units")
bp.plots.save(figure, OUT / "shrinkage.png")
print(f"\nfigure: shrinkage.png in {os.path.relpath(OUT)}")

# %% [markdown]
# ## What we learnt
#
# What follows is of one seed, on 359 test images, of which one is 0.003 of accuracy: differences of a few images are
# noise. Nothing was chosen on them.
#
# - The two guides agree with NUTS on the same model: the three inputs that matter are let through (kappa .03 at most), all
#   others have kappa .55 or more. NUTS is to be trusted here: R-hat is 1.004 at most, and no draw diverged. That a weight
#   varies with the scale of its unit ("structured") changes nothing that one would decide.
# - All three priors keep the three inputs and no other, each by its own rule. They differ in what they say of the rest: the
#   flat prior leaves those weights a spread of .06, the horseshoe .03, the spike and slab none to speak of, and the error of
#   the weights falls in the same order.
# - The scales of a layer's units fall into two groups by themselves: a few units have scales of their own, the others lie
#   together at the prior's. Cutting what is shrunk leaves 21 of 128 units and a tenth of the weights, and costs no test
#   image. Evidence for the weights that are left, at once, takes half of them and costs six images: nothing learns on
#   after it.
# - Flat with BMR, cut on the way, has the best scores with 236 weights; its units and inputs fall because the last weight
#   that led through them fell. The spike and slab keeps fewer, 178, and loses seventeen images by it.
# - The spike and slab and the normal-Jeffreys prior, whose scales are of a layer's inputs (the horseshoe's are of its
#   outputs), switch inputs off by themselves: 38 and 25 of 64 stay. The horseshoe keeps all of them.
# - The spike and slab's gates are slow: after 3,000 steps its bound is still above that of no inputs, of which a fit warns.
# - Single weights buy bytes, units buy arithmetic too: the horseshoe's 21 units have the fewest FLOPs, though not the fewest
#   weights. What that is in time, on nets that are large enough for it to matter: `benchmarks/compaction.md`.
