"""A likelihood as one new file: the command line and the estimators know it by its name."""

import sys

import numpy as np
import pytest

import bayesprune as bp
from bayesprune.cli import likelihood
from bayesprune.model import likelihoods
from bayesprune.model.likelihoods import protocol
from bayesprune.sklearn import network

FILE = '''
"""Real targets with Laplace noise of scale 1: the fit is of medians."""

from dataclasses import dataclass

import numpyro.distributions as dist

from bayesprune.model.likelihoods.protocol import NUMBERS, Named
from bayesprune.model.likelihoods.targets import check_shape, observe_rows, one_for_each, squeeze


@dataclass(frozen=True)
class DoubleExponential:
    def observe(self, outputs, y):
        return observe_rows(dist.Laplace(squeeze(outputs)), y)

    def guide(self, family):
        return None

    def mean(self, outputs):
        return squeeze(outputs)

    def check(self, y, output_shape):
        check_shape(y, output_shape, one_for_each(output_shape), "DoubleExponential")


NAMED = {"double_exponential": Named((NUMBERS,), lambda targets: DoubleExponential())}
'''


@pytest.fixture
def one_more_file(tmp_path, monkeypatch):
    (tmp_path / "double_exponential.py").write_text(FILE)
    monkeypatch.setattr(likelihoods, "__path__", [*likelihoods.__path__, str(tmp_path)])
    protocol.all_named.cache_clear()
    yield
    sys.modules.pop("bayesprune.model.likelihoods.double_exponential", None)
    protocol.all_named.cache_clear()


def test_the_command_line_and_the_estimators_take_its_name(one_more_file) -> None:
    likelihood.check("double-exponential")
    made, outputs = likelihood.make("double-exponential", "numbers", 2)
    assert type(made).__name__ == "DoubleExponential" and outputs == 2
    assert likelihood.chosen("auto", "numbers") == "normal", "what auto is stays"
    assert network.read_likelihood("double_exponential") == made


@pytest.mark.slow
def test_an_estimator_of_it_learns(one_more_file) -> None:
    x = np.random.default_rng(0).normal(size=(100, 2)).astype(np.float32)
    y = 3.0 * x[:, 0]
    model = bp.BayesianSparseRegressor(hidden=(), likelihood="double_exponential", random_state=0).fit(x, y)
    assert model.score(x, y) > 0.9


def test_without_the_file_the_name_is_unknown() -> None:
    with pytest.raises(ValueError, match="unknown choice of likelihood 'double-exponential'"):
        likelihood.check("double-exponential")
