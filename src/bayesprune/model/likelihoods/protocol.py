"""What a likelihood is: how a network's outputs become a distribution of the targets."""

from typing import Any, Protocol, runtime_checkable

from bayesprune.core.checks import check_calls, check_object
from bayesprune.core.types import Array, PyTree
from bayesprune.model.families import Family

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
