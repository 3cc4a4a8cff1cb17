# %% [markdown]
# # From a trained net: what it can do without, and how sure it is, without training it again
#
# **Question.** Somebody has trained a network, by a loop of their own and without any posterior. Which of its weights are
# idle, and what does each way of asking cost in accuracy and likelihood?
#
# Run it with `python examples/06_from_a_trained_net.py`, or cell by cell; it takes about a minute of two cores. The figure goes
# to `runs/` beside this file.

# %%
import os
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import optax
from matplotlib.figure import Figure

import bayesprune as bp

HERE = Path(__file__).resolve().parent
OUT = Path(os.environ.get("BAYESPRUNE_OUT", HERE / "runs" / "06_from_a_trained_net"))
STEPS = int(os.environ.get("BAYESPRUNE_STEPS", 2000))
SEED = int(os.environ.get("BAYESPRUNE_SEED", 0))
OUT.mkdir(parents=True, exist_ok=True)

# %% [markdown]
# ## Data
#
# The digits, 8 x 8 pixels.

# %%
train, test = bp.data.load("digits")

# %% [markdown]
# ## Model, fit and prune
#
# The training is plain Flax and optax, with the square of the weights in its loss. `bp.BNN` of the same module, with a Gaussian
# prior, is how the library knows the network; the prior's scale does not matter, for the evidence chooses one for each layer.

# %%
net = bp.nets.MLP(hidden=(100,), num_outputs=10)
optimizer = optax.chain(optax.add_decayed_weights(5e-3), optax.adam(3e-3))


@jax.jit
def step(variables, state, rows):
    def loss(variables):
        logits = net.apply(variables, jnp.asarray(train.x)[rows])
        return optax.softmax_cross_entropy_with_integer_labels(logits, jnp.asarray(train.y)[rows]).mean()

    updates, state = optimizer.update(jax.grad(loss)(variables), state, variables)
    return optax.apply_updates(variables, updates), state


variables = net.init(jax.random.key(SEED), jnp.asarray(train.x[:1]))
state, rng = optimizer.init(variables), np.random.default_rng(SEED)
for _ in range(STEPS):
    variables, state = step(variables, state, jnp.asarray(rng.integers(0, len(train.x), 64)))

bnn = bp.BNN(
    net,
    prior=bp.priors.Gaussian(),
    likelihood=bp.likelihoods.Categorical(),
    input_shape=train.x.shape[1:],
    prunable=bp.select.everything,
)
fit = bp.laplace(jax.random.key(1), bnn, variables, train)
pruned = bp.bmr_prune(fit.params)
alive = sum(int(np.sum(mask)) for mask in pruned.mask.values())
whole = sum(np.size(mask) for mask in pruned.mask.values())

# %% [markdown]
# The same posterior, cut at the density that the evidence found, by other scores; and Wanda and SparseGPT, which look at each
# layer's inputs alone. "mean" is the network at its means; "tangent" averages over networks that are linear in their weights
# about them, which is what this posterior is exact for.


# %%
def figures(params, mask, linearised=False):
    if linearised:
        probs = bp.predict(jax.random.key(2), bnn, params, test.x, mask=mask, linearised=True)
    else:
        logits = net.apply(bnn.net_params(params, mask), jnp.asarray(test.x))
        probs = np.asarray(jax.nn.softmax(logits))
    return bp.metrics.summary(probs, test.y)


def cut(score, density):
    return bp.prune_once(fit.params, bp.methods.Cut(score=score, density=density), program=bnn)


density = alive / whole
cuts = {name: cut(name, density) for name in ("opd", "magnitude")}
cuts |= {rule: bp.prune_layers(bnn, variables, train.x[:500], density=density, rule=rule) for rule in ("wanda", "sparsegpt")}
rows = {
    "dense, mean": figures(fit.params, {}),
    "dense, tangent": figures(fit.params, {}, linearised=True),
    "evidence, mean": figures(pruned.params, pruned.mask),
    "evidence, tangent": figures(pruned.params, pruned.mask, linearised=True),
} | {f"{name}, mean": figures(one.params, one.mask) for name, one in cuts.items()}

print(f"{alive:,} of {whole:,} weights stay by evidence, {density:.1%}\n")
print(f"{'':20} accuracy    NLL    ECE")
for name, found in rows.items():
    print(f"{name:20} {found['accuracy']:8.3f} {found['nll']:6.3f} {found['ece']:6.3f}")

# %%
densities = np.geomspace(0.02, 1.0, int(os.environ.get("BAYESPRUNE_POINTS", 9)))
curves = {
    score: [figures(one.params, one.mask)["accuracy"] for one in (cut(score, float(d)) for d in densities)]
    for score in ("evidence", "opd", "magnitude")
}
curves |= {
    rule: [
        figures(one.params, one.mask)["accuracy"]
        for one in (bp.prune_layers(bnn, variables, train.x[:500], density=float(d), rule=rule) for d in densities)
    ]
    for rule in ("wanda", "sparsegpt")
}
figure = Figure(figsize=(5, 3), layout="constrained")
axes = figure.add_subplot()
for name, curve in curves.items():
    axes.plot(densities, curve, "o-", markersize=3, label=name)
axes.axvline(density, color="black", linewidth=0.8)
axes.set(xscale="log", xlabel="share of weights that stay", ylabel="accuracy")
axes.legend(frameon=False, fontsize=8)
bp.plots.save(figure, OUT / "accuracy_by_density.png")
print(f"\nfigure: accuracy_by_density.png in {os.path.relpath(OUT)}")

# %% [markdown]
# ## What we learnt
#
# Of one seed and 2,000 steps (`BAYESPRUNE_SEED` and `BAYESPRUNE_STEPS` give others), 360 test images, of which one is .003:
#
# - By evidence 4,199 of the 7,510 weights stay. At that density SparseGPT loses nothing (accuracy .978, NLL .098; dense: .978,
#   .096), the others up to a percent and a half: Wanda .967 and .129, the evidence itself, OPD and magnitude .964 and .113.
# - Evidence and OPD hold longest below a tenth of the weights. How much goes is a matter of what may be lost: rank by
#   `Cut(score="opd")`, and leave the amount to a held-out set.
# - The tangent's predictions are less sure than the network at its mean (NLL .142, ECE .072 against .096 and .038), for a
#   diagonal curvature adds the spreads of thousands of weights that the data hold together. The evidence alone
#   (`excess=None`) would let drawn networks go much further: NLL .369, ECE .243. `eval_data=` has held-out rows choose.
