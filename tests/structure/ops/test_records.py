"""The records of operations, against those who ask them: NumPy, JAX, the reader of files, the page."""

import importlib.util
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from jax.extend.core import Primitive
from tests.deploy.functions import program_of

from bayesprune.deploy import reader
from bayesprune.deploy.program.ops import ELEMENTWISE
from bayesprune.deploy.program.run import FUNCTIONS, run
from bayesprune.structure import ops, reachable, read, units
from bayesprune.structure.independence import mixing
from bayesprune.structure.ops import elementwise

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


def test_a_new_operation_is_one_record(monkeypatch) -> None:
    softsign = Primitive("softsign")
    softsign.def_abstract_eval(lambda a: a)
    written = lambda params, shapes, known: lambda a: a / (1 + jnp.abs(a))  # noqa: E731
    net = lambda w, x: softsign.bind(x @ w["a"]) @ w["b"]  # noqa: E731
    shapes = {"a": (4, 5), "b": (5, 3)}

    def traced(rows):
        arrays = [jax.ShapeDtypeStruct(shape, jnp.float32) for shape in (*shapes.values(), (rows, 4))]
        return jax.make_jaxpr(lambda a, b, x: net({"a": a, "b": b}, x))(*arrays)

    assert program_of(net, shapes, (4,)).opaque == ["softsign"]
    assert "softsign" in read(traced(2), shapes).unfollowed
    monkeypatch.setitem(ops.PRIMITIVES, "softsign", elementwise.odd("softsign", written=written))
    program, graph = program_of(net, shapes, (4,)), read(traced(2), shapes)
    assert not program.opaque and not graph.unfollowed and units(graph).count == 5
    assert mixing(traced(2), traced(3)) == ""
    rng = np.random.default_rng(0)
    a, b, x = (rng.normal(size=shape).astype(np.float32) for shape in (*shapes.values(), (6, 4)))
    hidden = x @ a
    wanted = (hidden / (1 + np.abs(hidden))) @ b
    np.testing.assert_allclose(run(program, {"a": a, "b": b}, x), wanted, rtol=1e-5, atol=1e-6)
    mask = {"a": np.arange(5) != 2, "b": np.ones((5, 3), bool)}
    connected = reachable(graph, {"a": np.broadcast_to(mask["a"], (4, 5)), "b": mask["b"]})
    np.testing.assert_array_equal(connected["b"].any(1), mask["a"])


def test_nothing_beside_numbers_is_nothing() -> None:
    """`jax.lax.associative_scan` joins what it has summed with an array of no numbers."""
    net = lambda a, b, x: jax.lax.associative_scan(jnp.add, x @ a, axis=1) @ b  # noqa: E731
    graph = read(jax.make_jaxpr(net)(jnp.zeros((4, 4)), jnp.zeros((4, 3)), jnp.zeros((2, 4))), {"a": (4, 4), "b": (4, 3)})
    connected = reachable(graph, {"a": np.tile(np.arange(4) == 1, (4, 1)), "b": np.ones((4, 3), bool)})
    assert connected["b"].any(1).tolist() == [False, True, True, True]


def test_the_page_is_that_of_the_records() -> None:
    spec = importlib.util.spec_from_file_location("operations", SCRIPT)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    assert module.PAGE.read_text(encoding="utf-8") == module.page(), "run python docs/site/operations.py"
