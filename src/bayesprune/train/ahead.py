"""The steps of a fit compiled in a thread of their own, while the start of the fit is compiled and run beside it."""

import contextlib
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import jax
import numpy as np

from bayesprune.core.send import send
from bayesprune.train.feed import Stream, WholeFeed
from bayesprune.train.state import Compiled


@contextlib.contextmanager
def compiled_ahead(loop: Compiled, rng_key: jax.Array, data: WholeFeed | Stream) -> Iterator[None]:
    """Compile ``loop.run`` without a mask, for the state that ``loop.init`` will give, until the block ends and it is done.

    The two take XLA most of the time of a first fit. `jax.jit` finds what was compiled so, if the arrays are as those of
    ``loop.init`` are: committed to no device; others are compiled when they are called for.
    """
    if any(leaf.committed for leaf in jax.tree.leaves((rng_key, data.first)) if isinstance(leaf, jax.Array)):
        yield
        return
    carry = loop.init.eval_shape(rng_key, data.first)
    steps = loop.run.lower(carry, data.alike, {}, send(0, np.int32))
    with ThreadPoolExecutor(1, "bayesprune-compile") as thread:
        compiled = thread.submit(steps.compile)
        yield
        compiled.result()
