"""Pruning methods, one file each: a new file is found by its name, and nothing else needs to know of it.

``bp.methods.BMR`` is the class of that name in any file of this folder; `names` lists what there is.
"""

from typing import TYPE_CHECKING, Any

from bayesprune.core.folder import Folder

# Sparsifiers are the frozen dataclasses that have ``init`` and ``step``.
_FOLDER = Folder(__name__, "method", lambda value: hasattr(value, "init") and hasattr(value, "step"))
find, names, get = _FOLDER.find, _FOLDER.names, _FOLDER.get

# Editors and type checkers run nothing, and see the classes by these imports, which no program makes. A test compares them with
# what `find` finds, and names the line of a new file.
if TYPE_CHECKING:
    from bayesprune.methods.bmr import BMR as BMR
    from bayesprune.methods.bmrs import BMRS as BMRS
    from bayesprune.methods.cut import Cut as Cut
    from bayesprune.methods.magnitude import Magnitude as Magnitude
    from bayesprune.methods.mbnn import MBNN as MBNN
    from bayesprune.methods.sbnn import SBNN as SBNN
    from bayesprune.methods.sbp import SBP as SBP
    from bayesprune.methods.sghmc_spl import SGHMCSPL as SGHMCSPL
    from bayesprune.methods.shrinkage import Shrinkage as Shrinkage
    from bayesprune.methods.snr import SNR as SNR
    from bayesprune.methods.ssvi import SSVI as SSVI
    from bayesprune.methods.svbnn import SVBNN as SVBNN
    from bayesprune.methods.widest_gap import WidestGap as WidestGap
else:

    def __getattr__(name: str) -> Any:
        return _FOLDER.attribute(name)


def __dir__() -> list[str]:
    return sorted(("find", "get", "names", *find()))
