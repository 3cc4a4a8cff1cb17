"""Real targets with Gaussian noise: of a scale that is given, learned, known for every row, or predicted for it."""

from dataclasses import dataclass
from typing import Any

import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist

from bayesprune.core.checks import check_positive
from bayesprune.core.types import Array
from bayesprune.model.families import Family
from bayesprune.model.likelihoods import learned, without_inputs
from bayesprune.model.likelihoods.protocol import NUMBERS, Named, OutputShape
from bayesprune.model.likelihoods.targets import check_shape, halves, observe_rows, one_for_each, squeeze

REFERENCE = "nix1994estimating"
PREDICTED, KNOWN = "predicted", "known"


@dataclass(frozen=True)
class Normal:
    """Real targets: y ~ N(f, scale²), f of shape (rows, 1) with y (rows,), or both (rows, outputs).

    Or both of any shape (rows, ...), such as (rows, tokens, outputs); a last axis of one output may be left out of y.

    With ``scale="predicted"`` the noise is each row's own (heteroscedastic). The network then gives two outputs for each of k
    targets, (rows, 2 k): first the means, then what makes the scales (21.3),

      y_j ~ N(f_j, s_j²),    log s_j = asinh(f_(k+j)),    j = 1 ... k

    A scale is 1 at 0 and, with its inverse, grows as its output does far from it: an output that is far off when training
    starts, as random weights make them, costs no gradient that drowns the others.

    With ``noise="known"`` the scale of every row is data, as errors of measurement are: y has two columns for each target,
    (rows, 2 k), first the targets, then the standard deviations of their noise, all positive. The network gives k outputs,
    predictions are of the targets, and the noise of new rows is theirs to add: none is drawn.

    Args:
        scale: the noise's standard deviation in the units of y; None learns it; "predicted" as above.
        noise_shape, noise_rate: of the learned noise's precision, scale^-2 ~ Gamma(noise_shape, noise_rate); (6, 6) is that of
            Hernández-Lobato & Adams (2015), for standardised targets. It keeps the scale above about sqrt(12 / rows): where
            the noise may be far below one tenth of the target's spread, give a vaguer one, such as (1, 1e-3).
        noise: of several outputs, "per_output": each learns a noise of its own; "shared": all have one; "known" as above.

    Raises:
        ValueError: a number that is not positive; an unknown ``noise``; a ``scale`` beside ``noise="known"``.

    Example:
        >>> targets, errors = np.array([[1.0], [2.0]]), np.array([[0.1], [0.5]])
        >>> Normal(noise="known").check(np.concatenate([targets, errors], axis=1), (1,))

    Source: Nix & Weigend (1994), eq. 3, for predicted scales.
    """

    scale: float | str | None = None
    noise_shape: float = 6.0
    noise_rate: float = 6.0
    noise: str = learned.PER_OUTPUT

    def __post_init__(self) -> None:
        learned.check_noise(self.noise, (learned.PER_OUTPUT, learned.SHARED, KNOWN))
        if not isinstance(self.scale, str) or self.scale != PREDICTED:
            learned.check_given(self.scale, "scale", "the noise's standard deviation, or 'predicted'")
        if self.known and self.scale is not None:
            raise ValueError(f"scale={self.scale!r} and noise='known' say two things of the noise: leave one of them out.")
        if self.heteroscedastic and self.noise == learned.SHARED:
            raise ValueError(
                "noise='shared' is of a noise that is learned, and scale='predicted' has the network give one for each target: "
                "leave one of them out, or write a likelihoods.Custom whose scale is one output."
            )
        check_positive(self.noise_shape, "noise_shape")
        check_positive(self.noise_rate, "noise_rate")

    @property
    def heteroscedastic(self) -> bool:
        """Whether the network predicts the scales."""
        return self.scale == PREDICTED

    @property
    def known(self) -> bool:
        """Whether every row brings the scale of its noise."""
        return self.noise == KNOWN

    @property
    def learns_noise(self) -> bool:
        """Whether there is a noise, the same for all rows, that is learned."""
        return self.scale is None and not self.known

    @property
    def task(self) -> str:
        return "other" if self.heteroscedastic or self.known else "numbers"

    def observe(self, outputs: Array, y: Array | None) -> Any:
        if self.known:
            if y is None:
                return None
            targets, scale = self.apart(y)
            return observe_rows(dist.Normal(squeeze(outputs), scale), targets)
        if not self.heteroscedastic:
            return observe_rows(dist.Normal(squeeze(outputs), self.noise_scale(outputs.shape[-1])), y)
        targets = outputs.shape[-1] // 2
        scale = jnp.exp(jnp.arcsinh(outputs[..., targets:]))
        return observe_rows(dist.Normal(squeeze(outputs[..., :targets]), squeeze(scale)), y)

    def noise_scale(self, num_outputs: int = 1) -> Any:
        """The noise's standard deviation, sampled as "noise_precision" where it is learned."""
        if self.scale is not None:
            return self.scale
        sizes = learned.sizes_of(self.noise, num_outputs)
        return learned.positive("noise_precision", None, self.noise_shape, self.noise_rate, sizes) ** -0.5

    def apart(self, y: Array) -> tuple[Any, Any]:
        """Targets and the known scales of their noise, from y of both."""
        return halves(y)

    def guide(self, family: Family, output_shape: OutputShape = (1,)) -> None:
        if self.learns_noise:
            family.positive("noise_precision", learned.sizes_of(self.noise, output_shape[-1]))

    def read_noise_scale(self, params: dict[str, Any]) -> Any:
        """The noise's standard deviation: ``scale``, or the posterior median of the learned one; (outputs,) of one for each.

        Of networks, "noise_precision" (num_samples,) or (num_samples, outputs): that of each, (num_samples, 1, 1) or
        (num_samples, 1, outputs). Raises ``ValueError`` for scales that are predicted or known: every row has its own.
        """
        if self.heteroscedastic or self.known:
            whose = "outputs of the network" if self.heteroscedastic else "in y"
            raise ValueError(f"the scales of {self!r} are {whose}: every row has its own.")
        if self.scale is not None:
            return self.scale
        if "noise_precision" in params:
            precision = np.asarray(params["noise_precision"])
            return precision.reshape((len(precision), 1, -1)) ** -0.5
        scale = np.exp(-0.5 * np.asarray(params["noise_precision_log_loc"]))
        return scale if scale.ndim else float(scale)

    def mean(self, outputs: Array) -> Any:
        return squeeze(outputs[..., : outputs.shape[-1] // 2] if self.heteroscedastic else outputs)

    def check(self, y: Array, output_shape: OutputShape) -> None:
        if self.known:
            return self._check_known(y, output_shape)
        if not self.heteroscedastic:
            return check_shape(y, output_shape, one_for_each(output_shape), "Normal")
        if output_shape[-1] % 2:
            raise ValueError(
                f"Normal(scale='predicted') needs two outputs of the network for each target, got {output_shape[-1]}: give "
                "the net num_outputs=2 for one target."
            )
        wanted = one_for_each((*output_shape[:-1], output_shape[-1] // 2))
        return check_shape(y, output_shape, wanted, "Normal(scale='predicted')")

    def baseline(self, y: Array) -> float | None:
        """-log likelihood of all targets by the mean of each output, nats (21.12).

          n/2 sum_j log(2 pi s_j²) + v_j / s_j²,    n targets of each output j, their variance v_j

        The noise s_j is the given one; learned for each output, or predicted, s_j² = v_j; learned as one for all, s² = mean of
        v_j. None where no output varies; of noise of each output's own, where one does not: nothing bounds its density. Of
        known noise, by the best constant mean of each output, sum_i w_i y_i / sum_i w_i with w_i = 1 / s_i².

        >>> print(round(Normal().baseline(np.array([-1.0, 1.0])), 4), round(Normal(0.5).baseline(np.array([-1.0, 1.0])), 4))
        2.8379 4.4516
        """
        if self.known:
            return _baseline_of_known(*map(without_inputs.columns, self.apart(np.asarray(y))))
        v = without_inputs.variances(y)
        own = self.heteroscedastic or (self.scale is None and self.noise == learned.PER_OUTPUT)
        if not v.any() or (own and not v.all()):
            return None
        noise = v if own else np.full(v.shape, v.mean() if self.scale is None else np.square(self.scale))
        return float(0.5 * np.size(y) / len(v) * np.sum(np.log(2.0 * np.pi * noise) + v / noise))

    def least_spread(self, num_targets: int) -> float:
        """The standard deviation of targets below which the prior of the noise rules (21.14); 0 of noise that has none."""
        return learned.least_spread(self.noise_shape, self.noise_rate, num_targets) if self.learns_noise else 0.0

    def _check_known(self, y: Array, output_shape: OutputShape) -> None:
        check_shape(y, output_shape, [(*output_shape[:-1], 2 * output_shape[-1])], "Normal(noise='known')")
        _, scale = self.apart(np.asarray(y))
        if not (scale > 0).all():
            raise ValueError(
                "the last columns of data.y must hold the standard deviations of the noise for Normal(noise='known'), all "
                f"positive, got {scale[~(scale > 0)].flat[0]}: a row whose noise is not known takes that of rows like it."
            )


NAMED = {
    "normal": Named((NUMBERS,), lambda targets: Normal(), default_of=(NUMBERS,)),
    "predicted_noise": Named((NUMBERS,), lambda targets: Normal(PREDICTED), lambda targets: 2 * targets),
}


def _baseline_of_known(targets: np.ndarray, scale: np.ndarray) -> float | None:
    """(21.12) with a noise for every target."""
    if not without_inputs.varies(targets):
        return None
    mean = np.average(targets, axis=0, weights=scale**-2.0)
    return float(np.sum(np.log(scale) + 0.5 * np.log(2.0 * np.pi) + 0.5 * ((targets - mean) / scale) ** 2))
