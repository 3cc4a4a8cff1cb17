"""Presets: the settings of a published experiment under one name. They are defaults; every flag that is given goes before."""

import math
from collections.abc import Callable, Mapping
from typing import Any

from bayesprune.core.checks import unknown_name

Values = dict[str, Any]  # field of the settings -> value; for the knobs of a net, method or prior, a dict of those that differ


def values(name: str | None, given: Mapping[str, Any]) -> Values:
    """A preset's settings, none for None; ``given``: those of "steps", "batch_size" and "choose_on" that were.

    >>> [values("ssvi-cifar", given)["steps"] for given in ({}, {"batch_size": 256})]
    [70400, 35200]
    >>> values("ssvi-cifar", {"steps": 90})["every"]
    3
    """
    if name is None:
        return {}
    if name not in PRESETS:
        raise unknown_name("preset", name, PRESETS)
    return PRESETS[name](given) | {"preset": name}


def ssvi_cifar(given: Mapping[str, Any]) -> Values:
    """SSVI at 5 % of ResNet-18's kernels on CIFAR-10: 200 epochs in batches of 128, cold posterior (KL weight 0.01).

    Learning rate and KL weight follow their schedules by the step, not by the epoch; another batch size leaves the epochs as
    they are. A tenth of the training images is held out to choose the checkpoint on; --choose-on test chooses on the test set,
    as the authors do, and trains on all images. The gradient that wakes weights leaves the divergence out; --ssvi.growth loss
    has it in, as the authors have. The frame of moved images is of the mean colour. Results are of five draws.

    Source: Li et al. (2024), section 4.1 and appendix C, and the authors' code.
    """
    on_test = given.get("choose_on") == "test"
    batch = given.get("batch_size", 128)
    steps = given.get("steps", 200 * math.ceil((50_000 if on_test else 45_000) / batch))
    return {
        "dataset": "cifar10", "net": "resnet18", "method": "ssvi", "prior": "gaussian",
        "bayesian": "kernels", "prunable": "kernels", "estimator": "local", "storage": "active", "augment": "crop-flip",
        "steps": steps, "batch_size": batch, "every": min(100, -(-steps // 30)),  # a short trial still exchanges weights
        "optimizer": "sgd", "learning_rate": 0.01, "schedule": "cosine", "weight_decay": 5e-4,
        "init_loc": 0.01, "init_scale": 0.0006, "init_spread": 0.0005,
        "kl_weight": 0.01, "kl_warmup": 0.5,
        "validation": 0.0 if on_test else 0.1, "choose": "best", "num_samples": 5,
        "ssvi": {"density": 0.05, "until": 0.75, "new_scale": "mean_raw", "growth": "likelihood"},
        "gaussian": {"scale": 0.005},
    }  # fmt: skip


def bmr(net: str, **knobs: Any) -> Callable[[Mapping[str, Any]], Values]:
    """BMR of one of its paper's nets on Fashion-MNIST: 50 epochs of 500 steps after the first, pruning at the end of each.

    Norms, class token and position embedding have posteriors, too, and all but the last layer may be pruned, as in the authors'
    code. Weights are sampled; the divergence is in closed form where theirs is sampled too, which prunes earlier.

    Source: Marković, Friston & Kiebel (2024), section III and appendix A, and the authors' code.
    """

    def preset(given: Mapping[str, Any]) -> Values:
        steps = given.get("steps", 51 * 500)
        every = min(500, -(-steps // 30))  # a short trial still prunes
        return {
            "dataset": "fashion_mnist", "net": net, "method": "bmr", "prior": "flat",
            "bayesian": "everything", "prunable": "not_last", "estimator": "weight",
            "steps": steps, "every": every, "eval_every": every, "batch_size": 128,
            "optimizer": "adabelief", "learning_rate": 0.01, "num_samples": 100, net: knobs,
        }  # fmt: skip

    return preset


PRESETS: dict[str, Callable[[Mapping[str, Any]], Values]] = {
    "ssvi-cifar": ssvi_cifar,
    "bmr-mlp": bmr("mlp", hidden=(400,) * 5, activation="swish"),
    "bmr-lenet5": bmr("lenet5"),
    "bmr-mixer": bmr("mixer"),
    "bmr-vit": bmr("vit"),
}
