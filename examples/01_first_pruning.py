# %% [markdown]
# # First pruning: how much of a small network does its own evidence let go?
#
# **Question.** Train a Bayesian network on the digits. Which weights explain the data better by not being there, and
# what do accuracy and calibration pay for their loss? Three answers are compared: reduce the posterior on the way,
# reduce it once when it is finished and go on from there, and (the plain rival) drop the smallest weights to the same
# density.
#
# Run it with `python examples/01_first_pruning.py`, or cell by cell; it takes about a minute of two cores. The figures
# go to `runs/` beside this file. `--validation` scores on held-back training images, `--readme` draws the figure of the
# README anew.

# %%
import os
import sys
from pathlib import Path

import jax
import numpy as np
from matplotlib.figure import Figure

import bayesprune as bp

HERE = Path(__file__).resolve().parent
OUT = Path(os.environ.get("BAYESPRUNE_OUT", HERE / "runs" / "01_first_pruning"))
STEPS = int(os.environ.get("BAYESPRUNE_STEPS", 4000))
SEED = int(os.environ.get("BAYESPRUNE_SEED", 0))
OUT.mkdir(parents=True, exist_ok=True)

# %% [markdown]
# ## Data
#
# 1,797 images of 8 x 8 pixels, a fifth of them for the test. Net and length of training were chosen with
# `--validation`: on a fifth of the *training* images, held back. The test images decided nothing.

# %%
train, test = bp.data.load("digits")
if "--validation" in sys.argv:
    order = np.random.default_rng(0).permutation(len(train.x))
    held, rest = np.split(order, [len(order) // 5])
    train, test = bp.Dataset(train.x[rest], train.y[rest]), bp.Dataset(train.x[held], train.y[held])
print(f"{len(train.x)} images to train on, {len(test.x)} to score")

# %% [markdown]
# ## Model
#
# Every weight gets a Gaussian posterior. The flat prior writes a weight as a layer's common scale, learned, times a
# standard normal; the last layer is never pruned.

# %%
bnn = bp.BNN(
    bp.nets.MLP(hidden=(64, 64), num_outputs=10),
    prior=bp.priors.Flat(),
    likelihood=bp.likelihoods.Categorical(),
    input_shape=train.x.shape[1:],
)
key = jax.random.key(SEED)
settings = {"num_steps": STEPS, "batch_size": 128, "progress": False}

# %% [markdown]
# ## Fit and prune
#
# During training: only the sparsifier is given. Start, learning rate, the weight of the divergence and when to cut are
# those of the standard course (`docs/courses.md`). Every act, a pruning step, is verified first: the sum of the weights'
# single evidences is no evidence for cutting them together. So the bound on a batch of data is compared after cutting all
# candidates, a half, a fifth and a twentieth of them, and the first that does not lower it and beats the next falls, or none.

# %%
on_the_way = bp.fit_svi(
    key, bnn, train, sparsifier=bp.methods.BMR(), eval_data=test, eval_every=max(1, STEPS // 20), **settings
)
print(on_the_way)

# %% [markdown]
# What the acts proposed, and what fell. A weight whose paths are gone falls too, so that more may fall than was proposed,
# and all that is alive is connected: it lies on a living path from a pixel (or a bias) to an output.

# %%
NAMES = ("step", "num_proposed", "num_pruned", "num_alive", "num_connected")
acts = {name: on_the_way.history[f"prune/{name}"] for name in NAMES}
total = sum(alive.size for alive in on_the_way.mask.values())
print(f"\n{'step':>5}  proposed  fell  alive  density  connected")
for at in np.unique(np.geomspace(1, len(acts["step"]), 16).round().astype(int)) - 1:
    step, proposed, cut, alive, connected = (int(values[at]) for values in acts.values())
    print(f"{step:5}  {proposed:8,}  {cut:4,}  {alive:5,}  {alive / total:7.1%}  {connected / total:9.1%}")
asked, fell = acts["num_proposed"] > 0, acts["num_pruned"]
refused, less = asked & (fell == 0), asked & (fell > 0) & (fell < acts["num_proposed"])
print(f"{asked.sum()} of {len(asked)} acts proposed something. Of {less.sum()} a part fell; of {refused.sum()} nothing:")
print("the data did not agree")

# %% [markdown]
# The same with every proposal taken as it is: two weights that can each be spared may not be spared together.

# %%
unverified = bp.fit_svi(key, bnn, train, sparsifier=bp.methods.BMR(), course=bp.courses.Standard(verified=0), **settings)

# %% [markdown]
# Once: train all weights, then reduce the finished posterior. `bmr_prune` is pure, the fit keeps its own parameters.
# Much goes at once, and going on mends what that cost: with what is left, or cutting further.

# %%
fit = bp.fit_svi(key, bnn, train, **settings)
once = bp.bmr_prune(fit.params)
print(f"\none reduction gains {float(once.info.evidence_gained):,.0f} nats of log evidence, by the sum of single weights")
shorter = settings | {"num_steps": max(1, STEPS // 4)}
gone_on = bp.fit_svi(key, bnn, train, init=once, **shorter)
cut_on = bp.fit_svi(key, bnn, train, init=once, sparsifier=bp.methods.BMR(), **shorter)


# %% [markdown]
# Magnitude pruning needs to know how much to keep; the evidence found that out by itself. So it is given the
# numbers that the reductions arrived at: once, after the training; and gradually on the way, by a cubic schedule, at its
# final density for the last quarter of the acts.


# %%
def count(mask: dict) -> int:
    """How many weights are True."""
    return sum(int(alive.sum()) for alive in mask.values())


magnitude_once = bp.prune_once(fit.params, bp.methods.Magnitude(density=count(once.mask) / total))
gradual = bp.schedules.Cubic(final_density=count(on_the_way.mask) / total, begin=0, end=3 * len(asked) // 4)
magnitude = bp.fit_svi(key, bnn, train, sparsifier=bp.methods.Magnitude(density=gradual), **settings)

# %% [markdown]
# One table: scores of 100 networks drawn from each posterior. `nll` is in nats per image; `ece` has 15 equal-width
# bins. *In use* are the weights that are alive and connected.

# %%
rows = {
    "all weights": (fit.params, jax.tree.map(np.ones_like, once.mask)),
    "BMR, on the way": (on_the_way.params, on_the_way.mask),
    "BMR, not verified": (unverified.params, unverified.mask),
    "magnitude, on the way": (magnitude.params, magnitude.mask),
    "BMR, once": (once.params, once.mask),
    "BMR, once, gone on": (gone_on.params, gone_on.mask),
    "BMR, once, gone on and cut": (cut_on.params, cut_on.mask),
    "magnitude, once": (magnitude_once.params, magnitude_once.mask),
}
probs, scores = {}, {}
print(f"\n{'':28}  accuracy    nll    ece  brier  pruned  alive  in use  (of {total:,})")
for name, (params, mask) in rows.items():
    probs[name] = bp.predict(jax.random.key(SEED + 1000), bnn, params, test.x, mask=mask, num_samples=100)
    scores[name] = bp.metrics.summary(probs[name], test.y)
    shown = "  ".join(f"{scores[name][key]:.3f}" for key in ("nll", "ece", "brier"))
    alive, used = count(mask), count(bp.connected(bnn, mask))
    print(f"{name:28}     {scores[name]['accuracy']:.3f}  {shown}  {1 - alive / total:6.1%}  {alive:5,}  {used:6,}")

# %% [markdown]
# Figures: the course of the training that pruned, what it pruned when, and the first layer, whose inputs are the
# pixels.

# %%
posterior = bnn.posterior(on_the_way.params)
first = "Dense_0.kernel"
recorded = {key: on_the_way.history[key] for key in ("prune/step", "eval/step", "eval/accuracy", "eval/nll")}
figures = {
    "training": bp.plots.training_curves(on_the_way.losses, recorded),
    "pruned_share": bp.plots.pruned_share(on_the_way.history),
    "first_layer": bp.plots.first_layer_heatmap(posterior[first], on_the_way.mask[first]),
}

# One picture of it all: what was proposed and what went, what the first layer still looks at, and what the scores say.
story = Figure(figsize=(13, 4.4), layout="constrained")
left, middle, right = story.subfigures(1, 3, width_ratios=(1.25, 1.1, 1.0))
top, bottom = left.subplots(2, 1, sharex=True, height_ratios=(1.0, 1.25))
gap = float(acts["step"][0])
top.bar(acts["step"], acts["num_proposed"], 0.85 * gap, color="#CCCCCC", label="proposed")
top.bar(acts["step"], acts["num_pruned"], 0.45 * gap, color="#0072B2", label="fell, with those no path needs")
top.set(yscale="log", ylabel="weights, each act")
top.legend(frameon=False, fontsize=8)
for name, one, color in (("verified", on_the_way, "#0072B2"), ("not verified", unverified, "#E69F00")):
    step, alive, used = (one.history[f"prune/{part}"] for part in ("step", "num_alive", "num_connected"))
    bottom.plot(step, 100 * alive / total, color=color, linewidth=4, alpha=0.4, label=f"{name}: alive")
    bottom.plot(step, 100 * used / total, color=color, linewidth=1.2, label=f"{name}: alive and connected")
bottom.set(yscale="log", xlabel="training step", ylabel="% of the prunable weights")
bottom.set_yticks([2, 5, 10, 20, 50, 100], ["2", "5", "10", "20", "50", "100"])
bottom.minorticks_off()
bottom.legend(frameon=False, fontsize=8)
for axes in (top, bottom):
    axes.spines[["top", "right"]].set_visible(False)
pictures = np.where(on_the_way.mask[first], posterior[first].loc, np.nan)  # (pixels, units)
strongest = np.argsort(-np.nansum(pictures**2, axis=0))
num_units = int(np.asarray(on_the_way.mask[first]).any(axis=0).sum())
shown_units = strongest[: min(12, num_units)]
for place in (places := middle.subplots(3, 4).ravel())[len(shown_units) :]:
    place.set_axis_off()
for place, unit in zip(places, shown_units, strict=False):
    shown = place.imshow(pictures[:, unit].reshape(8, 8), cmap=bp.plots.SIGNED, vmin=-2, vmax=2)
    place.set(xticks=[], yticks=[])
middle.colorbar(shown, ax=middle.axes, label="posterior mean", shrink=0.8, extend="both")
note = f"{num_units} of {len(strongest)} units and {count(on_the_way.mask):,} of {total:,} prunable weights are left"
middle.suptitle(f"first layer, the strongest units first (grey: pruned)\n{note}", fontsize=10)
axes = right.add_subplot()
names = ("all weights", "magnitude, on the way", "BMR, on the way")
for at, (name, color) in enumerate(zip(names, ("#999999", "#E69F00", "#0072B2"), strict=True)):
    bars = axes.barh(np.arange(3) + 0.27 * (1 - at), [scores[name][key] for key in ("nll", "ece", "brier")], 0.25, color=color)
    axes.bar_label(bars, fmt=" %.3f", fontsize=8)
    bars.set_label(f"{name} (accuracy {scores[name]['accuracy']:.3f})")
axes.set_yticks(np.arange(3), ["nll", "ece", "brier"])
axes.set(
    ylim=(2.6, -0.5), xlim=(0, 1.2 * max(scores[name]["nll"] for name in names)), xlabel="on the test images; smaller is better"
)
axes.spines[["top", "right"]].set_visible(False)
axes.legend(frameon=False, fontsize=8, loc="lower center", bbox_to_anchor=(0.45, 1.0))
figures["first_pruning"] = story

for name, figure in figures.items():
    bp.plots.save(figure, OUT / f"{name}.png")
if "--readme" in sys.argv:
    bp.plots.save(story, HERE.parent / "docs" / "figures" / "first_pruning.png")
print(f"figures: {', '.join(f'{name}.png' for name in figures)} in {os.path.relpath(OUT)}")

# %% [markdown]
# ## What we learnt
#
# What follows held for three seeds (`BAYESPRUNE_SEED=1`, `2`), on 359 test images, of which one is 0.003 of accuracy:
# differences of a few images are noise.
#
# - Pruned during training, the network keeps 2.7 % of the prunable weights, all of them connected; nobody chose that
#   density. Its accuracy is that of all weights to within two images, and it is better calibrated: its `nll` is lower by 43 to
#   58 %, its `ece` by 59 to 74 %. A likely reason: the noise of idle weights had blurred the predictions.
# - In half to 70 % of the acts that proposed something, only a part of it was cut, or nothing. Without verification 9 to 22 %
#   more weights are in use, and the scores are as good or better on so few images, but fourteen times as many stay alive:
#   weights on no path, of which the data say nothing. Count weights in use, not only alive. Deeper nets die without it.
# - Reducing the finished posterior once takes 86 % of the weights, and more than a quarter of the others lead nowhere. `nll`
#   and `ece` get smaller; two of the three seeds lose accuracy, five and two images. Training on for a quarter of the steps
#   lowers the `nll` by another 11 to 26 %, and with further acts by 26 to 54 %, with 2.6 to 2.8 % of the weights left.
# - Given how many weights to keep, magnitude pruning during training is about as good. But it has to be given the number,
#   which here came from the evidence.
