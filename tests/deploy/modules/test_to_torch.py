"""A PyTorch module of a compact network, operation by operation and whole, where PyTorch is installed."""

from dataclasses import replace
from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest

import bayesprune as bp
from bayesprune.deploy import reader
from bayesprune.deploy.program.ops import OPAQUE
from tests.deploy.fits import DATA, fitted
from tests.deploy.functions import FUNCTIONS, compact_of, program_of, rows, sparse
from tests.deploy.program.test_rules import CASES
from tests.deploy.programs import NETS, program, weights_of

torch = pytest.importorskip("torch")
RNG = np.random.default_rng(0)
NO_PROGRAMS = {"chosen", "endless"}  # rows that are no rows: nothing is written of them


def torch_step(name: str, attributes: dict[str, Any], arrays: list[Any]) -> np.ndarray:
    from bayesprune.deploy.modules import to_torch

    tensors = (torch.tensor(np.asarray(array)) for array in arrays)
    return reader.step(name, attributes, 2, *tensors, functions=to_torch.FUNCTIONS).numpy()


@pytest.mark.parametrize(("name", "attributes", "arrays"), CASES, ids=[name for name, *_ in CASES])
def test_an_operation_is_that_of_the_reader(name, attributes, arrays) -> None:
    if name in ("and", "or", "xor", "not"):
        arrays = [np.asarray(array) > 0.5 for array in arrays]
    with np.errstate(all="ignore"):
        wanted = reader.step(name, attributes, 2, *map(np.asarray, arrays))
    found = torch_step(name, attributes, arrays)
    assert found.dtype.kind == np.asarray(wanted).dtype.kind
    np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_outputs_are_those_of_the_function_and_parameters_are_what_is_not_zero(name) -> None:
    function, shapes, input_shape = FUNCTIONS[name]
    weights = {site: sparse(RNG, shape) for site, shape in shapes.items()}
    module = compact_of(program_of(lambda _, x: function(weights, x), {}, input_shape)).to_torch()
    for number in (7, 3):  # of rows
        x = rows(RNG, number, *input_shape)
        wanted = function(weights, jnp.asarray(x))
        np.testing.assert_allclose(module(torch.tensor(x)).detach().numpy(), wanted, rtol=1e-4, atol=1e-5)
    assert all(bool((value != 0).all()) for value in module.parameters())


def test_a_fit_is_trained_on_and_its_zeros_stay() -> None:
    bnn, params, mask = fitted("gaussian")
    small = bp.compact(bnn, params, mask)
    module = small.to_torch()
    x, y = torch.tensor(DATA.x), torch.tensor(np.asarray(DATA.y)).long()
    np.testing.assert_allclose(torch.softmax(module(x), -1).detach().numpy(), small.predict(DATA.x), rtol=1e-4, atol=1e-6)
    numbers = {str(number): site for site, number in small.program.weights.items()}
    assert sum(value.numel() for value in module.parameters()) == sum(np.count_nonzero(a) for a in small.law.loc.values())
    optimizer = torch.optim.AdamW(module.parameters(), 0.05, weight_decay=0.1)
    losses = []
    for _ in range(20):
        loss = torch.nn.functional.cross_entropy(module(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < losses[0]
    for number, whole in module.weights().items():
        dead = np.asarray(small.law.loc[numbers[str(number)]]) == 0
        assert not whole.detach().numpy()[dead].any()


def test_saved_and_loaded(tmp_path) -> None:
    bnn, params, mask = fitted("gaussian")
    module = bp.compact(bnn, params, mask).to_torch()
    torch.save(module.state_dict(), tmp_path / "net.pt")
    other = bp.compact(bnn, params, mask).to_torch()
    with torch.no_grad():
        for value in other.parameters():
            value.mul_(0.5)
    other.load_state_dict(torch.load(tmp_path / "net.pt"))
    x = torch.tensor(DATA.x)
    assert torch.equal(module(x), other(x))


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted({*NETS} - NO_PROGRAMS))
def test_a_network_is_that_of_jax(name) -> None:
    whole, weights = program(name), weights_of(name, 0, 0.5)
    fixed = replace(whole, weights={}, constants=whole.constants | {n: weights[site] for site, n in whole.weights.items()})
    network = compact_of(fixed)
    if any(op.name == OPAQUE for op in whole.ops):
        with pytest.raises(ValueError, match="operations that only JAX knows"):
            network.to_torch()
        return
    apply, params = network.net()
    x = rows(RNG, 3, *whole.shapes[whole.rows][1:])
    with torch.no_grad():
        np.testing.assert_allclose(network.to_torch()(torch.tensor(x)), apply(params, jnp.asarray(x)), rtol=1e-3, atol=1e-4)


def test_what_it_cannot_do_is_refused() -> None:
    network = compact_of(program_of(lambda w, x: jnp.sort(x @ w["a"], -1), {"a": (3, 2)}, (3,)))
    with pytest.raises(ValueError, match=r"operations that only JAX knows .*to_equinox"):
        network.to_torch()
