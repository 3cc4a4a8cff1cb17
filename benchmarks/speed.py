"""Step times as ratios: bayesprune against hand-written JAX, NumPyro's SVI.run, a MAP step, and PyTorch.

    python benchmarks/speed.py                      # both nets, five repeats
    python benchmarks/speed.py --nets mlp --repeats 3
    python benchmarks/speed.py --only MAP SGHMC     # contestants with these words in their names, and none of the long rows

Every figure is the median over repeats of a ratio of two times, the contestants taken in turn within a repeat, so that a drift
of the machine's speed falls out. Batch 128, AdaBelief 5e-3, made-up data of Fashion-MNIST's shape.
"""

import argparse
import json
import statistics
import subprocess
import sys
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import optax
from numpyro.contrib.module import random_flax_module
from numpyro.infer import SVI, Trace_ELBO
from numpyro.infer.autoguide import AutoNormal

import bayesprune as bp
from bayesprune.model.families import MapFamily

ROWS, BATCH = 12_800, 128
OPTIMIZER = optax.adabelief(5e-3)
NETS = {
    "mlp": (lambda: bp.nets.MLP(hidden=(400,) * 5, num_outputs=10), (28, 28, 1)),
    "lenet5": (lambda: bp.nets.LeNet5(num_outputs=10), (32, 32, 1)),
}


def made_up(shape: tuple[int, ...]) -> bp.Dataset:
    rng = np.random.default_rng(0)
    return bp.Dataset(rng.normal(size=(ROWS, *shape)).astype(np.float32), rng.integers(0, 10, ROWS).astype(np.int32))


def seconds_per_step(run: Callable[[int], Any], num_steps: int) -> float:
    begin = time.perf_counter()
    jax.block_until_ready(run(num_steps))
    return (time.perf_counter() - begin) / num_steps


def ours(net: Any, data: bp.Dataset, **settings: Any) -> Callable[[int], Any]:
    """`fit_svi` as a user calls it, under the plain course if no other is given; what it compiled first serves later calls."""
    bnn = bp.BNN(
        net,
        prior=settings.pop("prior", bp.priors.Flat()),
        likelihood=bp.likelihoods.Categorical(),
        input_shape=data.x.shape[1:],
        posterior=settings.pop("posterior", "mean_field"),
    )
    on_device = bp.Dataset(jnp.asarray(data.x), jnp.asarray(data.y))
    if "course" not in settings:
        settings |= {"course": bp.courses.Plain(), "optimizer": OPTIMIZER}  # a new optimizer would be traced at every call
    settings |= {"batch_size": BATCH, "progress": False}
    return lambda n: bp.fit_svi(jax.random.key(0), bnn, on_device, num_steps=n, **settings).params


def sampled(net: Any, data: bp.Dataset, kernel: Any, **settings: Any) -> Callable[[int], Any]:
    """`fit_sgmcmc` as a user calls it, of which the last network is kept."""
    prior = bp.priors.Gaussian(1.0, centred=True)
    start = MapFamily(init_loc="he")  # from U(-2, 2) a sampler's steps diverge
    bnn = bp.BNN(net, prior=prior, likelihood=bp.likelihoods.Categorical(), input_shape=data.x.shape[1:], posterior=start)
    on_device = bp.Dataset(jnp.asarray(data.x), jnp.asarray(data.y))
    settings = {"kernel": kernel, "batch_size": BATCH, "num_samples": 1, "sample_every": 1, "progress": False} | settings
    return lambda n: bp.fit_sgmcmc(jax.random.key(0), bnn, on_device, num_steps=n, burn_in=n // 2, **settings).params


def by_hand(net: Any, data: bp.Dataset) -> Callable[[int], Any]:
    """A mean-field step as one would write it in plain JAX: one normal draw per array, closed-form KL, one jitted step.

    The steps are dispatched one by one: inside a compiled loop XLA's convolution on a CPU is several times slower.
    """
    x, y = jnp.asarray(data.x), jnp.asarray(data.y)
    shapes = net.init(jax.random.key(0), x[:1])
    loc = jax.tree.map(lambda leaf: 0.1 * jnp.ones_like(leaf), shapes)
    params = (loc, jax.tree.map(lambda leaf: jnp.full_like(leaf, -2.0), shapes))

    def loss(params: Any, key: jax.Array, rows: jax.Array) -> jax.Array:
        loc, raw = params
        leaves, structure = jax.tree.flatten(loc)
        keys = jax.tree.unflatten(structure, list(jax.random.split(key, len(leaves))))
        scale = jax.tree.map(jax.nn.softplus, raw)
        draw = jax.tree.map(lambda m, s, k: m + s * jax.random.normal(k, m.shape), loc, scale, keys)
        logits = net.apply(draw, x[rows])
        nll = optax.softmax_cross_entropy_with_integer_labels(logits, y[rows]).mean()
        kl = jax.tree.map(lambda m, s: jnp.sum(0.5 * (s**2 + m**2 - 1) - jnp.log(s)), loc, scale)
        return nll + sum(jax.tree.leaves(kl)) / ROWS

    @jax.jit
    def step(params: Any, state: Any, key: jax.Array) -> tuple[Any, Any]:
        row_key, key = jax.random.split(key)
        rows = jax.random.randint(row_key, (BATCH,), 0, ROWS)
        grads = jax.grad(loss)(params, key, rows)
        updates, state = OPTIMIZER.update(grads, state, params)
        return optax.apply_updates(params, updates), state

    def run(num_steps: int) -> Any:
        now, state = params, OPTIMIZER.init(params)
        for index in range(num_steps):
            now, state = step(now, state, jax.random.key(index))
        return now

    return run


def numpyro_program(net: Any, shape: tuple[int, ...]) -> Callable[..., None]:
    def model(x: Any, y: Any) -> None:
        module = random_flax_module("nn", net, prior=dist.Normal(0.0, 1.0), input_shape=(1, *shape))
        with numpyro.plate("rows", ROWS, subsample_size=BATCH):
            batch_x, batch_y = numpyro.subsample(x, len(shape)), numpyro.subsample(y, 0)
            numpyro.sample("obs", dist.Categorical(logits=module(batch_x)), obs=batch_y)

    return model


def by_numpyro(net: Any, data: bp.Dataset) -> Callable[[int], Any]:
    """The loop inside `SVI.run`, AutoNormal on `random_flax_module`, compiled once; `SVI.run` compiles it at every call."""
    x, y = jnp.asarray(data.x), jnp.asarray(data.y)
    model = numpyro_program(net, data.x.shape[1:])
    svi = SVI(model, AutoNormal(model), OPTIMIZER, Trace_ELBO())
    state = svi.init(jax.random.key(0), x, y)
    run = jax.jit(lambda state, n: jax.lax.fori_loop(0, n, lambda _, state: svi.update(state, x, y)[0], state))
    return lambda n: svi.get_params(run(state, n))


def has_torch(python: str) -> bool:
    """Whether that interpreter has PyTorch."""
    try:
        return subprocess.run([python, "-c", "import torch"], capture_output=True, check=False).returncode == 0
    except OSError as error:
        raise SystemExit(f"--torch-python must be a Python interpreter, got {python!r} ({error.strerror}).") from error


def torch_step(python: str) -> float:
    """PyTorch's MAP step of LeNet-5 in seconds, from a process of its own."""
    script = Path(__file__).with_name("torch_lenet.py")
    command = [python, str(script), "--batch-size", str(BATCH), "--num-repeats", "3"]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    return json.loads(done.stdout.splitlines()[-1])["median_ms"] / 1e3


def step_rows(name: str, repeats: int, num_steps: int, torch_python: str, only: list[str]) -> list[tuple[str, float, str]]:
    make, shape = NETS[name]
    data = made_up(shape)
    contestants: dict[str, Callable[[], float]] = {}
    spl = bp.kernels.SGHMCSPL(step_size=0.01, num_cycles=1)
    known: dict[str, Callable[[int], Any]] = {
        "ours, mean field": ours(make(), data),
        "ours, mean field, local": ours(make(), data, estimator="local"),
        "ours, standard course": ours(make(), data, course=bp.courses.Standard()),
        "ours, BMR (masked)": ours(make(), data, sparsifier=bp.methods.BMR(), every=10_000),
        "ours, tiered": ours(make(), data, prior=bp.priors.Horseshoe()),
        "ours, tiered, gamma ratios": ours(make(), data, prior=bp.priors.Horseshoe(form="gamma_ratio")),
        "ours, MAP": ours(make(), data, posterior="map"),
        "ours, MAP (masked)": ours(make(), data, posterior="map", sparsifier=bp.methods.Magnitude(0.5), every=10_000),
        "ours, IVON": ours(make(), data, course=bp.courses.Plain(), optimizer=bp.kernels.IVON()),
        "ours, IVON, local": ours(make(), data, course=bp.courses.Plain(), optimizer=bp.kernels.IVON(), estimator="local"),
        "ours, SGHMC-SPL (masked)": sampled(make(), data, spl, sparsifier=bp.methods.SGHMCSPL(), every=10_000),
        "ours, SGHMC": sampled(make(), data, bp.kernels.SGHMC(step_size=1e-7)),
        "by hand, mean field": by_hand(make(), data),
        "NumPyro's loop, mean field": by_numpyro(make(), data),
    }
    for label, run in known.items():
        if only and not any(word in label for word in only):
            continue
        run(num_steps)  # compiles; samplers' cycles are parts of that number
        contestants[label] = lambda run=run: seconds_per_step(run, num_steps)
    if name == "lenet5" and not only and has_torch(torch_python):
        contestants["PyTorch, MAP"] = lambda: torch_step(torch_python)
    times: dict[str, list[float]] = {label: [] for label in contestants}
    for _ in range(repeats):
        for label, measure in contestants.items():
            times[label].append(measure())
    pairs = [
        ("our step / by hand", "ours, mean field", "by hand, mean field", "1.05"),
        ("our step / NumPyro's, inside SVI.run", "ours, mean field", "NumPyro's loop, mean field", "0.8"),
        ("our step / our MAP step", "ours, mean field", "ours, MAP", "2" if name == "mlp" else "1.3"),
        ("our local step / our step", "ours, mean field, local", "ours, mean field", ""),
        ("our step by the standard course / our step", "ours, standard course", "ours, mean field", ""),
        ("our masked step / our step", "ours, BMR (masked)", "ours, mean field", ""),
        # The BMR paper has its steps 30 % faster than the tiered ones, whose scales are ratios of gammas.
        ("our masked step / our tiered step", "ours, BMR (masked)", "ours, tiered", "0.77"),
        ("our masked step / our tiered step, gamma ratios", "ours, BMR (masked)", "ours, tiered, gamma ratios", "0.77"),
        ("our IVON step / our MAP step", "ours, IVON", "ours, MAP", "1.2"),
        ("our IVON step, local / our MAP step", "ours, IVON, local", "ours, MAP", ""),
        ("our IVON step / our step", "ours, IVON", "ours, mean field", ""),
        ("our SGHMC-SPL step / our MAP step", "ours, SGHMC-SPL (masked)", "ours, MAP", "1.15"),
        ("our SGHMC-SPL step / our masked MAP step", "ours, SGHMC-SPL (masked)", "ours, MAP (masked)", ""),
        ("our SGHMC step / our MAP step", "ours, SGHMC", "ours, MAP", "1.15"),
        ("our MAP step / PyTorch MAP step", "ours, MAP", "PyTorch, MAP", "1.3"),
    ]
    for label, values in times.items():
        print(f"{name:8} {label:34} median {1e3 * statistics.median(values):8.2f} ms/step  min {1e3 * min(values):8.2f}")
    return [
        (f"{name}: {title}", statistics.median(a / b for a, b in zip(times[one], times[other], strict=True)), aim)
        for title, one, other, aim in pairs
        if one in times and other in times
    ]


def rounds_row(repeats: int, rounds: int = 10, num_steps: int = 50) -> tuple[str, float, str]:
    """Ten rounds of pruning and training, from nothing, compilation included: one fit of ours, ten `SVI.run` of NumPyro."""
    make, shape = NETS["mlp"]
    data, ratios = made_up(shape), []
    for _ in range(repeats):
        jax.clear_caches()
        begin = time.perf_counter()
        # The caches were cleared: both compile anew.
        ours(make(), data, sparsifier=bp.methods.BMR(), every=num_steps)(rounds * num_steps)
        mine = time.perf_counter() - begin
        begin = time.perf_counter()
        x, y = jnp.asarray(data.x), jnp.asarray(data.y)
        model = numpyro_program(make(), shape)
        svi, state = SVI(model, AutoNormal(model), OPTIMIZER, Trace_ELBO()), None
        for index in range(rounds):
            result = svi.run(jax.random.key(index), num_steps, x, y, progress_bar=False, init_state=state)
            state = result.state
            bp.bmr_prune(result.params, prior_scale=1.0)
        ratios.append(mine / (time.perf_counter() - begin))
    return f"mlp: {rounds} prune-and-train rounds of {num_steps} steps / NumPyro", statistics.median(ratios), "0.2"


def bmr_row(repeats: int, num_weights: int = 10_000_000) -> tuple[str, float, str]:
    """The BMR pass over ten million weights, against 500 steps of a mean-field net of that size."""
    side = int(np.sqrt(num_weights / 3))
    net = bp.nets.MLP(hidden=(side,) * 4, num_outputs=10)
    data = made_up((side,))
    run = ours(net, data)
    params = run(2)
    step = seconds_per_step(run, 5)
    jitted = jax.jit(bp.bmr_prune)
    jax.block_until_ready(jitted(params))
    times = []
    for _ in range(repeats):
        begin = time.perf_counter()
        jax.block_until_ready(jitted(params))
        times.append(time.perf_counter() - begin)
    return "BMR pass over 10 million weights / 500 steps", statistics.median(times) / (500 * step), "0.01"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nets", nargs="+", choices=list(NETS), default=list(NETS))
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--only", nargs="+", default=[], metavar="WORD", help="contestants with one of these in their names")
    parser.add_argument(
        "--torch-python", default=sys.executable, metavar="PATH", help="a Python that has torch; without, its row is left out"
    )
    arguments = parser.parse_args()
    jax.config.update("jax_enable_compilation_cache", False)  # rounds count what is compiled, by both
    # Whole epochs are not timed: that the masked step never reaches its pruning step is meant.
    warnings.filterwarnings("ignore", message="the sparsifier never acts")
    settings = (arguments.repeats, arguments.steps, arguments.torch_python, arguments.only)
    rows = [row for name in arguments.nets for row in step_rows(name, *settings)]
    if not arguments.only:
        rows += [rounds_row(max(1, arguments.repeats // 2)), bmr_row(arguments.repeats)]
    print("\n| ratio (median) | measured | aim: at most |\n| --- | ---: | ---: |")
    for title, value, aim in rows:
        print(f"| {title} | {value:.3g} | {aim} |")


if __name__ == "__main__":
    main()
