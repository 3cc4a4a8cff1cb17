# %% [markdown]
# # The horseshoe: what does a prior switch off by itself?
#
# **Question.** A shrinkage prior lets a few scales be large and draws all others to nothing. In a regression whose truth
# we know: does its variational posterior find the inputs that matter, as NUTS on the same model does? And in
# a network: which units does it switch off, beside pruning by evidence under the flat prior?
#
# Run it with `python examples/04_horseshoe.py`, or cell by cell; it takes two to three minutes of two cores. The figures
# go to `runs/` beside this file.

# %%
import os
from pathlib import Path

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import optax
from matplotlib.figure import Figure
from numpyro.infer import MCMC, NUTS

import bayesprune as bp
from bayesprune.formulas.log_normal import expected_shrinkage
from bayesprune.model.structured import StructuredFamily

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
# weight together with the scale of its unit (`StructuredFamily`).


# %%
class Linear(nn.Module):
    @nn.compact
    def __call__(self, x: jax.Array, train: bool = False) -> jax.Array:
        return nn.Dense(1, use_bias=False)(x)


def regression(posterior: object = "mean_field") -> bp.BNN:
    return bp.BNN(
        Linear(),
        prior=bp.priors.Horseshoe(tau0=0.1, local="Dense_0", last="unit"),
        likelihood=bp.likelihoods.Normal(),
        input_shape=(20,),
        posterior=posterior,
        prunable=bp.select.kernels,
    )


guides = {"mean field": regression(), "structured": regression(StructuredFamily())}
optimizer = optax.adam(optax.cosine_decay_schedule(2e-2, STEPS))
fits = {
    name: bp.fit_svi(jax.random.key(SEED), bnn, line, num_steps=STEPS, batch_size=100, optimizer=optimizer, progress=False)
    for name, bnn in guides.items()
}

# %% [markdown]
# `bnn.model` is a plain NumPyro model, so NUTS takes it as it is.

# %%
mcmc = MCMC(
    NUTS(guides["mean field"].model, target_accept_prob=0.95, max_tree_depth=8),
    num_warmup=max(10, STEPS // 5),
    num_samples=max(10, STEPS // 5),
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
# ## Digits: weights, units, inputs
#
# One net under three priors. Flat, pruned by evidence on the way; the horseshoe, its units cut by their shrinkage
# factor, or its weights by their evidence as well; and the spike and slab.

# %%
HORSESHOE, FLAT, SLAB = bp.priors.Horseshoe(), bp.priors.Flat(), bp.priors.DiracSlab()


def network(prior: object) -> bp.BNN:
    return bp.BNN(
        bp.nets.MLP(hidden=(64, 64), num_outputs=10),
        prior=prior,
        likelihood=bp.likelihoods.Categorical(),
        input_shape=train.x.shape[1:],
        prunable=bp.select.not_last,
    )


def fit(bnn: bp.BNN, **pruning: object) -> bp.FitResult:
    return bp.fit_svi(
        jax.random.key(SEED), bnn, train, num_steps=STEPS, batch_size=128, optimizer=optax.adam(5e-3), progress=False, **pruning
    )


flat, shoe, slab = network(FLAT), network(HORSESHOE), network(SLAB)
every = max(1, STEPS // 20)
pruned_flat = fit(flat, sparsifier=bp.methods.BMR(), every=every)
tiered = fit(shoe)
by_units = bp.prune_once(tiered.params, bp.methods.Shrinkage(), program=shoe)
by_weights = bp.bmr_prune(by_units.params, mask=by_units.mask)
gated = fit(slab)
included = bp.prune_once(gated.params, bp.methods.SVBNN(), program=slab)
rows = {
    "flat, BMR on the way": (flat, pruned_flat.params, pruned_flat.mask),
    "horseshoe, dense": (shoe, tiered.params, {}),
    "horseshoe, units": (shoe, by_units.params, by_units.mask),
    "horseshoe, units, BMR": (shoe, by_weights.params, by_weights.mask),
    "spike and slab": (slab, included.params, included.mask),
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
# Figures: the shrinkage of the twenty inputs, and the sorted scales of the first layer's units.

# %%
figure = Figure(figsize=(9.0, 3.6), layout="constrained")
left, right = figure.subplots(1, 2)
for offset, (name, values), marker in zip((-0.2, 0.0, 0.2), kappa.items(), "osD", strict=True):
    left.plot(np.arange(1, 21) + offset, values, marker, markersize=4, label=name)
left.axvspan(0.5, 3.5, color="0.92", zorder=0)
left.set(xlabel="input (shaded: those that matter)", ylabel="E kappa (1: shrunk to nothing)", ylim=(-0.02, 1.02))
left.set_xticks([1, 5, 10, 15, 20])
left.set_title("regression: NUTS and two guides")
left.legend(frameon=False)
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
#   others have kappa .52 to .66. The structured guide lies between the mean field and NUTS, at the price of one more
#   number a weight; here that changes nothing that one would decide.
# - The scales of a layer's units fall into two groups by themselves: about twenty units have scales of their own, the
#   others lie together at the prior's. Cutting what is shrunk takes two thirds of the units and four fifths of the
#   weights, and costs no test image.
# - Flat with BMR cuts single weights only and keeps every unit here. Units first, then evidence for the weights that are
#   left: an eighth of the weights, 41 units, four images.
# - Of these three the spike and slab alone switches off inputs: the horseshoe's scales are of a layer's outputs.
# - Single weights buy bytes, units buy arithmetic too: flat with BMR is 7 % smaller as a file and computes what it did
#   before; without the units that the horseshoe shrinks the file is a quarter and the FLOPs a fifth. What that is in time, on
#   nets that are large enough for it to matter: `benchmarks/compaction.md`.
