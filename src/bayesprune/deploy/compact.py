"""`compact`: a pruned network as a smaller one with the same outputs."""

import functools
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import jax
import jax.export
import numpy as np

from bayesprune.core.given import RandomKey
from bayesprune.core.types import PyTree
from bayesprune.deploy.engines.by_jax import ByJax
from bayesprune.deploy.engines.chosen import Engines
from bayesprune.deploy.engines.measure import Choice, measure
from bayesprune.deploy.files.write import save
from bayesprune.deploy.modules.hand_on import HandedOn
from bayesprune.deploy.program import laws
from bayesprune.deploy.program.from_bnn import head, network
from bayesprune.deploy.program.ops import OpProgram
from bayesprune.deploy.program.packing import Packing, check_bounds, how_many, taken
from bayesprune.deploy.program.weights import Draws, Law, Points, checked
from bayesprune.deploy.shrinking.certificate import Certificate, certify
from bayesprune.deploy.shrinking.cost import Cost, cost
from bayesprune.deploy.shrinking.plan import ShrinkPlan, make_plan
from bayesprune.deploy.shrinking.shrink import Small, build
from bayesprune.infer.predict import check_bnn, check_sites
from bayesprune.model.bnn import BNN, STATE
from bayesprune.structure.lookups import Bounds

KEEPS = ("posterior", "mean")


def compact(
    bnn: BNN | Any,
    params: dict[str, Any],
    mask: Mapping[str, Any] | None = None,
    keep: Literal["posterior", "mean"] | str = "posterior",
    *,
    rng_key: RandomKey | None = None,
    num_draws: int | None = None,
) -> "Compact":
    """The network without what a pruned weight leaves idle: dead units, channels and heads are gone, constants are folded.

    The smaller program gives the same outputs as the masked network for any finite rows and, with ``keep="posterior"``, for any
    values of the weights that are alive; `Compact.certify` checks it. A slice of an array goes only where every slice that is
    tied to it goes: a channel of a residual sum from all branches, a group of a grouped convolution as a whole. What is the
    same for every row becomes a constant, unless the posterior makes it random.

    Args:
        bnn: the `BNN` that was fitted.
        params: NumPyro parameters, as in ``fit.params`` or ``pruned.params``.
        mask: site -> booleans, True = alive; None: what ``params`` hold as zero is dead.
        keep: "posterior": the weights' law; "mean": the one network at the posterior mean, which folds further: a unit that
            lives by its bias alone is then a constant. Of stored samples, those of one chain have such a mean.
        rng_key, num_draws: with ``keep="posterior"``, keep so many drawn networks in place of a density; needed where the
            posterior is neither independent Gaussians (up to one scale for each layer) nor stored samples.

    Returns:
        A `Compact`.

    Raises:
        TypeError: ``bnn`` is no `BNN`.
        ValueError: ``params`` or ``mask`` are not the network's; the network does not treat every row alike; a posterior that
            has to be drawn, and no ``num_draws``; a likelihood whose mean asks for more than the outputs, as `Ordinal`'s.

    Example:
        >>> import jax, numpy as np, bayesprune as bp
        >>> train, test = bp.data.load("digits")
        >>> bnn = bp.BNN(bp.nets.MLP((32,), 10), prior=bp.priors.Gaussian(), likelihood=bp.likelihoods.Categorical(),
        ...              input_shape=(8, 8, 1))
        >>> fit = bp.fit_svi(jax.random.key(0), bnn, train, num_steps=10, batch_size=64)
        >>> mask = fit.mask | {"Dense_0.kernel": np.arange(64 * 32).reshape(64, 32) % 32 < 8}
        >>> small = bp.compact(bnn, fit.params, mask, keep="mean")
        >>> small.certify().holds, small.predict(test.x).shape == (len(test.x), 10)
        (True, True)
    """
    check_bnn(bnn)
    if bnn.drops:
        raise ValueError(
            "a compact network has no gates that are drawn, as mc_dropout's are: give the BNN itself, without them."
        )
    mask = check_sites(bnn, params, {} if mask is None else mask)
    if keep not in KEEPS:
        raise ValueError(f"keep must be one of {', '.join(map(repr, KEEPS))}, got {keep!r}.")
    if keep == "mean" and num_draws is not None:
        raise ValueError(f"num_draws={num_draws} goes with keep='posterior', and keep='mean' keeps one network: leave it out.")
    with jax.transfer_guard("allow"):  # rewriting is the host's work, done once
        known = laws.fixed(bnn, params)
        program = network(bnn, params.get(STATE, {}))
        law: Law = Points() if keep == "mean" else laws.posterior(bnn, params, mask, rng_key, num_draws)
        means = laws.means(bnn, params, mask) if keep == "mean" else {}
        plan = make_plan(program, laws.alive(law), known | means)
        small = build(plan, plan.known.values)
        return Compact(
            program=small.program.single(),
            law=laws.smaller(law, small.places, {site: small.alive[site] for site in small.program.weights}),
            head=head(bnn).single(),
            inputs=Packing.of_inputs(bnn.inputs),
            outputs=Packing.of_shapes(bnn.output_shape),
            cost=cost(plan, small, bnn.graph),
            task=laws.task_of(bnn),
            noise_scale=laws.noise_scale_of(bnn, params, law),
            origin=(plan, small),
            bounds=bnn.inputs.bounds,
        )


@dataclass(frozen=True, eq=False)
class Compact(HandedOn):
    """A smaller network with its weights; made by `compact`, read by `load`.

    ``program``: its operations; ``law``: of its weights; ``head``: from its outputs to E[y | x, w]; ``cost``: its sizes and
    FLOPs, before and after; ``choice``: of `measured`. ``task`` and ``noise_scale``: what `evaluate` asks of a likelihood.
    ``inputs``, ``outputs``: the arrays of a row that it is given and that it gives, which the program has as one;
    ``origin``: what it was made from, None of one that was read from a file; ``bounds``: the numbers that its tables take, not
    known of one from a file of before there were any.
    `bayesprune.predict`, `predict_draws` and `evaluate` take it in the place of a `BNN`, with None for the parameters.
    """

    program: OpProgram
    law: Law
    head: OpProgram
    inputs: Packing
    outputs: Packing
    cost: Cost
    origin: tuple[ShrinkPlan, Small] | None = field(default=None, repr=False)
    certificate: Certificate | None = None
    choice: Choice | None = None
    task: str = "other"
    noise_scale: Any = None
    metadata: Mapping[str, Any] = field(default_factory=dict)
    bounds: tuple[Bounds | None, ...] = field(default=(), repr=False)

    def predict(
        self, x: PyTree, *, rng_key: RandomKey | None = None, num_samples: int = 100, engine: str = "auto"
    ) -> np.ndarray:
        """E[y | x]: of the network at the posterior mean; with ``rng_key`` averaged over ``num_samples`` networks.

        Args:
            x: (rows, *input_shape); bytes, where the `BNN` had ``scaling=``; integers, where it takes them; of several inputs a
                tree of arrays, as its ``example=`` was.
            rng_key: a JAX random key. Stored draws need none: all are averaged, or with one, which then decides nothing,
                ``num_samples`` of them.
            num_samples: how many networks.
            engine: "jax", compiled by JAX for its device; "kernels", sparse products on the CPU; "auto", what `measured` found,
                else kernels where they suit the network: see `chosen.Engines`. The networks of one key are others by kernels
                than by JAX; their law is the same.

        Returns:
            Class probabilities (rows, classes) or means of y, as `bayesprune.predict` does. The network at the mean is one
            network: it is surer than the posterior.

        Raises:
            TypeError: rows that are no bytes, integers or booleans, where these are taken, or another tree.
            ValueError: rows of another shape, none, NaN, or beyond a table; an unknown engine; "kernels" where JAX alone runs.
        """
        check_bounds(self.bounds, self.inputs, x)
        rows = how_many(self.inputs, x)
        if rng_key is None and not isinstance(self.law, Draws):
            x = taken(self.inputs, x)
            at_mean = self._engines.at_mean(engine, rows)
            return self._by_jax(x) if at_mean is None else at_mean(x)
        number = None
        if rng_key is not None:
            rng_key, number = checked(rng_key, num_samples)
        if (draws := self._engines.of_draws(engine, rows)) is not None:
            if rng_key is None or number is None:
                return draws.mean(x, num_samples=number)
            return draws.predict(rng_key, x, number, noise="auto")
        key = jax.random.key(0) if rng_key is None else rng_key  # nothing is drawn of what was drawn before
        return self._by_jax.mean(key, taken(self.inputs, x), number)

    def predict_draws(
        self, rng_key: RandomKey | None, x: PyTree, num_samples: int = 100, *, engine: str = "auto"
    ) -> np.ndarray:
        """E[y | x, w] for each of ``num_samples`` networks, one network for all rows: (num_samples, rows, outputs).

        Of stored draws there may be fewer, and ``rng_key`` may be None. ``engine``, errors: as `predict`.
        """
        check_bounds(self.bounds, self.inputs, x)
        stored = rng_key is None and isinstance(self.law, Draws)  # nothing is drawn of what was drawn before
        key, number = checked(jax.random.key(0) if stored else rng_key, num_samples)
        if (kernels := self._engines.of_draws(engine)) is not None:
            return kernels.predict_draws(key, x, number)
        return self._by_jax.predict_draws(key, taken(self.inputs, x), number)

    def measured(self, batch_sizes: Sequence[int] = (1, 128), **how: Any) -> "Compact":
        """The same, with a measurement of what predicts quickest here at the posterior mean, which `save` keeps: ``choice``.

        ``batch_sizes``: numbers of rows; ``how``: what else `deploy.measure` takes. On another kind of machine it is not used.
        """
        return replace(self, choice=measure(self, batch_sizes, **how))

    def noise(self, num_samples: int = 100) -> Any:
        """The standard deviation of Gaussian noise, one number or (1, 1, outputs); of stored samples of each network."""
        of_all = np.ndim(self.noise_scale) == 0 or len(self.noise_scale) == 1
        return self.noise_scale if of_all else self.noise_scale[self.law.chosen(num_samples)]

    def certify(self, rounds: int = 3, seed: int = 0) -> Certificate:
        """Compare with the network that it was made from, over a finite field and in numbers: see `Certificate`.

        Of a network that was read from a file it is the certificate that the file carries: what its writer says. Raises
        ``ValueError`` where the file carries none.
        """
        if self.origin is not None:
            return certify(*self.origin, self.program, rounds, seed)
        if self.certificate is None:
            raise ValueError("the file carries no certificate: certify the network before it is saved.")
        return self.certificate

    def certified(self, rounds: int = 3, seed: int = 0) -> "Compact":
        """The same, with its certificate."""
        return replace(self, certificate=self.certify(rounds, seed))

    def save(self, path: str | os.PathLike[str], values: str = "float32", metadata: Mapping[str, Any] | None = None) -> None:
        """Write the network to ``path``, whole or not at all: ``net.bayesprune``, for `bayesprune.load`, or NumPy alone.

        The file is a safetensors file. It carries the certificate, which is made now if need be. Zeros are left out. ``net.h``
        becomes a C99 header, see `deploy.export_c`, ``net.onnx`` an ONNX model, see `export_onnx`, both of the posterior mean.

        Args:
            path: where to.
            values: how the weights are kept: "float32"; "bfloat16", half of the bytes; or "posterior", whole numbers at the
                posterior's own precision: a loc in steps of half its scale, a scale in steps of 1/8 of its logarithm. What that
                loses, the KL of what is kept from what was there, is in the file's plan as "divergence", in nats (about .012
                for each weight). Frozen weights and other constants are kept whole.
            metadata: anything that JSON can hold; of a ``.bayesprune`` file.

        Raises:
            ValueError: unknown ``values``, "posterior" without spread; operations no file can hold, a certificate that fails.
            OSError: as the disk says, with a remedy; an older file is then left as it was.
        """
        save(self, path, values, metadata)

    def exported(self, platforms: Sequence[str] | None = None) -> jax.export.Exported:
        """The network at the posterior mean as StableHLO, for any number of rows: ``.serialize()`` gives its bytes.

        Of stored draws it is the mean of their predictions. ``platforms``: such as ("cpu", "cuda", "tpu"); None: JAX's own
        here. `jax.export.deserialize(...).call(x)` runs it without this project. Numbers are in it as they are, zeros and all:
        the file of `save` is much smaller.
        """
        if isinstance(platforms, str):
            raise ValueError(f"platforms must be a list of names, got {platforms!r}: give [{platforms!r}].")
        return self._by_jax.exported(platforms)

    @property
    def input_shape(self) -> Any:
        """The shape of a row that it takes, or the tree of several."""
        return self.inputs.shape

    @property
    def output_shape(self) -> tuple[int, ...]:
        """The shape of a row's outputs; of several outputs, of the one array in which they are side by side."""
        return self.outputs.row_shape

    @property
    def takes(self) -> Any:
        """The type of rows, or the tree of several: "uint8" where it scales bytes itself, "int32" of tokens, "bool"."""
        return self.inputs.tree([leaf.dtype for leaf in self.inputs.leaves])

    @property
    def pinned(self) -> dict[str, str]:
        """Operations that could not be followed, and what that means."""
        why = "not followed: it stays as it is, and all that it reads and makes stays whole"
        return dict.fromkeys([*self.program.opaque, *self.head.opaque], why)

    @property
    def by_kernels(self) -> bool:
        """Whether networks drawn from the posterior run by kernels here by default."""
        return self._engines.of_draws("auto") is not None

    def __repr__(self) -> str:
        c = self.cost
        return (
            f"Compact({self.law.kind}: {c.numbers:,} numbers ({c.dense_numbers:,} weights before), {c.alive:,} other than "
            f"zero, in {len(self.program.ops)} operations; {c.executed:,} FLOPs a row ({c.dense:,} before), {c.theoretical:,} "
            "if zeros were free)"
        )

    @functools.cached_property
    def _engines(self) -> Engines:
        return Engines(self, self.choice)

    @functools.cached_property
    def _by_jax(self) -> ByJax:
        return ByJax(self)
