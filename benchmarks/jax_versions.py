"""Step times under several versions of JAX: an environment for each, the same steps, a table.

    python benchmarks/jax_versions.py 0.10.0 0.10.2 0.11.0 --only MLP     # words after the versions go to speed.py

Environments are made in `.cache/jax-versions` and used again. Needs the registry; takes minutes a version.
"""

import argparse
import subprocess
import sys
import venv
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
HOMES = ROOT / ".cache" / "jax-versions"


def environment(version: str) -> Path:
    """The Python of an environment with this JAX, made if there is none."""
    home = HOMES / version
    python = home / "bin" / "python"
    ready = home / ".ready"
    if not ready.exists():
        venv.create(home, with_pip=True, clear=True)
        packages = ["-e", f"{ROOT}[cli]", f"jax=={version}", f"jaxlib=={version}"]
        subprocess.run([python, "-m", "pip", "install", "--quiet", *packages], check=True)
        ready.touch()
    return python


def main() -> None:
    """Time each version, and print what `speed.py` printed of each."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("versions", nargs="+")
    arguments, words = parser.parse_known_args()
    failed = []
    for version in arguments.versions:
        print(f"\n== JAX {version}", flush=True)
        try:
            subprocess.run([environment(version), ROOT / "benchmarks" / "speed.py", *words], check=True)
        except subprocess.CalledProcessError as error:
            failed.append(f"{version}: {error}")
    if failed:
        sys.exit("These failed:\n" + "\n".join(failed))


if __name__ == "__main__":
    main()
