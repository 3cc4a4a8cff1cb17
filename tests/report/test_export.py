"""The posterior file: back as it went, readable without us, and never half written."""

import os
import re
import resource
from pathlib import Path
from typing import Any, NamedTuple

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from safetensors.numpy import load_file, save_file
from tests.infer import programs

import bayesprune as bp
from bayesprune.posteriors.mean_field import MeanField
from bayesprune.posteriors.spike_slab import SpikeSlab
from bayesprune.report.export import load_posterior, save_fit, save_posterior

DOCUMENT = Path(__file__).parents[2] / "docs" / "reading_a_posterior.md"


@pytest.fixture
def posterior():
    rng = np.random.default_rng(0)
    kernel = rng.normal(size=(3, 4)).astype(np.float32)
    return {
        "Dense_0.kernel": MeanField(jnp.asarray(kernel), jnp.full((3, 4), 0.1)),
        "Dense_0.bias": MeanField(rng.normal(size=4), np.full(4, 0.2), prior_scale=None, unit=np.float32(0.5)),
        "Conv_0.kernel": MeanField(rng.normal(size=(2, 2, 3)).T, np.float64(0.5)),  # a transposed view; one scale for all
        "gate": SpikeSlab(np.float32(1.5), np.float32(0.1), np.float32(-2.0)),  # a scalar
        "half": MeanField(jnp.asarray([1.5, -2.0], jnp.bfloat16), np.ones(2, np.float16)),
    }


@pytest.fixture
def mask():
    return {"Dense_0.kernel": jnp.asarray(np.arange(12).reshape(3, 4) % 3 == 0), "half": np.array([True, False])}


METADATA = {
    "seed": 3,
    "name": "digits, ä",
    "prior_scale": {"Dense_0.kernel": np.float32(0.5)},
    "losses": np.array([2.0, np.nan]),
}


def test_round_trip_is_exact(tmp_path, posterior, mask):
    save_posterior(tmp_path / "new" / "p.safetensors", posterior, mask, METADATA)
    back, back_mask, metadata = load_posterior(tmp_path / "new" / "p.safetensors")
    assert list(back) == list(posterior)
    for site, node in posterior.items():
        assert type(back[site]) is type(node)
        assert back[site].unit == node.unit
        assert getattr(back[site], "prior_scale", None) == getattr(node, "prior_scale", None)
        assert back[site].loc.shape == np.shape(node.loc)
        np.testing.assert_array_equal(back[site].loc, np.asarray(node.loc))
        np.testing.assert_array_equal(back[site].scale, np.broadcast_to(np.asarray(node.scale), np.shape(node.loc)))
    assert back["gate"].logit == -2.0
    assert back_mask.keys() == mask.keys()
    for site in mask:
        assert back_mask[site].dtype == bool
        np.testing.assert_array_equal(back_mask[site], mask[site])
    assert metadata == {"seed": 3, "name": "digits, ä", "prior_scale": {"Dense_0.kernel": 0.5}, "losses": [2.0, None]}


def test_the_reader_in_the_document_reads_the_same(tmp_path, posterior, mask):
    path = tmp_path / "p.safetensors"
    save_posterior(path, posterior, mask, METADATA)
    blocks = re.findall(r"```python\n(.*?)```", DOCUMENT.read_text(), flags=re.DOTALL)
    names = {}
    exec(blocks[0], names)  # the reader, and nothing of ours
    assert "bayesprune" not in re.sub(r'"[^"]*"', "", blocks[0])
    sites, notes = names["read_posterior"](path)
    back, back_mask, metadata = load_posterior(path)
    assert notes == metadata
    assert sites.keys() == back.keys()
    for site, fields in sites.items():
        for field in set(fields) - {"mask"}:
            want = getattr(back[site], field)
            assert fields[field].dtype == want.dtype
            np.testing.assert_array_equal(fields[field], want)
        assert ("mask" in fields) == (site in back_mask)
    drawn = names["draw"](np.random.default_rng(0), sites["Dense_0.kernel"])
    assert (drawn == 0).tolist() == (~back_mask["Dense_0.kernel"]).tolist()


NET = bp.nets.MLP(hidden=(4,), num_outputs=3)
DATA = programs.classes()


def bnn_of(prior: Any, **settings: Any) -> bp.BNN:
    return bp.BNN(NET, prior=prior, likelihood=bp.likelihoods.Categorical(), input_shape=(4,), **settings)


@pytest.mark.slow_cases(1)
@pytest.mark.slow
@pytest.mark.parametrize(
    "bnn",
    [
        bnn_of(bp.priors.Flat()),
        bnn_of(bp.priors.DiracSlab()),
        bnn_of(bp.priors.Gaussian(), bayesian=bp.select.kernels),  # biases are parameters without a posterior
        bnn_of(bp.priors.Flat(), posterior="map"),
    ],
    ids=["layer scales", "spike and slab", "points beside", "map"],
)
def test_a_saved_fit_predicts_exactly_what_the_fit_did(tmp_path, bnn):
    fit = bp.fit_svi(jax.random.key(0), bnn, DATA, num_steps=3)
    save_fit(tmp_path / "fit", bnn, fit, {"seed": 0})
    saved = load_posterior(tmp_path / "fit")
    assert list(saved.params) == list(fit.params) and saved.metadata == {"seed": 0}
    assert programs.same_bits(saved.params, fit.params)
    one, other = (bp.predict(jax.random.key(1), bnn, params, DATA.x, num_samples=3) for params in (fit.params, saved.params))
    np.testing.assert_array_equal(one, other)
    tensors = load_file(tmp_path / "fit")
    arrays = [np.asarray(leaf) for leaf in jax.tree.leaves(bnn.posterior(fit.params))]
    assert sum(a.size for a in tensors.values()) <= 1.5 * sum(a.size for a in arrays) + 100  # no weight is kept twice


@pytest.mark.slow
def test_a_pruned_fit_of_a_stateful_net_comes_back(tmp_path):
    class Normed(nn.Module):
        @nn.compact
        def __call__(self, x, train: bool = False):
            return nn.Dense(3)(nn.BatchNorm(use_running_average=not train)(nn.Dense(4)(x)))

    bnn = bp.BNN(Normed(), prior=bp.priors.Flat(), likelihood=bp.likelihoods.Categorical(), input_shape=(4,))
    pruned = bp.bmr_prune(bp.fit_svi(jax.random.key(0), bnn, DATA, num_steps=3).params)
    save_fit(tmp_path / "fit", bnn, pruned)
    saved = load_posterior(tmp_path / "fit")
    assert jax.tree.structure(saved.params) == jax.tree.structure(dict(pruned.params))
    draws = [bp.predict(jax.random.key(1), bnn, fit.params, DATA.x, mask=fit.mask, num_samples=3) for fit in (pruned, saved)]
    np.testing.assert_array_equal(*draws)
    again = bp.bmr_prune(saved.params)  # the parameters still say their prior
    assert programs.same_bits(again.mask, bp.bmr_prune(pruned.params).mask)


def test_parameters_are_kept_in_their_own_types_and_nesting(tmp_path):
    half = jnp.asarray([1.5, -2.0], jnp.bfloat16)
    params = {"w_auto_loc": half, "n$state": {"a": {0: jnp.arange(3)}, "b": {}}, "n$params": {"k": NoLeaves(None)}, "t": True}
    posterior = {"w": MeanField(half, jnp.ones(2))}
    save_posterior(tmp_path / "p", posterior, {}, {}, params=params)
    back = load_posterior(tmp_path / "p").params
    assert list(back) == ["w_auto_loc", "n$state", "t"]  # a module makes its placeholders again
    assert back["w_auto_loc"].dtype == jnp.bfloat16 and back["w_auto_loc"].tolist() == [1.5, -2.0]
    assert back["n$state"]["a"][0].tolist() == [0, 1, 2] and back["n$state"]["b"] == {}
    for bad in ({"x": [object()]}, {"x": "text"}, {"x": {(1, 2): jnp.ones(1)}}):
        with pytest.raises(TypeError, match="param/"):
            save_posterior(tmp_path / "p", posterior, {}, {}, params=bad)


class NoLeaves(NamedTuple):
    """As NumPyro's stand-ins for the weights of a module: a pytree without arrays."""

    shape: None


def test_other_readers_see_plain_tensor_names(tmp_path, posterior, mask):
    save_posterior(tmp_path / "p.safetensors", posterior, mask, {})
    names = load_file(tmp_path / "p.safetensors").keys()
    assert {"loc/Dense_0.kernel", "scale/Dense_0.kernel", "mask/Dense_0.kernel", "logit/gate"} <= names


def test_bad_masks_nodes_and_metadata_are_refused_before_anything_is_written(tmp_path, posterior):
    path = tmp_path / "p.safetensors"
    with pytest.raises(ValueError, match=r"mask\['nowhere'\].*no such site"):
        save_posterior(path, posterior, {"nowhere": np.ones(2, bool)}, {})
    with pytest.raises(ValueError, match=r"mask\['half'\] has shape \(3,\)"):
        save_posterior(path, posterior, {"half": np.ones(3, bool)}, {})
    with pytest.raises(TypeError, match=r"posterior\['x'\] must be a MeanField"):
        save_posterior(path, {"x": np.ones(2)}, {}, {})
    hidden = np.ma.array([1.0, 2.0], mask=[0, 1])
    with pytest.raises(ValueError, match="masked array with 1 masked"):
        save_posterior(tmp_path / "p.safetensors", {"x": MeanField(hidden, np.ones(2))}, {}, {})
    with pytest.raises(ValueError, match="param/w is a masked array with 1 masked"):
        save_posterior(tmp_path / "p.safetensors", posterior, {}, {}, params={"w": hidden})
    for loc, scale, told in ((np.zeros(2), -np.ones(2), "scales below zero"), (np.zeros(2, int), np.ones(2), "real numbers")):
        with pytest.raises(ValueError, match=f"could not be read back: .*{told}"):
            save_posterior(tmp_path / "p.safetensors", {"x": MeanField(loc, scale)}, {}, {})
    with pytest.raises(ValueError, match="must broadcast"):
        save_posterior(path, {"x": MeanField(np.ones(2), np.ones(3))}, {}, {})
    with pytest.raises(TypeError, match=r"metadata\['f'\] is a function"):
        save_posterior(path, posterior, {}, {"f": lambda: 0})
    assert os.listdir(tmp_path) == []


def test_foreign_cut_and_missing_files_are_told_apart(tmp_path, posterior):
    path = tmp_path / "p.safetensors"
    with pytest.raises(FileNotFoundError, match="write one with save_posterior"):
        load_posterior(path)
    save_file({"a": np.ones(2)}, path)
    with pytest.raises(ValueError, match="no fit of bayesprune in version 5"):
        load_posterior(path)
    save_posterior(path, posterior, {}, {})
    path.write_bytes(path.read_bytes()[:-3])
    with pytest.raises(ValueError, match="no whole file of a fit"):
        load_posterior(path)


def test_a_real_limit_of_the_system_is_survived(tmp_path, posterior):
    path = tmp_path / "p.safetensors"
    save_posterior(path, posterior, {}, {"round": 1})
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, hard))
    try:
        with pytest.raises(OSError, match=r"cannot write .*p\.safetensors"):
            save_posterior(path, {"big": MeanField(np.zeros(1 << 19), np.ones(1 << 19))}, {}, {})
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert load_posterior(path).metadata == {"round": 1}
    assert os.listdir(tmp_path) == ["p.safetensors"]


def test_parameters_of_which_one_would_overwrite_another_are_refused(tmp_path):
    """Both were read back as the second of them."""
    with pytest.raises(TypeError, match=r"param/a\[b\] would be two tensors of one name"):
        save_posterior(tmp_path / "p.safetensors", {}, {}, {}, params={"a": {"b": np.ones(2)}, "a[b]": np.zeros(2)})
