"""Certificates of the networks that the project has, at the sizes of the papers: each without a part of its weights or units.

    python benchmarks/compaction_certificates.py                  # a table, one row for each network and mask
    python benchmarks/compaction_certificates.py resnet18 vit

"weights": of each array a tenth is alive, at random. "units": every second unit is gone, whole, its norm's scale and shift too.
The certificate compares masked and smaller network over a finite field, in three rounds, and in float64 and float32.
"""

import argparse
import time
from collections.abc import Iterator

import jax
import numpy as np
from compaction_speed import every_second

import bayesprune as bp
from bayesprune.report.tables import markdown

IMAGES = (28, 28, 1)
ZOO = {
    "mlp": (lambda: bp.nets.MLP(hidden=(400,) * 5, num_outputs=10), IMAGES),
    "lenet5": (lambda: bp.nets.LeNet5(num_outputs=10), (32, 32, 1)),
    "mixer": (lambda: bp.nets.MLPMixer(num_outputs=10), (32, 32, 3)),
    "vit": (lambda: bp.nets.ViT(num_outputs=10), (32, 32, 3)),
    "vgg": (lambda: bp.nets.VGG(num_outputs=10), (32, 32, 3)),
    "resnet18": (lambda: bp.nets.ResNet18(num_outputs=10), (32, 32, 3)),
}
MASKS = ("weights", "units")


def lines(name: str) -> Iterator[list[str]]:
    """The rows of one network, at its first weights."""
    make, shape = ZOO[name]
    everything = lambda path, shape: True  # noqa: E731
    bnn = bp.BNN(
        make(), prior=bp.priors.Gaussian(1.0), likelihood=bp.likelihoods.Categorical(), input_shape=shape, posterior="map",
        bayesian=everything, prunable=everything,
    )  # fmt: skip
    rows = bp.Dataset(np.zeros((2, *shape), np.float32), np.zeros(2, np.int32))
    params = bp.fit_svi(jax.random.key(0), bnn, rows, num_steps=1, course=bp.courses.Plain(), progress=False).params
    for kind in MASKS:
        begin = time.perf_counter()
        if kind == "units":
            small = bp.compact(bnn, *every_second(bnn, params), keep="mean")
        else:
            rng = np.random.default_rng(0)
            mask = {str(spec.path): rng.random(spec.shape) < 0.1 for spec in bnn.layout if spec.prunable}
            small = bp.compact(bnn, params, mask, keep="mean")
        made = time.perf_counter()
        c, cost = small.certify(), small.cost
        took = [f"{seconds:.1f}" for seconds in (made - begin, time.perf_counter() - made)]
        exact = [f"{error:.1g}" for error in (c.float64, c.float32)]
        counts = [f"{cost.dense_numbers:,}", f"{cost.numbers:,}", f"{cost.dense:,}", f"{cost.executed:,}"]
        yield [name, kind, *counts, f"{c.mismatches} of {c.outputs}", *exact, "yes" if c.holds else "NO", *took]


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("nets", nargs="*", default=list(ZOO), metavar="net")
    head = ["net", "left out", "numbers", "left", "FLOPs a row", "left", "outputs that differ", "float64", "float32", "holds"]
    table = [[*head, "compaction, s", "certificate, s"]]
    for name in parser.parse_args().nets:
        table += list(lines(name))
        print(markdown([table[0], *table[-len(MASKS) :]]), flush=True)
    print(markdown(table))
