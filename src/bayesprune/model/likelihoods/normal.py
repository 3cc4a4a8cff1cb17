"""Real targets with Gaussian noise: of a scale that is known, learned, or predicted for every row."""

from dataclasses import dataclass
from typing import Any

import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist

from bayesprune.core.checks import check_positive
from bayesprune.model.families import Family
from bayesprune.model.likelihoods import learned, without_inputs
from bayesprune.model.likelihoods.protocol import OutputShape
from bayesprune.model.likelihoods.targets import check_shape, observe_rows, one_for_each, squeeze

REFERENCE = "nix1994estimating"
PREDICTED = "predicted"


@dataclass(frozen=True)
class Normal:
    """Real targets: y ~ N(f, scale²), f of shape (rows, 1) with y (rows,), or both (rows, outputs).

    Or both of any shape (rows, ...), such as (rows, tokens, outputs); a last axis of one output may be left out of y.

    With ``scale="predicted"`` the noise is each row's own (heteroscedastic). The network then gives two outputs for each of k
    targets, (rows, 2 k): first the means, then what makes the scales (21.3),

      y_j ~ N(f_j, s_j²),    log s_j = asinh(f_(k+j)),    j = 1 ... k

    A scale is 1 at 0 and, with its inverse, grows as its output does far from it: an output that is far off when training
    starts, as random weights make them, costs no gradient that drowns the others.

    Args:
        scale: the noise's standard deviation in the units of y; None learns it; "predicted" as above.
        noise_shape, noise_rate: of the learned noise's precision, scale^-2 ~ Gamma(noise_shape, noise_rate); (6, 6) is that of
            Hernández-Lobato & Adams (2015), for standardised targets. It keeps the scale above about sqrt(12 / rows): where
            the noise may be far below one tenth of the target's spread, give a vaguer one, such as (1, 1e-3).

    Raises:
        ValueError: a number that is not positive.

    Source: Nix & Weigend (1994), eq. 3, for predicted scales.
    """

    scale: float | str | None = None
    noise_shape: float = 6.0
    noise_rate: float = 6.0

    def __post_init__(self) -> None:
        if self.scale != PREDICTED:
            learned.check_given(self.scale, "scale", "the noise's standard deviation, or 'predicted'")
        check_positive(self.noise_shape, "noise_shape")
        check_positive(self.noise_rate, "noise_rate")

    @property
    def heteroscedastic(self) -> bool:
        """Whether the network predicts the scales."""
        return self.scale == PREDICTED

    @property
    def task(self) -> str:
        return "other" if self.heteroscedastic else "numbers"

    def observe(self, outputs: Any, y: Any) -> Any:
        if not self.heteroscedastic:
            return observe_rows(dist.Normal(squeeze(outputs), self.noise_scale()), y)
        targets = outputs.shape[-1] // 2
        scale = jnp.exp(jnp.arcsinh(outputs[..., targets:]))
        return observe_rows(dist.Normal(squeeze(outputs[..., :targets]), squeeze(scale)), y)

    def noise_scale(self) -> Any:
        """The noise's standard deviation, sampled as "noise_precision" where it is learned."""
        if self.scale is not None:
            return self.scale
        return learned.positive("noise_precision", None, self.noise_shape, self.noise_rate) ** -0.5

    def guide(self, family: Family) -> None:
        if self.scale is None:
            family.positive("noise_precision")

    def read_noise_scale(self, params: dict[str, Any]) -> Any:
        """The noise's standard deviation: ``scale``, or the posterior median of the learned one.

        Of networks, "noise_precision" (num_samples,): that of each, (num_samples, 1, 1). Raises ``ValueError`` for predicted
        scales: every row has its own.
        """
        if self.heteroscedastic:
            raise ValueError("the scales of Normal(scale='predicted') are outputs of the network: every row has its own.")
        if self.scale is not None:
            return self.scale
        if "noise_precision" in params:
            return np.asarray(params["noise_precision"])[:, None, None] ** -0.5
        return float(np.exp(-0.5 * np.asarray(params["noise_precision_log_loc"])))

    def mean(self, outputs: Any) -> Any:
        return squeeze(outputs[..., : outputs.shape[-1] // 2] if self.heteroscedastic else outputs)

    def check(self, y: Any, output_shape: OutputShape) -> None:
        if not self.heteroscedastic:
            return check_shape(y, output_shape, one_for_each(output_shape), "Normal")
        if output_shape[-1] % 2:
            raise ValueError(
                f"Normal(scale='predicted') needs two outputs of the network for each target, got {output_shape[-1]}: give "
                "the net num_outputs=2 for one target."
            )
        wanted = one_for_each((*output_shape[:-1], output_shape[-1] // 2))
        return check_shape(y, output_shape, wanted, "Normal(scale='predicted')")

    def baseline(self, y: Any) -> float | None:
        """-log likelihood of all targets by the mean of each output, nats (21.12).

          n/2 sum_j log(2 pi s_j²) + v_j / s_j²,    n targets of each output j, their variance v_j

        The noise s_j is the given one; learned, one for all outputs, s² = mean of v_j; predicted, each output's own,
        s_j² = v_j. None where no output varies; of predicted noise, where one does not: nothing bounds its density.

        >>> print(round(Normal().baseline(np.array([-1.0, 1.0])), 4), round(Normal(0.5).baseline(np.array([-1.0, 1.0])), 4))
        2.8379 4.4516
        """
        v = without_inputs.variances(y)
        if not v.any() or (self.heteroscedastic and not v.all()):
            return None
        noise = v if self.heteroscedastic else np.full(v.shape, v.mean() if self.scale is None else np.square(self.scale))
        return float(0.5 * np.size(y) / len(v) * np.sum(np.log(2.0 * np.pi * noise) + v / noise))

    def least_spread(self, num_targets: int) -> float:
        """The standard deviation of targets below which the prior of the noise rules (21.14); 0 of noise that has none."""
        learns = self.scale is None
        return learned.least_spread(self.noise_shape, self.noise_rate, num_targets) if learns else 0.0
