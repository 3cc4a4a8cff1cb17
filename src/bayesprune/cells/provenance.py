"""What made a record: the commit, the versions, the device."""

import datetime
import platform
import subprocess
from importlib import metadata
from pathlib import Path
from typing import Any

import jax

PACKAGE = Path(__file__).resolve().parents[1]
ROOT = PACKAGE.parents[1]


def provenance() -> dict[str, Any]:
    """``dirty``: whether sources or benchmarks differ from the commit. Without git both are ``None``."""
    commit = _git("rev-parse", "HEAD")
    changed = _git("status", "--porcelain", "--", "src", "benchmarks", ":!benchmarks/results")
    return {
        "commit": commit,
        "dirty": None if changed is None else changed != "",
        "date": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "python": platform.python_version(),
        **{name: _version(name) for name in ("jax", "numpyro", "bayesprune")},
        "device": f"{jax.device_count()} x {jax.devices()[0].device_kind}",
    }


def _git(*words: str) -> str | None:
    if PACKAGE.parent.name != "src":  # installed: a repository around it is another one
        return None
    try:
        return subprocess.run(["git", *words], cwd=ROOT, capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return None


def _version(name: str) -> str | None:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None
