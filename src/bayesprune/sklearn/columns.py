"""The inputs that a network has of a table: its columns on one scale, and for some forms steps of numbers and components."""

from types import ModuleType
from typing import Any, NamedTuple

import jax
import numpy as np
from jaxtyping import Bool, Float64, Int64, Shaped

from bayesprune.core.numbers import is_constant
from bayesprune.core.types import Array
from bayesprune.data.scaling import Scaling, fit_scaling, silencing
from bayesprune.sklearn.bends import NONE, Bends, fit_bends
from bayesprune.sklearn.thresholds import FoundByRows, Table, Thresholds
from bayesprune.sklearn.trees import Trees

FAR = 3.0  # deviations from which on a number counts less and less; what is nearer stays: to bend it cost .04 to .08 nats
LEAST_SPREAD = 0.1  # of a step: one that hardly any row takes is not blown up to unit size
MOST, LEAST_SHARE = 24, 1e-7  # components, and the variance of the least of them as a share of the first one's
ROUND = 32  # inputs of several networks together are a multiple of it
COLLINEAR = 1e-3  # the same share, below which columns are nearly copies of others


class Columns(NamedTuple):
    """A map from rows to what the network reads, fitted to the training rows.

    ``scaling``: of the table's columns, a constant one's scale infinite. ``clipped``: whether far numbers are drawn in.
    ``at``, ``owner``: of each step its place, in the column's units, and its column. ``steps``: their scaling.
    ``turn``: (columns, components), from standardised columns to components of unit size; ``components``: their scaling.
    ``outnumber``: whether there are as many columns as rows, or more; ``alone``: the columns themselves are not read.
    ``bends``: of columns that reach far, a second input each. ``trees``: what they say being inputs.
    """

    scaling: Scaling
    clipped: bool
    at: Float64[np.ndarray, " steps"]
    owner: Int64[np.ndarray, " steps"]
    steps: Scaling
    turn: Float64[np.ndarray, "columns components"]
    components: Scaling
    outnumber: bool = False
    alone: bool = False
    bends: Bends = NONE
    trees: tuple[Trees, ...] = ()

    @property
    def num_columns(self) -> int:
        """Of the table."""
        return len(self.turn)

    @property
    def num_inputs(self) -> int:
        """What the network reads of a row."""
        beside = sum(trees.num_outputs for trees in self.trees)
        return (0 if self.alone else len(self.turn)) + len(self.bends.owner) + len(self.owner) + self.turn.shape[1] + beside

    @property
    def silent(self) -> Bool[np.ndarray, " inputs"]:
        """Inputs that are zero in every row: constant columns, and what the form leaves out."""
        first = [] if self.alone else [np.isinf(np.ravel(self.scaling.scale)), np.zeros(len(self.bends.owner), bool)]
        scalings = [self.steps, self.components, *(trees.scaling for trees in self.trees)]
        return np.concatenate([*first, *(np.isinf(np.ravel(part.scale)) for part in scalings)])

    def of_column(self, values: Shaped[np.ndarray, " inputs"], join: np.ufunc) -> Shaped[np.ndarray, " columns"]:
        """One value for each of the table's columns, joined from those of all that the network reads of it.

        A component is read of every column that is not constant, trees of those that they cut: importances, which are joined
        as logarithms, by what the cuts gain. Inputs that are silent count for nothing.
        """
        nothing = -np.inf if join is np.logaddexp else np.zeros((), values.dtype)
        values = np.where(self.silent, nothing, values).astype(values.dtype)
        columns = 0 if self.alone else len(self.turn)
        joined = np.full(len(self.turn), nothing, values.dtype) if self.alone else values[:columns]
        owner = np.concatenate([self.bends.owner, self.owner])
        join.at(joined, owner, values[columns : columns + len(owner)])
        varies = ~np.isinf(np.ravel(self.scaling.scale))
        components = columns + len(owner) + self.turn.shape[1]
        for value in values[columns + len(owner) : components]:
            joined[varies] = join(joined[varies], value)
        for trees, said in zip(self.trees, self._of_trees(values[components:]), strict=True):
            cut = np.flatnonzero(trees.shares)
            for value in said:
                joined[cut] = join(joined[cut], value + np.log(trees.shares[cut]) if join is np.logaddexp else value)
        return joined

    def _of_trees(self, values: Any, axis: int = 0) -> list[np.ndarray]:
        """Values of what trees say, split: a part for each of ``trees``."""
        return np.split(values, np.cumsum([trees.num_outputs for trees in self.trees]), axis)[:-1]

    def only(self, steps: bool, components: bool, clipped: bool, trees: tuple[Trees, ...] = ()) -> "Columns":
        """The map of one form: the columns alone, or all inputs, those that the form does not use being zero.

        A network of the columns alone takes at most half of the time of a step. All other forms have equally many inputs, and
        so share one compiled program. Where columns outnumber rows, components replace them: of 1,100 bits in 165 rows each
        says next to nothing, and a prior for so many inputs would leave the components out with them.

        ``trees``: what these say, and nothing else. Of rows that are alike in X, trees that had not seen one are the mean
        of the others, which is the lower the higher its own target is: who reads X beside them learns the target from that.
        """
        none = Scaling(np.zeros(0), np.zeros(0))
        if trees:
            bare = self.only(steps=False, components=False, clipped=False)
            return bare._replace(alone=True, bends=NONE, trees=trees)
        if components and self.outnumber and self.turn.shape[1]:
            return self._replace(clipped=clipped, at=self.at[:0], owner=self.owner[:0], steps=none, alone=True)
        if not (steps or components):
            return self._replace(
                clipped=clipped, at=self.at[:0], owner=self.owner[:0], steps=none, turn=self.turn[:, :0], components=none
            )
        kept = {"steps": steps, "components": components}
        dropped = {name: getattr(self, name) for name, wanted in kept.items() if not wanted}
        silent = {name: old._replace(scale=np.full(np.shape(old.loc), np.inf)) for name, old in dropped.items()}
        return self._replace(clipped=clipped, **silent)

    def stepped(self, cuts: Thresholds, x: Table) -> "Columns":
        """The same with steps at other thresholds, as many, scaled by these rows."""
        return self._replace(at=cuts.at, owner=cuts.column, steps=_spread(x, cuts.at, cuts.column))

    def apply(self, x: Shaped[Array, "rows columns"], xp: ModuleType = np) -> Shaped[Array, "rows inputs"]:
        """What the network reads of such rows, float32: z, then bends, steps, components and what trees say.

        z is the standardised column, left out where others stand ``alone``; ``clipped`` it is sign(z) (3 + 3 tanh((|z| - 3)
        / 3)) where |z| > 3: nothing is beyond 6. A step at a of a column is 1 where v > a and else 0, standardised. Components
        are drawn in as z is. ``xp``: NumPy, or `jax.numpy` for arrays of JAX, which stay in their own precision. Rows that
        trees were grown on have what those that had not seen them say as further columns, see `trees.Grown`.
        """
        x, unseen = x[:, : self.num_columns], x[:, self.num_columns :]
        z = _scaled(x, self.scaling, xp)
        parts = [] if self.alone else [_drawn_in(z, xp) if self.clipped else z]
        parts += [bent.astype(z.dtype) for bent in self.bends.apply(x, xp)]
        if len(self.owner):
            parts.append(_scaled(_steps(x, self.at, self.owner, xp), self.steps, xp))
        if self.turn.shape[1]:
            whole = _standardised(x, self.scaling) if xp is np else z
            parts.append(_drawn_in(_scaled(whole @ xp.asarray(self.turn, whole.dtype), self.components, xp), xp))
        for place, trees in enumerate(self.trees):
            said = self._of_trees(unseen, axis=1)[place] if unseen.shape[1] else trees.says(x, xp)
            parts.append(_scaled(said, trees.scaling, xp))
        return xp.concatenate(parts, axis=1)


class JointColumns(NamedTuple):
    """What a network reads that stands for several: of each of their maps what any of them reads.

    ``maps``: different ones. ``kept``: of each, places of inputs. ``places``: of each network's inputs, where they are among
    these, -1 for one that is not read. ``spare``: further inputs, zero: their number decides what is compiled, and fits to
    other rows of a table hardly ever read exactly as many inputs.
    """

    maps: tuple[Columns, ...]
    kept: tuple[Int64[np.ndarray, " _"], ...]
    places: tuple[Int64[np.ndarray, " _"], ...]
    spare: int

    @property
    def num_columns(self) -> int:
        """Of the table."""
        return self.maps[0].num_columns

    @property
    def num_inputs(self) -> int:
        """What the network reads of a row."""
        return sum(len(kept) for kept in self.kept) + self.spare

    def of_column(self, values: Shaped[np.ndarray, " inputs"], join: np.ufunc) -> Shaped[np.ndarray, " columns"]:
        """As of `Columns`."""
        *parts, _ = np.split(values, np.cumsum([len(kept) for kept in self.kept]))
        found = []
        for columns, kept, some in zip(self.maps, self.kept, parts, strict=True):
            whole = np.full(columns.num_inputs, -np.inf if join is np.logaddexp else 0, values.dtype)
            whole[kept] = some
            found.append(columns.of_column(whole, join))
        return join.reduce(found)  # type: ignore[no-any-return]

    def apply(self, x: Shaped[Array, "rows columns"], xp: ModuleType = np) -> Shaped[Array, "rows inputs"]:
        """As of `Columns`."""
        read = [columns.apply(x, xp)[:, kept] for columns, kept in zip(self.maps, self.kept, strict=True)]
        return xp.concatenate([*read, xp.zeros((len(x), self.spare), read[0].dtype)], axis=1)


def joined_columns(of: list[Columns], read: list[Bool[np.ndarray, " _"]]) -> JointColumns:
    """The maps of several networks as one, each input that is read once; ``read``: which inputs a network reads.

    There are as many inputs as a multiple of 32 has, and some in any case: a network that reads nothing is none.
    """
    maps: list[Columns] = []
    for columns in of:
        if not any(_is_same(columns, other) for other in maps):
            maps.append(columns)
    which = [next(i for i, other in enumerate(maps) if _is_same(columns, other)) for columns in of]
    alive = [np.any([some for some, i in zip(read, which, strict=True) if i == place], axis=0) for place in range(len(maps))]
    firsts = np.cumsum([0, *(some.sum() for some in alive)])
    places = [np.where(some, firsts[i] + np.cumsum(some) - 1, -1) for i, some in enumerate(alive)]
    kept, number = tuple(np.flatnonzero(some) for some in alive), int(firsts[-1])
    return JointColumns(tuple(maps), kept, tuple(places[i] for i in which), max(-number % ROUND, ROUND * (number == 0)))


def _is_same(one: Columns, other: Columns) -> bool:
    """Whether two maps give the same inputs."""
    parts, others = jax.tree.leaves(one), jax.tree.leaves(other)
    return len(parts) == len(others) and all(a is b or np.array_equal(a, b) for a, b in zip(parts, others, strict=True))


def fit_columns(x: Table, cuts: Thresholds | None = None, components: bool = False) -> Columns:
    """The map for these training rows, with steps at thresholds, and components. Errors as of `fit_scaling`.

    >>> cuts = Thresholds(np.array([0]), np.array([1.5]))
    >>> columns = fit_columns(np.array([[0.0], [1.0], [2.0], [3.0]]), cuts=cuts)
    >>> columns.apply(np.array([[1.5], [2.0]])).tolist()
    [[0.0, -1.0], [0.4472135901451111, 1.0]]

    Source: a smooth clip helps nets as in Holzmüller, Grinsztajn & Steinwart (2024), section 3; theirs bends what is near, too.
    Numbers by what side of learned thresholds they lie on: Gorishniy, Rubachev & Babenko (2022), section 3.2, with steps for
    pieces. Components of unit size: what collinear columns differ in is small in each of them, and large in one of those.
    """
    scaling = silencing(x)  # of a constant column a network has learned nothing, and its weights there are as they were drawn
    at, owner = (np.zeros(0), np.zeros(0, np.int64)) if cuts is None else (cuts.at, cuts.column)
    turn = _turn(x, scaling) if components else np.zeros((x.shape[1], 0))
    unit = Scaling(np.zeros(turn.shape[1]), np.ones(turn.shape[1]))
    outnumber = x.shape[1] >= len(x)
    bends = NONE if outnumber else fit_bends(x)
    return Columns(scaling, False, at, owner, _spread(x, at, owner), turn, unit, outnumber, bends=bends)


def of_rows(columns: Columns, x: Table, rows: Int64[np.ndarray, " kept"], found: FoundByRows | None) -> Columns:
    """The map as these rows alone have it, in what others could tell by: thresholds, and components of more columns than rows.

    Components of so few rows follow each of them: they would be of unit size for those held out, and are not for new ones.
    """
    x = x[:, : columns.num_columns]
    if columns.alone and not columns.trees:
        return fit_columns(x[rows], components=True).only(steps=False, components=True, clipped=columns.clipped)
    return columns if found is None else columns.stepped(found.by(rows), x[rows])


def is_collinear(x: Table) -> bool:
    """Whether columns are nearly linear functions of others: a direction of the standardised ones hardly varies."""
    varying = np.asarray(x)[:, ~is_constant(x)]
    if not 1 < varying.shape[1] < len(varying):  # of fewer rows than columns every one is
        return varying.shape[1] > 1
    variances = _variances(varying, fit_scaling(varying))[0]
    return bool(variances[0] < COLLINEAR * variances[-1])


def _variances(x: np.ndarray, scaling: Scaling) -> tuple[np.ndarray, np.ndarray]:
    """Of the components, the least first, and their directions, (columns, components): no more than there are rows."""
    z = _standardised(x, scaling)
    if z.shape[1] <= len(z):
        return np.linalg.eigh(z.T @ z / len(z))  # type: ignore[no-any-return]
    _, sizes, directions = np.linalg.svd(z, full_matrices=False)  # a square of ten thousand columns would not fit
    return np.square(sizes[::-1]) / len(z), directions[::-1].T


def _turn(x: np.ndarray, scaling: Scaling) -> Float64[np.ndarray, "columns components"]:
    variances, directions = _variances(x, scaling)
    order = np.argsort(-variances)[:MOST]
    order = order[variances[order] > LEAST_SHARE * variances[-1]]
    return directions[:, order] / np.sqrt(variances[order])


def _standardised(x: Array, scaling: Scaling) -> Float64[np.ndarray, "rows columns"]:
    """In float64: components of small variance are differences of large numbers."""
    return (np.asarray(x, np.float64) - scaling.loc) / scaling.scale


def _scaled(values: Any, scaling: Scaling, xp: ModuleType) -> Any:
    if xp is np:
        return scaling.apply(values)
    return (values - xp.asarray(scaling.loc, values.dtype)) * xp.asarray(1.0 / np.asarray(scaling.scale), values.dtype)


def _drawn_in(z: Array, xp: ModuleType) -> Any:
    """sign(z) (3 + 3 tanh((|z| - 3) / 3)) where |z| > 3, by NumPy in float64."""
    wide = z.astype(np.float64) if xp is np else z
    beyond = xp.maximum(xp.abs(wide) - FAR, 0.0)
    return xp.where(beyond > 0, xp.sign(wide) * (FAR + FAR * xp.tanh(beyond / FAR)), wide).astype(z.dtype)


def _spread(x: np.ndarray, at: np.ndarray, owner: np.ndarray) -> Scaling:
    """Of steps; one that is never taken is silent."""
    steps = _steps(x, at, owner)
    return Scaling(steps.mean(axis=0), np.where(np.isinf(at), np.inf, np.maximum(steps.std(axis=0), LEAST_SPREAD)))


def _steps(x: Array, at: np.ndarray, owner: np.ndarray, xp: ModuleType = np) -> Any:
    wide = np.float64 if xp is np else x.dtype
    return (xp.asarray(x, wide)[:, owner] > xp.asarray(at, wide)).astype(wide)
