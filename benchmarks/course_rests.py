"""How long acts rest after refusals, by held-out rows: what a rest saves, and what it changes.

    python benchmarks/course_rests.py run                     # what is not in runs/course_rests.jsonl yet: half an hour
    python benchmarks/course_rests.py run --only data=concrete
    python benchmarks/course_rests.py table                   # from the results kept here

The standard course with nothing changed but `rests`, the most rhythms that acts rest; 1: none does. Networks, figures and the
rows held out are those of `course.py`. The test rows are not looked at.
"""

from course import Cell, run

from bayesprune import cells

MOST = (1, 4, 8)
CASES = (  # data, net, steps, seeds
    ("digits", "mlp100x2", 5_000, 3),
    ("mnist", "mlp200x2", 2_000, 2),
    ("fashion_mnist", "lenet5", 2_000, 2),
    ("fashion_mnist", "mlp400x5", 4_000, 2),
    ("concrete", "mlp50", 3_000, 3),
    ("yacht", "mlp50", 3_000, 3),
)
CELLS = tuple(
    Cell(data, net, "standard", seed, steps, "held_out", f"rests={most}")
    for seed in range(3)
    for data, net, steps, seeds in CASES
    for most in MOST
    if seed < seeds
)


def by_rests(found: cells.Found) -> str:
    """For each case and rest: held-out NLL, accuracy or RMSE, the loss of the last steps, what is connected, and the acts."""
    rows = []
    for data, net, steps, _ in CASES:
        for most in MOST:
            mine = [cell for cell in CELLS if (cell.data, cell.net, cell.knobs) == (data, net, f"rests={most}")]
            have = [found[cell] for cell in mine if cell in found]
            if not have:
                rows.append([data, net, str(steps), cells.count(have, mine), f"{most}", *[cells.MISSING] * 5])
                continue
            error = "accuracy" if have[0].get("accuracy") is not None else "rmse"
            figures = [cells.mean_and_spread([record[name] for record in have], 4) for name in ("nll", error)]
            loss, acts = (cells.mean_and_spread([record[name] for record in have], 0) for name in ("loss", "acts"))
            left = cells.mean_and_spread([100 * record["connected"] / record["prunable"] for record in have], 1)
            rows.append([data, net, str(steps), cells.count(have, mine), f"{most}", *figures, loss, left, acts])
    head = ["data", "net", "steps", "seeds", "rests", "nll", "accuracy or rmse", "loss", "connected %", "acts"]
    return cells.table(head, rows, "llrlrlllll")


STUDY = cells.Study("course_rests", CELLS, run, {"by_rests": by_rests})

if __name__ == "__main__":
    cells.main(STUDY)
