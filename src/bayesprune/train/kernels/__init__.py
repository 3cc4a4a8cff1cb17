"""Kernels, one file each: a new file is found by its name, and nothing else needs to know of it.

``bp.kernels.Optax`` is the class of that name in any file of this folder; `names` lists what there is.
"""

from typing import TYPE_CHECKING, Any

from bayesprune.core.folder import Folder
from bayesprune.train.kernel import Kernel

_FOLDER = Folder(__name__, "kernel", lambda value: issubclass(value, Kernel))
find, names, get = _FOLDER.find, _FOLDER.names, _FOLDER.get

# Editors and type checkers run nothing, and see the classes by these imports, which no program makes. A test compares them with
# what `find` finds, and names the line of a new file.
if TYPE_CHECKING:
    from bayesprune.train.kernels.blackjax import BlackJAX as BlackJAX
    from bayesprune.train.kernels.ivon import IVON as IVON
    from bayesprune.train.kernels.lookahead import Lookahead as Lookahead
    from bayesprune.train.kernels.optimizer import Optax as Optax
    from bayesprune.train.kernels.sghmc import SGHMC as SGHMC
    from bayesprune.train.kernels.sghmc_spl import SGHMCSPL as SGHMCSPL
    from bayesprune.train.kernels.sgld import SGLD as SGLD
else:

    def __getattr__(name: str) -> Any:
        return _FOLDER.attribute(name)


def __dir__() -> list[str]:
    return sorted(("find", "get", "names", *find()))
