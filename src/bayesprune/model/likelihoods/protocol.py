"""What a likelihood is: how a network's outputs become a distribution of the targets."""

from collections.abc import Callable, Collection
from typing import Any, Protocol, runtime_checkable

import jax
import jax.numpy as jnp
from numpyro.handlers import seed, trace

from bayesprune.core.checks import check_calls, check_object
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
