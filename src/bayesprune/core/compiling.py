"""How much XLA is to make of a program: one that runs a few times in a fit cannot earn back what one of all steps does.

Also how exact its products are, and how many programs are kept: a process may hold so many memory maps.
"""

import contextlib
import gc
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jax
import jaxlib.version

MAPS, MOST_MAPS = Path("/proc/self/maps"), Path("/proc/sys/vm/max_map_count")  # Linux alone has the limit
FULL = 0.6  # share of it; the most programs that one fit was seen to compile take a tenth
# A newer jaxlib knows no such option, and refuses what it does not know.
HAS_OTHER_EMITTERS = jaxlib.version.__version_info__ < (0, 11)
BITS_BY_KERNEL = "jax_threefry_gpu_kernel_lowering"  # a setting of JAX's


def quickly(level: int = 0) -> dict[str, Any]:
    """Options of `jax.jit` for a program that runs seldom: on a CPU a third of the compilation, results equal but for rounding.

    ``level``: of LLVM's optimisations, 0 for what is done once, 1 for what is done at every act. XLA's newer code for fusions
    is left out, too: it makes steps quicker, and takes half of their compilation (`benchmarks/first_result.py`). On other
    devices, and where JAX is set to optimise nothing, there are no options.

    >>> set(quickly()) <= {"xla_backend_optimization_level", "xla_cpu_use_fusion_emitters"}
    True
    """
    options = _on_a_cpu(level)
    return options | {"xla_cpu_use_fusion_emitters": False} if options and HAS_OTHER_EMITTERS else options


def soundly() -> dict[str, Any]:
    """Options of `jax.jit` for predictions: on a CPU level 1 of LLVM's optimisations.

    The same results, bit by bit, as soon (LeNet-5, 2,000 rows x 20 draws: 1.54 s and 1.55), after half of the compilation.
    """
    return _on_a_cpu(1)


def _on_a_cpu(level: int) -> dict[str, Any]:
    """LLVM's level; nothing on other devices, and where JAX is set to optimise nothing."""
    if jax.default_backend() != "cpu" or jax.config.values["jax_disable_most_optimizations"]:
        return {}
    return {"xla_backend_optimization_level": level}


@contextlib.contextmanager
def bits_by_kernel() -> Iterator[None]:
    """On GPUs, random bits by one kernel of JAX's, in place of code within every draw: the same bits, compiled much sooner.

    A transformer of 104 weight arrays takes 75 s to compile on an H100, and 366 without (`benchmarks/bmr.md`). It is a setting
    of the whole process, which only a process of ours may change: the command line's. `JAX_THREEFRY_GPU_KERNEL_LOWERING` in
    the environment, 0 or 1, stands.
    """
    if BITS_BY_KERNEL.upper() in os.environ or BITS_BY_KERNEL not in jax.config.values:
        yield
        return
    before = jax.config.values[BITS_BY_KERNEL]
    jax.config.update(BITS_BY_KERNEL, True)
    try:
        yield
    finally:
        jax.config.update(BITS_BY_KERNEL, before)


def make_room() -> bool:
    """Have JAX forget what it has compiled where the process nears the kernel's limit of memory maps; whether it did.

    A program on a CPU is mapped some fifty times over, and a first fit of new shapes compiles sixty. At the limit, 65,530 by
    default, which a loop over two dozen data sets reaches, the process is killed without a word. What is needed again is
    compiled again.
    """
    if not MAPS.exists() or not MOST_MAPS.exists():
        return False
    if MAPS.read_bytes().count(b"\n") < FULL * int(MOST_MAPS.read_text()):
        return False
    jax.clear_caches()
    gc.collect()  # what holds programs is held by itself
    return True


# Decorates a function. An accelerator rounds the factors of float32 products to ten bits (TF32; bfloat16: eight) unless told
# otherwise, and evidence is a small difference of large numbers. Products of the network itself are the user's to choose.
WHOLE_PRODUCTS = jax.default_matmul_precision("highest")
