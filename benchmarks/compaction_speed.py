"""How fast a compact network predicts: our engines against ONNX Runtime and JAX on the dense network, PyTorch if it is there.

    python benchmarks/compaction_speed.py mlp lenet5
    python benchmarks/compaction_speed.py mlp --threads 1 --repeats 200
    python benchmarks/compaction_speed.py resnet18 --repeats 10

The MLP and LeNet-5 are masked at random: a share of weights is alive, all of them between units of which six tenths are. Of
ResNet-18 every second channel is left, whole. Every contestant
gives the same predictions, which is checked first. They take turns within a repeat and every ratio is the median over repeats
of a ratio of two times, so that a drift of the machine's speed falls out. All have the same number of threads. The last table
is of 100 networks drawn from the posterior, against `bayesprune.predict`.
"""

import argparse
import itertools
import os
import statistics
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import jax
import numpy as np
from speed import NETS, made_up
from threadpoolctl import threadpool_limits

import bayesprune as bp
from bayesprune.deploy.compact import Compact
from bayesprune.deploy.engines.draws_engine import DrawsEngine
from bayesprune.deploy.engines.engine import Engine
from bayesprune.deploy.files.to_onnx import export_onnx
from bayesprune.deploy.program import from_bnn, laws
from bayesprune.deploy.program.run import run
from bayesprune.deploy.program.weights import Points
from bayesprune.deploy.sparse.kernels import available
from bayesprune.model.bnn import STATE

NETS = NETS | {"resnet18": (lambda: bp.nets.ResNet18(num_outputs=10), (32, 32, 3))}
DENSITY = {"mlp": 0.02, "lenet5": 0.1}
UNITS, BATCHES, DRAWS = 0.6, (1, 8, 32, 128, 1000), 100
Calls = dict[str, Callable[[], np.ndarray]]


def masked(bnn: bp.BNN, density: float) -> dict[str, np.ndarray]:
    """A mask at random: of each kernel ``density`` of its weights, between units that are alive."""
    rng, mask = np.random.default_rng(0), dict[str, np.ndarray]()
    shapes = {str(spec.path): spec.shape for spec in bnn.layout}
    before = None
    for site, shape in shapes.items():
        if len(shape) < 2:
            continue
        inputs, outputs = shape[-2:]
        if before is None or len(before) != inputs:
            before = rng.permutation(inputs) < max(1, round(UNITS * inputs))
        after = np.ones(outputs, bool) if outputs == 10 else rng.permutation(outputs) < round(UNITS * outputs)
        both = before[:, None] & after
        mask[site] = (rng.random(shape) < density / both.mean()) & both
        mask[site.replace("kernel", "bias")] = after
        before = after
    return mask


def every_second(bnn: bp.BNN, params: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """Parameters and mask of every second unit, with all that makes it, its norm's scale and shift too."""
    stays = {site: (ids < 0) | (ids % 2 == 0) for site, ids in bnn.units.producers.items()}
    alive = {str(spec.path): np.broadcast_to(stays[str(spec.path)], spec.shape) for spec in bnn.layout}
    points = {site: params[site] * kept for site, kept in alive.items() if site in params}
    return {**params, **points}, {str(spec.path): alive[str(spec.path)] for spec in bnn.layout if spec.prunable}


def dense(bnn: bp.BNN, compact: Compact, params: Mapping[str, Any], mask: Mapping[str, Any]) -> Compact:
    """The masked network as it was, in the form that is exported: its means, zeros and all."""
    nodes, program = bnn.posterior(dict(params)), from_bnn.network(bnn, params.get(STATE, {}))
    values = laws.fixed(bnn, params) | {site: node.loc * node.unit for site, node in nodes.items()}
    means = {n: np.asarray(values[site] * mask.get(site, True), np.float32) for site, n in program.weights.items()}
    program = replace(program, constants={**program.constants, **means}, weights={})
    return replace(compact, program=program, law=Points(), origin=None)


def by_onnx(compact: Compact, threads: int) -> Callable[[np.ndarray], np.ndarray]:
    import onnxruntime as ort

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "net.onnx"
        export_onnx(compact, path)
        options = ort.SessionOptions()
        options.intra_op_num_threads, options.log_severity_level = threads, 3
        session = ort.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    return lambda x: session.run(None, {"x": x})[0]


def by_jax(compact: Compact) -> Callable[[np.ndarray], np.ndarray]:
    constants = jax.device_put(dict(compact.program.constants))
    function = jax.jit(lambda constants, x: run(compact.head, {}, run(compact.program, {}, x, constants)))
    return lambda x: np.asarray(function(constants, x))


def by_torch(name: str, threads: int, mask: Mapping[str, np.ndarray]) -> dict[str, Callable[[np.ndarray], np.ndarray]]:
    """Networks of the same shape with weights of their own: dense, and the MLP with its mask in CSR; none without PyTorch."""
    try:
        import torch
    except ImportError:
        return {}
    if name not in DENSITY:
        return {}
    torch.set_num_threads(threads)
    n = torch.nn

    def outputs(net: Any) -> Callable[[np.ndarray], np.ndarray]:
        def predict(x: np.ndarray) -> np.ndarray:
            with torch.inference_mode():
                return net(torch.from_numpy(x).permute(0, 3, 1, 2).contiguous()).numpy()

        return predict

    if name == "lenet5":
        pooled = [part for a, b in ((1, 6), (6, 16)) for part in (n.Conv2d(a, b, 5), n.Tanh(), n.AvgPool2d(2))]
        rest = [n.Conv2d(16, 120, 5), n.Tanh(), n.Flatten(), n.Linear(120, 84), n.Tanh(), n.Linear(84, 10), n.Softmax(1)]
        return {"PyTorch, dense": outputs(n.Sequential(*pooled, *rest))}
    sizes = [784, *[400] * 5]
    hidden = [part for a, b in itertools.pairwise(sizes) for part in (n.Linear(a, b), n.SiLU())]
    matrices = [torch.from_numpy(mask[f"Dense_{i}.kernel"].T.astype(np.float32)).to_sparse_csr() for i in range(6)]

    def sparse(x: Any) -> Any:
        x = x.flatten(1).T
        for matrix in matrices[:-1]:
            x = n.functional.silu(matrix @ x)
        return torch.softmax((matrices[-1] @ x).T, 1)

    whole = n.Sequential(n.Flatten(), *hidden, n.Linear(400, 10), n.Softmax(1))
    return {"PyTorch, dense": outputs(whole), "PyTorch, CSR": outputs(sparse)}


def times_of(calls: Calls, repeats: int) -> dict[str, list[float]]:
    """Seconds of each call, in turns. Each is called once before, so that its numbers are in the cache as when it is alone."""
    times: dict[str, list[float]] = {label: [] for label in calls}
    for _ in range(repeats):
        for label, call in calls.items():
            call()
            begin = time.perf_counter()
            call()
            times[label].append(time.perf_counter() - begin)
    return times


def median_ratio(values: Sequence[float], base: Sequence[float]) -> float:
    """How many times as fast as the base."""
    return statistics.median(b / a for a, b in zip(values, base, strict=True))


def table(title: str, base: str, times: Mapping[str, list[float]]) -> None:
    """Rows of one table: median, least, and the median ratio of the base's time to it."""
    for label, values in times.items():
        ratio = median_ratio(values, times[base])
        print(f"| {title} | {label} | {1e6 * statistics.median(values):,.0f} | {1e6 * min(values):,.0f} | {ratio:.2f} |")


def header(base: str) -> None:
    print(f"\n| | | median, µs | least, µs | times as fast as {base} |\n| --- | --- | ---: | ---: | ---: |")


def study(name: str, threads: int, repeats: int) -> None:
    make, shape = NETS[name]
    whole_units = name not in DENSITY
    bnn = bp.BNN(
        make(),
        prior=bp.priors.Gaussian(),
        likelihood=bp.likelihoods.Categorical(),
        input_shape=shape,
        **({"posterior": "map", "prunable": bp.select.everything} if whole_units else {}),
    )
    data = made_up(shape)
    first = {"num_steps": 1, "batch_size": 8 if whole_units else 128, "course": bp.courses.Plain()}
    params = bp.fit_svi(jax.random.key(0), bnn, data, progress=False, **first).params
    params, mask = every_second(bnn, params) if whole_units else (params, masked(bnn, DENSITY[name]))
    small, posterior = (bp.compact(bnn, params, mask, keep) for keep in ("mean", "posterior"))
    whole = dense(bnn, small, params, mask)
    print(f"\n## {name}: {sum(m.sum() for m in mask.values()):,} weights alive\n\n{small}\n{posterior}")
    contestants = {
        "ONNX Runtime, dense": by_onnx(whole, threads),
        "ONNX Runtime, compact": by_onnx(small, threads),
        "JAX, dense": by_jax(whole),
        "JAX, compact": by_jax(small),
    }
    if not whole_units:
        contestants |= {f"engine, {kernel}": Engine(small.program, small.head, kernels=kernel) for kernel in available()}
    expected = np.asarray(whole.predict(data.x[:64]))
    for label, predict in contestants.items():
        np.testing.assert_allclose(predict(data.x[:64]), expected, rtol=2e-3, atol=2e-5, err_msg=label)
    contestants |= by_torch(name, threads, mask)
    header("ONNX Runtime, dense")
    for rows in BATCHES[: 4 if whole_units else None]:
        x = np.ascontiguousarray(data.x[:rows])
        calls: Calls = {label: lambda predict=predict: predict(x) for label, predict in contestants.items()}  # noqa: B023
        table(f"{name}, {rows} rows", "ONNX Runtime, dense", times_of(calls, max(10, repeats if rows < 1000 else repeats // 5)))
    if not whole_units:
        draws(name, bnn, params, mask, posterior, data.x, max(3, repeats // 20))


def draws(name: str, bnn: bp.BNN, params: Any, mask: Any, compact: Compact, data: np.ndarray, repeats: int) -> None:
    """100 networks from the posterior: drawn anew for every prediction, or once before."""
    key, engines = jax.random.key(1), {kernel: DrawsEngine(compact, kernel) for kernel in available()[1:]}
    kept = {kernel: engine.draw(key, DRAWS) for kernel, engine in engines.items()}
    header("bayesprune.predict")
    for rows in (1, 128):
        x = data[:rows]
        calls: Calls = {
            "bayesprune.predict": lambda x=x: bp.predict(key, bnn, params, x, mask=mask, num_samples=DRAWS),
            "compact, JAX": lambda x=x: compact.predict(x, rng_key=key, num_samples=DRAWS),
        }
        for kernel, engine in engines.items():
            calls[f"engine, {kernel}"] = lambda x=x, engine=engine: engine.predict(key, x, DRAWS)
            calls[f"engine, {kernel}, drawn before"] = lambda x=x, e=engine, k=kernel: e.outputs(kept[k], x).mean(0)
            if name == "mlp":
                calls[f"engine, {kernel}, noise on sums"] = lambda x=x, e=engine: e.predict(key, x, DRAWS, noise="local")
        table(f"{name}, {DRAWS} networks, {rows} rows", "bayesprune.predict", times_of(calls, repeats))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("nets", nargs="+", choices=list(NETS))
    parser.add_argument("--repeats", type=int, default=100)
    parser.add_argument("--threads", type=int, default=2, help="of every contestant")
    arguments = parser.parse_args()
    with ExitStack() as limits:
        limits.enter_context(threadpool_limits(arguments.threads))
        if hasattr(os, "sched_setaffinity"):
            os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[: arguments.threads])
        load = os.getloadavg()[0] if hasattr(os, "getloadavg") else float("nan")
        print(f"{arguments.threads} threads for every contestant; load of the machine before: {load:.1f}")
        for name in arguments.nets:
            study(name, arguments.threads, arguments.repeats)


if __name__ == "__main__":
    main()
