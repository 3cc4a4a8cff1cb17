# %% [markdown]
# # A frozen base: the last layer of somebody else's network, with a posterior
#
# **Question.** There are a hundred labelled digits, and a network that reads Chinese and English text. Is it worth freezing,
# as the base of a Bayesian last layer; how much of that layer is needed; and what does training the base, too, change?
#
# The network is the text recogniser of the PP-OCRv4 project, as `pip install --no-deps rapidocr-onnxruntime` brings it
# (Apache-2.0, 11 MB, no further package is needed); the environment variable `BAYESPRUNE_BASE` names the .onnx file if it lies
# elsewhere. `pip install onnx onnxruntime equinox` reads it.
#
# Run it with `python examples/09_a_frozen_base.py`, or cell by cell; it takes some minutes of two cores. The figure goes to
# `runs/` beside this file.

# %%
import os
from importlib.metadata import distribution
from pathlib import Path

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import onnx
import onnxruntime
from matplotlib.figure import Figure
from onnx import helper, numpy_helper

import bayesprune as bp

HERE = Path(__file__).resolve().parent
OUT = Path(os.environ.get("BAYESPRUNE_OUT", HERE / "runs" / "09_a_frozen_base"))
STEPS = int(os.environ.get("BAYESPRUNE_STEPS", 100))
SEED = int(os.environ.get("BAYESPRUNE_SEED", 0))
LABELLED, JUDGED = 100, int(os.environ.get("BAYESPRUNE_ROWS", 200))
OUT.mkdir(parents=True, exist_ok=True)

# %% [markdown]
# ## Data
#
# The embedded digits, 8 x 8 pixels, enlarged to the 48 rows that a line of text has there. A hundred are labelled.

# %%
train, test = bp.data.load("digits", standardise=False)


def as_text(images):
    """(rows, 3, 48, 32) in [-1, 1], channels first, as the recogniser takes them."""
    large = jax.image.resize(np.asarray(images).reshape(-1, 8, 8), (len(images), 48, 32), "cubic")
    return np.repeat(np.asarray(2.0 * large - 1.0)[:, None], 3, axis=1)


chosen = np.random.default_rng(SEED).permutation(len(train.x))[:LABELLED]
few = bp.Dataset(as_text(train.x[chosen]), train.y[chosen])
judged = bp.Dataset(as_text(test.x[:JUDGED]), test.y[:JUDGED])

# %% [markdown]
# ## Model
#
# The file is a list of operations. Those up to the pooling after the convolutions are the base; ten kinds are all of them.


# %%
def base_file():
    """The recogniser's file, found without importing its package."""
    inside = "rapidocr_onnxruntime/models/ch_PP-OCRv4_rec_infer.onnx"
    return os.environ.get("BAYESPRUNE_BASE") or distribution("rapidocr-onnxruntime").locate_file(inside)


def read_base(path):
    """The operations up to the first average pooling, as (kind, inputs, output, attributes), and the arrays among the inputs.

    An input is the name of an array or of another operation's output, or a number.
    """
    graph = onnx.load(path).graph
    known = {tensor.name: numpy_helper.to_array(tensor) for tensor in graph.initializer}
    nodes, arrays = [], {}

    def stored(name, array):
        if array.size == 1:
            return float(array.item())
        arrays.setdefault(name, array)
        return name

    for node in graph.node:
        attributes = {one.name: helper.get_attribute_value(one) for one in node.attribute}
        attributes = {name: tuple(value) if isinstance(value, list) else value for name, value in attributes.items()}
        if node.op_type == "Constant":
            known[node.output[0]] = numpy_helper.to_array(attributes["value"])
        elif node.op_type == "BatchNormalization":  # at rest: a factor and a shift of each channel
            factor, shift, mean, variance = (known[name][:, None, None] for name in node.input[1:])
            factor = factor / np.sqrt(variance + attributes["epsilon"])
            factor, shift = stored(f"{node.output[0]}_factor", factor), stored(f"{node.output[0]}_shift", shift - factor * mean)
            nodes += [("Mul", (node.input[0], factor), "scaled", ()), ("Add", ("scaled", shift), node.output[0], ())]
        else:
            inputs = tuple(stored(name, known[name]) if name in known else name for name in node.input)
            nodes.append((node.op_type, inputs, node.output[0], tuple(attributes.items())))
        if node.op_type == "AveragePool":
            break
    return tuple(nodes), arrays


def convolve(x, kernel, bias=0.0, *, strides, pads, group, **_):
    """By products and sums where it is one of single pixels or of single channels: XLA is slow there on a CPU."""
    (down, across), (height, width) = strides, kernel.shape[2:]
    if kernel.shape[2:] == (1, 1) and group == 1:
        made = jnp.einsum("nchw,oc->nohw", x, kernel[:, :, 0, 0])
    elif group == x.shape[1]:
        x = jnp.pad(x, ((0, 0), (0, 0), (pads[0], pads[2]), (pads[1], pads[3])))
        rows, columns = (x.shape[2] - height) // down + 1, (x.shape[3] - width) // across + 1
        made = sum(
            x[:, :, i : i + down * rows : down, j : j + across * columns : across] * kernel[:, 0, i, j, None, None]
            for i in range(height)
            for j in range(width)
        )
    else:
        padding = ((pads[0], pads[2]), (pads[1], pads[3]))
        made = jax.lax.conv_general_dilated(x, kernel, strides, padding, feature_group_count=group)
    return made + jnp.reshape(bias, (-1, 1, 1))


def average(x, *, kernel_shape, strides, **_):
    sums = jax.lax.reduce_window(x, 0.0, jax.lax.add, (1, 1, *kernel_shape), (1, 1, *strides), "VALID")
    return sums / np.prod(kernel_shape)


OPERATIONS = {
    "Add": jnp.add,
    "Mul": jnp.multiply,
    "Div": jnp.divide,
    "Clip": jnp.clip,
    "Relu": jax.nn.relu,
    "Conv": convolve,
    "AveragePool": average,
    "GlobalAveragePool": lambda x: x.mean((2, 3), keepdims=True),
    "HardSigmoid": lambda x, *, alpha, beta: jnp.clip(alpha * x + beta, 0.0, 1.0),
}


class Recogniser(eqx.Module):
    """The base, on one image, and a linear layer of ten classes."""

    base: dict[str, jax.Array]
    head: eqx.nn.Linear
    nodes: tuple = eqx.field(static=True)

    def __init__(self, nodes, arrays, rng_key):
        self.nodes = nodes
        self.base = {name.replace(".", "_"): jnp.asarray(array) for name, array in arrays.items()}
        features = jax.eval_shape(lambda x: self.features(x), jax.ShapeDtypeStruct(few.x.shape[1:], jnp.float32))
        self.head = eqx.nn.Linear(features.size, 10, key=rng_key)

    def features(self, x):
        values = {"x": x[None]}
        for kind, inputs, output, attributes in self.nodes:
            read = [values[name] if name in values else self.base.get(str(name).replace(".", "_"), name) for name in inputs]
            values[output] = OPERATIONS[kind](*read, **dict(attributes))
        return values[output].ravel()

    def __call__(self, x):
        return self.head(self.features(x))


path = base_file()
recogniser = Recogniser(*read_base(path), jax.random.key(SEED))

# What ONNX Runtime says of the same images.
model = onnx.load(path)
last = recogniser.nodes[-1][2]
model.graph.output.append(helper.make_empty_tensor_value_info(last))
session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
theirs = np.stack([session.run([last], {"x": x[None]})[0].ravel() for x in few.x[:5]])
ours = jax.jit(jax.vmap(recogniser.features))(few.x[:5])
difference = float(np.abs(theirs - ours).max() / np.abs(theirs).max())
weights = sum(array.size for array in recogniser.base.values())
print(f"base: {weights:,} weights, {ours.shape[1]:,} features; relative difference from ONNX Runtime {difference:.0e}")

# %% [markdown]
# ## Fit and prune
#
# `bayesian="head"` gives the last layer a posterior, and `frozen="base"` keeps all else as it is. Its rivals: the same base
# trained on, a base of random numbers of the same sizes, and a small network of the 64 pixels.


# %%
def random_numbers(net):
    """The same network with each array of the base drawn anew, at its own mean and standard deviation."""
    rng = np.random.default_rng(SEED)
    drawn = {name: jnp.asarray(rng.normal(a.mean(), a.std(), a.shape), jnp.float32) for name, a in net.base.items()}
    return eqx.tree_at(lambda net: net.base, net, drawn)


def judge(net, few, judged, **settings):
    """Fit, prune by evidence, judge: the network, what is left of it, and its figures."""
    bnn = bp.BNN(
        net,
        prior=bp.priors.Gaussian(0.2),
        likelihood=bp.likelihoods.Categorical(),
        input_shape=few.x.shape[1:],
        prunable=bp.select.everything,
        **settings,
    )
    fit = bp.fit_svi(jax.random.key(SEED), bnn, few, num_steps=STEPS, batch_size=25, progress=False)
    pruned = bp.bmr_prune(fit.params, mask=fit.mask)
    figures = bp.evaluate(jax.random.key(100 + SEED), bnn, pruned.params, judged, mask=pruned.mask, num_samples=10)
    alive = sum(int(np.sum(mask)) for mask in pruned.mask.values())
    return bnn, pruned, figures | {"alive": alive, "of": sum(mask.size for mask in pruned.mask.values())}


pixels = [bp.Dataset(data.x[:, 0, 3::6, 2::4].reshape(len(data.x), -1), data.y) for data in (few, judged)]
made = {
    "frozen base": judge(recogniser, few, judged, bayesian="head", frozen="base"),
    "base trained on": judge(recogniser, few, judged, bayesian="head"),
    "frozen base of random numbers": judge(random_numbers(recogniser), few, judged, bayesian="head", frozen="base"),
    "no base: an MLP of the pixels": judge(bp.nets.MLP((64,), 10), *pixels),
}
print(f"\n{'':32} accuracy    NLL  alive of")
for name, (_, _, figures) in made.items():
    print(f"{name:32} {figures['accuracy']:8.3f} {figures['nll']:6.3f} {figures['alive']:6,} {figures['of']:,}")

# %%
bnn, pruned, _ = made["frozen base"]
still = all(np.array_equal(pruned.params[f"base.{name}"], array) for name, array in recogniser.base.items())
print(f"\nthe frozen base is what it was: {still}")

figure = Figure(figsize=(5, 2.5), layout="constrained")
axes = figure.add_subplot()
axes.barh(list(made), [figures["nll"] for _, _, figures in made.values()])
axes.invert_yaxis()
axes.set(xlabel="NLL, nats a digit")
bp.plots.save(figure, OUT / "frozen_base.png")
print(f"figure: frozen_base.png in {os.path.relpath(OUT)}")

# %% [markdown]
# ## What we learnt
#
# - Ten kinds of operations are enough to read the 1,320,612 weights of the base from its file; the 1,920 features of an image
#   are those of ONNX Runtime, but for 6e-6 of the largest.
# - `bayesian="head"` and `frozen="base"` are all that there is to say: no gradient of the base is computed, its weights are bit
#   for bit what they were, and what is pruned is the last layer.
# - The table above says what the base is worth: beside itself trained on, beside random numbers, and beside the pixels. A base
#   is worth freezing only where it wins there.
