"""Checkpoints of a fit: everything that the next step depends on, and what was recorded so far."""

import os
import re
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np

from bayesprune.core.lock import alone_in
from bayesprune.infer.checkpoint import Checkpoints, check_same_settings
from bayesprune.infer.compiled import Recipe
from bayesprune.infer.record import Record
from bayesprune.infer.standing import Standing


@dataclass(frozen=True)
class NoCheckpoints:
    """Saves nothing, resumes nothing."""

    def alone(self) -> AbstractContextManager[None]:
        return nullcontext()

    def resume(self, standing: Standing, record: Record) -> tuple[Standing, Record]:
        return standing, record

    def save(self, step: int, standing: Standing, record: Record) -> None:
        return None


@dataclass(frozen=True)
class FitCheckpoints:
    """Checkpoints of one fit in a folder; ``fingerprint``: the settings that must not change between start and resumption."""

    checkpoints: Checkpoints
    fingerprint: dict[str, Any]

    def alone(self) -> AbstractContextManager[None]:
        """Keeps other fits out of the folder; the processes of one fit on several machines share it, and write the same."""
        return alone_in(self.checkpoints.folder) if jax.process_count() == 1 else nullcontext()

    def resume(self, standing: Standing, record: Record) -> tuple[Standing, Record]:
        step = self.checkpoints.latest()
        if step is None:
            return standing, record
        metadata = self.checkpoints.metadata(step)
        check_same_settings(metadata["fingerprint"], self.fingerprint, self.checkpoints.folder)
        now = (standing.carry, standing.sparse)
        best = now if metadata.get("has_best") else None
        (carry, sparse, losses, best), _ = self.checkpoints.restore(step, (*now, np.zeros((step,), np.float32), best))
        record = Record(record.losses, metadata["history"], metadata["stopped"])
        record.add_losses(0, losses[: len(record.losses)])
        return Standing(carry, sparse, best), record

    def save(self, step: int, standing: Standing, record: Record) -> None:
        metadata = {"fingerprint": self.fingerprint, "history": record.history, "stopped": record.stopped}
        metadata["has_best"] = standing.best is not None
        state = (standing.carry, standing.sparse, record.losses[:step], standing.best)
        self.checkpoints.save(step, state, metadata)


def fingerprint(rng_key: jax.Array, num_rows: int, every: int, storage: str, recipe: Recipe) -> dict[str, Any]:
    """The settings of a fit that must not change between start and resumption."""
    return {
        "rng_key": jax.random.key_data(rng_key).tolist(),
        "rows": num_rows,
        "batch_size": recipe.batch_size,
        "sparsifier": spelled(recipe.sparsifier),
        "every": every,
        "estimator": type(recipe.elbo).__name__,
        "kl_weight": spelled(recipe.kl_weight),
        "storage": storage,
        "augment": spelled(recipe.augment),
    }


def spelled(value: Any) -> str:
    """What a setting looks like in every process: its representation without the addresses of functions.

    >>> spelled(lambda step: 1.0)
    '<function <lambda>>'
    """
    return re.sub(r" at 0x[0-9a-fA-F]+", "", repr(value))


def open_checkpoints(folder: str | os.PathLike[str] | None, fingerprint: dict[str, Any]) -> FitCheckpoints | NoCheckpoints:
    """The checkpoints in ``folder``, made if need be; none for None."""
    return NoCheckpoints() if folder is None else FitCheckpoints(Checkpoints(folder), fingerprint)
