"""Where a random key goes: first where it is required, by its name alone where it is optional. One rule for all calls."""

import importlib
import inspect
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any

import pytest

import bayesprune as bp
from tests.house import ROOMS

FACES = [bp, *(importlib.import_module(f"bayesprune.{room}") for room in sorted({*ROOMS, "train.kernels"} - {"bayesprune"}))]


def is_ours(thing: Any) -> bool:
    return str(getattr(thing, "__module__", "")).startswith("bayesprune")


def names_of(module: ModuleType) -> list[str]:
    """Public names of a module, found when asked for or not."""
    return list(getattr(module, "__all__", None) or [name for name in dir(module) if not name.startswith("_")])


def public() -> Iterator[tuple[str, Any]]:
    """Functions and classes that the faces show, with those of the modules among them."""
    modules = {module.__name__: module for module in FACES}
    for value in [getattr(face, name) for face in FACES for name in getattr(face, "__all__", ())]:
        if inspect.ismodule(value):
            modules[value.__name__] = value
    for module in modules.values():
        for name in names_of(module):
            if is_ours(value := getattr(module, name)) and callable(value):
                yield f"{module.__name__}.{name}", value


def calls(name: str, thing: Any) -> Iterator[tuple[str, Callable[..., Any], bool]]:
    """A function; a class as it is called, and its public methods, of which the first argument is the object."""
    if not inspect.isclass(thing):
        yield name, thing, False
        return
    if inspect.isfunction(thing.__init__):
        yield name, thing, False
    for attribute in dir(thing):
        own = inspect.getattr_static(thing, attribute)
        if (attribute.startswith("_") and attribute != "__call__") or not is_ours(getattr(own, "__func__", own)):
            continue
        if inspect.isfunction(own) or isinstance(own, classmethod | staticmethod):
            yield f"{name}.{attribute}", getattr(thing, attribute), inspect.isfunction(own)


def misplaced_keys(call: Callable[..., Any], is_method: bool = False) -> list[str]:
    """Keys of a call that are required and not first, or optional and taken by their place."""
    parameters = list(inspect.signature(call).parameters.values())[is_method:]
    bad = []
    for place, parameter in enumerate(parameters):
        if parameter.name != "key" and not parameter.name.endswith("_key"):
            continue
        by_name = parameter.kind is parameter.KEYWORD_ONLY
        if parameter.default is parameter.empty and (by_name or place > 0):
            bad.append(f"{parameter.name} is required, and not the first argument")
        elif parameter.default is not parameter.empty and not by_name:
            bad.append(f"{parameter.name} is optional, and not keyword-only")
    return bad


def test_a_required_key_is_first_and_an_optional_one_keyword_only() -> None:
    found = {name: call for face, thing in public() for name, call in ((n, (c, m)) for n, c, m in calls(face, thing))}
    assert {"bayesprune.predict", "bayesprune.Compact.predict", "bayesprune.methods.BMR.step"} <= set(found)
    assert {"bayesprune.train.kernels.SGHMC.step", "bayesprune.deploy.MomentEngine.error"} <= set(found)
    assert len([name for name in found if "key" in str(inspect.signature(found[name][0]))]) > 50
    assert {name: bad for name, call in found.items() if (bad := misplaced_keys(*call))} == {}


def test_a_key_out_of_place_would_be_found() -> None:
    assert misplaced_keys(lambda rng_key, x, *, other_key=None: None) == []
    assert misplaced_keys(lambda self, rng_key, x: None, is_method=True) == []
    assert misplaced_keys(lambda x, rng_key: None) == ["rng_key is required, and not the first argument"]
    assert misplaced_keys(lambda x, *, rng_key: None) == ["rng_key is required, and not the first argument"]
    assert misplaced_keys(lambda x, rng_key=None: None) == ["rng_key is optional, and not keyword-only"]
    assert misplaced_keys(lambda rng_key=None: None) == ["rng_key is optional, and not keyword-only"]


@pytest.mark.parametrize("call", ["predict", "predict_draws"])
def test_a_network_by_itself_keeps_the_rule_too(call: str) -> None:
    from bayesprune.core.types import Standalone

    assert misplaced_keys(getattr(Standalone, call), is_method=True) == []
