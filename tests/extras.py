"""What an environment with few extras gives: every public name is there, or says which extra it needs.

`make extra EXTRA=plots` makes one. Then the README's road, on a few rows: fit, prune, predict, make smaller, save and load. A
script, as pytest is an extra too.
"""

import importlib
import tempfile
from pathlib import Path

import jax
import numpy as np

import bayesprune as bp

FACES = (
    "courses",
    "data",
    "deploy",
    "features",
    "kernels",
    "likelihoods",
    "methods",
    "metrics",
    "nets",
    "optimizers",
    "plots",
    "priors",
)


def names() -> tuple[list[str], dict[str, str]]:
    """Public names that are there, and of the others what is said."""
    there, wanting = [], {}
    for name in bp.__all__:
        try:
            getattr(bp, name)
            there.append(name)
        except ImportError as error:
            assert "pip install" in str(error), f"bayesprune.{name}: {error!r} names no remedy"
            wanting[name] = str(error)
    for face in FACES:
        if face not in wanting:
            module = getattr(bp, face, None) or importlib.import_module(f"bayesprune.{face}")
            for name in dir(module):
                getattr(module, name)
    return there, wanting


def road() -> None:
    """Fit, prune, predict, make smaller, save and load."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(64, 4)).astype(np.float32)
    data = bp.Dataset(x, (x[:, 0] > 0).astype(np.int32))
    bnn = bp.BNN(bp.nets.MLP((8,), 2), prior=bp.priors.Flat(), likelihood=bp.likelihoods.Categorical(), input_shape=(4,))
    fit = bp.fit_svi(jax.random.key(0), bnn, data, num_steps=200, batch_size=32, progress=False)
    pruned = bp.bmr_prune(fit.params)
    small = bp.compact(bnn, pruned.params, pruned.mask)
    with tempfile.TemporaryDirectory() as folder:
        small.save(Path(folder) / "net.bayesprune")
        again = bp.load(Path(folder) / "net.bayesprune").predict(x)
    np.testing.assert_allclose(again, small.predict(x), atol=1e-6)
    assert bp.predict(jax.random.key(1), bnn, fit.params, x).shape == (64, 2)


if __name__ == "__main__":
    there, wanting = names()
    road()
    print(f"{len(there)} public names are there; {len(wanting)} say what they need:")
    for name, error in wanting.items():
        print(f"  {name}: {error}")
