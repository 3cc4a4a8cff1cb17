"""The table of a network's parameters: what each is, and how many numbers it has."""

import math
from dataclasses import dataclass

from bayesprune.model.layout import LaidOut
from bayesprune.report.flops import flops
from bayesprune.report.tables import aligned, number

HEAD = ("parameter", "shape", "Bayesian", "prunable", "uses", "count")


@dataclass(frozen=True)
class Row:
    """One parameter array of a network.

    ``uses``: multiply-adds of one row of data in which each of its numbers takes part, on average. A dense layer uses its
    weights once; where weights are shared it is more: by the pixels of a convolution, by tokens, by turns of a loop, by layers
    that are tied. None where nothing is multiplied by it (a bias, an embedding), or where the products were not countable.
    ``count``: how many numbers it has. ``frozen``: whether it is never trained.
    """

    path: str
    shape: tuple[int, ...]
    bayesian: bool
    prunable: bool
    uses: float | None
    count: int
    frozen: bool = False


@dataclass(frozen=True, repr=False)
class Summary:
    """The parameters of a network in the order of their use; shown, it is a table. ``note``: why ``uses`` is unknown, or ""."""

    rows: tuple[Row, ...]
    note: str = ""

    @property
    def count(self) -> int:
        """Numbers in all arrays."""
        return sum(row.count for row in self.rows)

    @property
    def bayesian(self) -> int:
        """Numbers that are given a posterior; the others are optimised as points, or frozen."""
        return sum(row.count for row in self.rows if row.bayesian)

    @property
    def prunable(self) -> int:
        """Numbers that may be pruned: the denominator of a density."""
        return sum(row.count for row in self.rows if row.prunable)

    def __repr__(self) -> str:
        cells = [
            (
                r.path,
                "x".join(map(str, r.shape)) or "()",
                "frozen" if r.frozen else _yes(r.bayesian),
                _yes(r.prunable),
                number(r.uses),
                f"{r.count:,}",
            )
            for r in self.rows
        ]
        total = ("total", "", f"{self.bayesian:,}", f"{self.prunable:,}", "", f"{self.count:,}")
        return "\n".join(filter(None, (aligned([HEAD, *cells, total], indent=""), self.note)))


def one_line(bnn: LaidOut) -> str:
    """Prior, likelihood, the shape of outputs and the numbers of weights; the table of them is `summarise`."""
    count, prunable = (sum(math.prod(s.shape) for s in bnn.layout if s.prunable or every) for every in (True, False))
    parts = (bnn.prior, bnn.likelihood, f"outputs {bnn.output_shape}", f"{count:,} parameters", f"{prunable:,} prunable")
    return f"BNN({', '.join(str(part) for part in parts)})"


def summarise(bnn: LaidOut) -> Summary:
    """The `Summary` of a `BNN`, as `BNN.summary` gives it.

    >>> import bayesprune as bp
    >>> net, prior, likelihood = bp.nets.MLP((8,), 3), bp.priors.Flat(), bp.likelihoods.Categorical()
    >>> print(bp.BNN(net, prior=prior, likelihood=likelihood, input_shape=(4,)).summary())
    parameter      shape Bayesian prunable uses count
    Dense_0.kernel   4x8      yes      yes    1    32
    Dense_0.bias       8      yes      yes    -     8
    Dense_1.kernel   8x3      yes       no    1    24
    Dense_1.bias       3      yes       no    -     3
    total                      67       40         67
    """
    uses, note = _uses(bnn)
    rows = [
        Row(p := str(s.path), s.shape, s.bayesian, s.prunable, uses.get(p), math.prod(s.shape), s.frozen) for s in bnn.layout
    ]
    return Summary(tuple(rows), note)


def _uses(bnn: LaidOut) -> tuple[dict[str, float], str]:
    """Multiply-adds by weight and row, of the sites that are multiplied; and why there are none, where they are not known."""
    try:
        executed = {site: cost["executed"] for site, cost in flops(bnn)["per_site"].items()}
    except ValueError as error:
        return {}, f"uses are not known: {error}"
    sizes = {str(spec.path): math.prod(spec.shape) for spec in bnn.layout}
    return {site: cost / 2 / sizes[site] for site, cost in executed.items()}, ""


def _yes(said: bool) -> str:
    return "yes" if said else "no"
