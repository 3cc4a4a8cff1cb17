"""A citation is found through the module that defines the thing cited."""

import sys
import types

import pytest

from bayesprune.report.cite import cite

ENTRY = "@article{a2024, title={A}}"


@pytest.fixture
def module(monkeypatch):
    made = types.ModuleType("made_up_method")
    exec("class Method: pass\ndef score(): pass", made.__dict__)
    made.BIBTEX = f"\n{ENTRY}\n"
    monkeypatch.setitem(sys.modules, made.__name__, made)
    return made


def test_module_class_instance_and_function_are_cited(module):
    for thing in (module, module.Method, module.Method(), module.score):
        assert cite(thing) == ENTRY


def test_no_reference_and_a_name_are_refused_with_a_remedy(module):
    with pytest.raises(ValueError, match="add BIBTEX at module level"):
        cite(3)
    with pytest.raises(ValueError, match="pass the object"):
        cite("bmr")
    module.BIBTEX = None
    with pytest.raises(ValueError, match="made_up_method defines no text BIBTEX"):
        cite(module.Method())
