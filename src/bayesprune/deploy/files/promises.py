"""What a plan promises of its arrays, checked before anything is allocated: their shapes, and how many values are stored."""

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from bayesprune.deploy import reader

CODINGS = ("bits", "gaps")
STEPS = ("|i1", "<i2", "<i4")
LAWS = {"mean": (), "gaussian": ("loc", "scale"), "draws": ("draws",)}  # the arrays of a site under each law


def check(plan: Mapping[str, Any], streams: Mapping[str, np.ndarray]) -> dict[str, str]:
    """The kind of each array's numbers, see `rules`. Raises ``ValueError`` where the program, the plan and the streams differ.

    ``streams``: those of the file, whose sizes are believed, for they are there.
    """
    _check_shapes(plan)
    kinds, sizes = dict[str, str](), dict[str, int]()
    for name, how in plan["arrays"].items():
        places, stream, size = how["places"], streams[f"{name}.values"], math.prod(how["shape"])
        found = plan["places"][places] if places else {"count": size, "coding": CODINGS[0]}
        whole = type(found["count"]) is int and 0 <= found["count"] <= size and found["coding"] in CODINGS
        if not whole or sizes.setdefault(places or name, size) != size or (places and streams[places].dtype != np.uint8):
            raise ValueError(f"{name} claims {found['count']} values for {size} places")
        if not _is_coded(how, stream, found["count"], plan["arrays"]):
            raise ValueError(f"{name} is not coded as it says: {str(how['values'])[:60]}")
        kinds[name] = stream.dtype.kind.replace("u", "i") if how["values"] == "plain" else "f"
    if {*streams} != {*(f"{name}.values" for name in plan["arrays"]), *plan["places"]} or not {*plan["places"]} <= {*sizes}:
        raise ValueError("there are streams, or places, of no array")
    return kinds


def _check_shapes(plan: Mapping[str, Any]) -> None:
    """The arrays are those of the program, in the shapes that it has; of draws there is one more axis."""
    expected = {
        f"{prefix}/{number}": part["sizes"][str(number)]
        for prefix, part in (("constant", plan), ("head", plan["head"]))
        for number in part["constants"]
    }
    law = LAWS[plan["law"]["kind"]]
    expected |= {f"{kind}/{site}": plan["sizes"][str(number)] for site, number in plan["weights"].items() for kind in law}
    stated = {name: how["shape"] for name, how in plan["arrays"].items()}
    if any(type(n) is not int or not 0 <= n <= reader.LARGEST for shape in stated.values() for n in shape):
        raise ValueError("shapes that are none")
    if sum(map(math.prod, stated.values())) > reader.LARGEST:
        raise ValueError(f"the arrays claim more than {reader.LARGEST:,} numbers")
    own = {name: shape[name.startswith("draws/") :] for name, shape in stated.items()}
    for name in sorted({*own, *expected}):
        if own.get(name) != expected.get(name):
            raise ValueError(f"{name} has the shape {own.get(name)}, and the program has {expected.get(name)}")
    if len(numbers := {shape[0] for name, shape in stated.items() if name.startswith("draws/")}) > 1 or 0 in numbers:
        raise ValueError(f"draws of different numbers, or none: {', '.join(map(str, sorted(numbers)))}")


def _is_coded(how: Mapping[str, Any], stream: np.ndarray, count: int, arrays: Mapping[str, Any]) -> bool:
    """Whether a stream can hold so many values, as far as can be said before it is unpacked."""
    coding, step = how["values"], how["step"]
    if isinstance(coding, str):
        known = {"plain": map(np.dtype, reader.TYPES.values()), "bfloat16": (np.dtype("<u2"),)}.get(coding, ())
        return not step and stream.size == count and stream.dtype in known
    of = {"log": how, "scale": arrays.get(step, {})}.get(coding["of"], {})
    alike = bool(step) == (coding["of"] == "scale") and [of.get("shape"), of.get("places")] == [how["shape"], how["places"]]
    # A step comes before what is in steps of it.
    before = not step or list(arrays).index(step) < list(arrays).index(next(n for n, one in arrays.items() if one is how))
    return alike and before and coding["type"] in STEPS and stream.dtype == np.uint8
