"""What rows that are there twice are worth to trees: splits of the rows beside splits that keep equal rows together.

    python benchmarks/tabular_duplicates.py run     # what is not in runs/tabular_duplicates.jsonl yet

Two sets of ``tabular.py`` (``BAYESPRUNE_DATA``) on which its default is furthest behind trees. Of the red wines 29 % are
there more than once; most mixes of concrete are there at several ages. "rows": 70 % of the rows to fit, at random; "groups":
70 % of the wines, or of the mixes, with all of their rows. Three splits, other ones than those of ``tabular.py``; the score is
accuracy or R² of the other rows.
"""

import warnings
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import tabular
from sklearn.model_selection import GroupShuffleSplit, ShuffleSplit

from bayesprune import cells

SEEDS = (100, 101, 102)
KEYS = {"wine_quality": slice(None), "concrete": slice(0, 7)}  # columns that make a group: all, or all but the age
MODELS = ("default", "forest", "boosting")


@dataclass(frozen=True)
class Cell:
    """One model on one set under one way to split it."""

    data: str
    split: str
    model: str


CELLS = tuple(Cell(data, split, model) for data in KEYS for split in ("rows", "groups") for model in MODELS)


def run(cell: Cell, folder: Path) -> cells.Record:
    """The mean score of the splits."""
    x, y = tabular.DATA[cell.data]()
    x, y = np.asarray(x, float), np.ravel(y)
    groups = np.unique(x[:, KEYS[cell.data]].round(6), axis=0, return_inverse=True)[1].ravel()
    labels, scores = cell.data in tabular.CLASSES, []
    for seed in SEEDS:
        kind = GroupShuffleSplit if cell.split == "groups" else ShuffleSplit
        kept, held = next(kind(1, test_size=0.3, random_state=seed).split(x, y, groups))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model = tabular.make(tabular.Cell(cell.data, cell.model), 2 if labels else 0).fit(x[kept], y[kept])
        scores.append(float(model.score(x[held], y[held])))
    return {"score": float(np.mean(scores)), "scores": scores, "rows": len(x), "groups": int(groups.max()) + 1}


def worth(found: cells.Found) -> str:
    """Mean scores, and how far ours is behind the best of the trees."""
    rows = []
    for data in KEYS:
        for split in ("rows", "groups"):
            records = [found.get(Cell(data, split, model)) for model in MODELS]
            if any(record is None for record in records):
                rows.append([data, split, *["missing"] * 6])
                continue
            ours, *trees = (record["score"] for record in records if record)
            lead = [f"{value:.3f}" for value in (ours, *trees)] + [f"{100 * (ours - max(trees)):+.1f}"]
            rows.append([data, split, str(records[0]["rows"]), str(records[0]["groups"]), *lead])  # type: ignore[index]
    return cells.table(["set", "split of", "rows", "groups", *MODELS, "ahead of trees by"], rows, "ll" + "r" * 6)


STUDY = cells.Study("tabular_duplicates", CELLS, run, {"worth": worth})

if __name__ == "__main__":
    cells.main(STUDY)
