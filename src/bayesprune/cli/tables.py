"""Aligned text for the terminal, and Markdown for several runs."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

Row = Sequence[str]
NOTHING = "-"


def aligned(rows: Sequence[Row], indent: str = "  ") -> str:
    """Rows as columns of text, the first to the left and the others to the right.

    >>> print(aligned([("accuracy", "0.9"), ("nll", "10.25")], indent=""))
    accuracy   0.9
    nll      10.25
    """
    widths = [max(len(cell) for cell in column) for column in zip(*rows, strict=True)]
    lines = ([row[0].ljust(widths[0]), *(c.rjust(w) for c, w in zip(row[1:], widths[1:], strict=True))] for row in rows)
    return "\n".join((indent + " ".join(line)).rstrip() for line in lines)


def markdown(rows: Sequence[Row]) -> str:
    """A Markdown table; the first row is its head, and every column but the first is of numbers."""
    widths = [max(3, *(len(cell) for cell in column)) for column in zip(*rows, strict=True)]
    rule = ["-" * widths[0], *("-" * (width - 1) + ":" for width in widths[1:])]
    body = [[row[0].ljust(widths[0]), *(c.rjust(w) for c, w in zip(row[1:], widths[1:], strict=True))] for row in rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in [body[0], rule, *body[1:]])


def number(value: float | None) -> str:
    """Four digits; a dash for what is not known."""
    return NOTHING if value is None else f"{value:.4g}"


def scores(values: Mapping[str, float | None]) -> str:
    """Metrics by name."""
    return aligned([(name, number(value)) for name, value in values.items()])


def run(done: Mapping[str, Any], paths: Sequence[Path]) -> str:
    """The end of a run: metrics, what was pruned and where, and the files. ``done``: the content of ``metrics.json``."""
    made, on, sparsity = done["settings"], done["evaluated_on"], done["sparsity"]
    prunable, everything = sparsity["prunable"], sparsity["all"]
    head = f"{made['dataset']}, {made['net']}, {made['method']}: {done['num_steps']} steps in {done['train_seconds']:.1f} s"
    alive = [
        (site, f"{row['num_alive']:,}", "of", f"{row['num_weights']:,}", percent(row["density"]))
        for site, row in sparsity["per_site"].items()
    ]
    kl = f"KL weight {done.get('kl_weight', 1.0):g}: {done.get('kl_weight_in_words', 'as Bayes has it')}"
    parts = [
        f"\n{head}\n{chosen(done)}{kl}",
        f"\n{on['part']} set, {on['rows']:,} rows, {on['num_samples']} draws:",
        scores(done["metrics"]),
        f"\npruned {percent(prunable['sparsity'])} of {prunable['num_weights']:,} prunable weights, "
        f"{percent(everything['sparsity'])} of all {everything['num_weights']:,}; alive:",
        aligned(alive) if alive else "  (nothing is prunable)",
    ]
    if done.get("flops"):
        cost = done["flops"]
        parts.append(
            f"\nFLOPs of a draw on a row: {cost['theoretical']:,} theoretical (alive weights), {cost['executed']:,} executed"
        )
    if done["evidence_gained_nats"] is not None:
        parts.append(f"\nevidence gained by pruning: {done['evidence_gained_nats']:,.0f} nats")
    return "\n".join([*parts, "\nwritten:", *(f"  {path}" for path in paths)])


def chosen(done: Mapping[str, Any]) -> str:
    """A line on the step that was chosen; nothing for the last."""
    step = done.get("chosen_step", {"choose": "last"})
    if step["choose"] == "last":
        return ""
    note = f" ({step['note']})" if "note" in step else ""
    return (
        f"step {step['step']:,}: best {step['metric']}, {number(step['value'])}, on {step['rows']:,} {step['on']} rows{note}\n"
    )


def runs(done: Mapping[str, Mapping[str, Any]]) -> str:
    """Several runs, one line each. ``done``: the content of ``metrics.json`` by the run's name."""
    names = list(dict.fromkeys(name for one in done.values() for name in one["metrics"]))
    # Where posteriors are tempered, a table that does not say so compares unlike things.
    weights = [f"{one.get('kl_weight', 1.0):g}" for one in done.values()]
    tempered = any(weight != "1" for weight in weights)
    head = ["run", "data", "net", "method", *["KL weight"] * tempered, *names, "pruned", "alive", "seconds"]
    rows = []
    for (title, one), weight in zip(done.items(), weights, strict=True):
        made, prunable = one["settings"], one["sparsity"]["prunable"]
        figures = [number(one["metrics"].get(name)) for name in names]
        kept = [percent(prunable["sparsity"]), f"{prunable['num_alive']:,}", f"{one['train_seconds']:.1f}"]
        rows.append([title, made["dataset"], made["net"], made["method"], *[weight] * tempered, *figures, *kept])
    return markdown([head, *rows])


def percent(share: float | None) -> str:
    """A share as a percentage of one decimal."""
    return NOTHING if share is None else f"{100 * share:.1f} %"
