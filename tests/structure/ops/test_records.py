"""The records of operations, against those who ask them: NumPy, JAX, the reader of files, the page."""

import importlib.util
from pathlib import Path

import numpy as np
import pytest
from jax import lax

from bayesprune.deploy import reader
from bayesprune.deploy.program.ops import ELEMENTWISE
from bayesprune.deploy.program.run import FUNCTIONS
from bayesprune.structure import ops

SCRIPT = Path(__file__).resolve().parents[3] / "docs" / "site" / "operations.py"


def test_every_operation_has_one_record() -> None:
    assert len(ops.PRIMITIVES) == sum(len(kind.RECORDS) for kind in ops.KINDS)


def test_plans_name_what_the_reader_runs() -> None:
    names = {record.plan for record in ops.PRIMITIVES.values() if record.plan}
    assert names - {"same"} <= reader.NAMES
    assert reader.NAMES - names == {"take"}  # what gathers of known places are


@pytest.mark.parametrize("name", [*reader.UNARY, *reader.BINARY])
def test_the_reader_jax_and_onnx_mean_the_same_function(name) -> None:
    record, own = ops.PRIMITIVES[name], reader.UNARY.get(name) or reader.BINARY[name]
    assert record.plan == name and record.onnx
    assert getattr(np, record.numpy, own) is own
    assert FUNCTIONS[name] is (getattr(lax, name) if not hasattr(np, record.numpy) else FUNCTIONS[name])


def test_what_goes_entry_by_entry_in_a_plan_has_zeros() -> None:
    entry_by_entry = {record.plan for record in ops.PRIMITIVES.values() if record.terms is not None and record.plan != "same"}
    assert entry_by_entry - {""} == ELEMENTWISE


def test_the_page_is_that_of_the_records() -> None:
    spec = importlib.util.spec_from_file_location("operations", SCRIPT)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    assert module.PAGE.read_text(encoding="utf-8") == module.page(), "run python docs/site/operations.py"
