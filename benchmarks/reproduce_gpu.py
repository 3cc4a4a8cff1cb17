"""What the papers claim of nets that take an accelerator, one after another: resumable, with the tables at the end.

    python benchmarks/reproduce_gpu.py                 # or `make reproduce-gpu`: for one H100
    python benchmarks/reproduce_gpu.py --tiny          # every command for a few steps and rows: that none of them fails

Needs `BAYESPRUNE_DATA` with Fashion-MNIST's files and CIFAR-10's; where a script `unpack_cifar10.py` lies there, as CIFAR-10 is
packed, it is run. Both are read before anything else. A run that was stopped goes on where it was; one that fails is named at
the end, and those after it run all the same.
"""

import argparse
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import bayesprune as bp
from bayesprune import cli

NETS = ("mlp", "lenet5", "mixer", "vit")
GRIDS = {"fashion_mnist": NETS[2:], "cifar10": NETS}  # what two cores take days for
DENSITIES = ("0.05", "0.10")
TINY = {"--epochs": 2, "--steps-per-epoch": 1, "--evals": 1, "--draws": 1, "--final-draws": 1, "--methods": "bmr"}
ROWS = 256  # of each part that a tiny run keeps, once the files have been read whole
TINY_RUN = {"--steps": 2, "--batch-size": 2, "--eval-every": 2, "--num-samples": 1}


def words(flags: Mapping[str, object]) -> list[str]:
    return [str(word) for pair in flags.items() for word in pair]


def commands(out: Path, tiny: bool) -> list[list[str]]:
    """What is run, as words after `bayesprune`."""
    grids = [
        ["reproduce", "bmr", "--dataset", dataset, "--nets", net, "--out", str(out), *(words(TINY) if tiny else ())]
        for dataset, nets in GRIDS.items()
        for net in nets
    ]
    preset = ["run", "--preset", "ssvi-cifar", *(words(TINY_RUN) if tiny else ())]
    sparse = [[*preset, "--density", density, "--out", str(out / f"ssvi-{density}")] for density in DENSITIES]
    dense = [*preset, "--method", "none", "--storage", "masked", "--out", str(out / "ssvi-dense")]
    return [*grids, *sparse, dense]


def few_rows(given: list[str]) -> int:
    """One command on the first rows of its data: what is left of its time is reading them and compiling."""
    whole = bp.data.load

    def load(*names: Any, **settings: Any) -> tuple[bp.Dataset, ...]:
        return tuple(bp.Dataset(part.x[:ROWS], part.y[:ROWS]) for part in whole(*names, **settings))

    bp.data.load = load  # type: ignore[assignment]
    return cli.main(given)


def read(out: Path) -> dict[str, str]:
    """Data set -> the folder that it is read from. What is missing is said now, not after hours."""
    given, unpacked = os.environ.get("BAYESPRUNE_DATA", ""), out / "data"
    folders = dict.fromkeys(GRIDS, given)
    for name in GRIDS:
        script = Path(given) / f"unpack_{name}.py"
        try:
            bp.data.load(name)
        except FileNotFoundError as error:
            if not script.is_file():
                raise SystemExit(str(error)) from None
            if not unpacked.is_dir():
                print(f"{script} -> {unpacked}", flush=True)
                subprocess.run([sys.executable, script, unpacked], check=True)
            bp.data.load(name, unpacked)
            folders[name] = str(unpacked)
    return folders


def main() -> None:
    """Run all, and say what failed."""
    if sys.argv[1:2] == ["few-rows"]:
        raise SystemExit(few_rows(sys.argv[2:]))
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tiny", action="store_true", help="a few steps of each")
    parser.add_argument("--out", type=Path, default=Path("runs/gpu"), help="folder of records, checkpoints and figures")
    arguments = parser.parse_args()
    out = arguments.out / "tiny" if arguments.tiny else arguments.out
    command = [__file__, "few-rows"] if arguments.tiny else ["-m", "bayesprune"]
    folders, failed = read(arguments.out), []
    for given in commands(out, arguments.tiny):
        print(f"\n== bayesprune {' '.join(given)}", flush=True)
        folder = folders["fashion_mnist" if "fashion_mnist" in given else "cifar10"]
        if subprocess.run(
            [sys.executable, *command, *given], env=os.environ | {"BAYESPRUNE_DATA": folder}, check=False
        ).returncode:
            failed.append(" ".join(given))
    print(f"\nRecords: {out}")
    if failed:
        raise SystemExit(
            "These failed; run the same command again after a remedy:\n" + "\n".join(f"  bayesprune {f}" for f in failed)
        )


if __name__ == "__main__":
    main()
