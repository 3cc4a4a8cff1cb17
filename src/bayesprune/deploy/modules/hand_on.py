"""A compact network as a JAX function, an Equinox or a PyTorch module, to train it further."""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np

from bayesprune.core.types import ArrayTree
from bayesprune.deploy.program.ops import OpProgram
from bayesprune.deploy.program.packing import Packing
from bayesprune.deploy.program.run import run
from bayesprune.deploy.program.weights import Law, check_one

if TYPE_CHECKING:
    import torch

    import bayesprune.deploy.modules.to_equinox


class HandedOn:
    """The network at the posterior mean, without the mean of its likelihood, for training that goes on elsewhere."""

    program: OpProgram
    law: Law
    inputs: Packing
    outputs: Packing

    def net(self) -> tuple[Callable[[Mapping[str, Any], Any], jax.Array], dict[str, Any]]:
        """``(apply, params)``: a JAX function of (params, rows) that gives the network's outputs, and its smaller parameters.

        Of ``keep="posterior"`` they are the means of the weights that are left, by site; of ``keep="mean"`` the arrays of the
        program, by number, all of them: a frozen base too, and numbers that never were parameters. Train them on as those of
        any other function; a weight that is dead within an array is zero, and `keep_zeros` around your optimiser keeps it so.
        Of several inputs, and outputs, it takes, and gives, the tree. Raises `ValueError` for several stored networks, as do
        the modules.
        """
        of_sites = bool(self.program.weights)

        def apply(params: Mapping[str, Any], x: ArrayTree) -> Any:
            own = {} if of_sites else {int(n): value for n, value in params.items()}
            rows = self.inputs.together(x)
            return self.outputs.apart(run(self.program, params if of_sites else {}, rows, {**self.program.constants, **own}))

        return apply, jax.tree.map(jnp.asarray, self.trainable())

    def trainable(self) -> dict[str, np.ndarray]:
        """The arrays that `net` and the modules train: of weights by site, else of the program by number."""
        check_one(self.law, "a network to train on")
        if self.program.weights:
            return dict(self.law.mean())
        return {str(n): np.asarray(c) for n, c in self.program.constants.items() if c.dtype.kind == "f" and c.ndim}

    def to_equinox(self) -> "bayesprune.deploy.modules.to_equinox.EquinoxModule":
        """An Equinox module of one row, ``jax.vmap(module)(x)`` of many, whose parameters are the weights that are not zero.

        ``module.values`` has them, {name: (number of them,)}; `equinox.filter_grad` and optax take the module as any other, and
        no step can bring a zero back, for there is none.

        Raises:
            ImportError: Equinox is not installed.

        Example:
            >>> import bayesprune as bp
            >>> bnn = bp.BNN(bp.nets.MLP((4,), 1), prior=bp.priors.Flat(), likelihood=bp.likelihoods.Normal(), input_shape=(2,))
            >>> data = bp.Dataset(np.eye(2, dtype=np.float32), np.ones(2, np.float32))
            >>> fit = bp.fit_svi(jax.random.key(0), bnn, data, num_steps=2, progress=False)
            >>> module = bp.compact(bnn, fit.params).to_equinox()
            >>> jax.vmap(module)(data.x).shape
            (2, 1)
        """
        try:
            from bayesprune.deploy.modules.to_equinox import EquinoxModule
        except ImportError as error:
            raise ImportError("Equinox is not installed: pip install 'bayesprune[equinox]'.") from error
        return EquinoxModule(self.net()[0], self.trainable())

    def to_torch(self) -> "torch.nn.Module":
        """A PyTorch module of rows, (rows, ...) -> (rows, outputs), whose parameters are the weights that are not zero.

        It runs without JAX; weight decay, momentum and fine-tuning cannot bring a zero back, for there is none. Rows are
        float32, or what the network takes. It is no faster than a dense network: arrays are filled in at each call.

        Raises:
            ImportError: PyTorch is not installed.
            ValueError: the network takes or gives several arrays, or has an operation that only JAX knows: train `net`.

        Source: Paszke et al. (2019) for `torch.nn.Module`.
        """
        try:
            from bayesprune.deploy.modules.to_torch import module
        except ImportError as error:
            raise ImportError("PyTorch is not installed: pip install torch.") from error
        return module(self.program, self.inputs.is_one and self.outputs.is_one, self.trainable())
