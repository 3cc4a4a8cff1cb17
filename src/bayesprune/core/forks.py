"""Forked processes: JAX keeps threads, a fork copies none of them, and what waits for one waits for ever."""

import os
import sys

_JAX = "jax._src.xla_bridge"  # JAX says nowhere else whether it has begun to compute, and asking for devices would begin it
_broken = False


def _in_child() -> None:
    global _broken
    bridge = sys.modules.get(_JAX)
    _broken = _broken or bool(bridge is not None and bridge.backends_are_initialized())


if hasattr(os, "register_at_fork"):  # Windows forks nothing
    os.register_at_fork(after_in_child=_in_child)


def check_process() -> None:
    """Refuse a process that was forked from one in which JAX had computed: `RuntimeError`, in place of a wait for ever."""
    if _broken:
        raise RuntimeError(
            "this process was forked from one that had used JAX, whose threads a fork does not copy: it would wait for ever. "
            "Start workers that begin anew: joblib.parallel_config(backend='loky'), or multiprocessing's 'spawn' or "
            "'forkserver'; or fork before JAX computes anything."
        )
