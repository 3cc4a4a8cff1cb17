"""One row a published claim: what the paper has, what the kept records have, and the verdict.

    python benchmarks/claims.py            # prints the table; `python benchmarks/tables.py` puts it into README.md

Figures come from `results/`, nothing is typed but what the papers print. The verdict is a rule. With ``slack`` = what the claim
says of its own exactness, plus two standard errors of our mean (none for one seed, nor where seeds are the claim):

    beaten      ours is better than the paper's figure by more than slack, with no more weights left
    reproduced  ours is not worse than it by more than slack, with no more weights left
    refuted     ours is worse, and an experiment says why the figure cannot stand as printed (the row names it)
    open        ours is worse, keeps more, or there is no record: the row says what it needs

"No more left" allows a tenth more than the paper has, where the paper says what it has.
"""

import functools
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import tables
from published import CLAIMS, Claim

from bayesprune import cells


@functools.cache
def kept(study: str) -> cells.Found:
    """The kept records of a study: read once for all claims."""
    return cells.found(tables.studies()[study], Path(__file__).parent / "results")


def records(claim: Claim) -> list[cells.Record]:
    """The kept records that a claim is about."""
    if not claim.study:
        return []
    return [record for cell, record in kept(claim.study).items() if claim.of.items() <= cells.settings(cell).items()]


def figures(of: Sequence[cells.Record], value: Any) -> np.ndarray:
    """One number a seed, split or replication."""
    read = value if callable(value) else lambda record: record[value]
    return np.concatenate([np.ravel(np.asarray(read(record), float)) for record in of]) if of else np.zeros(0)


def verdict(claim: Claim, ours: np.ndarray, left: np.ndarray) -> tuple[str, str]:
    """By the rule at the head: the word, and what goes with it."""
    if not len(ours):
        return "open", f"needs {claim.needs}"
    error = np.std(ours, ddof=1) / np.sqrt(len(ours)) if len(ours) > 1 and not claim.by_seed else 0.0
    gain = (np.mean(ours) - claim.published) * (1 if claim.higher else -1)
    slack = claim.slack + 2 * error
    if not gain >= -slack:  # nor is a figure that is no number reproduced
        return ("refuted", claim.why) if claim.why else ("open", f"needs {claim.needs}")
    if claim.published_left is not None and not np.mean(left) <= 1.1 * claim.published_left:
        return "open", f"keeps more than the paper; needs {claim.needs}"
    return ("beaten", "") if gain > slack else ("reproduced", "")


def judged(claim: Claim) -> tuple[np.ndarray, np.ndarray, tuple[str, str]]:
    """Our figures, what they leave of the weights, and the verdict."""
    of = records(claim)
    ours, left = figures(of, claim.value), figures(of, claim.left) if claim.left else np.zeros(0)
    return ours, left, verdict(claim, ours, left)


def row(claim: Claim) -> list[str]:
    """One line of the table."""
    ours, left, (word, rest) = judged(claim)
    seconds = [record.get("seconds") or record.get("training_seconds") for record in records(claim)]
    connected = [record.get("connected") for record in records(claim) if claim.left]
    connected = [
        share for share in connected if np.ndim(share) == 0 and share is not None
    ]  # of several networks there are lists
    shares = [
        "-" if claim.published_left is None else f"{100 * claim.published_left:.3g}",
        f"{100 * np.mean(left):.3g}" if len(left) else "-",
        f"{100 * np.mean(connected):.3g}" if connected else "-",
    ]
    return [
        claim.paper,
        claim.claim,
        f"{claim.published:.{claim.digits}f}",
        cells.mean_and_spread(ours, claim.digits) if len(ours) else "-",
        f"**{word}**" + (f": {rest}" if rest else ""),
        str(len(ours)),
        *shares,
        f"{sum(seconds) / 60:.0f}" if seconds and all(seconds) else "-" if not seconds else "?",
        f"[{claim.page.removesuffix('.md')}]({claim.page})",
    ]


def all_claims(_: cells.Found) -> str:
    """The table."""
    left = ("% left: paper", "ours", "connected")
    head = ["paper", "claim", "published", "ours", "verdict", "runs", *left, "minutes", "page"]
    return cells.table(head, [row(claim) for claim in CLAIMS], "llrrlrrrrrl")


def summary(_: cells.Found) -> str:
    """How many of each verdict, by paper."""
    papers = tuple(dict.fromkeys(claim.paper for claim in CLAIMS))
    kinds = ("beaten", "reproduced", "refuted", "open")
    of = {paper: [judged(claim)[2][0] for claim in CLAIMS if claim.paper == paper] for paper in papers}
    rows = [[paper, *(str(found.count(kind)) for kind in kinds)] for paper, found in of.items()]
    total = ["all", *(str(sum(found.count(kind) for found in of.values())) for kind in kinds)]
    return cells.table(["paper", *kinds], [*rows, total], "lrrrr")


def commands(_: cells.Found) -> str:
    """What makes the records of each page again."""
    of: dict[str, dict[str, None]] = {}
    for claim in CLAIMS:
        if claim.study or claim.command:
            script = (
                f"python benchmarks/{Path(str(tables.modules()[claim.study].__file__)).name} run"
                if claim.study
                else claim.command
            )
            of.setdefault(claim.page, {})[f"`{script}`"] = None
    rows = [[f"[{page.removesuffix('.md')}]({page})", ", ".join(scripts)] for page, scripts in of.items()]
    return cells.table(["page", "its records again"], rows, "ll")


def no_cell(cell: Any, folder: Path) -> cells.Record:
    """There is nothing to run: claims read what other studies have kept."""
    raise ValueError("claims has no cells of its own: run the study that a row's page names.")


STUDY = cells.Study("claims", (), no_cell, {"all": all_claims, "summary": summary, "commands": commands})

if __name__ == "__main__":
    print(all_claims({}))
