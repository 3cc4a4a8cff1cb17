"""A step of a network whose program was shrunk, beside one of the same network built small, and one with masks.

    python benchmarks/shrunk_steps.py                        # about a minute each

An MLP of five layers of 400 on Fashion-MNIST of which a mask leaves so many units a layer; CPU milliseconds a step of whole
chunks, the least of those after the first; local reparameterisation, AdaBelief, batch 128.
"""

import time

import jax
import numpy as np
import optax

import bayesprune as bp
from bayesprune.train.training import Training

UNITS = (200, 100, 50)
STEPS, EVERY = 160, 40


def network(width: int, shape: tuple[int, ...]) -> bp.BNN:
    parts = {"prior": bp.priors.Flat(), "likelihood": bp.likelihoods.Categorical(), "input_shape": shape}
    return bp.BNN(bp.nets.MLP((width,) * 5, 10), **parts)


def mask_of(bnn: bp.BNN, width: int) -> dict[str, np.ndarray]:
    """Alive: the first units of each layer, with all inputs."""
    mask = {str(spec.path): np.zeros(spec.shape, bool) for spec in bnn.layout if spec.prunable}
    for site, alive in mask.items():
        alive[..., :width] = True
        if alive.ndim == 2 and site != "Dense_0.kernel":
            alive[width:] = False
    return mask


def milliseconds(bnn: bp.BNN, data: bp.Dataset, mask: dict[str, np.ndarray] | None, storage: str) -> float:
    times, chunk = [], Training._chunk

    def timed(self, standing, record, num_steps, begun):  # type: ignore[no-untyped-def]
        begin = time.process_time()
        result = chunk(self, standing, record, num_steps, begun)
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


def main() -> None:
    train, _ = bp.data.load("fashion_mnist")
    whole = network(400, train.x.shape[1:])
    for width in UNITS:
        mask = mask_of(whole, width)
        masked, compact = (milliseconds(whole, train, mask, storage) for storage in ("masked", "compact"))
        small = milliseconds(network(width, train.x.shape[1:]), train, None, "masked")
        print(
            f"{width} units a layer: masked {masked:.1f} ms, compact {compact:.1f} ms, built small {small:.1f} ms", flush=True
        )


if __name__ == "__main__":
    main()
