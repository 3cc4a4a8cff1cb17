"""A fit on one of eight devices, over all eight, and over four for rows by two for parameters; what differs, as JSON."""

import json
import sys

import jax
import numpy as np

import bayesprune as bp

ROWS = np.random.default_rng(0).normal(size=(96, 4)).astype(np.float32)
DATA = bp.Dataset(ROWS, np.argmax(ROWS[:, :3], axis=1).astype(np.int32))
MESHES = {"eight": ((8,), ("rows",)), "four by two": ((4, 2), ("rows", "weights"))}


def fitted(mesh: jax.sharding.Mesh | None) -> bp.FitResult:
    net = bp.nets.MLP((8,), 3)
    bnn = bp.BNN(net, prior=bp.priors.Flat(), likelihood=bp.likelihoods.Categorical(), input_shape=(4,))
    return bp.fit_svi(
        jax.random.key(0), bnn, DATA, num_steps=12, batch_size=16, course=bp.courses.Plain(), sparsifier=bp.methods.SNR(0.5),
        every=6, mesh=mesh, progress=False,
    )  # fmt: skip


if __name__ == "__main__":
    alone, told = fitted(None), {"devices": jax.device_count()}
    for name, (shape, axes) in MESHES.items():
        fit = fitted(jax.make_mesh(shape, axes))
        told[name] = {
            "apart": max(float(np.max(np.abs(fit.params[site] - alone.params[site]))) for site in alone.params),
            "masks": all(bool(np.array_equal(fit.mask[site], alone.mask[site])) for site in alone.mask),
            "cut": bool(not all(np.all(alive) for alive in fit.mask.values())),
        }
    sys.stdout.write(json.dumps(told))
