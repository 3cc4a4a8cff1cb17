"""What a layout says of one parameter of a network: its path, shape and place, and whether it has a posterior."""

from collections.abc import Callable
from typing import Any, NamedTuple

NORMALISATION = ("batchnorm", "layernorm", "groupnorm", "rmsnorm", "instancenorm", "filterresponsenorm", "bn", "norm")
THRESHOLD = "thresholdedlinearunit"
ROWS = "<x>"  # what a kernel reads that reads the rows of data; of several arrays each has a number, "<x>0"
MOVED = "<moved>"  # parts of what it reads are left out, joined or put in another order along its last axis before
TOKENS = ("cls", "clstoken", "classtoken", "posembed", "posembedding", "positionembedding", "positionalembedding")


class ParamPath(str):
    """A dotted parameter path such as ``"Dense_0.kernel"`` that also knows its place in the network.

    ``layer`` is the path without its last part (kernel and bias of a layer share it); ``is_last`` says whether the layer is
    the last one, next to the outputs; ``is_norm`` whether the parameter belongs to a normalisation. In a `BNN` the network's
    graph has found both; of a path alone, a normalisation is known by its usual names. So is always ``is_token``: a class token
    or a position embedding, which stands where data do. Being a string, it goes wherever a plain path goes.
    """

    is_last: bool
    is_norm: bool

    def __new__(cls, path: str, is_last: bool = False, is_norm: bool | None = None) -> "ParamPath":
        self = super().__new__(cls, path)
        self.is_last = is_last
        self.is_norm = _named_like_a_norm(path) if is_norm is None else is_norm
        return self

    @property
    def layer(self) -> str:
        return self.rpartition(".")[0] or str(self)

    @property
    def is_token(self) -> bool:
        return any(part.replace("_", "") in TOKENS for part in self.lower().split("."))


def _named_like_a_norm(path: str) -> bool:
    parts = path.lower().replace("_", ".").split(".")
    return any(part.rstrip("0123456789") in (*NORMALISATION, THRESHOLD) for part in parts)


Predicate = Callable[[ParamPath, tuple[int, ...]], bool]


class ParamSpec(NamedTuple):
    """One parameter: where it is, its shape, whether it is given a posterior, and whether it may be pruned.

    ``inputs`` and ``outputs``: its axes that run over what it reads and over what it makes, whichever way the module keeps its
    kernels: ``(0,), (1,)`` of a Flax dense layer, ``(1,), (0,)`` of an Equinox one, ``(2,), (3,)`` of a Flax convolution, whose
    other axes are positions; ``(), (0,)`` of a bias, ``(), (0, 2)`` of a position embedding (1, tokens, channels). ``fan_in``:
    numbers that enter one output, positions counted (a bias: 1). ``channel_groups``: of a convolution, in how many groups of
    outputs each reads input channels of its own; ``inputs`` then runs over those of one group. ``frozen``: never trained.

    ``reads``: what lies directly before a kernel, with no other kernel between: names of kernels, `ROWS` for the inputs of the
    network (of several arrays `ROWS` and a number), and `MOVED` where their order is not kept; None: it is not known.
    ``beside``: of a kernel directly before the outputs, all that lies there.
    """

    path: ParamPath
    shape: tuple[int, ...]
    dtype: Any
    bayesian: bool
    prunable: bool
    inputs: tuple[int, ...] = ()
    outputs: tuple[int, ...] = ()
    fan_in: int = 1
    fan_out: int = 1
    channel_groups: int = 1
    frozen: bool = False
    reads: tuple[str, ...] | None = None
    beside: tuple[str, ...] = ()


Layout = tuple[ParamSpec, ...]


def with_posterior(layout: Layout) -> list[ParamSpec]:
    """The parameters that are given a posterior, in the network's order."""
    return [spec for spec in layout if spec.bayesian]
