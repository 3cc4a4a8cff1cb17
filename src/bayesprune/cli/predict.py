"""`bayesprune predict`: a compact network on rows of one's own."""

from pathlib import Path

import jax
import numpy as np
from tyro.conf import Positional

from bayesprune.cli.export import network
from bayesprune.core.files import reading
from bayesprune.core.formats import write_arrays


def predict(net: Positional[Path], data: Positional[Path], num_samples: int = 0, seed: int = 0, to: Path | None = None) -> None:
    """Predict with a compact network; prints the predictions, or writes them to a file.

    Args:
        net: A file that `bayesprune compact` wrote.
        data: Rows: a .npy file, or the array x of a .npz file.
        num_samples: Networks drawn from the posterior; 0: the one at its mean.
        seed: Of those draws.
        to: A .npz file to write: mean and, where networks are drawn, draws.
    """
    small, x = network(net), _rows(data)
    found = {"mean": small.predict(x)}
    if num_samples:
        draws = small.predict_draws(jax.random.key(seed), x, num_samples)
        found = {"mean": draws.mean(0).reshape(found["mean"].shape), "draws": draws}
    if to is not None:
        write_arrays(to, found)
        print(f"written:\n  {to}")
    else:
        print(np.array2string(found["mean"], precision=4, threshold=10_000, suppress_small=True))


def _rows(path: Path) -> np.ndarray:
    if not path.is_file():
        raise FileNotFoundError(2, f"no rows at {path}: give a .npy file, or a .npz file with an array x.")
    with reading(path, "file of rows", "Write it with numpy.save, or numpy.savez with an array x."):
        content = np.load(path, allow_pickle=False)
        return content if isinstance(content, np.ndarray) else content["x"]
