"""Where the time of a training step goes: XLA's own events, summed by what they compute.

    python benchmarks/profile_step.py mlp       # or lenet5; --posterior map for the MAP step

Traces 60 steps of `fit_svi` with JAX's profiler and puts every instruction of the compiled loop under a heading, by the
operation that its metadata name. Times are of all threads together; the shares are what to read.
"""

import argparse
import collections
import re
import tempfile
from pathlib import Path

import jax
from speed import BATCH, NETS, OPTIMIZER, made_up

import bayesprune as bp
from bayesprune.core.schedules import Constant
from bayesprune.prune.keep_all import KeepAll
from bayesprune.train.kernels.optimizer import Optax
from bayesprune.train.loop import compile_loop
from bayesprune.train.objective import make_elbo
from bayesprune.train.sites import Example
from bayesprune.train.state import Recipe

STEPS = 60
# First heading whose pattern is found in an instruction's operation; the order matters, for a fusion names several.
HEADINGS = (
    ("matrix products and convolutions", r"dot_general|conv_general"),
    ("random bits", r"threefry|random_bits|shift_right|xor"),
    ("noise from the table", r"gather|_take"),
    ("patches and pooling", r"reduce_window|select_and_scatter|pad|concatenate|transpose|dynamic_slice"),
    ("reductions", r"reduce_sum|reduce_max"),
    ("element by element: softplus, divergence, optimiser", r"."),
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("net", choices=NETS)
    parser.add_argument("--posterior", default="mean_field", choices=("mean_field", "map"))
    arguments = parser.parse_args()
    net, shape = NETS[arguments.net]
    data = made_up(shape)
    bnn = bp.BNN(
        net(),
        prior=bp.priors.Flat(),
        likelihood=bp.likelihoods.Categorical(),
        input_shape=shape,
        posterior=arguments.posterior,
    )
    course = bp.courses.Plain()
    bnn = course.begin(bnn)
    fit = lambda: bp.fit_svi(  # noqa: E731
        jax.random.key(0), bnn, data, num_steps=STEPS, batch_size=BATCH, course=course, optimizer=OPTIMIZER, progress=False
    )
    fit()
    operations = operations_of(bnn, data)
    with tempfile.TemporaryDirectory() as folder:
        with jax.profiler.trace(folder):
            fit()
        times = times_by_instruction(next(Path(folder).rglob("*.xplane.pb")))
    shares: collections.Counter[str] = collections.Counter()
    for instruction, nanoseconds in times.items():
        if instruction in operations:
            shares[heading(operations[instruction])] += nanoseconds
    total = sum(shares.values())
    print(f"| {arguments.net}, {arguments.posterior}: ms per step, threads added up | share |\n| --- | ---: |")
    for name, nanoseconds in shares.most_common():
        print(f"| {name}: {nanoseconds / STEPS / 1e6:.2f} | {100 * nanoseconds / total:.0f} % |")


def operations_of(bnn: bp.BNN, data: bp.Dataset) -> dict[str, str]:
    """Instruction -> the operations it was made from, of the loop that the fit has compiled; loops stand for their bodies."""
    keywords = (("train", True), ("num_rows", len(data.y)))
    recipe = Recipe(bnn, make_elbo("weight", 1), Optax(OPTIMIZER), KeepAll(), Constant(1.0), BATCH, keywords, None)
    data = bp.Dataset(jax.numpy.asarray(data.x), jax.numpy.asarray(data.y))
    loop = compile_loop(recipe, Example.of(data))
    carry = loop.init(jax.random.key(0), data)
    text = loop.run.lower(carry, data, {}, jax.numpy.asarray(STEPS, jax.numpy.int32)).compile().as_text()
    inside: dict[str, list[str]] = collections.defaultdict(list)
    instructions: list[tuple[str, str]] = []
    computation = ""
    for line in text.splitlines():
        if opened := re.match(r"(?:ENTRY )?%?([\w.-]+) .*\{$", line):
            computation = opened[1]
        named = re.match(r"\s+(?:ROOT )?%?([\w.-]+) = ", line)
        if named:
            operation = re.search(r'op_name="([^"]*)"', line)
            inside[computation].append(operation[1] if operation else "")
            instructions.append((named[1], line))
    found = {}
    for name, line in instructions:
        if re.search(r"\bwhile\(|\bcall\(|\bconditional\(", line):
            continue  # its own time is that of what it calls
        called = re.search(r"calls=%?([\w.-]+)", line)
        own = re.search(r'op_name="([^"]*)"', line)
        found[name] = " ".join([own[1] if own else "", *(inside[called[1]] if called else [])])
    return found


def times_by_instruction(path: Path) -> dict[str, float]:
    """Nanoseconds by event name, over all threads of XLA."""
    times: collections.Counter[str] = collections.Counter()
    for plane in jax.profiler.ProfileData.from_file(str(path)).planes:
        for line in plane.lines:
            if "XLA" in line.name or "Eigen" in line.name:
                for event in line.events:
                    times[event.name] += event.duration_ns
    return times


def heading(operation: str) -> str:
    return next(name for name, pattern in HEADINGS if re.search(pattern, operation or "-"))


if __name__ == "__main__":
    main()
