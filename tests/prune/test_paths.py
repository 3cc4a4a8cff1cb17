"""No act leaves a network without a path: refused on the way, told of once."""

import warnings

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from tests.infer import programs

import bayesprune as bp
from bayesprune.prune.bookkeeping import make_info
from bayesprune.structure import has_path, reachable

BNN = programs.small_bnn()
WHOLE = {str(spec.path): np.ones(spec.shape, bool) for spec in BNN.layout if spec.prunable}
PLAIN = {"num_steps": 30, "batch_size": 16, "course": bp.courses.Plain(), "progress": False}


class Deadly:
    """Cuts all but one weight of the second layer, whatever it is shown."""

    def __hash__(self) -> int:
        return 1

    def init(self, rng_key, posterior):
        return bp.methods.SNR(0.5).init(rng_key, posterior)

    def step(self, rng_key, evidence, state):
        new, info = bp.methods.SNR(0.5).step(rng_key, evidence, state)
        return new._replace(mask={site: alive & (site != "Dense_0.kernel") for site, alive in new.mask.items()}), info


def test_a_path_is_a_kernel_of_the_rows_in_use() -> None:
    """Biases alone carry no row; of a first kernel one weight is enough, if what follows reads it."""
    cut = lambda **dead: has_path(BNN.graph, reachable(BNN.graph, WHOLE | {k.replace("_k", ".k"): v for k, v in dead.items()}))  # noqa: E731
    one = np.zeros((4, 8), bool)
    one[2, 3] = True
    behind = np.ones((8, 6), bool)
    behind[3] = False
    assert cut() and cut(Dense_0_kernel=one)
    assert not cut(Dense_0_kernel=np.zeros((4, 8), bool))
    assert not cut(Dense_1_kernel=np.zeros((8, 6), bool))
    assert not cut(Dense_0_kernel=one, Dense_1_kernel=behind)
    behind_alone = {"Dense_1.kernel": np.zeros((8, 6), bool)}  # of a network whose first kernel may not be pruned
    assert not has_path(BNN.graph, reachable(BNN.graph, behind_alone))


@pytest.mark.parametrize(
    "net", [pytest.param(n, marks=pytest.mark.slow) if n != "lenet5" else n for n in ("lenet5", "resnet", "vit")]
)
def test_it_is_told_of_the_first_kernel_of_any_net(net) -> None:
    nets = {
        "lenet5": (bp.nets.LeNet5(3), (32, 32, 1)),
        "resnet": (bp.nets.ResNet(3, stage_sizes=(1, 1), features=4, norm="group"), (8, 8, 3)),
        "vit": (bp.nets.ViT(3), (28, 28, 1)),
    }
    made, shape = nets[net]
    bnn = bp.BNN(made, prior=bp.priors.Flat(), likelihood=bp.likelihoods.Categorical(), input_shape=shape)
    whole = {str(spec.path): np.ones(spec.shape, bool) for spec in bnn.layout if spec.prunable}
    none = {site: np.zeros_like(alive) for site, alive in whole.items()}
    assert has_path(bnn.graph, reachable(bnn.graph, whole)) and not has_path(bnn.graph, reachable(bnn.graph, none))


def test_an_act_that_leaves_no_path_is_refused_with_a_warning(rng_key) -> None:
    with pytest.warns(UserWarning, match="step 10: Deadly would have left no path") as told:
        fit = bp.fit_svi(rng_key, BNN, programs.classes(), sparsifier=Deadly(), every=10, **PLAIN)
    assert len(told) == 1  # of two acts
    assert all(np.asarray(alive).all() for alive in fit.mask.values())
    assert list(fit.history["prune/num_pruned"]) == [0, 0] and (fit.history["prune/num_proposed"] > 0).all()
    assert (fit.history["prune/num_connected"] == sum(alive.size for alive in WHOLE.values())).all()


@pytest.mark.slow
def test_what_no_path_needs_falls_with_a_verified_act(rng_key) -> None:
    fit = bp.fit_svi(rng_key, BNN, programs.classes(), num_steps=400, sparsifier=bp.methods.BMR(), progress=False)
    used = bp.connected(BNN, fit.mask)
    assert fit.history["prune/num_pruned"].sum() > 0
    last = fit.history["prune/num_connected"][-1]
    assert last == fit.history["prune/num_alive"][-1] == sum(int(np.sum(one)) for one in used.values())
    assert f"{100 * last / 94:.1f} % connected" in repr(fit)


class Nearly(Deadly):
    """Cuts all but the path through two units, by evidence if it says so."""

    def __init__(self, gained):
        self.gained = gained

    def step(self, rng_key, evidence, state):
        mask = {site: jnp.zeros_like(alive).at[(0,) * alive.ndim].set(True) for site, alive in state.mask.items()}
        new = state._replace(mask=mask, step=state.step + 1)
        info = make_info(state.mask, new)
        return new, info._replace(evidence_gained=info.density if self.gained else None)


@pytest.mark.slow
def test_nearly_all_at_once_by_evidence_that_nobody_verified_warns(rng_key) -> None:
    with pytest.warns(UserWarning, match=r"step 10: Nearly cut 95 % or more of what was alive at once") as told:
        bp.fit_svi(rng_key, BNN, programs.classes(), sparsifier=Nearly(gained=True), every=10, **PLAIN)
    assert len(told) == 1
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        bp.fit_svi(rng_key, BNN, programs.classes(), sparsifier=Nearly(gained=False), every=10, **PLAIN)


@pytest.mark.slow
def test_a_one_shot_cut_without_a_path_warns_and_stands(rng_key) -> None:
    fit = bp.fit_svi(rng_key, BNN, programs.classes(), num_steps=5, progress=False)
    with pytest.warns(UserWarning, match="Deadly leaves no path from the input to the output"):
        pruned = bp.prune_once(fit.params, Deadly(), program=BNN)
    left = sum(int(used.sum()) for used in bp.connected(BNN, pruned.mask).values())  # what reads biases, which carry no row
    assert pruned.info.num_connected == left > 0 and f"{100 * left / 94:.1f} % connected" in repr(pruned)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        jax.jit(lambda params: bp.prune_once(params, bp.methods.SNR(0.5)).mask)(fit.params)


@pytest.mark.slow
def test_a_mask_without_a_path_warns(rng_key) -> None:
    mask = WHOLE | {"Dense_0.kernel": np.zeros((4, 8), bool)}
    with pytest.warns(UserWarning, match="mask leaves no path"):
        bp.fit_svi(rng_key, BNN, programs.classes(), num_steps=2, mask=mask, progress=False)


@pytest.mark.slow
def test_a_one_shot_pruning_is_verified_where_there_are_data(rng_key) -> None:
    """Without data it is as it was; with them no more is cut than proposed, and the bound does not fall."""
    data = programs.classes(rows=200)
    fit = bp.fit_svi(rng_key, BNN, data, num_steps=300, progress=False)
    pure, told = bp.bmr_prune(fit.params), bp.bmr_prune(fit.params, program=BNN)
    used = bp.connected(BNN, pure.mask)
    assert all(np.array_equal(used[site], told.mask[site]) for site in pure.mask)
    with pytest.raises(ValueError, match=r"rng_key is needed.*verified on data by drawn networks"):
        bp.bmr_prune(fit.params, program=BNN, data=data)
    checked = bp.bmr_prune(fit.params, program=BNN, data=data, rng_key=jax.random.key(0))
    assert float(checked.info.num_proposed) >= float(pure.info.num_pruned)
    assert float(checked.info.bound_gained) >= 0
    proposed = {site: np.asarray(alive) for site, alive in pure.mask.items()}
    used = bp.connected(BNN, proposed)
    for site, alive in checked.mask.items():
        assert (
            not (np.asarray(alive) & ~proposed[site] & used[site]).any() or float(checked.info.num_pruned) < proposed[site].size
        )


@pytest.mark.slow
def test_a_sparsifier_that_starts_without_a_path_warns_and_the_diagnosis_says_it(rng_key) -> None:
    """Of points, whose losses show nothing: all rows would be predicted alike without a word."""
    bnn, data = programs.small_bnn(prior=bp.priors.Gaussian(), posterior="map"), programs.classes()
    with pytest.warns(UserWarning, match="the first mask of SSVI leaves no path"):
        fit = bp.fit_svi(rng_key, bnn, data, num_steps=2, sparsifier=bp.methods.SSVI(density=0.02), progress=False)
    (found,) = (one for one in bp.diagnose(rng_key, bnn, fit, data).findings if one.name == "no path")
    assert "all rows are predicted alike" in found.says
    whole = bp.fit_svi(rng_key, bnn, data, num_steps=2, progress=False)
    assert "no path" not in {one.name for one in bp.diagnose(rng_key, bnn, whole, data).findings}
