"""Formulas multiply matrices in whole float32 on every device: an accelerator would round their factors to ten bits."""

import ast
from collections.abc import Iterator
from pathlib import Path

import jax
import jax.numpy as jnp
import pytest
from jax.extend.core import ClosedJaxpr, Jaxpr, jaxprs_in_params

import bayesprune
from bayesprune.formulas import quadrature, removal
from bayesprune.posteriors.correlated import CorrelatedNormal

PACKAGE = Path(bayesprune.__file__).parent
ROOMS = ("formulas", "posteriors", "priors", "prune", "infer/curvature")
NAMES = ("dot", "einsum", "matmul", "tensordot", "vdot", "inner")
WHOLE_ANYWAY = {"prune/verified.py": "of zeros and ones", "infer/curvature/gaussians.py": "NumPy's, in float64"}
FACTOR = jnp.linalg.cholesky(jnp.array([[2.0, 1.0], [1.0, 2.0]]))
CALLS = {
    "expectation": lambda x: quadrature.expect(jnp.square, x, 1.0),
    "removal": lambda x: removal.given_zero(x + jnp.ones((2, 1)), FACTOR, jnp.array([True, False])),
    "draw": lambda x: CorrelatedNormal(x + jnp.ones((2, 2)), FACTOR, FACTOR).sample(jax.random.key(0)),
}


def products(jaxpr: Jaxpr) -> Iterator[object]:
    for equation in jaxpr.eqns:
        if equation.primitive.name == "dot_general":
            yield equation.params["precision"]
        for inner in jaxprs_in_params(equation.params):
            yield from products(inner.jaxpr if isinstance(inner, ClosedJaxpr) else inner)


@pytest.mark.parametrize("name", CALLS)
@pytest.mark.parametrize("form", ["as it is", "its slope"])
def test_every_product_is_whole(name: str, form: str) -> None:
    call = CALLS[name] if form == "as it is" else jax.grad(lambda x: sum(map(jnp.sum, jax.tree.leaves(CALLS[name](x)))))
    found = list(products(jax.make_jaxpr(call)(0.5).jaxpr))
    assert found and all(precision == (jax.lax.Precision.HIGHEST,) * 2 for precision in found), found


def unguarded(node: ast.AST, guarded: bool = False) -> Iterator[int]:
    """Lines with a product of JAX's that no decorator and no ``precision=`` guards."""
    for child in ast.iter_child_nodes(node):
        inside = guarded
        if isinstance(child, ast.FunctionDef):
            inside = guarded or any(isinstance(one, ast.Name) and one.id == "WHOLE_PRODUCTS" for one in child.decorator_list)
        if not inside and isinstance(child, ast.BinOp) and isinstance(child.op, ast.MatMult):
            yield child.lineno
        if not inside and isinstance(child, ast.Call) and isinstance(child.func, ast.Attribute) and child.func.attr in NAMES:
            owner = ast.unparse(child.func.value)
            if owner == "jnp" and "precision" not in {one.arg for one in child.keywords}:
                yield child.lineno
        yield from unguarded(child, inside)


def test_no_product_of_a_formula_is_left_to_the_device() -> None:
    """In rooms that compute evidence."""
    found = []
    for path in sorted(path for room in ROOMS for path in (PACKAGE / room).rglob("*.py")):
        text, name = path.read_text(), path.relative_to(PACKAGE).as_posix()
        if "jax.numpy as jnp" in text and name not in WHOLE_ANYWAY:
            found += [f"{name}:{line}" for line in unguarded(ast.parse(text))]
    assert not found, f"products that an accelerator would round; decorate with core.products.WHOLE_PRODUCTS: {found}"
