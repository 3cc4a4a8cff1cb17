# %% [markdown]
# # Ship it: from a training run to a file that another runtime reads
#
# **Question.** A network has been pruned. What is it worth outside of this notebook: how small is its file, how fast
# does it answer, is it still the same network, and who can read it?
#
# Run it with `python examples/07_ship_it.py`, or cell by cell; it takes about a minute of two cores. The figure goes to
# `runs/` beside this file. The last part needs ONNX Runtime (`pip install "bayesprune[export]"`).

# %%
import os
import statistics
import time
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
from matplotlib.figure import Figure

import bayesprune as bp
from bayesprune.deploy import reader

HERE = Path(__file__).resolve().parent
OUT = Path(os.environ.get("BAYESPRUNE_OUT", HERE / "runs" / "07_ship_it"))
STEPS = int(os.environ.get("BAYESPRUNE_STEPS", 4000))
OUT.mkdir(parents=True, exist_ok=True)

# %% [markdown]
# ## Data, model, fit and prune
#
# The digits, and the network of the first example, wider. Pruned on the way by Bayesian model reduction, nothing is set
# by hand: the evidence decides what stays.

# %%
train, test = bp.data.load("digits")
bnn = bp.BNN(
    bp.nets.MLP(hidden=(256, 256), num_outputs=10),
    prior=bp.priors.Flat(),
    likelihood=bp.likelihoods.Categorical(),
    input_shape=train.x.shape[1:],
)
fit = bp.fit_svi(jax.random.key(0), bnn, train, num_steps=STEPS, batch_size=128, sparsifier=bp.methods.BMR(), progress=False)
before = bp.evaluate(jax.random.key(1), bnn, fit.params, test, mask=fit.mask)
print(f"masked: accuracy {before['accuracy']:.3f}, NLL {before['nll']:.3f}")

# %% [markdown]
# ## Smaller, and the same function
#
# A mask alone makes nothing smaller: zeros are stored and multiplied like other numbers. `bp.compact` writes the network
# anew without what they leave idle. Its certificate compares both as functions, exactly, over a finite field.

# %%
small = bp.compact(bnn, fit.params, fit.mask)
print(small)
certificate = small.certify()
print(f"certificate: {certificate.mismatches} of {certificate.outputs} outputs differ, {certificate.float64:.1e} in float64")

# %% [markdown]
# The weights keep their law, so that calibration is what it was. `evaluate` and `predict` take the smaller network in
# the place of the `BNN`.

# %%
after = bp.evaluate(jax.random.key(1), small, None, test)
print(f"compact: accuracy {after['accuracy']:.3f}, NLL {after['nll']:.3f}")

# %% [markdown]
# ## One file
#
# Kept are the weights that are alive, and where they stand. At the posterior's own precision a loc is a whole number of
# half scales: what is lost is a small part of what the posterior does not know itself.

# %%
sizes = {"loc and scale of every weight": 8 * small.cost.dense_numbers}
for values in ("float32", "bfloat16", "posterior"):
    small.save(OUT / f"{values}.bayesprune", values)
    sizes[f"compact, {values}"] = (OUT / f"{values}.bayesprune").stat().st_size
for name, size in sizes.items():
    print(f"{name:<30} {size / 1e3:8.1f} kB")
plan, numbers = reader.load(OUT / "posterior.bayesprune")
print(f"lost at the posterior's precision: {plan['divergence']:.1f} nats over {small.cost.alive:,} numbers")

# %% [markdown]
# NumPy alone reads it: `bayesprune.deploy.reader` is one file that may be copied to wherever there is no JAX.

# %%
difference = np.abs(reader.predict(plan, numbers, test.x) - bp.load(OUT / "posterior.bayesprune").predict(test.x)).max()
print(f"NumPy beside JAX: {difference:.1e}")

# %% [markdown]
# ## Time
#
# The network at the posterior mean on 1, 32 and 1,000 rows, each the median of many calls: the masked network and the
# compact one, both compiled by JAX.

# %%
weights = {
    site: jnp.where(jnp.asarray(fit.mask.get(site, True)), node.loc * node.unit, 0)
    for site, node in bnn.posterior(fit.params).items()
}
masked = jax.jit(lambda weights, x: jax.nn.softmax(bnn.forward(weights, {}, x)))
apply, arrays = small.net()
compact = jax.jit(lambda arrays, x: jax.nn.softmax(apply(arrays, x)))


def seconds(function, *arguments) -> float:
    jax.block_until_ready(function(*arguments))
    taken = []
    for _ in range(50):
        begin = time.perf_counter()
        jax.block_until_ready(function(*arguments))
        taken.append(time.perf_counter() - begin)
    return statistics.median(taken)


times = {}
for rows in (1, 32, 1000):
    x = jnp.asarray(np.resize(test.x, (rows, *test.x.shape[1:])))
    times[rows] = (seconds(masked, weights, x), seconds(compact, arrays, x))
    print(f"{rows:>5} rows: masked {1e6 * times[rows][0]:7.0f} us, compact {1e6 * times[rows][1]:7.0f} us")

# %% [markdown]
# ## ONNX
#
# The predictive mean as one ONNX model, for any runtime that reads it.

# %%
try:
    import onnxruntime
except ImportError:
    print('no ONNX Runtime here: pip install "bayesprune[export]"')
else:
    bp.export_onnx(small, OUT / "net.onnx")
    session = onnxruntime.InferenceSession(OUT / "net.onnx", providers=["CPUExecutionProvider"])
    (mean,) = session.run(["mean"], {"x": np.asarray(test.x, np.float32)})
    print(f"ONNX Runtime beside JAX: {np.abs(mean - small.predict(test.x)).max():.1e}")

# %% [markdown]
# ## What we learnt

# %%
figure = Figure(figsize=(9, 3.2), layout="constrained")
left, right = figure.subplots(1, 2)
left.barh(list(sizes), [size / 1e3 for size in sizes.values()], color=["0.6", "C0", "C0", "C0"])
left.invert_yaxis()
for place, size in enumerate(sizes.values()):
    left.text(size / 1e3, place, f" {size / 1e3:,.1f}", va="center", ha="left" if size < 1e5 else "right")
left.set(xscale="log", xlim=(1, None), xlabel="kB", title="Size of the file")
for place, label in enumerate(("masked", "compact")):
    right.plot(list(times), [1e3 * pair[place] for pair in times.values()], "o-", label=label, color=["0.6", "C0"][place])
right.set(xscale="log", yscale="log", xlabel="rows", ylabel="ms", title="Time at the posterior mean, by JAX")
right.legend(frameon=False)
figure.savefig(OUT / "size_and_time.png", dpi=150)
print(
    f"{small.cost.alive:,} of {small.cost.dense_numbers:,} numbers are left, the file is "
    f"{sizes['loc and scale of every weight'] / sizes['compact, posterior']:.0f} times smaller, and the function is the same."
)
