"""A citation is found through the module that defines the thing cited."""

import re
import sys
import types
from pathlib import Path

import pytest

from bayesprune import kernels, likelihoods, methods, priors
from bayesprune.report.cite import cite, references

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


def kernels_that_cite():
    """All but the one that holds whatever optimizer it is given."""
    return [cls for name, cls in kernels.find().items() if name != "Optax"]


def test_every_method_and_prior_has_a_reference_and_every_reference_is_somebodys():
    classes = [*methods.find().values(), *kernels_that_cite(), *(getattr(priors, name) for name in priors.__all__)]
    classes += [getattr(likelihoods, name) for name in ("Beta", "Categorical", "NegativeBinomial", "Normal", "Ordinal")]
    classes += [likelihoods.Poisson, likelihoods.StudentT]
    cited = {cite(cls) for cls in classes if isinstance(cls, type)}
    assert cited <= set(references().values())
    sheet = (Path(__file__).parents[2] / "docs" / "methods.md").read_text(encoding="utf-8")
    for key, entry in references().items():
        author, year = re.search(r"author=\{(\w+)", entry)[1], re.search(r"year=\{(\d+)", entry)[1]
        assert entry in cited or re.search(rf"{author}[^;\n]*{year}", sheet), f"{key} is nobody's, nor on the formula sheet"
        assert re.fullmatch(r"@\w+\{" + key + r",\n(  \w+=\{.*\},?\n)+\}", entry), key
        assert {"title", "author", "year"} <= set(re.findall(r"^  (\w+)=", entry, re.MULTILINE))
    assert len(set(re.findall(r"  title=\{(.*)\}", "\n".join(references().values())))) == len(references())


def test_a_key_that_is_not_in_the_file_is_told_with_the_nearest(module):
    del module.BIBTEX
    module.REFERENCE = "markovic2024bayesian"
    assert "Dimitrije" in cite(module.Method())
    module.REFERENCE = "markovic2024"
    with pytest.raises(ValueError, match=r"unknown reference 'markovic2024'. Did you mean 'markovic2024bayesian'"):
        cite(module.Method())


def test_no_reference_and_a_name_are_refused_with_a_remedy(module):
    with pytest.raises(ValueError, match="add BIBTEX at module level"):
        cite(3)
    with pytest.raises(ValueError, match="pass the object"):
        cite("bmr")
    module.BIBTEX = None
    with pytest.raises(ValueError, match="made_up_method defines no text BIBTEX and no REFERENCE"):
        cite(module.Method())
