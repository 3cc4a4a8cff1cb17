"""What a record of a fit holds beside its metrics: sparsity, cost, the posterior's temperature, versions."""

import importlib.metadata
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from bayesprune.core.given import GivenNetwork
from bayesprune.report import metrics
from bayesprune.report.sparsity import sparsity_report

LIBRARIES = ("jax", "jaxlib", "numpyro", "flax", "optax", "numpy")


def of_fit(bnn: GivenNetwork, fit: Any, mask: Mapping[str, Any], used: Mapping[str, Any], kl_weight: float) -> dict[str, Any]:
    """What ``metrics.json`` says of a fit, its prunable sites alive as ``mask`` says, in JSON's types.

    ``used``: those of them that are connected.
    """
    dense = {str(spec.path): int(np.prod(spec.shape)) for spec in bnn.layout if not spec.prunable}
    history = until_returned(fit.history)
    return {
        "kl_weight": kl_weight,
        "kl_weight_in_words": kl_in_words(kl_weight),
        "sparsity": sparsity_report(mask, dense, used),
        "flops": flops(bnn, mask),
        "acts": acts(history),
        "evidence_gained_nats": float(np.sum(history.get("prune/evidence_gained", np.nan))),
        "num_steps": len(fit.losses),
    }


def until_returned(history: Mapping[str, Any]) -> dict[str, Any]:
    """A fit's history with the acts alone that its returned parameters have had: a best step may lie before the last ones.

    An act comes after all that is said of its step, so that what is returned as of that step has not had it.

    >>> until_returned({"prune/step": [5, 10], "prune/num_pruned": [3, 1], "returned/step": [10]})["prune/num_pruned"].tolist()
    [3]
    """
    steps, last = history.get("prune/step"), history.get("returned/step")
    if steps is None or last is None:
        return dict(history)
    before = np.asarray(steps) < int(last[0])
    had = {name: np.asarray(values)[before] for name, values in history.items() if name.startswith("prune/")}
    return dict(history) | had


class Acts(NamedTuple):
    """The acts of a fit, by round: weights that were to fall, and weights that fell."""

    proposed: np.ndarray
    cut: np.ndarray

    @property
    def refused(self) -> np.ndarray:
        """Rounds that cut nothing: the bound would have been lower, or no path left."""
        return (self.proposed > 0) & (self.cut == 0)


def acts_of(history: Mapping[str, Any]) -> Acts:
    """The acts in a fit's history. Where nobody looked at them, what was cut was proposed."""
    cut = np.asarray(history.get("prune/num_pruned", []), float)
    said = np.asarray(history.get("prune/num_proposed", np.full(cut.shape, np.nan)), float)
    return Acts(np.where(np.isnan(said), cut, said), cut)


def acts(history: Mapping[str, Any]) -> dict[str, int]:
    """How many acts there were, and the weights of them all.

    ``rounds``: how often the sparsifier was asked. ``proposed``: rounds in which it had weights to cut; of these ``cut``, in
    which some fell, and ``refused``, in which none did. Candidates that wait, see `prune.verified`, are not proposed yet.
    ``num_proposed``, ``num_cut``: weights; what falls because no path needs it any more is cut without having been proposed.

    >>> acts({"prune/step": [5, 10, 15], "prune/num_pruned": [3, 0, 0], "prune/num_proposed": [4, 2, 0]})
    {'rounds': 3, 'proposed': 2, 'cut': 1, 'refused': 1, 'num_proposed': 6, 'num_cut': 3}
    """
    of = acts_of(history)
    rounds = {"proposed": (of.proposed > 0) | (of.cut > 0), "cut": of.cut > 0, "refused": of.refused}
    counts = {"rounds": of.cut.size} | {name: int(some.sum()) for name, some in rounds.items()}
    return counts | {"num_proposed": int(of.proposed.sum()), "num_cut": int(of.cut.sum())}


def chosen_step(history: Mapping[str, Any], metric: str, on: str, rows: int) -> dict[str, Any]:
    """Which step the parameters of a fit are of: the last one, or that of the best ``metric`` on a part of so many rows.

    ``metric``: empty for the last; ``on``: "validation", or "test", which makes the results optimistic. Raises
    `FloatingPointError` where no evaluation gave a number.
    """
    step = int(history["returned/step"][0])
    if not metric:
        return {"choose": "last", "step": step}
    at_step = history[f"eval/{metric}"][history["eval/step"] == step]
    if np.isnan(at_step).all():  # or none: the last step of a fit without a best one need not have been evaluated
        raise FloatingPointError(f"no evaluation on the {on} set gave a number, so that none is best.")
    made = {"choose": "best", "step": step, "metric": metric, "value": float(at_step[0]), "on": on, "rows": rows}
    return made | ({"note": "optimistic: the test set chose the step that it judges"} if on == "test" else {})


def for_figures(bnn: GivenNetwork, used: Mapping[str, Any], watched: str) -> dict[str, Any]:
    """What the figures need to know beside a fit's arrays, in JSON's types.

    ``used``: the connected weights; ``watched``: the rows that were evaluated on the way, in words. ``features_in_use``: the
    numbers of the first layer's features that the outputs depend on, in order; None where they are not known.
    """
    first = first_kernel({str(spec.path): spec.shape for spec in bnn.layout if spec.bayesian})
    alive = used.get(first)
    features = None if alive is None else np.flatnonzero(alive.any(axis=tuple(range(alive.ndim - 1)))).tolist()
    return {"watched": watched, "features_in_use": features}


def first_kernel(shapes: Mapping[str, Sequence[int]]) -> str:
    """The first site with the shape of a kernel, of a dense layer or a convolution; "" where there is none."""
    return next((site for site, shape in shapes.items() if len(shape) in (2, 4)), "")


def kl_in_words(kl_weight: float) -> str:
    """What the weight of the divergence makes of the posterior.

    >>> kl_in_words(0.01)
    'cold posterior: the divergence from the prior counts 0.01 times'
    """
    if kl_weight == 1.0:
        return "the posterior of Bayes' rule: the divergence from the prior counts once"
    return f"{'cold' if kl_weight < 1.0 else 'warm'} posterior: the divergence from the prior counts {kl_weight:g} times"


def flops(bnn: GivenNetwork, mask: Mapping[str, Any]) -> dict[str, Any] | None:
    """FLOPs of one draw on one row, by name; None for a network that cannot be counted."""
    try:
        counted = metrics.flops(bnn, mask)
    except ValueError:
        return None
    meaning = "of one draw on one row; theoretical: of alive weights alone, executed: by the dense arrays that hold them"
    return {"theoretical": counted["theoretical"], "executed": counted["executed"], "definition": meaning}


def definitions(scores: Mapping[str, Any]) -> dict[str, str]:
    """What each metric is, in the first line of its own documentation; of real targets, in the units that were trained on."""
    functions = {name: getattr(metrics, name, None) for name in scores}
    if "rps" in scores:
        functions["rps"] = metrics.ranked_probability_score
    if "rmse" in scores:
        functions["nll"] = metrics.gaussian_nll
    return {name: (thing.__doc__ or "").strip().split("\n")[0] for name, thing in functions.items() if thing}


def versions() -> dict[str, str]:
    """The libraries that this is computed with."""
    return {name: importlib.metadata.version(name) for name in LIBRARIES}
