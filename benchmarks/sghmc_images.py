"""LeNet-5 on images, for `reproduce_sghmc`: a chain, variational fits that prune, an ensemble of MAP fits."""

import time
from pathlib import Path
from typing import Any

import jax
import numpy as np
import optax

import bayesprune as bp
from bayesprune import cells
from bayesprune.model.families import MapFamily

STEPS, BATCH, EPOCH, MEMBERS = 25_000, 128, 500, 5
VARIATIONAL = {
    "bmr": bp.methods.BMR(),
    "snr": bp.methods.SNR(bp.schedules.Cubic(0.2, begin=0, end=STEPS // EPOCH // 2)),
    "ssvi": bp.methods.SSVI(0.2),
}


def rule(name: str, **settings: Any) -> bp.methods.SGHMCSPL:
    """The method of a cell's rule."""
    if name == "em_alone":
        settings["hard"] = None
    if name == "early":
        settings["warm_up"] = 3
    return bp.methods.SGHMCSPL("em" if name.startswith("em") else "switch", **settings)


def tau(fit: Any) -> float:
    """The mean of tau = sigmoid(rho) over the weights at the last step."""
    rho = np.concatenate([np.asarray(leaf).reshape(-1) for leaf in jax.tree.leaves(fit.state.optim_state[1][1].rho)])
    return float(np.mean(1 / (1 + np.exp(-rho))))


def _lenet(train: bp.Dataset, **settings: Any) -> bp.BNN:
    return bp.BNN(
        bp.nets.LeNet5(num_outputs=10),
        likelihood=bp.likelihoods.Categorical(),
        input_shape=train.x.shape[1:],
        **settings,
    )


def chain(cell: Any, folder: Path, train: bp.Dataset, test: bp.Dataset) -> cells.Record:
    bnn = _lenet(
        train,
        prior=bp.priors.Gaussian(1.0, centred=True),
        prunable=bp.select.hidden_kernels,
        posterior=MapFamily(init_loc="he"),
    )
    begin = time.perf_counter()
    fit = bp.fit_sgmcmc(
        jax.random.key(cell.seed),
        bnn,
        train,
        num_steps=int(STEPS * cell.share),
        batch_size=BATCH,
        kernel=bp.kernels.SGHMCSPL(step_size=0.5, num_cycles=4),
        sparsifier=rule(cell.rule, ratio=1000.0, soft=0.01, hard=0.002, scope="per_slice", warm_up=10),
        every=500,
        num_samples=20,
        burn_in=int(STEPS * cell.share) // 2,
        eval_data=test,
        eval_every=2500,
        checkpoint=folder / "checkpoints",
        checkpoint_every=2500,
        progress=False,
    )
    seconds = time.perf_counter() - begin
    figures = bp.evaluate(jax.random.key(1), bnn, fit.params, test)
    pruned = {"pruned": 1 - float(fit.history["prune/density"][-1])}
    return {**figures, **pruned, **_sparsity(bnn, fit), "training_seconds": seconds, "tau": tau(fit)}


def variational(cell: Any, folder: Path, train: bp.Dataset, test: bp.Dataset) -> cells.Record:
    bnn, begin = _lenet(train, prior=bp.priors.Flat()), time.perf_counter()
    fit = bp.fit_svi(
        jax.random.key(cell.seed),
        bnn,
        train,
        num_steps=int(STEPS * cell.share),
        batch_size=BATCH,
        optimizer=optax.adabelief(1e-2),
        sparsifier=VARIATIONAL[cell.rule],
        every=EPOCH,
        checkpoint=folder / "checkpoints",
        checkpoint_every=2500,
        progress=False,
    )
    seconds = time.perf_counter() - begin
    figures = bp.evaluate(jax.random.key(1), bnn, fit.params, test, mask=fit.mask, num_samples=100)
    found = _sparsity(bnn, fit)
    return {**figures, **found, "pruned": found["pruned_in_all"], "training_seconds": seconds}


def _sparsity(bnn: bp.BNN, fit: Any) -> cells.Record:
    """Shares of the prunable weights: cut, and in use."""
    used = sum(int(np.sum(alive)) for alive in bp.connected(bnn, fit.mask).values())
    sizes = [mask.size for mask in fit.mask.values()]
    alive = sum(int(mask.sum()) for mask in fit.mask.values())
    return {"pruned_in_all": 1 - alive / sum(sizes), "in_use": used / sum(sizes)}


def ensemble(cell: Any, folder: Path, train: bp.Dataset, test: bp.Dataset) -> cells.Record:
    bnn = _lenet(train, prior=bp.priors.Gaussian(1.0), posterior=MapFamily(init_loc="he"))
    probs, begin = np.zeros((len(test.y), 10)), time.perf_counter()
    for member in range(MEMBERS):
        fit = bp.fit_svi(
            jax.random.fold_in(jax.random.key(cell.seed), member),
            bnn,
            train,
            num_steps=int(STEPS * cell.share) // MEMBERS,
            batch_size=BATCH,
            optimizer=optax.adabelief(1e-3),
            checkpoint=folder / f"member_{member}",
            progress=False,
        )
        probs += bp.predict(jax.random.key(1), bnn, fit.params, test.x, num_samples=1) / MEMBERS
    seconds = time.perf_counter() - begin
    return {**bp.metrics.classification_summary(probs, np.asarray(test.y)), "pruned": 0.0, "training_seconds": seconds}
