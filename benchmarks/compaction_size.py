"""What compaction saves of finished runs: numbers, FLOPs, bytes, and what the shorter values cost in accuracy and NLL.

    bayesprune run --dataset fashion_mnist --net mlp --mlp.hidden 400 400 400 400 400 --method bmr --steps 9400 --every 470 \
        --course plain --learning-rate 0.01 --estimator local --batch-size 128 --out runs/mlp
    python benchmarks/compaction_size.py runs/mlp runs/lenet5      # a table, one row for each run and kind of values

Bytes are compared with loc and scale of every weight in float32, 8 bytes a weight, and accuracy and NLL with those of the
masked network; all by 100 networks drawn from the posterior, on the run's test set.
"""

import argparse
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jax

import bayesprune as bp
from bayesprune.cli import build, rows, settings
from bayesprune.cli.results import POSTERIOR
from bayesprune.deploy.files.write import VALUES
from bayesprune.report.export import load_posterior
from bayesprune.report.tables import markdown

DRAWS = 100


def lines(folder: Path) -> Iterator[list[str]]:
    """The rows of one run: the masked network, then the compact one with each kind of values."""
    chosen, saved = settings.load(folder), load_posterior(folder / POSTERIOR)
    data = rows.load_data(chosen)
    bnn, key = build.make_bnn(chosen, data), jax.random.key(1)
    small = bp.compact(bnn, saved.params, saved.mask).certified()
    cost = small.cost
    dense = 8 * cost.dense_numbers
    before = bp.evaluate(key, bnn, saved.params, data.test, mask=saved.mask, num_samples=DRAWS)
    yield row(folder.name, "masked", cost.dense_numbers, cost.dense, dense, dense, before, "")
    for values in VALUES:
        with tempfile.TemporaryDirectory() as place:
            path = Path(place, "net.bayesprune")
            small.save(path, values)
            after = bp.evaluate(key, bp.load(path), None, data.test, num_samples=DRAWS)
            yield row(folder.name, values, cost.numbers, cost.executed, path.stat().st_size, dense, after, str(cost.alive))


def row(run: str, kind: str, numbers: int, flops: int, size: int, dense: int, of: dict[str, Any], alive: str) -> list[str]:
    figures = [f"{of[name]:.4f}" for name in ("accuracy", "nll", "ece")]
    return [run, kind, f"{numbers:,}", alive, f"{flops:,}", f"{size / 1e3:,.1f}", f"{dense / size:.1f}", *figures]


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", nargs="+", type=Path)
    head = ["run", "values", "numbers", "alive", "FLOPs a row", "kB", "times smaller", "accuracy", "NLL", "ECE"]
    print(markdown([head, *(line for folder in parser.parse_args().runs for line in lines(folder))]))
