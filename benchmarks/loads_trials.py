"""One heavy load in a process of its own, for `loads.py`: what it holds at most, beside what it has to hold by count.

    python benchmarks/loads_trials.py rows 5000000       # prints one line of JSON

"must_bytes" is counted from shapes alone. What the same call holds at a small size, which is Python, JAX and compiled programs,
is taken off by `loads.py`.
"""

import json
import sys
import tempfile
import time
from collections.abc import Callable
from typing import Any

import jax
import numpy as np

import bayesprune as bp

DRAWS = 100
COLUMNS = 50
WORDS = 4  # bytes of a float32


def resident(which: str = "VmHWM") -> int:
    """Bytes that are in memory, "VmRSS", or were at most."""
    with open("/proc/self/status") as lines:
        return 1024 * int(next(line.split()[1] for line in lines if line.startswith(which)))


def made(rows: int, columns: int) -> bp.Dataset:
    x = np.random.default_rng(0).standard_normal((rows, columns), dtype=np.float32)
    return bp.Dataset(x, x[:, 0].copy())


def regression(columns: int, hidden: tuple[int, ...], prior: Any = None) -> bp.BNN:
    net = bp.nets.MLP(hidden, 1)
    return bp.BNN(net, prior=prior or bp.priors.Flat(), likelihood=bp.likelihoods.Normal(), input_shape=(columns,))


def fitted(bnn: bp.BNN, data: bp.Dataset, num_steps: int, batch_size: int = 16, **more: Any) -> bp.FitResult:
    return bp.fit_svi(jax.random.key(0), bnn, data, num_steps=num_steps, batch_size=batch_size, progress=False, **more)


def rows(size: int) -> int:
    """A fit by default with BMR, and its figures over all: the user's arrays, a copy on the device, an order of the rows."""
    data, bnn = made(size, COLUMNS), regression(COLUMNS, (30,))
    fit = fitted(bnn, data, 2000, 500, sparsifier=bp.methods.BMR())
    bp.evaluate(jax.random.key(1), bnn, fit.params, data, mask=fit.mask, num_samples=4)
    return 2 * sum(array.nbytes for array in data) + size * WORDS


def weights(size: int, **more: Any) -> int:
    """Steps of a net of two equal layers: what the fit holds, gradients, one drawn network and the noise it is drawn by."""
    width = round((size / 2) ** 0.5)
    fit = fitted(regression(width, (width, width)), made(64, width), 10, course=bp.courses.Plain(), **more)
    params = sum(value.nbytes for value in jax.tree.leaves(fit.params))
    return sum(array.nbytes for array in jax.live_arrays()) + params + 2 * WORDS * 2 * width**2


def cut(size: int) -> int:
    """The same with cuts by BMR."""
    return weights(size, sparsifier=bp.methods.BMR())


def draws(size: int) -> int:
    """All draws of all rows in one array, beside the rows."""
    data, bnn = made(size, 10), regression(10, (30,))
    fit = fitted(bnn, bp.Dataset(data.x[:500], data.y[:500]), 200, 50, course=bp.courses.Plain())
    found = bp.predict_draws(jax.random.key(1), bnn, fit.params, data.x, num_samples=DRAWS)
    return sum(array.nbytes for array in data) + found.nbytes


def mean(size: int) -> int:
    """Their mean: the rows, and one number a row."""
    data, bnn = made(size, 10), regression(10, (30,))
    fit = fitted(bnn, bp.Dataset(data.x[:500], data.y[:500]), 200, 50, course=bp.courses.Plain())
    found = bp.predict(jax.random.key(1), bnn, fit.params, data.x, num_samples=DRAWS)
    return sum(array.nbytes for array in data) + found.nbytes


def history(size: int) -> int:
    """So many steps with a thousand evaluations and twenty checkpoints: the losses, and what else is kept of every moment."""
    data = made(64, 3)
    with tempfile.TemporaryDirectory() as folder:
        fit = fitted(
            regression(3, (4,)), data, size, sparsifier=bp.methods.BMR(), eval_data=data, eval_every=max(1, size // 1000),
            checkpoint=folder, checkpoint_every=size // 20,
        )  # fmt: skip
    assert len(fit.losses) == size
    return fit.losses.nbytes + sum(np.asarray(value).nbytes for value in fit.history.values())


def fits(size: int) -> int:
    """So many fits, twenty of them different: whatever number of times they are made, nothing is left but their programs."""
    priors = (bp.priors.Flat(), bp.priors.Gaussian(), bp.priors.Horseshoe())
    methods = (
        {},
        *({"sparsifier": one} for one in (bp.methods.BMR(), bp.methods.SNR(density=0.5), bp.methods.SSVI(density=0.5))),
    )
    data = made(96, 4)
    for number in range(size):
        one = number % 20
        bnn = regression(4, (3 + one % 5,), priors[one % 3])
        fitted(bnn, data, 200, course=bp.courses.Plain(), **methods[one % 4])
        if number % 20 == 19:
            print(f"after {number + 1}: {resident('VmRSS') / 1e6:.0f} MB", file=sys.stderr)
    return 0


TRIALS: dict[str, Callable[[int], int]] = {
    "rows": rows,
    "weights": weights,
    "cut": cut,
    "draws": draws,
    "mean": mean,
    "history": history,
    "fits": fits,
}

if __name__ == "__main__":
    needed = TRIALS[sys.argv[1]](int(sys.argv[2]))
    print(json.dumps({"must_bytes": needed, "peak_bytes": resident(), "cpu_seconds": time.process_time()}))
