"""The price of `predict` and `predict_draws`: from one block of rows and a few of the networks."""

from collections.abc import Callable, Mapping
from typing import Any

import jax
import numpy as np

from bayesprune.core.numbers import rows_in
from bayesprune.core.send import send
from bayesprune.core.types import Mask, PyTree, Standalone
from bayesprune.infer.predict import blocks_of, check_inputs, mean_over, networks, part_of, predict, predict_draws
from bayesprune.infer.pricing.record import Price, of_one_more, size_of, timed
from bayesprune.model.bnn import BNN
from bayesprune.train.sources.in_order import InOrder

FEW = 2  # networks of a first look


def of_predict(arguments: Mapping[str, Any], probe_seconds: float) -> Price:
    """Of `predict`: its blocks of outputs, and all of them joined."""
    return _of_rows(predict, arguments, probe_seconds, lambda all_bytes, block_bytes, number: 2 * all_bytes)


def of_predict_draws(arguments: Mapping[str, Any], probe_seconds: float) -> Price:
    """Of `predict_draws`: the outputs of all networks, those of one block twice besides."""
    return _of_rows(
        predict_draws, arguments, probe_seconds, lambda all_bytes, block_bytes, number: number * (all_bytes + 2 * block_bytes)
    )


def _of_rows(
    call: Callable[..., np.ndarray],
    arguments: Mapping[str, Any],
    probe_seconds: float,
    held: Callable[[int, int, int], int],
) -> Price:
    """``held``: of the bytes of a network's outputs for all rows, and for a block, and the number of networks, what is kept."""
    bnn, given = arguments["bnn"], arguments["params"]
    if isinstance(bnn, Standalone):
        raise ValueError("price is of a BNN and its params: a compact network is timed by a call of its own predict.")
    key, x, mask = check_inputs(arguments["rng_key"], bnn, given, arguments["x"], arguments["mask"], arguments["num_samples"])
    if isinstance(x, InOrder):
        raise ValueError("price is of rows in memory: give an array of some of them; seconds grow with the number of rows.")
    params, number = networks(given, arguments["num_samples"])
    block = next(blocks_of(x))
    chunks, rows_of_a_chunk = jax.tree.leaves(block)[0].shape[:2]
    num_rows, rows = rows_in(x), min(rows_in(x), chunks * rows_of_a_chunk)

    def some(number: int, rows: int) -> tuple[float, np.ndarray]:
        part = {"x": part_of(x, slice(0, rows)), "num_samples": number, "rng_key": key}
        return timed(lambda: call(**{**arguments, **part}))

    few = min(FEW, number)
    (cold, _), (warm, outputs) = some(few, rows), some(few, rows)
    compile_seconds = max(cold - warm, 0.0)
    if rest := num_rows % rows:  # the last block, a program of its own where it has fewer chunks
        compile_seconds += max(some(few, rest)[0] - some(few, rest)[0], 0.0)
    of_a_network = of_one_more(lambda tried: some(tried, rows)[0], few, warm, number, probe_seconds, jump=number)
    start_seconds = max(warm - few * of_a_network, 0.0) * num_rows / rows
    output_bytes = int(outputs.nbytes) // (few * rows if call is predict_draws else rows)
    params_bytes = size_of(params) + size_of(mask)
    memory_bytes = params_bytes + _of_a_block(key, bnn, params, mask, block, number)
    return Price(
        compile_seconds=compile_seconds,
        start_seconds=start_seconds,
        step_seconds=of_a_network / chunks,
        steps=number * -(-num_rows // rows_of_a_chunk),
        memory_bytes=memory_bytes + held(num_rows * output_bytes, rows * output_bytes, number),
        data_bytes=size_of(block),
    )


def bytes_of_a_block(rng_key: jax.Array, bnn: BNN, params: PyTree, x: PyTree, mask: Mask, num_samples: int) -> int:
    """Bytes of the first block of rows, and of what the mean over networks takes of it."""
    drawn_from, number = networks(params, num_samples)
    return _of_a_block(rng_key, bnn, drawn_from, mask, next(blocks_of(x)), number)


def _of_a_block(rng_key: jax.Array, bnn: BNN, params: PyTree, mask: Mask, block: PyTree, number: int) -> int:
    compiled = mean_over(bnn, False).lower(rng_key, params, mask, block, send(number)).compile()
    said: Any = compiled.memory_analysis()
    return size_of(block) + int(said.temp_size_in_bytes + said.output_size_in_bytes)
