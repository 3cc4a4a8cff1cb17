"""A step of a network whose program was shrunk, beside one of the same network built small, and one with masks.

    python benchmarks/shrunk_steps.py                        # about a minute each

An MLP of five layers of 400 on Fashion-MNIST of which a mask leaves so many units a layer, and a share of the weights between
them; CPU milliseconds a step of whole chunks, the least of those after the first; local reparameterisation, AdaBelief, batch
128. Then what a step consists of, for one array of 400 x 400.
"""

import time
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax

import bayesprune as bp
from bayesprune.model.transforms import noise
from bayesprune.model.transforms.noise import NoiseOfSlices
from bayesprune.train.training import Training

LEFT = ((400, 0.1), (200, 0.08), (200, 1.0), (100, 1.0), (50, 1.0))  # units of each layer, share of the weights between them
STEPS, EVERY = 160, 40


def network(width: int, shape: tuple[int, ...]) -> bp.BNN:
    parts = {"prior": bp.priors.Flat(), "likelihood": bp.likelihoods.Categorical(), "input_shape": shape}
    return bp.BNN(bp.nets.MLP((width,) * 5, 10), **parts)


def mask_of(bnn: bp.BNN, width: int, share: float) -> dict[str, np.ndarray]:
    """Alive: the first units of each layer, with all inputs, and of the weights between them a share."""
    rng = np.random.default_rng(0)
    mask = {str(spec.path): np.zeros(spec.shape, bool) for spec in bnn.layout if spec.prunable}
    for site, alive in mask.items():
        alive[..., :width] = True
        if alive.ndim == 2 and site != "Dense_0.kernel":
            alive[width:] = False
        if alive.ndim == 2:
            alive &= rng.random(alive.shape) < share
    return mask


def milliseconds(bnn: bp.BNN, data: bp.Dataset, mask: dict[str, np.ndarray] | None, storage: str) -> float:
    times, chunk = [], Training._chunk

    def timed(self, state, record, num_steps, begun):  # type: ignore[no-untyped-def]
        begin = time.process_time()
        result = chunk(self, state, record, num_steps, begun)
        times.append((time.process_time() - begin) / result[1])
        return result

    Training._chunk = timed
    try:
        how = {"course": bp.courses.Plain(), "optimizer": optax.adabelief(1e-3), "estimator": "local", "progress": False}
        how |= {"callbacks": lambda moment: False, "callback_every": EVERY, "batch_size": 128, "num_steps": STEPS}
        bp.fit_svi(jax.random.key(0), bnn, data, mask=mask, storage=storage, **how)
    finally:
        Training._chunk = chunk
    return 1e3 * min(times[1:])


def least(call: Callable[..., Any], *args: Any) -> float:
    """CPU milliseconds of a compiled call, the least of five rounds of thirty."""
    call, times = jax.jit(call), []
    jax.block_until_ready(call(*args))
    for _ in range(5):
        begin = time.process_time()
        for _ in range(30):
            done = call(*args)
        jax.block_until_ready(done)
        times.append((time.process_time() - begin) / 30)
    return 1e3 * min(times)


def parts() -> None:
    """What a step does for one array, each by itself."""
    rng, optimizer = np.random.default_rng(0), optax.adabelief(1e-3)
    x, w = (jnp.asarray(rng.normal(size=(rows, 400)), jnp.float32) for rows in (128, 400))
    params = {"loc": w, "scale": w}
    print(f"a product of 128 rows: {least(lambda x, w: x @ w, x, w):.2f} ms; six of them are a step's")
    state = optimizer.init(params)
    print(f"AdaBelief of locs and scales: {least(lambda p, s: optimizer.update(p, s, p), params, state):.2f} ms")
    scales = lambda raw: jnp.sum(jnp.square(jax.nn.softplus(raw)) / 2 - jnp.log(jax.nn.softplus(raw)))  # noqa: E731
    print(f"softplus of the scales and their part of the divergence, with its gradient: {least(jax.grad(scales), w):.2f} ms")
    key = jax.random.key(0)
    print(f"noise of its 51,200 outputs, whole: {least(lambda key: noise.quantile(key, (128, 400)), key):.2f} ms")
    for kept in (200, 100):
        part = NoiseOfSlices(noise.quantile, (128, 400), (None, tuple(range(kept))))
        print(f"of {kept} units of 400: {least(lambda key, part=part: part(key, part.shape), key):.2f} ms")


def main() -> None:
    parts()
    train, _ = bp.data.load("fashion_mnist")
    whole = network(400, train.x.shape[1:])
    for width, share in LEFT:
        mask = mask_of(whole, width, share)
        masked, compact = (milliseconds(whole, train, mask, storage) for storage in ("masked", "compact"))
        left = f"{width} units a layer, {100 * share:.0f} % of the weights between them"
        said = f"{left}: masked {masked:.1f} ms, compact {compact:.1f} ms"
        if share == 1:
            said += f", built small {milliseconds(network(width, train.x.shape[1:]), train, None, 'masked'):.1f} ms"
        print(said, flush=True)


if __name__ == "__main__":
    main()
