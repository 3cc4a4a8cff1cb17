"""What the regressor and the classifier share: their settings, and the fit of networks."""

import copy
import functools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import numpy as np
from numpy.typing import ArrayLike

from bayesprune.core.checks import check_integer
from bayesprune.core.streams import OfAnEstimator, stream
from bayesprune.core.tracing import check_process
from bayesprune.core.types import Sparsifier
from bayesprune.data.scaling import Scaling
from bayesprune.infer.end_of_fit import held_back
from bayesprune.infer.svi import fit_svi
from bayesprune.model.bnn import BNN
from bayesprune.model.likelihoods import Likelihood
from bayesprune.model.prior import Prior
from bayesprune.sklearn import annealing, budget, choosing, cutting, forms, measures, mixture, network, noise, reasons
from bayesprune.sklearn.annealing import Annealed
from bayesprune.sklearn.columns import Columns, fit_columns, of_rows
from bayesprune.sklearn.drawing import WithDraws
from bayesprune.sklearn.knobs import WithKnobs
from bayesprune.sklearn.places import placed
from bayesprune.sklearn.reading import WithRows
from bayesprune.sklearn.thresholds import FoundByRows
from bayesprune.sklearn.training_rows import TrainingRows
from bayesprune.sklearn.whole import WithCompact


class Tried(NamedTuple):
    """The forms that held-out rows speak for, what their fits to all rows take, what was said of losses on the way, and what
    numbers were standardised by."""

    made: choosing.Choice
    table: TrainingRows
    learn: choosing.Learn
    num_steps: int
    said: list[str]
    units: Scaling = Scaling(0.0, 1.0)


class SparseNetwork(WithRows, WithDraws, reasons.WithReasons, WithCompact, WithKnobs):
    """Settings and training of a sparse network; `BayesianSparseRegressor` has the words on them."""

    # Or Any: scikit-learn wants every value taken here, and refused by ``fit``.
    def __init__(
        self,
        hidden: Sequence[int] | Any = (50,),
        *,
        prior: str | Prior | Any = "auto",
        method: str | Sparsifier | Any = "auto",
        density: float | Any | None = None,
        num_steps: int | str | Any = "auto",
        batch_size: int | Any | None = 128,
        learning_rate: float | Any = 1e-2,
        annealing: float | str | Any = "auto",
        form: str | Any = "auto",
        presets: str | Any = "default",
        held_out: float | str | Any = "auto",
        stacking: bool | Any = True,
        time_limit: float | Any | None = None,
        num_samples: int | Any = 100,
        activation: str | Callable[[jax.Array], jax.Array] | Any = "swish",
        likelihood: str | Likelihood | Any = "auto",
        random_state: int | np.random.RandomState | Any | None = None,
        verbose: bool | Any = False,
    ) -> None:
        self.hidden = hidden
        self.prior = prior
        self.method = method
        self.density = density
        self.num_steps = num_steps
        self.batch_size = batch_size
        self.learning_rate = learning_rate
        self.annealing = annealing
        self.form = form
        self.presets = presets
        self.held_out = held_out
        self.stacking = stacking
        self.time_limit = time_limit
        self.num_samples = num_samples
        self.activation = activation
        self.likelihood = likelihood
        self.random_state = random_state
        self.verbose = verbose

    @property
    def bnn_(self) -> BNN:
        """The fitted network, for `bayesprune.predict` and its neighbours; built anew where a pickle was opened."""
        if "_network" not in vars(self):
            raise AttributeError(f"{type(self).__name__} has no bnn_ before fit(X, y).")
        return network.build(self._network)

    def _plan(self, x: np.ndarray) -> forms.FormChoice:
        """What there is to choose among; begins the fit: its time runs."""
        self._budget = budget.read(self.time_limit)
        hidden = network.read_hidden(self.hidden)
        preset = forms.read_preset(self.presets)
        choice = forms.read_choice(self.form, self.held_out, preset, self.num_steps, hidden, x[:, self._reading.free])
        return choice if self._stacks(choice) else forms.without(choice, forms.TREES)

    def _tried(
        self,
        x: np.ndarray,
        y: np.ndarray,
        likelihood: Likelihood,
        num_outputs: int,
        choice: forms.FormChoice,
        found: FoundByRows | None,
    ) -> Tried:
        """Choose forms by held-out rows."""
        network.read_prior(self.prior, *x.shape)  # refused before there is a fit
        cutting.check(self.method, self.density)
        hidden, activation = network.read_hidden(self.hidden), network.read_activation(self.activation)
        rate, share = network.read_rate(self.learning_rate), annealing.read(self.annealing)
        num_steps = annealing.read_steps(self.num_steps, share, forms.read_preset(self.presets).steps_for(len(x)))
        check_integer(self.num_samples, "num_samples")
        forms.check_stacking(self.stacking)
        if self.batch_size is not None:
            check_integer(self.batch_size, "batch_size")
        cuts = None if found is None else found.whole
        if cuts is None or not len(cuts.at):  # with no thresholds it would be the same as another form
            choice = forms.without(choice, forms.THRESHOLDS)
        candidates = {name: forms.FORMS[name] for name in choice.forms}
        whole = fit_columns(x, cuts=cuts, components=any(form.components for form in candidates.values()))
        course = Annealed(rate, share=share)
        table = TrainingRows(np.asarray(x, np.float64), y, self._seed, self._budget)
        self._background = table.x[reasons.background(len(x))]
        if choice.forms == (forms.TREES,):
            table.grow()

        def learn(name: str, rows: slice | np.ndarray, steps: int, *watches: budget.Deadline) -> cutting.Learned:
            form = candidates[name]
            x = table.x
            read = whole.only(form.steps, form.components, form.wide, table.trees if form.trees else ())
            if isinstance(rows, np.ndarray):  # others are held out
                read = of_rows(read, x, rows, found if form.steps else None)
            inputs, layers = read.num_inputs, () if form.linear else hidden
            prior = network.read_prior(self.prior, len(x), min(whole.num_columns, inputs))
            recipe = network.NetworkRecipe(layers, activation, prior, likelihood, inputs, num_outputs, form.wide)
            return self._learn(read, recipe, x[rows], y[rows], course, steps, len(x), *watches)

        with held_back() as said:
            return Tried(choosing.choose(self, choice, table, learn, num_steps), table, learn, num_steps, said)

    def _train(self, tried: Tried) -> None:
        """Fit the chosen forms to all rows, cut, and read off what is left; sets the fitted attributes."""
        (chosen, held, self._conformity, _, behind), table, learn, num_steps, said, _ = tried
        measures.warn_of_held_out(behind, len(table.y))
        with held_back() as later:
            fits = self._fitted_to_all(chosen, table, learn, num_steps)
        said += later
        self.form_, self.temperature_ = chosen[0].form, chosen[0].temperature
        self.weights_ = {form.form: form.weight for form in chosen}
        by_folds = {form.form: [self._settled(member, form) for member in form.members] for form in chosen}
        self._law = mixture.of_fits(self.weights_, fits, by_folds)
        self._hold()
        if said and self._conformity is None:
            measures.warn_of_fitted(self, table.x, table.y, said[-1])
        self._folds = mixture.of_each_fold(self.weights_, by_folds)
        if self._folds:
            self._calibrate([(table.x[rows], table.y[rows]) for rows in held])

    def _fitted_to_all(
        self, chosen: Sequence[choosing.Chosen], table: TrainingRows, learn: choosing.Learn, num_steps: int
    ) -> dict[str, mixture.Member]:
        """Each form's fit to all rows, the first one's in any case, others' if there is time; ends the estimator's budget."""
        first, *others = chosen
        learned = {first.form: self._budget.last(functools.partial(learn, first.form, slice(None)), num_steps)}
        self.losses_ = learned[first.form].losses
        self.n_iter_ = len(self.losses_)
        for form in others:
            if (found := self._budget.if_time(functools.partial(learn, form.form, slice(None)), num_steps)) is not None:
                learned[form.form] = found
        if missing := tuple(form.form for form in others if form.form not in learned):
            self._budget.left_out["fits"] = missing
        fits = {
            form.form: self._settled(self._cut(learned[form.form], table.x, table.y, form.rung), form)
            for form in chosen
            if form.form in learned
        }
        self.left_out_ = self._budget.left_out
        del self._budget
        return fits

    def _learn(
        self,
        columns: Columns,
        recipe: network.NetworkRecipe,
        x: np.ndarray,
        y: np.ndarray,
        course: Annealed,
        num_steps: int,
        like: int,
        *watches: budget.Deadline,
    ) -> cutting.Learned:
        """One fit to these rows. ``like``: rows of the largest such fit."""
        fit = fit_svi(
            self._key(),
            network.build(recipe),
            placed(np.asarray(columns.apply(x)), y, self.batch_size, recipe.prior, like),
            num_steps=num_steps,
            batch_size=None if self.batch_size is None else min(self.batch_size, len(x)),
            course=course,
            on_interrupt="raise",  # searches and cross-validation are loops of fits
            progress=bool(self.verbose),
            callbacks=watches,
            callback_every=budget.EVERY if watches else None,
        )
        for watch in watches:
            watch.check()
        rungs = cutting.rungs(self.method, self.density, network.build(recipe), fit.params)
        return cutting.Learned(columns, recipe, fit.params, rungs, fit.losses)

    def _cut(self, learned: cutting.Learned, x: np.ndarray, y: np.ndarray, rung: int) -> mixture.Member:
        """What was learned of these rows, cut, and what its likelihood learns of noise settled on them."""
        bnn, columns, trained = network.build(learned.network), learned.columns, learned.params
        key = stream(self._key(), OfAnEstimator.CUTTING)
        params, mask, density = cutting.cut(key, bnn, trained, learned.rungs[rung])
        if columns.silent.any() and self.density is None and learned.rungs[0] is not None:
            params, mask, density = cutting.cut_silent(bnn, params, mask, columns.silent)
        params = params if learned.rungs[0] is None else cutting.keep_sure(bnn, params)
        inputs = cutting.describe_inputs(bnn, trained, mask, columns, self._reading)
        # NumPy arrays: they can be pickled, and opened where there is no such device.
        params, mask = jax.tree.map(np.asarray, dict(params)), jax.tree.map(np.asarray, dict(mask))
        member = mixture.Member(columns, learned.network, params, mask, inputs, density)
        return member._replace(params=noise.settled(self._predicting_by(member), x, y))

    def _stacks(self, choice: forms.FormChoice) -> bool:
        """Whether the law of y is to be a mixture: of a given density, or a given form, one network is asked for."""
        return self.stacking and self.density is None and len(choice.forms) > 1

    def _predicting_by(self, member: mixture.Member) -> Any:
        """The estimator with one network alone."""
        found = copy.copy(self)
        found._law = mixture.Mixture((member,), (1.0,))
        found._hold()
        return found

    def _hold(self) -> None:
        """Set the network and its parameters: a single one's, or ``num_samples`` networks drawn of several."""
        law = self._law
        self._inputs, self.density_ = law.inputs, law.density
        self._columns, self._network = law.columns, law.network
        self.params_, self.mask_ = law.held(stream(self._key(), OfAnEstimator.MEMBERS), self.num_samples)
        self.inclusion_probabilities_, self.feature_importances_ = self._inputs.inclusion, self._inputs.importance
        self.used_features_ = self._inputs.used

    def _of_parts(self, part: np.ndarray) -> np.ndarray:
        """A part of the uncertainty in the units of the estimator."""
        return part

    def _key(self) -> jax.Array:
        check_process()
        with jax.transfer_guard_host_to_device("allow"):  # of a number of the host
            return jax.random.key(self._seed)

    def inputs_of(self, X: ArrayLike | Any) -> np.ndarray:
        """What ``bnn_`` reads of rows of X, float32 (rows, inputs): standardised columns, steps, what trees say of new rows."""
        return self._columns.apply(self._rows(X))  # type: ignore[return-value]

    def _judged(self, x: np.ndarray, y: np.ndarray) -> choosing.Judged:
        """What rows say of the networks that the estimator has; y as trained on."""
        raise NotImplementedError

    def _measured(self, form: str, x: np.ndarray, y: np.ndarray, kept: np.ndarray, held: np.ndarray) -> np.ndarray | None:
        """What quick models like a form foresee the held rows with, nats; y as trained on. None: there is none, or no match."""
        if form not in measures.MEASURES or not self._is_comparable(y):
            return None
        x = x[:, : self._columns.num_columns]
        return measures.MEASURES[form](self._seed, x[kept], y[kept], x[held], y[held])

    def _is_comparable(self, y: np.ndarray) -> bool:
        """Whether such models' densities are of the same thing."""
        raise NotImplementedError

    def _beside_trees(self, y: np.ndarray, foreseen: np.ndarray, said: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """What was missed of held-out rows so ``foreseen``, (rows, ...), and how far from that is what trees have ``said``."""
        raise NotImplementedError

    def _wrong(self, y: np.ndarray, foreseen: np.ndarray) -> np.ndarray:
        """How wrong rows were foreseen, see `conformal`; ``foreseen`` as of `_judged`."""
        raise NotImplementedError

    def _tempered(self, y: np.ndarray, foreseen: np.ndarray) -> tuple[float, np.ndarray]:
        """log T by which what several networks foresee together is too sure, and what they foresee with it; of classes."""
        raise NotImplementedError

    def _calibrate(self, held: Sequence[tuple[np.ndarray, np.ndarray]]) -> None:
        """Set how wrong the rows that each fold held out are foreseen by its networks as they have become, where that is not
        what was judged."""

    def _settled(self, member: mixture.Member, chosen: choosing.Chosen) -> mixture.Member:
        """A network as held-out rows ask for it beside its form and its cut."""
        return member
