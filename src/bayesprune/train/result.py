"""What a fit writes down as it goes, what it shows and gives back, and the errors that keep what was trained."""

import dataclasses
import math
import os
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from numpyro.infer.svi import SVIState

from bayesprune.core import shown
from bayesprune.core.types import Info
from bayesprune.model.bnn import BNN
from bayesprune.posteriors.samples import count, draws_of
from bayesprune.report.arviz import to_arviz
from bayesprune.report.health import Health, of_fit
from bayesprune.report.record import until_returned
from bayesprune.report.saved_fit import SavedFit, write_fit
from bayesprune.train.continuation import keep

LAW = "optimizer/law"  # the text of `alike.state_law`, as bytes


@dataclass
class Record:
    """Losses by step (NaN where not yet run), and lists that become the arrays of `FitResult.history`.

    ``stopped``: by the early stop, for good; ``halted``: by a callback, which is asked again where the fit is resumed;
    ``interrupted``: by Ctrl-C, of which the resumed fit knows nothing.
    """

    losses: np.ndarray
    history: dict[str, list[Any]] = field(default_factory=dict)
    stopped: bool = False
    halted: bool = False
    interrupted: bool = False

    @property
    def over(self) -> bool:
        """Whether no further step is to be taken."""
        return self.stopped or self.halted or self.interrupted

    def ended(self, step: int) -> dict[str, np.ndarray]:
        """Entries of the history of a fit that a callback or Ctrl-C ended after ``step``."""
        return {f"{name}/step": np.asarray([step]) for name in ("halted", "interrupted") if getattr(self, name)}

    @classmethod
    def empty(cls, num_steps: int) -> "Record":
        return cls(np.full((num_steps,), np.nan, jnp.result_type(float)))

    def add_losses(self, first: int, losses: np.ndarray) -> None:
        values = np.asarray(losses)
        self.losses[first : first + len(values)] = values

    def add_info(self, step: int, info: Info) -> None:
        row = {name: getattr(info, name) for name in Info._fields if name not in ("density_per_site", "gains", "order")}
        row |= {f"density/{site}": value for site, value in info.density_per_site.items()}
        self._append("prune", step, row)

    def pruned_at(self, step: int) -> bool:
        """Whether the last pruning was at this step."""
        return self.history.get("prune/step", [])[-1:] == [step]

    def add_metrics(self, step: int, metrics: dict[str, float]) -> None:
        """Figures of an evaluation; of one that others have and this one has not: NaN, so that all are in step."""
        if "step" in metrics:
            raise ValueError("evaluator gives a figure named 'step', the name of the step itself: give it another name.")
        known = {name.removeprefix("eval/") for name in self.history if name.startswith("eval/")} - {"step"}
        before = len(self.history.get("eval/step", []))
        for name in metrics:
            self.history.setdefault(f"eval/{name}", [math.nan] * before)
        self._append("eval", step, metrics | {name: math.nan for name in known if name not in metrics})

    def arrays(self) -> dict[str, np.ndarray]:
        return {name: np.asarray(values) for name, values in self.history.items()}

    def add_size(self, step: int, numbers: int) -> None:
        """From this step on the program has so many numbers; see `train.shrinking`."""
        self._append("shrunk", step, {"numbers": numbers})

    def _append(self, kind: str, step: int, row: dict[str, Any]) -> None:
        for name, value in ({"step": step} | row).items():
            number = math.nan if value is None else float(value)
            self.history.setdefault(f"{kind}/{name}", []).append(int(value) if name == "step" else number)


class FitResult(NamedTuple):
    """The result of `fit_svi`; the first three fields are those of NumPyro's ``SVIRunResult``.

    ``params``: NumPyro parameters, dead weights at loc = scale = 0. ``state``: NumPyro ``SVIState``. ``losses``: negative ELBO
    of the whole data set by step, nats, shape (steps,). ``mask``: site -> booleans, True = alive (empty if nothing was pruned).
    ``history``: plain arrays by name, ``"prune/..."`` one entry for each pruning step, ``"eval/..."`` for each evaluation;
    ``"returned/step"``, shape (1,), is the step whose params, state and mask these are: the last one, unless
    ``EarlyStop(restore="best")`` chose another. ``"interrupted/step"`` and ``"halted/step"`` are there where Ctrl-C or a
    callback ended the fit; ``"optimizer/law"`` tells ``fit_svi(init=fit)`` whether its optimiser is of the same kind.

    ``fit.save(path)`` and ``bp.load(path)`` keep all of it; the ``state`` of a loaded fit holds its arrays by name, from which
    ``fit_svi(init=fit)`` goes on.
    """

    params: dict[str, Any]
    state: SVIState | Any
    losses: np.ndarray
    mask: dict[str, Any]
    history: dict[str, np.ndarray]

    def __repr__(self) -> str:
        if not shown.has_values(self.losses):
            return "FitResult(of arrays without values)"
        *chains, steps = np.shape(self.losses)
        length = f"{steps:,} steps" if not chains else f"{chains[0]} chains of {steps:,} steps"
        length = "around a trained net" if "laplace/prior_precision" in self.history else length
        # The mask of samples is what any of them has alive, and the history counts each by itself.
        counted = until_returned(self.history).get("prune/num_connected", ())
        returned = int(self.history.get("returned/step", (steps,))[0])
        return shown.line(
            "FitResult",
            length if returned == steps else f"{length}, returned as of step {returned:,}",
            *(shown.number("loss", loss) or "loss nan" for loss in np.reshape(self.losses, (-1, steps))[:, -1]),
            shown.share_pruned(self.mask),
            shown.share_connected(self.mask, None if draws_of(self.params) else next(iter(counted[-1:]), None)),
            shown.last(self.history, "eval"),
            "interrupted" if self.interrupted else "",
        )

    @property
    def interrupted(self) -> bool:
        """Whether Ctrl-C ended the fit before its last step; see ``on_interrupt`` of `fit_svi`."""
        return "interrupted/step" in self.history

    def diagnose(self) -> Health:
        """What the fit's own losses, parameters and mask say of its health: findings, each with its remedy.

        What takes data it does not look at: `bayesprune.diagnose` also compares the losses with predicting without the inputs,
        and looks at x and y, and at predictions of given and of held-out rows.

        >>> params, mask = {"w_auto_loc": np.zeros((2, 2), "f4")}, {"w": np.zeros((2, 2), bool)}
        >>> print(FitResult(params, None, np.ones(2), mask, {}).diagnose())
        1 finding of 3 checks; bp.diagnose(rng_key, bnn, fit, data) makes others
        dead layer: no weight of w is alive: nothing gets through it; cut less, later or by verified acts (data=).
        """
        found = of_fit(self.losses, self.params, self.mask)
        return dataclasses.replace(found, others="bp.diagnose(rng_key, bnn, fit, data)")

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the fit to one safetensors file, which `bayesprune.load` reads back to the bit.

        ``state``, with the optimiser's arrays, is most of the file: ``fit._replace(state=None).save(path)`` leaves it out. Dead
        weights take a bit each. Of several chains the ends are kept, not the states of their kernels.

        Raises ``TypeError`` for parameters that are no arrays, ``OSError`` with the path and a remedy where the disk refuses.

        >>> import tempfile, bayesprune as bp
        >>> params, mask = {"w_auto_loc": np.zeros(3, "f4")}, {"w": np.ones(3, bool)}
        >>> fit = FitResult(params, None, np.ones(2), mask, {"eval/nll": np.ones(1)})
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     fit.save(f"{folder}/fit.safetensors")
        ...     bp.load(f"{folder}/fit.safetensors")
        FitResult(2 steps, loss 1, 0.0 % of 3 weights pruned)
        """
        several = bool(draws_of(self.params)) and count(self.params)[0] > 1  # chains go on from their networks alone
        state = None if several else keep(self.state)
        write_fit(path, SavedFit(self.params, self.losses, self.mask, self.history, state and state._asdict()))

    def net_params(self, bnn: BNN) -> Any:
        """The network's own parameters at their posterior means, dead weights zero, for ``net.apply``.

        ``bnn``: the `BNN` of the fit; see `BNN.net_params`, whose errors it raises.
        """
        return bnn.net_params(self.params, self.mask)

    def to_arviz(self, functionals: Mapping[str, Any] | None = None) -> Any:
        """The samples of `fit_sgmcmc`, or functionals of them, for ArviZ; see `report.to_arviz`."""
        return to_arviz(self.params, functionals)


class Moment(NamedTuple):
    """What a callback is shown between chunks of steps: after the evaluation that may be due, before the pruning.

    ``params()`` fetches the current parameters, those just evaluated, and ``mask()`` the mask that goes with them, as in
    `FitResult`; call them before the callback returns. A callback that returns True ends the fit there: what it was shown is
    returned, unpruned since. Any other answer asks for nothing.
    """

    step: int
    loss: float
    density: float
    history: dict[str, list[Any]]
    params: Callable[[], dict[str, Any]]
    mask: Callable[[], dict[str, Any]]


class DivergedError(FloatingPointError):
    """A loss or a state is not finite. ``step``: where; ``site``: what; ``params``: the last finite ones, to go on from."""

    def __init__(self, message: str, step: int, site: str, params: dict[str, Any]) -> None:
        super().__init__(message)
        self.step, self.site, self.params = step, site, params


def diverged(step: int, what: str, lost: Collection[str], finite: dict[str, Any]) -> DivergedError:
    """The error, with the last ``finite`` parameters.

    ``what``: "the loss", or "" where that was finite; ``lost``: the ways to arrays that are not finite any more, in a dict of
    "params", those "free" of their constraints, "state" and "optimizer".
    """
    site = _first(lost)
    what = what or ("the optimizer's state" if site.startswith("optimizer") else "the parameters")
    return DivergedError(
        f"{what} stopped being finite at step {step}, first seen at {site!r}. The parameters before that are in this error's "
        "`params`; start again from them (init_params=error.params) with a smaller learning rate (a sampler: step_size), with "
        "gradient clipping (optax.chain(optax.clip_by_global_norm(1.0), ...)), or look for extreme values in the data.",
        step,
        site,
        finite,
    )


def _first(lost: Collection[str]) -> str:
    """The first parameter that is not finite, else a part of the state; else the observed site: its likelihood overflowed.

    >>> _first(["['optimizer'][0].nu", "['params']['w_auto_loc']"]), _first(["['state']['nn']"]), _first([])
    ('w_auto_loc', "state['nn']", 'obs')
    """
    for part in ("params", "free", "state", "optimizer"):
        ways = sorted(way.removeprefix(f"['{part}']") for way in lost if way.startswith(f"['{part}']"))
        if ways:
            return ways[0].strip("[]'") if part in ("params", "free") else part + ways[0]
    return "obs"


class UnsavedError(OSError):
    """A checkpoint could not be written. ``fit``: the `FitResult` as it is; ``why``: the system's cause and its remedy.

    >>> print(UnsavedError(28, "cannot write runs/a: No space left on device. Remedy: free some disk space.", None))
    [Errno 28] cannot write runs/a: No space left on device. Remedy: free some disk space. What was trained is in this ...
    """

    def __init__(self, errno: int | None, why: str, fit: FitResult) -> None:
        super().__init__(
            errno or 0,
            f"{why} What was trained is in this error's `fit`: error.fit.save(PATH) keeps it on another disk, and "
            "fit_svi(init=error.fit) goes on from it.",
        )
        self.why, self.fit = why, fit
