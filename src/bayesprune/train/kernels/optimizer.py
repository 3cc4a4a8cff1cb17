"""An optax transformation as a kernel: gradient descent of any kind."""

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import jax
import optax
from jax.typing import ArrayLike
from optax.contrib import ScheduleFreeState

from bayesprune.core.tracing import as_written
from bayesprune.core.trees import of_kind
from bayesprune.core.types import PyTree
from bayesprune.train.kernel import Moments, Params


@dataclass(frozen=True)
class Optax:
    """params + update(gradient), by any optax transformation. `fit_svi` wraps what it is given by itself.

    Those that ask for more get the loss per row of the minibatch (``value``), its gradient (``grad``), and the loss as a
    function of the parameters, of the same rows and the same draws (``value_fn``). Parameters for evaluation, where the
    transformation has such (`optax.contrib.schedule_free`), are those that a fit returns.

    Its moments are the arrays that lie under a parameter's name in the transformation's state, whatever is around them:
    optax's own walk over parameters fails at a `multi_transform` whose labels are a function of their names.

    >>> import jax.numpy as jnp
    >>> kernel = Optax(optax.sgd(0.1, momentum=0.9))
    >>> {kind: list(arrays) for kind, arrays in kernel.moments(kernel.init({"w": jnp.zeros(3)})).items()}
    {'[0].trace[*]': ['w']}
    """

    optimizer: optax.GradientTransformation
    per_row: ClassVar[bool] = True
    asks_value: ClassVar[bool] = True

    def init(self, params: Params) -> Any:
        return self.optimizer.init(params)

    def step(
        self,
        rng_key: jax.Array,
        gradient: Params,
        params: PyTree,
        state: PyTree,
        value: ArrayLike | None = None,
        value_fn: Callable[[Params], Any] | None = None,
    ) -> tuple[Any, Any]:
        update = optax.with_extra_args_support(self.optimizer).update
        more = _taken(update, {"value": value, "grad": gradient, "value_fn": value_fn})
        with as_written():  # optax raises floats to integer powers
            updates, state = update(gradient, state, params, **more)
            return optax.apply_updates(params, updates), state

    def evaluated(self, params: Params, state: PyTree) -> Params:
        """The parameters to evaluate by: of a schedule-free state x = (y - (1 - b1) z) / b1, else those that are trained."""
        for node in of_kind(state, ScheduleFreeState):
            # Of `optax.multi_transform` the state has placeholders for parameters that are others'.
            params = {n: _average(leaf, node.z[n], node.b1) if _has(node.z, n) else leaf for n, leaf in params.items()}
        return params

    def moments(self, state: PyTree) -> Moments:
        kinds: dict[str, dict[str, jax.Array]] = {}
        for path, leaf in jax.tree_util.tree_flatten_with_path(state)[0]:
            kind, name = _place(path)
            if name is not None:
                kinds.setdefault(kind, {})[name] = leaf
        return kinds

    def with_moments(self, state: PyTree, moments: Moments) -> Any:
        def put(path: tuple[Any, ...], leaf: PyTree) -> Any:
            kind, name = _place(path)
            return leaf if name is None else moments[kind][name]

        return jax.tree_util.tree_map_with_path(put, state)


def _taken(update: Callable[..., Any], more: dict[str, Any]) -> dict[str, Any]:
    """Those arguments that it takes: not all that take one more take any, as `optax.contrib.sam`."""
    parameters = inspect.signature(update).parameters
    takes_any = any(one.kind is one.VAR_KEYWORD for one in parameters.values())
    return more if takes_any else {name: value for name, value in more.items() if name in parameters}


def _has(tree: PyTree, name: str) -> bool:
    return name in tree and bool(jax.tree.leaves(tree[name]))


def _average(trained: jax.Array, z: jax.Array, b1: ArrayLike) -> Any:
    """x of y = b1 x + (1 - b1) z."""
    return jax.tree.map(lambda y, z: ((y - (1.0 - b1) * z) / b1).astype(y.dtype), trained, z)


def _place(path: tuple[Any, ...]) -> tuple[str, str | None]:
    """The last name on the way to a leaf, and the way without it; None: no name."""
    last = max((i for i, step in enumerate(path) if isinstance(step, jax.tree_util.DictKey)), default=None)
    if last is None:
        return jax.tree_util.keystr(path), None
    keystr = jax.tree_util.keystr
    return f"{keystr(path[:last])}[*]{keystr(path[last + 1 :])}", str(path[last].key)
