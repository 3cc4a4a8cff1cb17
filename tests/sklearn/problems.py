"""Small problems and small settings, of few shapes: each shape compiles the training loop."""

import numpy as np

LINEAR = {"hidden": (), "num_steps": 400, "learning_rate": 0.03, "num_samples": 50, "random_state": 0}
NET = {"hidden": (4,), "num_steps": 200, "learning_rate": 0.03, "num_samples": 20, "random_state": 0}


def linear_rows(rows=120, features=6, relevant=3, noise=0.5, seed=0):
    """Independent normal inputs, the first few of which add up to y."""
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((rows, features))
    return x, x[:, :relevant].sum(axis=1) + noise * rng.standard_normal(rows)
