"""The folder that `bayesprune fit` makes: its files, and predictions of its estimator for new rows."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from bayesprune.core.files import reading
from bayesprune.core.formats import read_record
from bayesprune.core.given import GivenFrame
from bayesprune.data.tables.columns import check_whole
from bayesprune.data.tables.own import digest_of, target_from_json
from bayesprune.data.tables.reading import read_again, take_columns, values_of
from bayesprune.data.tables.target import Target
from bayesprune.report.calibration import ece
from bayesprune.report.crps import crps

if TYPE_CHECKING:  # scikit-learn is imported where a model is read
    from bayesprune.sklearn import BayesianSparseRegressor

RECORD, MODEL, PAGE, COMPACT, INPUTS = "fit.json", "model.skops", "report.html", "net.bayesprune", "inputs.csv"
NEEDED = ("settings", "file", "digest", "target", "columns", "texts", "scores", "rows", "model")
REMEDY = "Delete it, and give the same bayesprune fit command again: it fits anew."
LEVEL, DRAWS = 0.9, 500  # of intervals and sets that are judged; targets of a row, for the CRPS and the figure of coverage


@dataclass(frozen=True)
class FinishedFit:
    """A finished fit: its estimator, the target, the columns that it reads by name, and those that are text."""

    model: Any
    target: Target
    columns: tuple[str, ...]
    texts: tuple[str, ...]
    file: str

    @property
    def classes(self) -> tuple[str, ...]:
        """Names of the classes that the estimator tells apart, in the order of its probabilities; none of numbers."""
        return tuple(self.target.classes[place] for place in self.model.classes_) if self.target.classes else ()

    def predict(self, x: GivenFrame) -> np.ndarray:
        """Probabilities of the classes, (rows, classes); of numbers `DRAWS` targets of each row, (draws, rows)."""
        return self.model.predict_proba(x) if self.target.classes else self.model.sample_y(x, DRAWS).T  # type: ignore[no-any-return]

    def placed(self, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Which labels are of a class that the estimator tells apart, and the places of these among its probabilities."""
        places = {label: place for place, label in enumerate(self.model.classes_.tolist())}
        known = np.array([label in places for label in y.tolist()])
        return known, np.array([places[label] for label in y[known].tolist()], int)

    def inputs(self, frame: GivenFrame, where: str) -> Any:
        """The columns of a frame that the estimator reads."""
        return take_columns(
            frame, self.columns, where, self.file, "add what is missing, empty where it is not known, or fit anew without it"
        )

    def frame(self, path: Path) -> Any:
        """A file's table, columns that were text read as text."""
        return read_again(path, self.file, [*self.texts, *[self.target.name] * self.target.text])

    def labelled(self, path: Path) -> tuple[Any, np.ndarray]:
        """Inputs and targets of a file; labels are places among ``target.classes``."""
        frame = self.frame(path)
        if self.target.name not in frame.columns:
            raise ValueError(f"{path} lacks {self.target.name}, the target: add it, or predict these rows, which needs none.")
        check_whole(frame, [self.target.name], "predict them, which needs no target")
        return self.inputs(frame, str(path)), targets(self.target, values_of(frame, self.target.name), str(path))


def is_one(folder: Path) -> bool:
    """Whether a folder is of `bayesprune fit`."""
    return (folder / RECORD).is_file()


def refuse(folder: Path) -> None:
    """Refuse a folder of `bayesprune fit` where a folder of a run is needed."""
    if is_one(folder):
        raise ValueError(
            f"{folder} is of bayesprune fit, which predict and evaluate read: give the folder of a run, or another --out."
        )


def is_whole(folder: Path) -> bool:
    """Whether all of a fit is there; the network alone may be missing, of one that has no small file."""
    return is_one(folder) and all((folder / name).is_file() for name in (MODEL, PAGE, INPUTS))


def record_of(folder: Path) -> dict[str, Any]:
    """What was fitted, and its scores."""
    return read_record(folder / RECORD, "fit's record", REMEDY, NEEDED)


def load(folder: Path) -> FinishedFit:
    """The fit in a folder. Its file holds no code, see `sklearn.saving`."""
    from bayesprune.sklearn import saving

    found, path = record_of(folder), folder / MODEL
    if not path.is_file():
        raise FileNotFoundError(2, f"no {MODEL} in {folder}: give the same bayesprune fit command again, which fits anew")
    with reading(path, "saved estimator", REMEDY):
        if digest_of(path) != found["model"]:
            raise ValueError(f"it is not the one that {RECORD} was written with")
    target = target_from_json(found["target"])
    return FinishedFit(saving.load(path), target, tuple(found["columns"]), tuple(found["texts"]), found["file"])


def targets(target: Target, values: np.ndarray, where: str) -> np.ndarray:
    """Labels, as places among the target's classes, or numbers as the file has them, float64."""
    found = target.encode(values, where)
    return found if target.classes else np.asarray(values, np.float64)


def predictions(of: FinishedFit, x: GivenFrame, level: float) -> dict[str, np.ndarray]:
    """The mean and the ends of the interval of numbers; of classes probabilities."""
    if of.classes:
        return {"mean": of.model.predict_proba(x)}
    mean, ends = _with_interval(of.model, x, level)
    return {"mean": mean, "low": ends[:, 0], "high": ends[:, 1]}


def judged(of: FinishedFit, x: GivenFrame, y: np.ndarray, predicted: np.ndarray) -> dict[str, float]:
    """Scores on rows that the fit has not seen; ``predicted``: its predictions of them."""
    return _of_labels(of, x, y, predicted) if of.classes else _of_numbers(of.model, x, y, predicted)


def _of_numbers(model: "BayesianSparseRegressor", x: GivenFrame, y: np.ndarray, samples: np.ndarray) -> dict[str, float]:
    mean, ends = _with_interval(model, x, LEVEL)
    squares = np.square(y - mean)
    return {
        "r2": float(1.0 - squares.sum() / np.square(y - y.mean()).sum()) if np.ptp(y) else np.nan,
        "rmse": float(np.sqrt(squares.mean())),
        "crps": crps(samples, y),
        "nll": float(-np.mean(model.log_density(x, y))),
        "coverage_90": float(np.mean((ends[:, 0] <= y) & (y <= ends[:, 1]))),
        "width_90": float(np.mean(ends[:, 1] - ends[:, 0])),
    }


def _of_labels(of: FinishedFit, x: GivenFrame, y: np.ndarray, probs: np.ndarray) -> dict[str, float]:
    known, labels = of.placed(y)
    own = probs[known][np.arange(len(labels)), labels]
    scores = {
        "accuracy": float(np.sum(probs[known].argmax(1) == labels) / len(y)),  # of a class that was not seen none is right
        "nll": float(-np.mean(np.log(own))) if known.all() else np.inf,
    } | ({"ece": ece(probs[known], labels)} if known.any() else {})
    if of.model._conformity is not None:
        sets = of.model.predict_set(x, LEVEL)
        inside = sets[known][np.arange(len(labels)), labels]
        scores |= {"coverage_90": float(inside.sum() / len(y)), "set_size_90": float(sets.sum(axis=1).mean())}
    return scores


def _with_interval(model: "BayesianSparseRegressor", x: GivenFrame, level: float) -> tuple[np.ndarray, np.ndarray]:
    """By the rows that the fit held out, where it did; else the posterior's own."""
    if model._conformity is None:
        return model.predict(x), model.predict_interval(x, level)
    return model.predict(x, interval=level)  # type: ignore[no-any-return]


def of_nothing(target: Target, train: np.ndarray, y: np.ndarray) -> Mapping[str, float]:
    """What predicting without inputs scores: the mean of the training rows, or their most frequent class."""
    if target.classes:
        return {"accuracy": float(np.mean(y == np.bincount(train).argmax()))}
    return {"rmse": float(np.sqrt(np.mean(np.square(y - train.mean()))))}


def text_columns(frame: GivenFrame, names: Sequence[str]) -> list[str]:
    """Columns that are not of numbers: codes in a new file are to be read as text as well."""
    return [name for name in names if frame[name].dtype.kind not in "biufmM"]
