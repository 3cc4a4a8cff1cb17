"""Fits that are killed, again and again, at random moments: does the same call end with the bits of a fit left alone?

    python benchmarks/faults.py run                          # every cell that is not in runs/faults.jsonl yet
    python benchmarks/faults.py run --only fault=kill round=5,6,7,8,9    # one half, another process may run the other
    python benchmarks/tables.py                              # from the results kept here, into docs/promises.md

A kill is a SIGKILL to a process of its own (`faults_fits.py`), one in six at a random moment of its start, while it reads what
was saved, the others at a random moment of the third of a fit's length that follows on the first step: so the kills of one fit
cover it, and the checkpoints, one for 25 steps, are being written in a good part of them. After each the same call is made
anew, and killed anew. What ends is compared, parameters, state, losses, mask and history, with the fit that nobody killed.

The other cells do something to the folder: the disk is full at one of seven sizes, or it is read-only, before or from the
middle on (which asks for root and Linux: a tmpfs is mounted), the folder is removed, or is a link. Right: the error says what
to do and holds the fit's losses so far, and once the cause is gone the same call ends with the same bits.
"""

import atexit
import contextlib
import functools
import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from faults_fits import KINDS

from bayesprune import cells

KILLS = 10  # of one cell
ROUNDS = 10
WHERE = ("its start", "training", "a write")
MIDDLE = 600  # the step at which something happens to the folder
CALM = "standard course with BMR"  # the fit that the other faults are tried on
SIZES = (4, 16, 24, 32, 48, 64, 96)  # kB of a disk; a checkpoint takes 9 at the start and 22 at the end, and two are kept


@dataclass(frozen=True)
class Cell:
    """``kind``: which fit. ``round``: decides the moments of the kills. ``kilobytes``: of the disk that is full."""

    fault: str
    kind: str = CALM
    round: int = 0
    kilobytes: int = 0


CELLS = (
    *(Cell("kill", kind, number) for kind in KINDS for number in range(ROUNDS)),
    *(Cell("full disk", kilobytes=size) for size in SIZES),
    *(Cell(fault) for fault in ("read-only at once", "read-only in the middle", "removed", "a link", "a link that breaks")),
)


class Server:
    """The process that runs fits; one is enough for a whole study."""

    def __init__(self, folder: Path) -> None:
        script = Path(__file__).with_name("faults_fits.py")
        cache = {"JAX_COMPILATION_CACHE_DIR": str(folder), "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0"}
        path = os.pathsep.join([str(script.parent), *filter(None, sys.path)])
        self.process = subprocess.Popen(
            [sys.executable, "-W", "ignore", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
            env=cache | dict(os.environ) | {"OPENBLAS_NUM_THREADS": "1", "PYTHONPATH": path},
        )  # fmt: skip
        self.read()

    def read(self) -> dict[str, Any]:
        """The next event."""
        assert self.process.stdout is not None
        if not (line := self.process.stdout.readline()):
            raise RuntimeError("the process of the fits has ended.")
        found: dict[str, Any] = json.loads(line)
        return found

    def events(self, **request: Any) -> Iterator[dict[str, Any]]:
        """What happens to one fit, as it happens."""
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(request) + "\n")
        self.process.stdin.flush()
        while True:
            event = self.read()
            yield event
            if event["event"] == "gone":
                return

    def end_of(self, **request: Any) -> dict[str, Any]:
        """How a fit that nobody kills ended: its last word."""
        seen = [event for event in self.events(**request) if event["event"] in ("ended", "failed", "gone")]
        return seen[0]


@functools.cache
def server(folder: Path) -> Server:
    return Server(folder)


@functools.cache
def left_alone(kind: str, shared: Path) -> dict[str, Any]:
    """The fit that nobody killed, by its programs as they come from the cache of compiled ones, and how long it takes."""
    found: dict[str, Any] = {}
    for _ in range(2):
        folder = fresh(own(shared) / "alone")
        times: dict[str, float] = {}
        for event in server(shared / "cache").events(kind=kind, folder=str(folder)):
            times.setdefault(event["event"], time.perf_counter())
            found |= event if event["event"] == "ended" else {}
        found |= {"start": times["begun"] - times["started"], "length": times["ended"] - times["begun"]}
    return found


def fresh(folder: Path) -> Path:
    shutil.rmtree(folder, ignore_errors=True)
    folder.parent.mkdir(parents=True, exist_ok=True)
    return folder


def own(shared: Path) -> Path:
    """The folder of this process; the cache of compiled programs is all processes'."""
    return shared / str(os.getpid())


def killed(cell: Cell, shared: Path) -> cells.Record:
    """So many kills, and how the fits ended between and after them."""
    alone, folder = left_alone(cell.kind, shared), fresh(own(shared) / "killed")
    rng = np.random.default_rng([cell.round, *cell.kind.encode()])
    where, ends, unfinished = Counter[str](), [], True
    while unfinished or where.total() < KILLS:
        at_start, share = bool(rng.random() < 1 / 6), float(rng.random())
        seconds, armed = (share * (alone["start"] if at_start else alone["length"] / 3)), where.total() < KILLS
        pid, begun, end, timer = 0, False, None, threading.Timer(0.0, int)
        for event in server(shared / "cache").events(kind=cell.kind, folder=str(folder)):
            name = event["event"]
            pid, begun = event.get("pid", pid), begun or name == "begun"
            if armed and name == ("started" if at_start else "begun"):
                timer = threading.Timer(seconds, kill, [pid])
                timer.start()
            if name in ("ended", "failed"):
                timer.cancel()
                end = event
        timer.cancel()
        if end is None:
            half = any(f"-{pid}-" in path.name for path in folder.rglob(".bayesprune-*.tmp"))
            where["a write" if half else "training" if begun else "its start"] += 1
        else:
            ends.append(end)
            fresh(folder)
        unfinished = end is None
    same = sum(end.get("digest") == alone["digest"] for end in ends)
    errors = [end["says"] for end in ends if end["event"] == "failed"]
    return {"kills": where.total(), "ends": len(ends), "same": same, "errors": errors} | {f"in {n}": where[n] for n in WHERE}


def kill(pid: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)


@contextlib.contextmanager
def disk(folder: Path, kilobytes: int) -> Iterator[Callable[[str], None]]:
    """A disk of that size, in memory, and a function that mounts it anew with other options. Asks for root."""
    fresh(folder).mkdir(parents=True)
    mount("-t", "tmpfs", "-o", f"size={kilobytes}k", "none", str(folder))
    try:
        yield lambda options: mount("-o", f"remount,{options}", str(folder))
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=True)


def mount(*words: str) -> None:
    subprocess.run(["mount", *words], check=True)


def locked(how: str, folder: str) -> None:
    """ "+i": nothing may be made or changed in the folder, by root neither; "-i": it may."""
    subprocess.run(["chattr", how, folder], check=True)


def full(cell: Cell, shared: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    with disk(shared / "disk", cell.kilobytes) as again:
        fit = functools.partial(server(shared / "cache").end_of, kind=cell.kind, folder=str(shared / "disk" / "fit"))
        first = fit()
        again("size=10m")
        return first, fit()


def read_only(cell: Cell, shared: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    (shared / "go").unlink(missing_ok=True)
    with disk(shared / "disk", 10_000) as again:
        request, first = {"kind": cell.kind, "folder": str(shared / "disk" / "fit")}, {}
        if cell.fault == "read-only at once":
            again("ro")
            first = server(shared / "cache").end_of(**request)
        else:
            for event in server(shared / "cache").events(**request, act="wait", at=MIDDLE):
                if event["event"] == "waits":  # the lock is open for writing, so that the disk itself cannot change
                    locked("+i", request["folder"])
                    (shared / "go").touch()
                first = event if event["event"] in ("ended", "failed") else first
        again("rw")
        if cell.fault == "read-only in the middle":
            locked("-i", request["folder"])
        return first, server(shared / "cache").end_of(**request)


def folder_gone(cell: Cell, shared: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    """Removed in the middle; a link to a folder, killed once; such a link that leads nowhere from the middle on."""
    home, link = fresh(shared / "home"), fresh(shared / "link")
    act = {"removed": "remove", "a link": "die", "a link that breaks": "lead nowhere"}[cell.fault]
    if cell.fault == "removed":
        link = home
    else:
        home.mkdir()
        link.unlink(missing_ok=True)
        link.symlink_to(home.resolve())
    first = server(shared / "cache").end_of(kind=cell.kind, folder=str(link), act=act, at=MIDDLE)
    if cell.fault == "a link that breaks":
        link.unlink()
        link.symlink_to(home.resolve())
    second = server(shared / "cache").end_of(kind=cell.kind, folder=str(link))
    return first, second | ({"event": "no link any more"} if cell.fault != "removed" and not link.is_symlink() else {})


def run(cell: Cell, folder: Path) -> cells.Record:
    """Meet one fault, and go on."""
    shared = folder.parent / "shared"
    atexit.register(shutil.rmtree, own(shared), ignore_errors=True)
    if cell.fault == "kill":
        return killed(cell, shared)
    does = full if cell.fault == "full disk" else read_only if cell.fault.startswith("read-only") else folder_gone
    alone, (first, second) = left_alone(cell.kind, shared), does(cell, shared)
    return {
        "first": first["event"],
        "error": first.get("error", ""),
        "says": first.get("says", "").replace(str(shared.resolve()), "runs"),
        "losses": len(first.get("losses", "")) // 8,
        "whole": alone["losses"].startswith(first.get("losses", "")),
        "same": second["event"] == "ended" and second["digest"] == alone["digest"],
    }


def kills(found: cells.Found) -> str:
    """One row a kind of fit, and their sum."""
    rows = []
    for kind in (*KINDS, "all"):
        records = [record for cell, record in found.items() if cell.fault == "kill" and kind in (cell.kind, "all")]
        sums = [sum(record[name] for record in records) for name in ("kills", *(f"in {n}" for n in WHERE), "ends", "same")]
        rows.append([kind, *([str(number) for number in sums] if records else [cells.MISSING] * len(sums))])
    return cells.table(["fit", "kills", *(f"in {name}" for name in WHERE), "fits that ended", "same bits"], rows, "lrrrrrr")


def folders(found: cells.Found) -> str:
    """One row a fault of the folder."""
    rows = []
    for cell in (cell for cell in CELLS if cell.fault != "kill"):
        name = f"{cell.fault}, {cell.kilobytes} kB" if cell.kilobytes else cell.fault
        if (record := found.get(cell)) is None:
            rows.append([name, *[cells.MISSING] * 3])
            continue
        holds = f"{record['losses']} steps" + ("" if record["whole"] else ", **others**") if record["losses"] else "-"
        told = {"ended": "nothing: it ends", "gone": "killed"}.get(record["first"], record["error"])
        rows.append([name, told, "-" if record["first"] == "ended" else holds, "yes" if record["same"] else "**no**"])
    return cells.table(["fault", "what the call says", "its error holds", "then the same bits"], rows, "llll")


STUDY = cells.Study("faults", CELLS, run, {"kills": kills, "folders": folders})

if __name__ == "__main__":
    cells.main(STUDY)
