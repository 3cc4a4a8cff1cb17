"""Memory of loading and predicting: a compact file by NumPy alone, by bayesprune, and the masked posterior it was made from.

    python benchmarks/compaction_memory.py runs/mlp51

Each reads and predicts 1,000 rows in a process of its own, network at the posterior mean; kB are the process's largest resident
set (Linux's VmHWM), beside that of a process that only imports what is needed.
"""

import argparse
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

import bayesprune as bp
from bayesprune.cli import build, rows, settings
from bayesprune.cli.results import POSTERIOR
from bayesprune.deploy import reader
from bayesprune.report.export import load_posterior
from bayesprune.report.tables import markdown

ROWS = 1000
BY_NUMPY = """
import sys; sys.path.insert(0, {folder!r})
import numpy as np, reader
predict = lambda: reader.predict(*reader.load({path!r}), np.load({rows!r}))
"""
BY_US = """
import numpy as np, bayesprune as bp
predict = lambda: bp.load({path!r}).predict(np.load({rows!r}), engine={engine!r})
"""
MASKED = """
import jax, numpy as np, bayesprune as bp
from pathlib import Path
from bayesprune.cli import build, rows, settings
from bayesprune.report.export import load_posterior

def predict():
    chosen, saved = settings.load(Path({run!r})), load_posterior(Path({run!r}, {posterior!r}))
    bnn, x = build.make_bnn(chosen, rows.load_data(chosen)), np.load({rows!r})
    return bp.predict(jax.random.key(0), bnn, saved.params, x, mask=saved.mask, num_samples=1)
"""
END = """
{work} and predict()
print(next(line.split()[1] for line in open("/proc/self/status") if line.startswith("VmHWM")))
"""


def peak(code: str, **names: object) -> int:
    """kB of a process that runs this code."""
    done = subprocess.run([sys.executable, "-c", (code + END).format(**names)], capture_output=True, text=True, check=True)
    return int(done.stdout.splitlines()[-1])


def lines(run: Path) -> list[list[str]]:
    chosen, saved = settings.load(run), load_posterior(run / POSTERIOR)
    data = rows.load_data(chosen)
    small = bp.compact(build.make_bnn(chosen, data), saved.params, saved.mask).certified()
    found = []
    with tempfile.TemporaryDirectory() as place:
        path, x = Path(place, "net.bayesprune"), Path(place, "x.npy")
        small.save(path, "posterior")
        np.save(x, np.resize(data.test.x, (ROWS, *data.test.x.shape[1:])).astype(np.float32))
        names = {"path": str(path), "rows": str(x), "run": str(run.resolve()), "posterior": POSTERIOR}
        names["folder"] = str(Path(reader.__file__).parent)
        contestants = {
            "reader, NumPy alone": (BY_NUMPY, ""),
            "compact, kernels": (BY_US, "kernels"),
            "compact, JAX": (BY_US, "jax"),
            "masked, JAX, one draw": (MASKED, ""),
        }
        for label, (code, engine) in contestants.items():
            idle, busy = (peak(code, engine=engine, work=work, **names) for work in (False, True))
            found.append([run.name, label, f"{idle:,}", f"{busy:,}", f"{busy - idle:,}"])
    return found


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", nargs="+", type=Path)
    head = ["run", "what reads and predicts", "idle, kB", "largest, kB", "more"]
    print(markdown([head, *(line for folder in parser.parse_args().runs for line in lines(folder))]))
