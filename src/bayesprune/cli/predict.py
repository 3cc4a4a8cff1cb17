"""`bayesprune predict`: a fit, a run, or a compact network, on rows of one's own."""

import dataclasses
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import jax
import numpy as np
from tyro.conf import Positional, arg

from bayesprune.cli import build, fitted, results, rows, settings
from bayesprune.cli.export import network
from bayesprune.core.checks import check_level
from bayesprune.core.files import reading, write_atomically
from bayesprune.core.formats import write_arrays
from bayesprune.data.tables.own import Schema
from bayesprune.data.tables.reading import PARQUET, TEXTS
from bayesprune.data.tables.target import Target
from bayesprune.deploy.program.packing import Packing
from bayesprune.infer.observed import sample_targets
from bayesprune.infer.predict import predict as predictive_mean
from bayesprune.infer.uncertainty import Uncertainty
from bayesprune.infer.uncertainty import uncertainty as uncertainty_of
from bayesprune.report.export import load_posterior
from bayesprune.report.tables import csv_text

DRAWS = 1000  # targets of each row, for an interval
LEVEL = 0.95
OF_PARTS = 100  # networks of a compact one, for the parts of the uncertainty
ONE = Packing.of_shapes(())  # rows of one array, called x


class Predicted(NamedTuple):
    """Predictions by name, and what is predicted where that came from a file of named columns."""

    arrays: Mapping[str, np.ndarray]
    target: Target | None


def predict(
    source: Positional[Path],
    data: Positional[Path],
    num_samples: int = 0,
    seed: int | None = None,
    to: Path | None = None,
    net: Annotated[str | None, arg(metavar="MODULE:FUNCTION")] = None,
    uncertainty: bool = False,
    level: float | None = None,
) -> None:
    """Predict for new rows; prints the predictions, or writes them to a file.

    Args:
        source: The folder of a fit or of a run, or a file that `bayesprune compact` wrote.
        data: Rows: of a fit or run of a file of yours, a file with the same columns; else a .npy file, or the array x of a .npz
            file; of a network of several inputs, the arrays of their names in one.
        num_samples: Networks drawn from the posterior; 0: of a run as many as for its results, of a file the one at its mean.
            A fit has its own.
        seed: Of those draws, 0 if left out. A fit's are of its own seed.
        to: A file to write: .csv, or .npz with mean and, where there are any, draws.
        net: Of a run with a network of your own, its MODULE:FUNCTION once more: a folder may be anybody's, and to import the
            module runs its code. Naming it says that you trust it.
        uncertainty: Also how unsure each prediction is: total, aleatoric (noise) and epistemic (the network), which add up; of
            classes in nats, of numbers variances.
        level: Of the intervals of numbers, which a fit or a run of a file of yours gives; 0.95 if left out.
    """
    if to is not None and to.suffix.lower() not in (".csv", ".npz"):
        raise ValueError(f"to={to} must end in .csv or .npz.")
    of_ends = LEVEL if level is None else level
    check_level(of_ends, "level")
    key = jax.random.key(seed or 0)
    if fitted.is_one(source):
        if num_samples or seed is not None or net is not None:
            raise ValueError(f"{source} is of bayesprune fit, whose networks are its own: leave num_samples, seed and net out.")
        found = _by_fit(source, data, of_ends, uncertainty)
    elif source.is_dir():
        found = _by_run(source, data, num_samples, key, net, of_ends, uncertainty)
    elif net is not None:
        raise ValueError(
            f"net={net} goes with the folder of a run, and {source} is a file, which has its network: leave it out."
        )
    else:
        found = _by_file(source, data, num_samples, key, uncertainty)
    if level is not None and "low" not in found.arrays:
        raise ValueError(f"level={level} is of intervals of numbers, and predictions of {source} have none: leave it out.")
    if to is not None and to.suffix.lower() == ".npz":
        write_arrays(to, found.arrays)
    elif to is not None:
        write_atomically(to, _csv(found).encode())
    elif found.target is not None or uncertainty:
        print(_csv(found), end="")
    else:
        print(np.array2string(found.arrays["mean"], precision=4, threshold=10_000, suppress_small=True))
    if to is not None:
        print(f"written:\n  {to}")


def _by_fit(folder: Path, data: Path, level: float, unsure: bool) -> Predicted:
    """By the estimator of a fit; numbers with the interval that its held-out rows ask for."""
    of = fitted.load(folder)
    x = of.inputs(of.frame(data), str(data))
    made = fitted.predictions(of, x, level)
    if unsure:
        made |= of.model.uncertainty(x)._asdict()
    return Predicted(made, dataclasses.replace(of.target, classes=of.classes))


def _by_run(
    folder: Path, data: Path, num_samples: int, rng_key: jax.Array, net: str | None, level: float, unsure: bool
) -> Predicted:
    """By the posterior of a run, as its results were made; real targets with their interval."""
    results.read_metrics(folder)  # a run that is not finished says so
    chosen, saved = settings.load(folder, net), load_posterior(folder / results.POSTERIOR)
    schema = rows.schema_in(saved.metadata)
    rows.check_noted(chosen.data, saved.metadata)
    bnn = build.bnn_for(chosen, rows.load_data(chosen).task if schema is None else rows.task_of(schema))
    x = _rows(data, schema)
    of: dict[str, Any] = {"mask": saved.mask}
    mean = predictive_mean(rng_key, bnn, saved.params, x, num_samples=num_samples or chosen.num_samples, **of)
    made = {"mean": _in_units(mean, schema)}
    if schema is not None and not schema.target.classes:
        targets = sample_targets(rng_key, bnn, saved.params, x, num_samples=DRAWS, **of)
        low, high = np.quantile(targets, (0.5 - level / 2, 0.5 + level / 2), axis=0)
        made |= {"low": _in_units(low, schema), "high": _in_units(high, schema)}
    if unsure:
        parts = uncertainty_of(rng_key, bnn, saved.params, x, num_samples=num_samples or chosen.num_samples, **of)
        made |= _parts(parts, schema)
    return Predicted(made, None if schema is None else schema.target)


def _by_file(path: Path, data: Path, num_samples: int, rng_key: jax.Array, unsure: bool) -> Predicted:
    """By a compact network."""
    small = network(path)
    schema = rows.schema_in(small.metadata)
    x = _rows(data, schema, small.inputs)
    mean, number = small.predict(x), num_samples or OF_PARTS
    parts = _parts(uncertainty_of(rng_key, small, None, x, num_samples=number), schema) if unsure else {}
    made = {"mean": mean}
    if num_samples or unsure:  # the parts are of the mean over draws: the network at its mean is another prediction
        draws = small.predict_draws(rng_key, x, number)
        made = {"mean": draws.mean(0).reshape(mean.shape)} | ({"draws": draws} if num_samples else {})
    return Predicted(
        {name: _in_units(values, schema) for name, values in made.items()} | parts, None if schema is None else schema.target
    )


def _parts(parts: Uncertainty, schema: Schema | None) -> dict[str, np.ndarray]:
    """By name; variances in the square of the file's unit."""
    square = 1.0 if schema is None or schema.target.classes else schema.target.scale**2
    return {name: square * values for name, values in parts._asdict().items()}


def _in_units(values: np.ndarray, schema: Schema | None) -> np.ndarray:
    """Numbers as the file has them; probabilities as they are."""
    return values if schema is None or schema.target.classes else schema.target.undo(values)


def _csv(found: Predicted) -> str:
    """A line for each row: the most probable class and all probabilities, or the mean and, where there is one, its interval."""
    mean, target = found.arrays["mean"], found.target
    name, classes = ("y", ()) if target is None else (target.name, target.classes)
    columns = {name: np.array(classes, dtype=object)[mean.argmax(-1)]} if classes else _columns(name, mean)
    beside = {f"p({one})": mean[:, place] for place, one in enumerate(classes)}
    for more in ("low", "high", *Uncertainty._fields):
        beside |= _columns(more, found.arrays[more]) if more in found.arrays else {}
    # A target may be called "low" itself.
    columns |= {f"{name}: {more}": values for more, values in beside.items()} if columns.keys() & beside.keys() else beside
    scale = 1.0 if target is None else target.scale
    rows = zip(*columns.values(), strict=True)
    return csv_text(columns, ([one if isinstance(one, str) else _written(one, scale) for one in row] for row in rows))


def _columns(name: str, values: np.ndarray) -> dict[str, np.ndarray]:
    """One number for each row under its name, several with their places behind it."""
    return {name: values} if values.ndim == 1 else {f"{name}_{place}": column for place, column in enumerate(values.T)}


def _written(value: Any, scale: float) -> str:
    """Six digits, or as many more as there are down to a millionth of ``scale``: beyond those is float32's rounding.

    >>> _written(0.1, 1.0), _written(3.21654987e-7, 1.0), _written(1700000001.5, 1e3), _written(0.0, 1.0)
    ('0.1', '3.21655e-07', '1700000001.5', '0')
    """
    above = math.log10(abs(value) / scale) if math.isfinite(value) and value else 0.0
    return f"{value:.{min(max(6, 7 + math.floor(above)), 17)}g}"


def _rows(path: Path, schema: Schema | None, inputs: Packing = ONE) -> Any:
    if schema is not None:
        return schema.rows(path)
    names = [leaf.name for leaf in inputs.leaves]
    wanted = "an array x" if inputs.is_one else f"arrays {', '.join(names)}"
    file, function = ("a .npy file, or ", "numpy.save, or ") if inputs.is_one else ("", "")
    if path.suffix.lower() in TEXTS + PARQUET:
        raise ValueError(
            f"{path} is a table, and this network was not trained on one, so that nothing says what its columns are: give "
            f"{file}a .npz file with {wanted}, as the network takes its rows."
        )
    if not path.is_file():
        raise FileNotFoundError(2, f"no rows at {path}: give {file}a .npz file with {wanted}.")
    with reading(path, "file of rows", f"Write it with {function}numpy.savez with {wanted}."):
        content = np.load(path, allow_pickle=False)
        return content if isinstance(content, np.ndarray) else inputs.tree([content[name] for name in names])
