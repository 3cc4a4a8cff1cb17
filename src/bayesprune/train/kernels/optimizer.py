"""An optax transformation as a kernel: gradient descent of any kind."""

from dataclasses import dataclass
from typing import Any, ClassVar

import jax
import optax

from bayesprune.core.others import as_written
from bayesprune.train.kernel import Moments, Params


@dataclass(frozen=True)
class Optax:
    """params + update(gradient), by any optax transformation. `fit_svi` wraps what it is given by itself.

    Its moments are the arrays that lie under a parameter's name in the transformation's state, whatever stands around them:
    optax's own walk over parameters fails at a `multi_transform` whose labels are a function of their names.

    >>> import jax.numpy as jnp
    >>> kernel = Optax(optax.sgd(0.1, momentum=0.9))
    >>> {kind: list(arrays) for kind, arrays in kernel.moments(kernel.init({"w": jnp.zeros(3)})).items()}
    {'[0].trace[*]': ['w']}
    """

    optimizer: optax.GradientTransformation
    per_row: ClassVar[bool] = True

    def init(self, params: Params) -> Any:
        return self.optimizer.init(params)

    def step(self, rng_key: jax.Array, gradient: Params, params: Params, state: Any) -> tuple[Params, Any]:
        with as_written():  # optax raises floats to integer powers
            updates, state = self.optimizer.update(gradient, state, params)
            return optax.apply_updates(params, updates), state

    def moments(self, state: Any) -> Moments:
        kinds: dict[str, dict[str, jax.Array]] = {}
        for path, leaf in jax.tree_util.tree_flatten_with_path(state)[0]:
            kind, name = _place(path)
            if name is not None:
                kinds.setdefault(kind, {})[name] = leaf
        return kinds

    def with_moments(self, state: Any, moments: Moments) -> Any:
        def put(path: tuple[Any, ...], leaf: Any) -> Any:
            kind, name = _place(path)
            return leaf if name is None else moments[kind][name]

        return jax.tree_util.tree_map_with_path(put, state)


def _place(path: tuple[Any, ...]) -> tuple[str, str | None]:
    """The last name on the way to a leaf, and the way without it; None: no name."""
    last = max((i for i, step in enumerate(path) if isinstance(step, jax.tree_util.DictKey)), default=None)
    if last is None:
        return jax.tree_util.keystr(path), None
    keystr = jax.tree_util.keystr
    return f"{keystr(path[:last])}[*]{keystr(path[last + 1 :])}", str(path[last].key)
