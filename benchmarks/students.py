"""Can one small network say what a forest, boosted trees or an ensemble of networks says? Three teachers, five tables.

    python benchmarks/students.py run       # every cell that is not in runs/students.jsonl yet
    python benchmarks/students.py table     # from the results kept here

Tables: digits and breast cancer (classes), diabetes, Friedman's first and concrete (numbers). Two thirds of the rows train the
teacher, by scikit-learn's defaults; the student sees their inputs and rows made between them, and no target. Both are judged
on the other third. "a second": rows of the compact network, keep="mean", in blocks of 10,000 on one thread, best of five.
"""

import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import bayesprune as bp
from bayesprune import cells

TEACHERS = ("forest", "boosting", "ensemble")
TABLES = ("digits", "breast_cancer", "diabetes", "friedman1", "concrete")
BLOCK = 10_000


@dataclass(frozen=True)
class Cell:
    """One teacher on one table; ``rows``: that the student is trained on at least; ``steps``: 0 for its own choice."""

    teacher: str
    table: str
    rows: int = 20_000
    steps: int = 0
    seed: int = 0


CELLS = tuple(Cell(teacher, table) for table in TABLES for teacher in TEACHERS)


def load(table: str) -> tuple[np.ndarray, np.ndarray, bool]:
    """Inputs, targets, and whether they are classes."""
    from sklearn import datasets

    match table:
        case "digits":
            return *datasets.load_digits(return_X_y=True), True
        case "breast_cancer":
            return *datasets.load_breast_cancer(return_X_y=True), True
        case "diabetes":
            return *datasets.load_diabetes(return_X_y=True), False
        case "friedman1":
            return *datasets.make_friedman1(1500, random_state=0), False
        case _:
            train, test = bp.data.load("uci/concrete")
            return np.concatenate([train.x, test.x]), np.ravel(np.concatenate([train.y, test.y])), False


def make_teacher(name: str, labels: bool) -> Any:
    from sklearn import ensemble, neural_network, pipeline, preprocessing

    if name == "forest":
        return (ensemble.RandomForestClassifier if labels else ensemble.RandomForestRegressor)(random_state=0)
    if name == "boosting":
        return (ensemble.HistGradientBoostingClassifier if labels else ensemble.HistGradientBoostingRegressor)(random_state=0)
    net = (neural_network.MLPClassifier if labels else neural_network.MLPRegressor)(max_iter=500, random_state=0)
    bagging = (ensemble.BaggingClassifier if labels else ensemble.BaggingRegressor)(net, n_estimators=5, random_state=0)
    return pipeline.make_pipeline(preprocessing.StandardScaler(), bagging)


def run(cell: Cell, folder: Path) -> cells.Record:
    """Fit the teacher, distil it, and judge both."""
    from sklearn.model_selection import train_test_split

    x, y, labels = load(cell.table)
    x, other_x, y, other_y = train_test_split(x, y, test_size=1 / 3, random_state=cell.seed, stratify=y if labels else None)
    teacher = make_teacher(cell.teacher, labels).fit(x, y)
    kind = bp.BayesianSparseClassifier if labels else bp.BayesianSparseRegressor
    steps = {"num_steps": cell.steps} if cell.steps else {}
    begin = time.process_time()
    found = bp.distil(teacher, x, student=kind(hidden=(64, 64), **steps), rows=cell.rows, random_state=cell.seed)
    cost = time.process_time() - begin
    s = found.student
    small = bp.compact(s.bnn_, s.params_, s.mask_, keep="mean")
    return {
        "labels": labels,
        "teacher_score": float(teacher.score(other_x, other_y)),
        "student_score": float(s.score(other_x, other_y)),
        "agreement": found.agreement,
        "divergence": found.divergence,
        "rows_used": found.rows,
        "form": s.form_,
        "density": float(s.density_),
        "numbers": int(small.cost.alive),
        "certified": bool(small.certify().holds),
        "rows_a_second": speed(small, s.inputs_of(x)),
        "cpu_seconds": cost,
    }


def speed(small: bp.Compact, inputs: np.ndarray) -> float:
    """Rows a second at the mean."""
    block = np.resize(inputs, (BLOCK, inputs.shape[1])).astype(np.float32)
    small.predict(block)
    times = []
    for _ in range(5):
        begin = time.perf_counter()
        small.predict(block)
        times.append(time.perf_counter() - begin)
    return BLOCK / min(times)


def _shown(record: cells.Record) -> list[str]:
    scores = (record[name] for name in ("teacher_score", "student_score", "agreement", "divergence"))
    whole = (record[name] for name in ("numbers", "rows_a_second", "cpu_seconds"))
    return [*(f"{score:.3f}" for score in scores), *(f"{number:,.0f}" for number in whole)]


def table(found: cells.Found) -> str:
    """Accuracy or R² of both, how they agree, and what the student is."""
    head = [
        "table",
        "teacher",
        "teacher's score",
        "student's",
        "agreement",
        "KL, or error / std",
        "numbers",
        "rows a second",
        "CPU s",
    ]
    rows = [[cell.table, cell.teacher, *(_shown(found[cell]) if cell in found else [cells.MISSING] * 7)] for cell in CELLS]
    return cells.table(head, rows, "llrrrrrrr")


STUDY = cells.Study("students", CELLS, run, {"scores": table})

if __name__ == "__main__":
    cells.main(STUDY)
