"""Several devices: a batch spread over forced host devices gives the losses of one device."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = """
import jax, numpy as np, tempfile, bayesprune as bp
from tests.infer import programs
assert len(jax.devices()) == 4
bnn, data = programs.small_bnn(), programs.classes()
settings = dict(num_steps=12, batch_size=16, sparsifier=bp.methods.BMR(), every=5)
alone = bp.fit_svi(jax.random.key(0), bnn, data, **settings)
mesh = jax.make_mesh((4,), ("rows",))
spread = bp.fit_svi(jax.random.key(0), bnn, data, mesh=mesh, **settings)
# Sums over rows are taken in another order: equal to rounding, not bit by bit.
np.testing.assert_allclose(spread.losses, alone.losses, rtol=1e-4)
with tempfile.TemporaryDirectory() as folder:
    np.save(folder + "/x.npy", data.x)
    on_disk = bp.Dataset(np.load(folder + "/x.npy", mmap_mode="r"), data.y)
    read = bp.fit_svi(jax.random.key(0), bnn, on_disk, mesh=mesh, **settings)
np.testing.assert_allclose(read.losses, alone.losses, rtol=1e-4)
try:
    bp.fit_svi(jax.random.key(0), bnn, data, num_steps=1, batch_size=15, mesh=mesh)
except ValueError as error:
    assert "multiple of 4" in str(error), error
else:
    raise AssertionError("an uneven batch was taken")
"""


@pytest.mark.slow
def test_a_batch_spread_over_four_devices_gives_the_same_losses() -> None:
    root = Path(__file__).resolve().parents[2]
    flags = os.environ.get("XLA_FLAGS", "") + " --xla_force_host_platform_device_count=4"
    environment = os.environ | {"XLA_FLAGS": flags, "PYTHONPATH": f"{root / 'src'}{os.pathsep}{root}", "JAX_PLATFORMS": "cpu"}
    done = subprocess.run([sys.executable, "-c", PROGRAM], env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-3_000:]
