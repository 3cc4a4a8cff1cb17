"""Over which share of the steps the divergence's weight rises, by held-out rows of ten cases.

    python benchmarks/course_warm_up.py run                     # what is not in runs/course_warm_up.jsonl yet: half an hour
    python benchmarks/course_warm_up.py run --only data=concrete
    python benchmarks/course_warm_up.py table                   # from the results kept here

The standard course with nothing changed but `warm_up`; networks, figures and the rows held out are those of `course.py`. The
test rows are not looked at.
"""

from course import Cell, run

from bayesprune import cells

SHARES = (0.5, 0.75, 1.0)
CASES = (  # data, net, steps, seeds
    ("digits", "mlp100x2", 5_000, 3),
    ("mnist", "mlp200x2", 2_000, 2),
    ("fashion_mnist", "lenet5", 2_000, 2),
    ("fashion_mnist", "mlp400x5", 8_000, 1),
    ("boston_housing", "mlp50", 3_000, 5),
    ("concrete", "mlp50", 3_000, 5),
    ("naval_propulsion_plant", "mlp50", 3_000, 2),
    ("power_plant", "mlp50", 3_000, 2),
    ("wine_quality_red", "mlp50", 3_000, 3),
    ("yacht", "mlp50", 3_000, 6),
)
CELLS = tuple(
    Cell(data, net, "standard", seed, steps, "held_out", f"warm_up={share}")
    for data, net, steps, seeds in CASES
    for seed in range(seeds)
    for share in SHARES
)


def by_share(found: cells.Found) -> str:
    """For each case and share: held-out NLL, accuracy or RMSE, the loss of the last steps, and what is connected."""
    rows = []
    for data, net, steps, _ in CASES:
        for share in SHARES:
            mine = [cell for cell in CELLS if (cell.data, cell.net, cell.knobs) == (data, net, f"warm_up={share}")]
            have = [found[cell] for cell in mine if cell in found]
            if not have:
                rows.append([data, net, str(steps), cells.count(have, mine), f"{share}", *[cells.MISSING] * 4])
                continue
            error = "accuracy" if have[0].get("accuracy") is not None else "rmse"
            figures = [cells.mean_and_spread([record[name] for record in have], 4) for name in ("nll", error)]
            loss = cells.mean_and_spread([record["loss"] for record in have], 0)
            left = cells.mean_and_spread([100 * record["connected"] / record["prunable"] for record in have], 1)
            rows.append([data, net, str(steps), cells.count(have, mine), f"{share}", *figures, loss, left])
    head = ["data", "net", "steps", "seeds", "warm_up", "nll", "accuracy or rmse", "loss", "connected %"]
    return cells.table(head, rows, "llrlrllll")


STUDY = cells.Study("course_warm_up", CELLS, run, {"by_share": by_share})

if __name__ == "__main__":
    cells.main(STUDY)
