import itertools

import jax.numpy as jnp
import numpy as np
import pytest

from bayesprune.core.types import MeanField, SpikeSlab
from bayesprune.features import inclusion_probabilities, selected


def node(logits):
    logits = jnp.asarray(logits)
    return SpikeSlab(jnp.zeros(logits.shape), jnp.ones(logits.shape), logits)


def test_inclusion_is_the_sum_over_all_states_of_the_gates():
    p = np.random.default_rng(0).uniform(size=(3, 4))
    for row, found in zip(p, inclusion_probabilities([p, np.ones((4, 1))]), strict=True):
        used = sum(
            np.prod([v if on else 1 - v for v, on in zip(row, state, strict=True)])
            for state in itertools.product((False, True), repeat=4)
            if any(state)
        )
        assert float(found) == pytest.approx(used, rel=1e-5)


def test_many_tiny_gates_add_up_and_a_sure_one_is_one():
    logits = np.full((3, 1000), -25.0)
    logits[1, 7] = 80.0
    logits[2] = -460.0  # a logit of log 1e-200, as spike-and-slab priors have it
    found = inclusion_probabilities({"first": node(logits)})
    np.testing.assert_allclose(found[0], 1000 * np.exp(-25.0), rtol=1e-4)
    assert found[1] == 1.0 and found[2] == 0.0


def test_selected_is_any_gate_above_one_half():
    rng = np.random.default_rng(1)
    logits = rng.normal(-2, 2, size=(200, 3))
    logits[0] = 0.0  # exactly one half is not above it
    wanted = (1 / (1 + np.exp(-logits)) > 0.5).any(axis=1)
    assert selected([node(logits)]).tolist() == wanted.tolist()
    assert 0 < wanted.sum() < 200 and not wanted[0]


def test_the_union_rule_never_selects_fewer():
    p = np.random.default_rng(2).uniform(0, 0.6, size=(200, 3))
    median, union = selected([p]), selected([p], "union")
    np.testing.assert_array_equal(union, 1 - np.prod(1 - p, axis=1) > 0.5)
    assert not (np.asarray(median) & ~np.asarray(union)).any() and union.sum() > median.sum()


def test_a_mask_selects_the_inputs_with_a_living_edge():
    mask = np.random.default_rng(3).random((50, 4)) < 0.2
    normal = {"first": MeanField(jnp.ones(mask.shape), jnp.ones(mask.shape))}
    for rule in ("median", "union"):
        np.testing.assert_array_equal(selected(normal, rule, mask={"first": mask}), mask.any(axis=1))
    np.testing.assert_array_equal(inclusion_probabilities(normal, {"first": mask}), mask.any(axis=1).astype(float))
    sure = [node(np.full(mask.shape, 9.0))]
    np.testing.assert_array_equal(selected(sure, mask=[mask]), mask.any(axis=1))


def test_an_unknown_rule_is_refused():
    with pytest.raises(ValueError, match=r"unknown rule 'medain'.*'median'"):
        selected([np.ones((1, 1))], "medain")
