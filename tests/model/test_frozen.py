"""Parts of a net frozen, or Bayesian only at the end: frozen arrays never move, and what is Bayesian is pruned."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from flax import nnx
from tests.infer import programs

import bayesprune as bp

DATA = programs.classes(rows=24)


class Adapted(nnx.Module):
    """A base, a layer with a low-rank addition, and a head."""

    def __init__(self, rngs: nnx.Rngs) -> None:
        self.base = nnx.Linear(4, 5, rngs=rngs)
        self.middle = nnx.LoRALinear(5, 5, lora_rank=2, rngs=rngs)
        self.head = nnx.Linear(5, 3, rngs=rngs)

    def __call__(self, x):
        return self.head(jax.nn.relu(self.middle(jax.nn.relu(self.base(x)))))


def adapted(**settings) -> bp.BNN:
    return bp.BNN(
        Adapted(nnx.Rngs(0)), prior=bp.priors.Gaussian(), likelihood=bp.likelihoods.Categorical(), input_shape=(4,), **settings
    )  # fmt: skip


def said(bnn: bp.BNN) -> dict[str, str]:
    """What is made of each parameter."""
    kinds = {(True, False, False): "frozen", (False, True, True): "pruned", (False, True, False): "kept"}
    return {str(s.path): kinds.get((s.frozen, s.bayesian, s.prunable), "point") for s in bnn.layout}


def test_names_and_predicates_say_what_is_frozen() -> None:
    names = {
        "base.kernel": "frozen", "base.bias": "frozen", "middle.kernel": "frozen", "middle.bias": "frozen",
        "middle.lora.lora_a": "pruned", "middle.lora.lora_b": "pruned", "head.kernel": "kept", "head.bias": "kept",
    }  # fmt: skip
    by_names = adapted(frozen=("base", "middle.kernel", "middle.bias"))
    assert said(by_names) == names
    by_predicate = adapted(frozen=lambda path, shape: not path.startswith("head") and "lora" not in path)
    assert by_predicate == by_names and by_predicate != adapted()
    assert "frozen" in repr(by_names.summary()) and "frozen" not in repr(adapted().summary())


def test_a_bayesian_end_is_pruned_by_default() -> None:
    alone = adapted(bayesian="head")
    assert said(alone) | {"head.kernel": "", "head.bias": ""} == dict.fromkeys(said(alone), "point") | {
        "head.kernel": "", "head.bias": ""
    }  # fmt: skip
    assert said(alone)["head.kernel"] == said(alone)["head.bias"] == "pruned"
    frozen = adapted(bayesian="head", frozen=["base", "middle"])
    assert said(frozen)["middle.lora.lora_a"] == "frozen" and said(frozen)["head.kernel"] == "pruned"
    assert said(adapted(bayesian="head", prunable=bp.select.nothing))["head.kernel"] == "kept"


def test_what_cannot_be_pruned_says_what_is_kept_and_what_are_points() -> None:
    params = {"head.kernel_dense_loc": jnp.ones((5, 3)), "head.kernel_dense_scale": jnp.ones((5, 3)), "head.kernel$unit": 1.0}
    with pytest.raises(ValueError, match=r"head.kernel' are kept whole.*base.kernel'.* are points"):
        bp.bmr_prune(params | {"base.kernel": jnp.ones((4, 5))})
    with pytest.raises(ValueError, match=r"no mean-field posterior"):
        bp.bmr_prune({"base.kernel": jnp.ones((4, 5))})


def test_unknown_names_and_what_is_no_choice_are_refused() -> None:
    with pytest.raises(ValueError, match=r"unknown parameter or layer in frozen= 'bas'.*'base'"):
        adapted(frozen="bas")
    with pytest.raises(TypeError, match="frozen must be a function"):
        adapted(frozen=3)
    one_argument = r"frozen is called as frozen\(path, shape\), and is given as frozen\(path\): give it these parameters"
    with pytest.raises(TypeError, match=one_argument):
        adapted(frozen=lambda path: "base" in path)
    assert said(adapted(frozen=lambda *given, **more: "base" in given[0]))["base.kernel"] == "frozen"
    with pytest.raises(ValueError, match=r"no parameter is Bayesian.*not frozen"):
        adapted(frozen=bp.select.everything)


@pytest.mark.slow
def test_what_is_frozen_never_moves_and_is_a_constant_of_the_compact_network(rng_key) -> None:
    bnn = adapted(frozen=("base", "middle.kernel", "middle.bias"), prunable=bp.select.everything)
    trained = {name: np.asarray(value) for name, value in bnn.take(Adapted(nnx.Rngs(0)))[0].items()}
    settings = {"optimizer": optax.adamw(1e-2, weight_decay=0.1), "num_steps": 4, "batch_size": 12, "progress": False}
    fit = bp.fit_svi(rng_key, bnn, DATA, sparsifier=bp.methods.SNR(density=0.5), every=2, **settings)
    still = [name for name, kind in said(bnn).items() if kind == "frozen"]
    for name in still:
        np.testing.assert_array_equal(fit.params[name], trained[name])
    moving = jax.tree_util.tree_leaves_with_path(fit.state.optim_state)
    assert not [path for path, _ in moving if any(name in jax.tree_util.keystr(path) for name in still)]
    alive = np.concatenate([np.ravel(mask) for mask in fit.mask.values()])
    assert not set(fit.mask) & set(still) and np.mean(alive) == pytest.approx(0.5, abs=0.02)
    small = bp.compact(bnn, fit.params, fit.mask, keep="mean")
    assert small.certify().holds
    # Another start, and other values that are given to it.
    given = {name: value + 1.0 if name == "base.kernel" else value for name, value in fit.params.items()}
    on = bp.fit_svi(rng_key, bnn, DATA, init_params=given, mask=fit.mask, **settings)
    np.testing.assert_array_equal(on.params["base.kernel"], trained["base.kernel"] + 1.0)
    with pytest.raises(ValueError, match=r"init_params\['base.kernel'\]"):
        bp.fit_svi(rng_key, bnn, DATA, init_params=given | {"base.kernel": np.zeros((2, 2))}, mask=fit.mask, **settings)


@pytest.mark.slow
def test_the_last_layer_is_sampled_and_pruned_over_a_frozen_linen_base(rng_key) -> None:
    net = bp.nets.MLP((5,), 3)
    bnn = bp.BNN(
        net, prior=bp.priors.Gaussian(), likelihood=bp.likelihoods.Categorical(), input_shape=(4,), frozen="Dense_0"
    )  # fmt: skip
    with pytest.warns(UserWarning, match="'Dense_0.kernel' and others are frozen where a linen module starts, at random"):
        bp.fit_svi(rng_key, bnn, DATA, num_steps=1, progress=False)
    trained = net.init(jax.random.key(5), jnp.asarray(DATA.x))
    start = bp.from_trained(bnn, trained)
    fit = bp.fit_svi(rng_key, bnn, DATA, num_steps=2, init_params=start, progress=False)
    np.testing.assert_array_equal(fit.params["Dense_0.kernel"], trained["params"]["Dense_0"]["kernel"])
    assert set(bp.bmr_prune(fit.params).mask) == {"Dense_1.kernel", "Dense_1.bias"}
    chain = bp.fit_sgmcmc(rng_key, bnn, DATA, num_steps=4, num_samples=2, init_params=None, progress=False)
    draws = np.asarray(chain.params["Dense_0.kernel$draws"])
    np.testing.assert_array_equal(draws[:, :1] * np.ones_like(draws), draws)
    assert bp.predict(rng_key, bnn, chain.params, DATA.x).shape == (24, 3)
    for begun in (fit, bp.bmr_prune(fit.params), chain):  # over the same base, whatever the chain starts from
        after = bp.fit_sgmcmc(rng_key, bnn, DATA, num_steps=4, num_samples=2, init=begun, progress=False)
        base = begun.params["Dense_0.kernel$draws"][0, 0] if begun is chain else trained["params"]["Dense_0"]["kernel"]
        assert (np.asarray(after.params["Dense_0.kernel$draws"]) == np.asarray(base)).all()
