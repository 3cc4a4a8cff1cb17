"""Processes of a test, each with as many devices as it asks for."""

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PATIENCE = 900  # seconds, after which a process that waits for another one is ended


def start(script: str, devices: int, *words: str) -> subprocess.Popen:
    """``python tests/infer/SCRIPT WORDS`` with so many devices of the CPU."""
    flags = f"{os.environ.get('XLA_FLAGS', '')} --xla_force_host_platform_device_count={devices}"
    more = {"XLA_FLAGS": flags, "PYTHONPATH": f"{ROOT / 'src'}{os.pathsep}{ROOT}", "JAX_PLATFORMS": "cpu"}
    return subprocess.Popen(
        [sys.executable, str(ROOT / "tests/infer" / script), *words],
        env=os.environ | more,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def output_of(script: str, devices: int, *words: str) -> str:
    """What such a process prints, once it has ended well."""
    process = start(script, devices, *words)
    try:
        output, errors = process.communicate(timeout=PATIENCE)
    finally:
        process.kill()
    assert process.returncode == 0, errors[-3_000:]
    return output
