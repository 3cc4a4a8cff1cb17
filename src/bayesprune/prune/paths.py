"""What an act leaves of the network's paths: the connected weights, and whether an output still depends on the rows."""

import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np

from bayesprune.core.send import send
from bayesprune.core.types import Info, SparseState, Sparsifier
from bayesprune.model.program import Trainable
from bayesprune.prune.keep_all import KeepAll
from bayesprune.prune.needs import needs_of
from bayesprune.structure import Graph, has_path, reachable

NEARLY_ALL = 0.95  # of the alive weights, cut at once by evidence that nobody verified: more than single gains can bear


@dataclass
class Paths:
    """Looks at every act of one fit from outside the compiled loop. ``has_warned``: it warns once."""

    graph: Graph | None
    sparsifier: Any
    has_warned: bool = False

    @classmethod
    def of(cls, program: Trainable | None, sparsifier: Sparsifier) -> "Paths":
        """Of a network; a hand-written program shows no paths."""
        graph = getattr(program, "graph", None)
        return cls(graph if isinstance(graph, Graph) else None, sparsifier)

    def settle(self, step: int, old: SparseState, new: SparseState, info: Info) -> tuple[SparseState, Info]:
        """The act from ``old`` to ``new``, whole masks, as it is; its record with the connected weights.

        An act that leaves no path from the rows to an output is refused, with a warning: the mask stays as it was. But not
        where there was none before, nor a move of a chain, whose law it would change. With a verified act the weights fall
        that no path needs.
        """
        if self.graph is None or not new.mask:
            return new, info
        used = reachable(self.graph, _arrays(new.mask))
        if not has_path(self.graph, used) and not needs_of(self.sparsifier).chain:
            before = reachable(self.graph, _arrays(old.mask))
            if has_path(self.graph, before):
                self._warn(self._refusal(step))
                new, used = new._replace(mask=old.mask), before
                proposed = info.num_pruned if info.num_proposed is None else info.num_proposed
                return new, _recorded(info, old.mask, new.mask)._replace(
                    evidence_gained=0.0,  # type: ignore[arg-type]
                    num_proposed=proposed,
                    bound_gained=None if info.bound_gained is None else 0.0,
                    num_connected=_count(used),
                )
        if info.bound_gained is not None:
            new, info = self._without(used, old, new, info)
        elif self._cut_nearly_all(info):
            self._warn(
                f"step {step}: {type(self.sparsifier).__name__} cut {100 * NEARLY_ALL:.0f} % or more of what was alive at "
                "once, by evidence that nobody verified: bp.courses.Standard(verified=1) looks first."
            )
        return new, info._replace(num_connected=_count(used))

    def _cut_nearly_all(self, info: Info) -> bool:
        """Whether an act by evidence, without a density, left next to nothing."""
        asked = getattr(self.sparsifier, "density", None) is not None or info.evidence_gained is None
        before = float(info.num_pruned) + float(info.num_alive)
        return not asked and float(info.num_pruned) >= NEARLY_ALL * before > 0

    def _warn(self, text: str) -> None:
        """Once for all of a fit: what happens at one act may happen at each."""
        if not self.has_warned:
            warnings.warn(text, UserWarning, stacklevel=3)
        self.has_warned = True

    def once(self, old: SparseState, new: SparseState, info: Info) -> tuple[SparseState, Info]:
        """The same of an act that is no part of a fit: one that leaves no path is kept, with a warning.

        With an act by evidence the weights fall that no path needs.
        """
        if self.graph is None or not new.mask:
            return new, info
        used = reachable(self.graph, _arrays(new.mask))
        if not has_path(self.graph, used) and has_path(self.graph, reachable(self.graph, _arrays(old.mask))):
            self.warn_of(type(self.sparsifier).__name__)
        elif info.gains is not None:
            new, info = self._without(used, old, new, info)
        return new, info._replace(num_connected=_count(used))

    def warn_of(self, what: str, stacklevel: int = 4) -> None:
        """Warn of a mask that leaves no path."""
        warnings.warn(
            f"{what} leaves no path from the input to the output: the network predicts the same for every row. Keep more "
            "weights, choose them layer by layer (scope='layer'), or have the act verified (program= and data=).",
            UserWarning,
            stacklevel=stacklevel,
        )

    def check_start(self, mask: dict[str, Any], is_given: bool) -> None:
        """Warn of a first mask, given or the sparsifier's own, under which no output depends on the rows."""
        if self.graph is None or all(np.all(alive) for alive in _arrays(mask).values()):
            return
        if not has_path(self.graph, reachable(self.graph, _arrays(mask))):
            own = (
                "the mask of init"
                if isinstance(self.sparsifier, KeepAll)
                else f"the first mask of {type(self.sparsifier).__name__}"
            )
            self.warn_of("mask" if is_given else own, stacklevel=5)

    def _without(self, used: dict[str, Any], old: SparseState, new: SparseState, info: Info) -> tuple[SparseState, Info]:
        """The act with the weights that no path needs. They take no part in the likelihood, so that the bound only gains."""
        if _count(used) == _count(_arrays(new.mask)):
            return new, info
        new = new._replace(mask={site: send(used[site]) for site in new.mask})
        return new, _recorded(info, old.mask, new.mask)

    def _refusal(self, step: int) -> str:
        return (
            f"step {step}: {type(self.sparsifier).__name__} would have left no path from the input to the output. Its act was "
            "refused, as any later one like it; the mask stays. Give a larger density or threshold, "
            "bp.courses.Standard(verified=1), or more steps before the first act."
        )


def _recorded(info: Info, old: dict[str, Any], new: dict[str, Any]) -> Info:
    """The record's counts anew. By NumPy: JAX would compile a small program for each of them."""
    before, after = _arrays(old), _arrays(new)
    alive, size = _count(after), sum(one.size for one in after.values())
    counts: dict[str, Any] = {
        "density": alive / size,
        "density_per_site": {site: float(np.mean(one)) for site, one in after.items()},
        "num_alive": alive,
        "num_pruned": _count({site: before[site] & ~after[site] for site in after}),
        "num_grown": _count({site: after[site] & ~before[site] for site in after}),
    }
    return info._replace(**counts)


def _arrays(mask: dict[str, Any]) -> dict[str, np.ndarray]:
    return {site: np.asarray(alive) for site, alive in mask.items()}


def _count(mask: dict[str, Any]) -> int:
    return sum(int(np.sum(alive)) for alive in mask.values())
