"""The sparse Bayesian network as a scikit-learn regressor."""

from typing import Any

import numpy as np
from jaxtyping import Float64
from numpy.typing import ArrayLike
from sklearn.base import RegressorMixin
from sklearn.metrics import r2_score

from bayesprune.core import numbers
from bayesprune.core.checks import check_level
from bayesprune.infer.predict import predict_draws
from bayesprune.infer.refit_noise import LOC, SCALE, learns_noise
from bayesprune.model.likelihoods import Masked, Normal, StudentT
from bayesprune.model.likelihoods.masked import of_observed
from bayesprune.sklearn import densities, gaps, law_of_targets, network
from bayesprune.sklearn.annealing import is_auto
from bayesprune.sklearn.base import SparseNetwork, Tried
from bayesprune.sklearn.choosing import Judged
from bayesprune.sklearn.conformal import known, scores_of_numbers, threshold
from bayesprune.sklearn.fits import refuse_others, undone_if_it_fails
from bayesprune.sklearn.frames import check_digits
from bayesprune.sklearn.thresholds import found_by_whole_rows

Values = Float64[np.ndarray, "rows *outputs"]


class BayesianSparseRegressor(RegressorMixin, densities.PredictiveDistribution, SparseNetwork):
    """A sparse Bayesian multi-layer perceptron for real targets, counts or shares, with their uncertainty.

    A `BNN`, by default with learned noise, is fitted by `fit_svi` to standardised columns and cut once; predictions are
    averages over networks drawn from the posterior, in the units of y. What else the network reads is chosen by held-out rows.

    X: an array of numbers, or a pandas frame whose texts, categories, dates and gaps are read as
    `sklearn.reading.fit_reading` says, by what the training rows show; what is said of inputs is said of the frame's columns.
    Numbers that reach over decades are read twice, straight and as normal scores (`sklearn.bends.fit_bends`).

    Args:
        hidden: units of each hidden layer; ``()`` is a linear model.
        prior: "auto", a spike and slab whose weights are included with probability 1/2 a priori, or less where an input has
            less than five rows; "dirac_slab", the same with the rate of its paper, (5.3), which leaves small data with hardly
            a weight and says best which inputs are needed; "gaussian_slab" or "flat"; or an object of `bayesprune.priors`.
        method: the cut after the fit. "auto" keeps what a spike-and-slab prior includes with probability 1/2 or more, what has
            evidence on its side under a Gaussian one, and all under others; where rows are held out, and a softer cut
            (probability 0.1, 0.03, none at all) foresees them better by a standard error and 0.02 nats a row, that one.
            "none"; or an object of `bayesprune.methods`. Weights that are included with more than 0.9 are then in every draw,
            see (5.4).
        density: with "auto", the fraction of the prunable weights that stays alive, in (0, 1], exactly.
        num_steps: optimiser steps (AdaBelief) of each fit; "auto" is the preset's, of more than 2,000 rows in proportion to
            them, up to 4 times as many (but of "fast"), and 3,000 without annealing.
        batch_size: rows of a minibatch, all of them where there are fewer; None takes all rows at every step.
        learning_rate: of the optimiser; under annealing its mean over the steps.
        annealing: the share of the steps over which the weight of the divergence from the prior rises from 0 to 1, in (0, 1];
            the rate then falls from its double to 0 by half a cosine, over all steps. "auto" is 0.75; 0: both are constant.
        form: "plain", the net on standardised columns; "linear", without hidden layers; "wide", with a linear path beside it,
            and numbers drawn in from three deviations on; "steps", which also reads on which side of thresholds a number lies,
            those of a small random forest, the more of them the more rows; "components", which also reads the 24 largest
            principal components, each of unit size, and of as many columns as rows, or more, nothing else; "trees", without
            hidden layers, which reads what trees foresee and nothing else, of the rows of the fit what those foresee that had
            not seen them: 64 random ones, and boosted ones of five folds, with as many stages as foresee rows best. "auto"
            fits "plain", "linear", "steps", "trees" and, of collinear columns, "components" to four fifths of the rows, and
            judges them by their log density of the others. "steps" is not fitted where boosted trees, which cut at thresholds,
            are behind "plain" on those rows by more than a standard error, nor, unless ``held_out`` is given,
            of less than 160 rows; "linear" is not where a ridge regression is behind. Trees read nearly every column, and are
            far larger than a network: boosted ones are grown, and the form fitted, only where that may save 2 % of squared
            errors (21.35), and it has a part only where rows are foreseen better with it, by a standard error and .005 nats a
            row; of at most 20 classes or columns of y, boosted ones of 5 classes or one column. Where ``num_steps`` is given,
            where there is no hidden layer, and of less than 10 rows, "auto" is "plain".
        presets: "default", 5,000 steps; "fast", 2,000 of the plain form alone; "best", 10,000, and five folds to choose by.
        held_out: share of the rows that choose form and cut and calibrate ``predict(interval=)``; a further fit takes all rows.
            "auto" is the preset's: a fifth, of less than 500 rows three of them in turn, of less than 160 each third; and of
            "fast", where ``num_steps`` is given, or of less than 10 rows, none.
        stacking: whether the forms that "auto" has fitted predict together, with the weights (21.32) that held-out rows speak
            for, each by its fit to all rows and, from 160 rows on, by those to four fifths, which count half: 2.4 % off NLL
            and CRPS of 26 real tables, for up to twice the time. False, and of a given ``density``: one network, not of
            trees, of the form of the highest log density, if it is ahead of "plain", or of "linear" where that is not behind
            "plain", by more than one standard error; where columns outnumber rows, ahead of "components".
        time_limit: seconds that the fit may take; None: as many as it needs. By the pace of the first steps forms, folds and
            held-out rows are left out for which there is no time, then steps: a half, three quarters, down to 250. These are
            done in any case, and compilation is not broken off, so that a fit may take longer; see ``left_out_``.
        num_samples: networks drawn for a prediction; the one setting that may be set after the fit, too.
        activation: "swish", "relu", "tanh", "gelu", "elu", "sigmoid", or a JAX function.
        likelihood: "auto": where forms are chosen, by a forest's errors on rows that it has not seen,
            `NegativeBinomial(link="softplus")`, where y is whole numbers from 0 or 1 on and likelier as counts (21.33), or
            Student's t of three degrees of freedom, where the errors have heavy tails, and are not so skewed that its location
            is far from their mean (`tails.costs_the_mean`), if held-out rows are then foreseen about as well as by the forest
            (21.39); else "normal", its noise refitted after the cut (`bayesprune.refit_noise`), of precision Gamma(1, 0.001)
            a priori; "predicted_noise" (Gaussian, its scale the network's output for each row); "student_t" (outliers: the t
            above, y standardised by median and quartiles); "poisson" or "negative_binomial" (counts); "beta" (shares in
            (0, 1)); or an object of `bayesprune.likelihoods`. Of `Normal` and `StudentT`, y is standardised, and their scales
            are in units of its standard deviation; of all others it is taken as it is. Of counts, outputs of zero stand for
            about the mean of y.
        random_state: a whole number makes fits and predictions repeatable; or a NumPy ``RandomState``, or None.
        verbose: show a progress bar of the fit.

    Attributes, after ``fit``:
        bnn_, params_, mask_: the network, its NumPyro parameters, and site -> booleans (True = alive), as `bayesprune.predict`
            takes them, for ``inputs_of(X)``: standardised columns in the plain form. Of several forms ``num_samples`` networks
            drawn of all of them (stored samples, under a prior that stands for none), laid into one that reads all they read.
        weights_: form -> its weight in predictions, the largest first; they add up to 1.
        form_: the first of them.
        temperature_: what a classifier's logits are divided by, so that held-out labels are as probable as they are said to be;
            1 of numbers.
        left_out_: what ``time_limit`` had no time for, empty for nothing: "forms" (their names), "folds" and "steps" (how many
            fewer), "held_out" (the share: no rows were held out, so that there is no ``predict(interval=)``), "fits" (forms
            that predict by their fits to some of the rows alone), "boosting" (the stages that there was time for).
        density_: fraction of the prunable weights alive, of several networks the weighted mean.
        inclusion_probabilities_: (features,), that an input is used at all: 1 - ∏_j (1 - p_ij) over its gates before the cut;
            of priors without gates, 1 where a living edge leaves it and else 0.
        feature_importances_: (features,) in [0, 1], scaled connection weights (6.3), from the same gates.
        used_features_: (features,) booleans, inputs that the network as it was cut still reads; of several, any of them.
        losses_, n_iter_: negative ELBO by step, nats, its divergence of weight 1 throughout, and the steps taken; of the fit of
            ``form_`` to all rows.
        n_features_in_, feature_names_in_: of X.

    What an object of methods, priors or likelihoods was made with is a parameter too, for `set_params` and searches:
    ``method__density``, ``prior__slab_scale``.

    Errors in settings are raised by ``fit``: `ValueError` or `TypeError`, naming the setting. A fit that fails, or is broken
    off, leaves the estimator as it was. Sparse matrices and weights of rows are not taken. y may have several columns; they
    share the network, and each has a noise of its own. NaN among several is missing (`likelihoods.Masked`).

    Example:
        >>> import numpy as np, bayesprune as bp
        >>> x = np.random.default_rng(0).standard_normal((60, 2))
        >>> model = bp.BayesianSparseRegressor(hidden=(), num_steps=300, num_samples=10, random_state=0).fit(x, 3 * x[:, 0])
        >>> mean, std = model.predict(x, return_std=True)
        >>> mean.shape, bool((std > 0).all()), model.score(x, 3 * x[:, 0]) > 0.9
        ((60,), True, True)

    Source: Bai, Song & Cheng (2020) for the default prior; Saha, Liu & Liang (2024) for the importances.
    """

    @undone_if_it_fails
    def fit(self, X: ArrayLike | Any, y: ArrayLike | Any, **others: object) -> "BayesianSparseRegressor":
        """Fit to X (rows, features) and y (rows,) or (rows, outputs), in any units; by nothing else: ``others`` are refused.

        Gaps in X are filled by the column's median and marked; infinite numbers are refused, `ValueError`. NaN in a matrix y is
        a target that is missing: the row counts by its others.
        """
        refuse_others(others)
        likelihood = network.read_likelihood(self.likelihood)
        X, y = numbers.without_mask(X, "X"), numbers.without_mask(y, "y")
        missing = gaps.gaps_in(y, likelihood)
        whole = gaps.without(y, missing)
        gaps.check_targets(y)
        check_digits(y, "y")
        x, whole = self._read(X, whole, multi_output=True, y_numeric=True)
        self._outputs = whole.shape[1:]
        columns, observed = gaps.with_gaps(whole.reshape((len(whole), -1)), missing), of_observed(likelihood)
        choice = self._plan(x)
        found = found_by_whole_rows(self._seed, x, columns) if choice.needs_a_forest else None

        def tried(observed: Any) -> Tried:
            likelihood = gaps.masked(network.started(observed, columns), missing)
            units = law_of_targets.scaling_of(columns, observed)
            scaled = units.apply(columns)
            outputs = scaled.shape[1] * (2 if isinstance(observed, Normal) and observed.heteroscedastic else 1)
            targets = scaled[:, 0] if scaled.shape[1] == 1 else scaled
            return self._tried(x, targets, likelihood, outputs, choice, found)._replace(units=units)

        if found is not None and is_auto(self.likelihood):
            best = law_of_targets.best_tried(tried, found.whole.targets, found.whole.residuals, self._budget)
        else:
            best = tried(observed)
        self._target_scaling = best.units
        self._train(best)
        return self

    def predict(self, X: ArrayLike | Any, return_std: bool = False, interval: float | Any | None = None) -> Any:
        """The predictive mean of y, shape (rows,) or (rows, outputs) as in ``fit``, in the units of y.

        With ``return_std`` also the standard deviation of the predictive distribution of y, of the same shape and units: the
        spread of the networks' means and the mean variance of the noise, added. It is infinite where the noise has no variance.

        With ``interval``, a level such as 0.9, also an interval that holds a new y with that probability, (rows, 2) or
        (rows, outputs, 2): mean - q std to mean + q std, with q of (21.30) by the rows that the fit held out (split conformal;
        of several folds each row by the networks that had not seen it), whatever the posterior gets wrong; where std is
        infinite, as wide for every row. That is of fits without those rows: of less than a hundred in all, the fit to all of
        them is surer, and fewer new y lie within. `ValueError` where no rows were held out, see ``held_out``.
        `predict_interval` is the posterior's own.
        """
        x = self._rows(X)
        if interval is not None:
            check_level(interval, "interval")
            limit = threshold(known(self._conformity, self.left_out_), float(interval))
        if not return_std and interval is None:
            means = [drawn.mean(axis=0, dtype=np.float64) for drawn in self._streamed(predict_draws, x)]
            return self._in_units(np.concatenate(means), self._target_scaling.loc)
        mean, variance = self._mean_and_variance(x)
        std = np.sqrt(variance)
        found = [self._in_units(mean, self._target_scaling.loc)] + [self._in_units(std, 0.0)] * bool(return_std)
        if interval is not None:
            reach = _widths(variance).reshape((len(x), -1)) * limit
            ends = [mean.reshape(reach.shape) + sign * reach for sign in (-1.0, 1.0)]
            if hasattr(of_observed(self.bnn_.likelihood), "exposure"):  # counts are not negative
                ends[0] = np.maximum(ends[0], 0.0)
            found.append(np.stack([self._in_units(end, self._target_scaling.loc) for end in ends], axis=-1))
        return tuple(found)

    def _judged(self, x: np.ndarray, y: np.ndarray) -> Judged:
        y = np.asarray(y, np.float64).reshape((len(x), -1))
        if isinstance(self.bnn_.likelihood, StudentT):
            laws = self._laws_of_t(x)
            return Judged(densities.of_t(laws, y), _second_moments(*densities.moments_of_t(laws)))
        if isinstance(self.bnn_.likelihood, Masked) or not learns_noise(self.bnn_, self.params_):
            foreseen = _second_moments(*(part.reshape(y.shape) for part in self._mean_and_variance(x)))
            return Judged(self._log_density(x, y[:, 0] if y.shape[1] == 1 else y), foreseen)
        rng, nats, moments, first = np.random.default_rng([densities.SEED, self._seed]), [], [], 0
        for drawn in self._streamed(predict_draws, x):
            last = first + drawn.shape[1]
            moments.append(_moments(drawn))
            nats.append(densities.of_numbers(rng, self.params_, drawn, y[first:last]))
            first = last
        mean, variance = (np.concatenate(parts) for parts in zip(*moments, strict=True))
        return Judged(np.concatenate(nats), _second_moments(mean, variance + self._noise_variance(x)))

    def _wrong(self, y: np.ndarray, foreseen: np.ndarray) -> np.ndarray:
        mean, square = np.moveaxis(foreseen, -1, 0)
        return scores_of_numbers(np.asarray(y, np.float64).reshape(mean.shape), mean, _widths(square - np.square(mean)))

    def _beside_trees(self, y: np.ndarray, foreseen: np.ndarray, said: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        mean = foreseen[..., 0]
        return np.nan_to_num(y.reshape(mean.shape) - mean), said - mean

    def _is_comparable(self, y: np.ndarray) -> bool:
        return y.ndim == 1 and isinstance(self.bnn_.likelihood, Normal | StudentT)

    def _mean_and_variance(self, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Of the predictive distribution, in the units that were trained on."""
        if isinstance(self.bnn_.likelihood, StudentT):
            return densities.moments_of_t(self._laws_of_t(x))
        moments = [_moments(drawn) for drawn in self._streamed(predict_draws, x)]
        mean, variance = (np.concatenate(parts) for parts in zip(*moments, strict=True))
        return mean, variance + self._noise_variance(x)

    def _laws_of_t(self, x: np.ndarray) -> np.ndarray:
        return np.concatenate(list(self._streamed(densities.laws_of_t, x)), axis=1)

    def score(self, X: ArrayLike | Any, y: ArrayLike | Any, sample_weight: ArrayLike | Any | None = None) -> float:
        """The coefficient of determination, averaged over outputs as scikit-learn does; each of the rows that have it."""
        y, sample_weight = numbers.without_mask(y, "y"), numbers.without_mask(sample_weight, "sample_weight")
        missing = gaps.gaps_in(y, self.likelihood)
        if missing is None:
            return super().score(X, y, sample_weight)
        means, values = self.predict(X), gaps.floats_of(y)
        weights = np.ones(len(values)) if sample_weight is None else np.asarray(sample_weight)
        seen = ~missing
        each = [r2_score(v[s], m[s], sample_weight=weights[s]) for v, m, s in zip(values.T, means.T, seen.T, strict=True)]
        return float(np.mean(each))

    def _noise_variance(self, x: np.ndarray) -> Any:
        """The mean variance of the noise, in the units that were trained on: one number, (outputs,) or (rows, outputs)."""
        if learns_noise(self.bnn_, self.params_):
            loc, scale = (np.asarray(self.params_[name], np.float64) for name in (LOC, SCALE))
            return np.exp(-loc + 0.5 * scale**2)  # E[scale²], the precision being log-normal
        means = [drawn.mean(0, dtype=np.float64) for drawn in self._streamed(densities.variances, x)]
        found = np.concatenate(means).reshape((len(x), -1))
        return np.where(np.isnan(found), np.inf, found)  # what NumPyro says of one that does not exist

    def _of_draws(self, draws: np.ndarray) -> np.ndarray:
        return np.stack([self._in_units(one, self._target_scaling.loc) for one in draws])

    def _of_parts(self, part: np.ndarray) -> np.ndarray:
        columns = part.reshape((len(part), -1)) * np.square(self._target_scaling.scale)
        return columns.reshape((len(part), *self._outputs))

    def _in_units(self, values: Any, loc: Any) -> Values:
        columns = np.asarray(values, np.float64).reshape((len(values), -1)) * self._target_scaling.scale + loc
        return columns.reshape((len(values), *self._outputs))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        return tags


def _widths(variance: np.ndarray) -> np.ndarray:
    """What an interval is in units of: the standard deviation, or 1 where there is none."""
    return np.sqrt(np.where(np.isfinite(variance), variance, 1.0))


def _second_moments(mean: np.ndarray, variance: np.ndarray) -> np.ndarray:
    """(rows, outputs, 2), E[y] and E[y²]: those of a mixture are their means over its parts."""
    return np.stack(np.broadcast_arrays(mean, variance + np.square(mean)), axis=-1)


def _moments(draws: np.ndarray) -> tuple[Any, Any]:
    """Mean and variance over draws, (rows, outputs) each."""
    values = np.asarray(draws, np.float64)
    return values.mean(axis=0), values.var(axis=0)
