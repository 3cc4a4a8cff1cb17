"""The state before the first pruning."""

import jax
import numpy as np
import pytest

import bayesprune as bp
from bayesprune.posteriors.mean_field import MeanField
from bayesprune.prune.bookkeeping import fill_unknown, first_state, make_info

POSTERIOR = {"w": MeanField(np.ones((2, 3)), np.ones((2, 3))), "v": MeanField(np.ones(2), np.ones(2))}


def test_all_alive_and_the_scales_remembered() -> None:
    state = first_state(POSTERIOR)
    assert {site: alive.shape for site, alive in state.mask.items()} == {"w": (2, 3), "v": (2,)}
    assert all(bool(alive.all()) for alive in state.mask.values())
    assert state.memory["w"] is POSTERIOR["w"].scale and state.step.dtype == np.int32 and int(state.step) == 0


@pytest.mark.fast_cases(1)
@pytest.mark.parametrize("name", ["BMR", "SNR", "Magnitude"])
def test_methods_start_from_it(name: str) -> None:
    own, shared = bp.methods.get(name)().init(jax.random.key(0), POSTERIOR), first_state(POSTERIOR)
    assert jax.tree.structure(own) == jax.tree.structure(shared)
    assert all(np.array_equal(a, b) for a, b in zip(*map(jax.tree.leaves, (own, shared)), strict=True))


def test_what_is_not_known_is_missing_in_a_step_and_nan_in_the_record() -> None:
    """Compiled code makes no NaN, which `jax_debug_nans` would take for an error."""
    state = first_state(POSTERIOR)
    info = make_info(state.mask, state)
    assert info.evidence_gained is None and info.readiness is None
    record = fill_unknown(info)
    assert np.isnan(record.evidence_gained) and np.isnan(record.readiness) and record.num_alive == info.num_alive
