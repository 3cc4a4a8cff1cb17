"""Fits begun on some devices, killed, and gone on with on others; how far they are from a whole one, as JSON.

``python other_devices.py svi|sgmcmc FOLDER``, in a process of four devices.
"""

import json
import sys
from typing import Any

import jax
import numpy as np

import bayesprune as bp
from tests.infer.programs import classes, line, linear_program, small_bnn

DATA = classes()
MESHES = {
    "one": ((1,), ("rows",)),
    "two": ((2,), ("rows",)),
    "four": ((4,), ("rows",)),
    "two by two": ((2, 2), ("rows", "weights")),
}
WAYS = {
    "svi": (("four", "two"), ("four", "one"), ("one", "four"), ("none", "four"), ("two by two", "none")),
    "sgmcmc": (("four", "two"), ("four", "one"), ("none", "four")),
}


class Kill(Exception):
    """Stands for the end of a process in the midst of a fit."""


def mesh_of(name: str) -> jax.sharding.Mesh | None:
    if name == "none":
        return None
    shape, axes = MESHES[name]
    return jax.make_mesh(shape, axes, devices=jax.devices()[: np.prod(shape)])


def svi(devices: str, data: Any = DATA, **more: Any) -> bp.FitResult:
    settings = {"num_steps": 12, "batch_size": 16, "sparsifier": bp.methods.SNR(0.5), "every": 6, "progress": False} | more
    return bp.fit_svi(jax.random.key(0), small_bnn(), data, course=bp.courses.Plain(), mesh=mesh_of(devices), **settings)


def sgmcmc(devices: str, data: Any = DATA, **more: Any) -> bp.FitResult:
    settings = {"num_steps": 12, "batch_size": 16, "num_samples": 2, "sample_every": 2, "progress": False} | more
    kernel = bp.kernels.SGHMC(1e-3)
    return bp.fit_sgmcmc(jax.random.key(0), small_bnn(), data, kernel=kernel, mesh=mesh_of(devices), **settings)


def killed(fit: Any, devices: str, folder: str, **more: Any) -> None:
    def kill(moment: bp.Moment) -> None:
        if moment.step == 8:
            raise Kill

    try:
        fit(devices, checkpoint=folder, checkpoint_every=4, callbacks=kill, callback_every=8, **more)
    except Kill:
        return


def apart(one: bp.FitResult, other: bp.FitResult) -> float:
    """The largest difference between the numbers of two fits; 1 where their masks differ."""
    masks = all(np.array_equal(one.mask[site], other.mask[site]) for site in one.mask)
    pairs = [(one.params[name], other.params[name]) for name in one.params] + [
        (one.losses / len(DATA.y), other.losses / len(DATA.y))
    ]
    return max(float(np.max(np.abs(np.subtract(*pair)))) for pair in pairs) if masks else 1.0


def refused(folder: str, **more: Any) -> str:
    try:
        svi("two", checkpoint=folder, **more)
    except ValueError as error:
        return str(error)
    return "resumed"


def refused_program(folder: str) -> str:
    """Of a program by hand whose prior is another one, which its step alone can tell."""
    data, settings = line(rows=48)[0], {"course": bp.courses.Plain(), "checkpoint": folder, "progress": False}
    bp.fit_svi(jax.random.key(0), linear_program(1.0), data, num_steps=4, mesh=mesh_of("four"), **settings)
    try:
        bp.fit_svi(jax.random.key(0), linear_program(2.0), data, num_steps=8, mesh=mesh_of("two"), **settings)
    except ValueError as error:
        return str(error)
    return "resumed"


def spread() -> bp.Dataset:
    """The data over all four devices, on the axes that `jax.make_mesh` gives."""
    rows = jax.sharding.NamedSharding(mesh_of("four"), jax.sharding.PartitionSpec("rows"))
    return bp.Dataset(*jax.device_put(tuple(DATA), rows))


def mapped(folder: str) -> bp.Dataset:
    np.save(f"{folder}/x.npy", DATA.x)
    return bp.Dataset(np.load(f"{folder}/x.npy", mmap_mode="r"), DATA.y)


if __name__ == "__main__":
    name, folder = sys.argv[1:]
    fit = {"svi": svi, "sgmcmc": sgmcmc}[name]
    alone, told = fit("none"), {"devices": jax.device_count()}
    told["spread"] = apart(alone, fit("none", spread()))
    for first, then in WAYS[name]:
        killed(fit, first, f"{folder}/{first} {then}")
        told[f"{first} -> {then}"] = apart(alone, fit(then, checkpoint=f"{folder}/{first} {then}", checkpoint_every=4))
    if name == "svi":
        killed(fit, "four", f"{folder}/read", data=mapped(folder))
        told["read"] = apart(alone, fit("two", data=mapped(folder), checkpoint=f"{folder}/read", checkpoint_every=4))
        told["batch"] = refused(f"{folder}/four two", batch_size=8)
        told["program"] = refused_program(f"{folder}/program")
    sys.stdout.write(json.dumps(told))
