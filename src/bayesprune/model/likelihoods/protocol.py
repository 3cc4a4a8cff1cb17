"""What a likelihood is: how a network's outputs become a distribution of the targets; and those that have a name."""

import functools
from collections.abc import Callable, Collection, Mapping
from typing import Any, NamedTuple, Protocol, runtime_checkable

import jax
import jax.numpy as jnp
from numpyro.handlers import seed, trace

from bayesprune.core.checks import check_calls, check_object
from bayesprune.core.folder import files
from bayesprune.core.tracing import by_one_thread
from bayesprune.core.types import Array, PyTree
from bayesprune.model.families import Family
from bayesprune.model.shapes import filled

OutputShape = tuple[int, ...]  # of one row's outputs, (classes,) or (tokens, classes) say


@runtime_checkable
class Likelihood(Protocol):
    """``observe`` samples "obs" in the model; ``guide`` samples whatever else ``observe`` does; ``mean`` is E[y | outputs].

    A ``guide`` with a second parameter of the name ``output_shape`` is given that too, as a number for each output needs it.

    Outputs are (rows, *output_shape), and ``check`` refuses targets that cannot be compared with such. ``mean`` may sample
    what ``observe`` samples beside "obs": it is called with the posterior's values of it.

    Beside these, all of them optional: a method ``metrics(draws, y, params)`` gives the figures of `bayesprune.evaluate`. An
    attribute ``task`` says which figures there are otherwise: "classes" (``mean`` gives probabilities), "binary" (of ones among
    zeros), or "numbers" (Gaussian noise that is the same for all rows, by a method ``read_noise_scale(params)``). Any other
    likelihood is judged by what it samples as "obs". An attribute ``heads = True`` says that outputs may be a tree of several
    arrays, and ``output_shape`` one of their shapes.

    A method ``baseline(y)`` gives the -log likelihood of all targets, nats, by the best constants in the place of outputs, or
    None where there is none: the end of a fit is compared with it. A method ``least_spread(num_targets)`` says that targets are
    real numbers, in units that may be chosen, and how small their standard deviation may be; 0.0 if nothing is known of it.
    """

    def observe(self, outputs: PyTree, y: Array | None) -> Any: ...

    def guide(self, family: Family) -> None: ...

    def mean(self, outputs: PyTree) -> Any: ...

    def check(self, y: Array | None, output_shape: OutputShape) -> None: ...


# What methods are called with; those after ``mean`` a likelihood may leave out.
CALLS = {
    "observe": ("outputs", "y"), "guide": ("family",), "mean": ("outputs",), "check": ("y", "output_shape"),
    "metrics": ("draws", "y", "params"), "read_noise_scale": ("params",), "baseline": ("y",), "least_spread": ("num_targets",),
}  # fmt: skip


def check_likelihood(likelihood: object) -> None:
    """Refuse what is no likelihood, and one whose methods have other parameters than `Likelihood` says."""
    check_object(likelihood, "likelihood", ("observe", "guide", "mean"), "bp.likelihoods.Categorical()")
    check_calls(likelihood, "likelihood", CALLS, {"guide": ("output_shape",)})


def latent_sites(likelihood: Likelihood | Any, output_shape: OutputShape | Any) -> list[str]:
    """Names of what it samples beside the targets, such as the precision of its noise.

    >>> from bayesprune.model.likelihoods import Normal, Poisson
    >>> latent_sites(Poisson(), (1,)), latent_sites(Normal(), (1,))
    ([], ['noise_precision'])
    """
    return [name for name in _sites(likelihood.observe, output_shape, {"sample"}, None) if name != "obs"]


def sites_of_mean(likelihood: Likelihood | Any, output_shape: OutputShape | Any) -> list[str]:
    """Names of what the mean asks for beside the outputs, drawn with the network; none of most.

    >>> from bayesprune.model.likelihoods import Ordinal, Poisson
    >>> sites_of_mean(Poisson(), (1,)), sites_of_mean(Ordinal(4), (1,))
    ([], ['cut_gaps'])
    """
    return _sites(likelihood.mean, output_shape, {"sample", "param"})


@by_one_thread
def _sites(function: Callable[..., Any], output_shape: OutputShape | Any, kinds: Collection[str], *others: object) -> list[str]:
    """Names of the sites of these kinds of a function of outputs."""
    names: list[str] = []

    def of_a_row() -> jax.Array:
        sites = trace(seed(function, jax.random.key(0))).get_trace(filled(output_shape, 1, 0.0), *others)
        names.extend(name for name, site in sites.items() if site["type"] in kinds)
        return jnp.zeros(())

    jax.eval_shape(of_a_row)
    return names


NUMBERS, CLASSES, COUNTS, OVERDISPERSED, SHARES = "numbers", "classes", "counts", "overdispersed counts", "shares"


def as_many(size: int) -> int:
    """One output of the network for each."""
    return size


class Named(NamedTuple):
    """A likelihood of targets of ``kinds``, as they come to it; the first is the one that it says of the targets.

    ``make`` and ``outputs`` have one argument, of classes their number, else that of the targets in a row: the likelihood, and
    how many outputs it asks of the network. ``default_of``: the kinds that get it where no likelihood is named.
    """

    kinds: tuple[str, ...]
    make: Callable[[int], Any]  # a `Likelihood`, of targets of its own kind alone
    outputs: Callable[[int], int] = as_many
    default_of: tuple[str, ...] = ()


@functools.cache
def all_named() -> Mapping[str, Named]:
    """Every likelihood that has a name.

    >>> list(all_named())[:3]
    ['beta', 'categorical', 'negative_binomial']
    """
    return {name: named for file in files(__package__) for name, named in getattr(file, "NAMED", {}).items()}


def of_kind(kind: str) -> dict[str, Named]:
    """Those for targets of a kind, the default first.

    >>> list(of_kind("overdispersed counts"))
    ['negative_binomial', 'poisson']
    """
    found = [(name, named) for name, named in all_named().items() if kind in named.kinds]
    return dict(sorted(found, key=lambda one: (kind not in one[1].default_of, one[0])))
