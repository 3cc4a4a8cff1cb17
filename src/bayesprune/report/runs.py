"""Runs as text, from the content of their ``metrics.json``: the end of one, and several side by side."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from bayesprune.report.tables import NOTHING, aligned, markdown, number, percent


def scores(values: Mapping[str, float | None]) -> str:
    """Metrics by name."""
    return aligned([(name, number(value)) for name, value in values.items()])


def end_of_run(done: Mapping[str, Any], paths: Sequence[Path]) -> str:
    """The end of a run: metrics, what was pruned and where, and the files. ``done``: the content of ``metrics.json``."""
    made, on, prunable, everything = done["settings"], done["evaluated_on"], *_counts(done)
    used = done["sparsity"].get("connected")
    alive = [
        (site, f"{row['num_alive']:,}", "of", f"{row['num_weights']:,}", percent(row["density"]), *_used(used, site))
        for site, row in done["sparsity"]["per_site"].items()
    ]
    acts = done["acts"]
    taken = ", ".join(f"{acts[name]} {name}" for name in ("proposed", "cut", "refused")) if acts["rounds"] else "none"
    parts = [
        f"\n{made['dataset']}, {made['net']}, {made['method']}: {done['num_steps']} steps, {_timed(done)}",
        *_chosen(done),
        f"course {made['course']}; acts: {taken}",
        f"KL weight {done['kl_weight']:g}: {done['kl_weight_in_words']}",
        f"\n{on['part']} set, {on['rows']:,} rows, {on['num_samples']} draws:",
        scores(done["metrics"]),
        f"\npruned {percent(prunable['sparsity'])} of {prunable['num_weights']:,} prunable weights, "
        f"{percent(everything['sparsity'])} of all {everything['num_weights']:,}; alive:",
        aligned(alive) if alive else "  (nothing is prunable)",
    ]
    if used:
        counted = f"{used['prunable']['num_alive']:,} ({percent(used['prunable']['density'])})"
        parts.append(f"connected: {counted}. A living path needs these; the others are alive by name only")
    if cost := done["flops"]:
        counts = f"{cost['theoretical']:,} theoretical (alive weights), {cost['executed']:,} executed"
        parts.append(f"\nFLOPs of a draw on a row: {counts}")
    parts.append(f"\n{shipped(done['compact'])}")
    parts += [f"\n{name}: {says}" for name, says in done.get("health", {}).get("findings", {}).items()]
    if done["evidence_gained_nats"] is not None:
        parts.append(f"\nevidence gained by pruning: {done['evidence_gained_nats']:,.0f} nats")
    return "\n".join([*parts, "\nwritten:", *(f"  {path}" for path in paths)])


def shipped(report: Mapping[str, Any]) -> str:
    """What the compact network of a run saves. ``report``: the entry "compact" of ``metrics.json``."""
    if "refused" in report:
        return f"no compact network: {report['refused']}"
    size, before = report["bytes"] / 1e3, report["posterior_bytes"] / 1e3
    after, dense = 1e3 * report["seconds"], 1e3 * report["seconds_before"]
    pinned = f"; kept whole: {', '.join(report['pinned'])}" if report["pinned"] else ""
    return (
        f"compact network ({report['keeps']}): {report['numbers']:,} of {report['dense_numbers']:,} numbers, "
        f"{report['alive']:,} other than zero; {report['flops']:,} of {report['dense_flops']:,} FLOPs a row{pinned}\n"
        f"file {size:,.1f} kB, the whole posterior {before:,.1f} kB; {report['rows']:,} rows at the posterior mean in "
        f"{after:.1f} ms, by the masked network in {dense:.1f} ms"
    )


def runs(done: Mapping[str, Mapping[str, Any]]) -> str:
    """Several runs, one line each. ``done``: the content of ``metrics.json`` by the run's name."""
    names = list(dict.fromkeys(name for one in done.values() for name in one["metrics"]))
    # Where posteriors are tempered, a table that does not say so compares unlike things.
    weights = [f"{one['kl_weight']:g}" for one in done.values()]
    tempered = any(weight != "1" for weight in weights)
    rows = [
        ["run", "data", "net", "method", *["KL weight"] * tempered, *names, "pruned", "weights alive", "connected", "seconds"]
    ]
    for (title, one), weight in zip(done.items(), weights, strict=True):
        made, (prunable, _) = one["settings"], _counts(one)
        figures = [number(one["metrics"].get(name)) for name in names]
        used = one["sparsity"].get("connected")
        counts = [f"{prunable['num_alive']:,}", f"{used['prunable']['num_alive']:,}" if used else NOTHING]
        kept = [percent(prunable["sparsity"]), *counts, _timed(one)]
        rows.append([title, made["dataset"], made["net"], made["method"], *[weight] * tempered, *figures, *kept])
    return markdown(rows)


def _timed(done: Mapping[str, Any]) -> str:
    """Seconds of training; of a run that went on, those since then, and from which step."""
    since = done.get("resumed_at_step", 0)
    return f"{done['train_seconds']:.1f} s" + f" from step {since:,} on" * bool(since)


def _used(used: Mapping[str, Any] | None, site: str) -> list[str]:
    """How many weights of a site are connected, where that is known."""
    return [f"connected {used['per_site'][site]['num_alive']:,}"] if used else []


def _counts(done: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    return done["sparsity"]["prunable"], done["sparsity"]["all"]


def _chosen(done: Mapping[str, Any]) -> list[str]:
    """A line on the step that was chosen; none for the last."""
    step = done["chosen_step"]
    if step["choose"] == "last":
        return []
    note = f" ({step['note']})" if "note" in step else ""
    return [
        f"step {step['step']:,}: best {step['metric']}, {number(step['value'])}, on {step['rows']:,} {step['on']} rows{note}"
    ]
