"""What a notebook offers after ``bp.`` and ``bp.methods.``: names that are meant for use, and no others."""

import inspect
from types import ModuleType

import pytest

import bayesprune as bp

FACES = [value for name in bp.__all__ if isinstance(value := getattr(bp, name), ModuleType)]


@pytest.mark.parametrize("face", [bp, *FACES], ids=lambda face: face.__name__)
def test_names_offered_are_ours_and_public(face: ModuleType) -> None:
    assert dir(face)
    for name in dir(face):
        value = getattr(face, name)
        assert not name.startswith("_")
        assert face is bp or not isinstance(value, ModuleType), name
        if inspect.isclass(value) or inspect.isfunction(value):
            assert value.__module__.startswith("bayesprune"), name
            assert value.__doc__, name


def test_they_are_many() -> None:
    assert {bp.priors, bp.methods, bp.plots, bp.scores, bp.kernels} <= set(FACES)
    assert {"BMR", "SNR"} <= set(dir(bp.methods)) and {"Flat"} <= set(dir(bp.priors)) and {"fit_svi"} <= set(dir(bp))
