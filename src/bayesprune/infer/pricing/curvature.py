"""The price of `laplace`: from a few chunks of rows, and all that follows on their curvature times the share that they are."""

import warnings
from collections.abc import Mapping
from typing import Any, NamedTuple

import jax
import numpy as np

from bayesprune.core.numbers import rows_in
from bayesprune.core.send import send
from bayesprune.infer.curvature.forms import ROWS
from bayesprune.infer.curvature.laid_out import LaidOut, lay_out_laplace
from bayesprune.infer.curvature.over_rows import Pass, Sums, bytes_of_a_form
from bayesprune.infer.laplace import curvature_of, settled
from bayesprune.infer.pricing.record import Price, fit_bytes, size_of, timed


def of_laplace(arguments: Mapping[str, Any], probe_seconds: float) -> Price:
    """Of `laplace` with these arguments."""
    reading, (laid, over_rows) = timed(lambda: _laid_out(arguments))
    few = _few(over_rows, probe_seconds)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # what it warns of is for the whole curvature to say
        act_seconds, fit = timed(lambda: settled(laid, few.sums))
    # The last chunk of "exact" has the rows that are left: a program of its own.
    programs = 1 + (len(over_rows.firsts) > 1 and rows_in(laid.data.x) % ROWS > 0 and laid.structure == "exact")
    network_bytes = size_of(laid.whole.trained.weights) + size_of(laid.whole.trained.points)
    data_bytes = size_of((laid.data.x, laid.data.y))
    shapes = {site: spec.shape for site, spec in laid.specs.items()}
    return Price(
        compile_seconds=programs * few.compile_seconds,
        start_seconds=reading,
        step_seconds=few.step_seconds,
        steps=len(over_rows.firsts),
        act_seconds=act_seconds,
        acts=1,
        memory_bytes=network_bytes + data_bytes + max(few.memory_bytes, bytes_of_a_form(laid.form, shapes)),
        data_bytes=data_bytes,
        file_bytes=fit_bytes(fit),
    )


def _laid_out(arguments: Mapping[str, Any]) -> tuple[LaidOut, Pass]:
    laid = lay_out_laplace(arguments)
    return laid, curvature_of(laid, laid.data)


class _Few(NamedTuple):
    """Seconds of compiling and of a chunk, its bytes; the sums over all rows, as some chunks have them."""

    compile_seconds: float
    step_seconds: float
    memory_bytes: int
    sums: Sums


def _few(over_rows: Pass, probe_seconds: float) -> _Few:
    """Chunks from here and there in the data, whose rows may be in an order."""
    firsts = np.random.default_rng(0).permutation(over_rows.firsts[: max(1, len(over_rows.firsts) - 1)]).tolist()
    rows = over_rows.rows_at(firsts[0])
    compile_seconds, chunk = timed(lambda: over_rows.chunk.lower(over_rows.start, *rows).compile())
    said: Any = chunk.memory_analysis()
    sums, seconds, tried = over_rows.start, 0.0, 0
    while tried < len(firsts) and (seconds < probe_seconds or not tried):
        taken, sums = timed(lambda: jax.block_until_ready(chunk(sums, *over_rows.rows_at(firsts[tried]))))  # noqa: B023
        seconds, tried = seconds + taken, tried + 1
    share = tried / len(over_rows.firsts)
    sums = jax.tree.map(lambda leaf: leaf / send(share, leaf.dtype), over_rows.end(sums))
    held = said.argument_size_in_bytes + said.output_size_in_bytes + said.temp_size_in_bytes
    return _Few(compile_seconds, seconds / tried, int(held), sums)
