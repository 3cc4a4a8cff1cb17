"""Presets, the plain --density, and the optimiser that a preset asks for."""

import dataclasses
import inspect
import json
import math
from pathlib import Path
from typing import Any

import jax.numpy as jnp
import numpy as np
import optax
import pytest

import bayesprune as bp
from bayesprune.cli import build, course, flags, rows, settings
from bayesprune.cli.flags import parse
from bayesprune.core.types import Dataset
from bayesprune.methods.ssvi import SSVI
from bayesprune.model.families import MapFamily, MeanFieldFamily
from bayesprune.posteriors.structured import StructuredFamily
from tests.test_cli import content, refused, small_run

TINY = ["--preset", "ssvi-cifar", "--dataset", "digits", "--resnet18.stage-sizes", "1", "--resnet18.features", "3"]
TINY += ["--steps", "12", "--batch-size", "32", "--every", "4", "--eval-every", "6", "--num-samples", "2"]


def parsed(*words: str) -> Any:
    return build.resolve(parse(words))


def images(count: int = 6) -> rows.Data:
    data = Dataset(np.zeros((count, 8, 8, 1), np.float32), np.arange(count, dtype=np.int32))
    return rows.Data(data, data, "test", 1.0, data)


def test_the_preset_is_the_experiment_and_flags_go_before_it() -> None:
    made = parsed("--preset", "ssvi-cifar")
    assert (made.dataset, made.net, made.method, made.steps, made.every, made.validation) == (
        "cifar10", "resnet18", "ssvi", 200 * math.ceil(45_000 / 128), 100, 0.1,
    )  # fmt: skip
    assert build.make_method(made) == SSVI(density=0.05, until=0.75, new_scale="mean_raw", growth="likelihood")
    other = parsed(
        "--preset=ssvi-cifar", "--steps", "500", "--kl-weight", "1", "--ssvi.growth", "loss", "--gaussian.scale", "0.1"
    )
    assert (other.every, other.eval_every, other.kl_weight, other.optimizer) == (17, 25, 1.0, "sgd")
    assert build.make_method(other) == SSVI(density=0.05, new_scale="mean_raw", growth="loss")
    assert parsed("--preset", "ssvi-cifar", "--choose-on", "test").steps == 200 * math.ceil(50_000 / 128)
    assert parsed("--preset", "ssvi-cifar", "--choose_on", "test").validation == 0.0
    assert parsed("--preset", "ssvi-cifar", "--validation", "0.2").steps == 200 * math.ceil(40_000 / 128)
    wide = parsed("--preset", "ssvi-cifar", "--batch-size", "256")
    assert (wide.steps, wide.batch_size) == (200 * math.ceil(45_000 / 256), 256)
    assert parsed("--preset", "ssvi-cifar", "--method", "snr", "--storage", "masked").snr.density == "0.1"


def test_the_preset_starts_where_the_authors_start() -> None:
    made = parsed("--preset", "ssvi-cifar", "--resnet18.stage-sizes", "1", "--resnet18.features", "3")
    bnn = build.make_bnn(made, images())
    family = bnn.family
    assert isinstance(family, MeanFieldFamily) and family.init_loc == "normal"
    in_weights = [0.005 * value for value in (family.init_range, family.init_scale, family.init_spread)]
    assert in_weights == pytest.approx([0.01, 0.0006, 0.0005])
    layers = {str(spec.path): (spec.bayesian, spec.prunable) for spec in bnn.layout}
    assert all(flags == ((True, True) if path.endswith("kernel") else (False, False)) for path, flags in layers.items())
    assert {"Dense_0.bias", "BatchNorm_0.scale", "Conv_0.kernel"} <= set(layers)
    point = build.make_bnn(parsed("--preset", "ssvi-cifar", "--posterior", "map", "--resnet18.stage-sizes", "1"), images())
    assert isinstance(point.family, MapFamily) and point.family.init_range == pytest.approx(2.0)


def test_the_structured_guide_starts_where_it_is_told() -> None:
    made = parsed("--net", "mlp", "--prior", "horseshoe", "--posterior", "structured", "--init-scale", "0.03")
    family = build.make_bnn(made, images()).family
    assert isinstance(family, StructuredFamily) and family.init_scale == pytest.approx(0.03)
    assert [scale for _, _, scale in family.sound] == pytest.approx([0.03] * len(family.sound))
    with pytest.raises(ValueError, match="Flat has no such scales"):
        build.make_bnn(parsed("--net", "mlp", "--prior", "flat", "--posterior", "structured"), images())


def test_a_start_that_is_given_stands_and_the_rest_follows_the_course() -> None:
    def family(*words: str) -> Any:
        return build.make_bnn(parsed("--mlp.hidden", "4", *words), images()).family

    sound, plain = family().sound, family("--course", "plain", "--init-loc", "0.3")
    assert [(site, loc) for site, loc, _ in family("--init-scale", "0.2").sound] == [(site, loc) for site, loc, _ in sound]
    assert {scale for _, _, scale in family("--init-scale", "0.2").sound} == {0.2}
    assert [(loc, scale) for _, loc, scale in family("--init-loc", "0.3").sound] == [(0.3, scale) for _, _, scale in sound]
    assert (plain.sound, plain.init_loc, plain.init_range, plain.init_scale) == (
        (),
        "normal",
        0.3,
        MeanFieldFamily().init_scale,
    )
    whole = ["--init-loc", "0.3", "--init-scale", "0.2", "--init-spread", "0.1"]
    assert family(*whole) == family("--course", "plain", *whole)
    own = family("--prior", "dirac-slab", "--method", "none", "--init-scale", "0.2")  # whose authors chose a start
    assert own.sound == () and own.init_scale == 0.2


MLP_5x400 = 784 * 400 + 4 * 160_000 + 5 * 400 + 4_010


@pytest.mark.fast_cases(1)
@pytest.mark.parametrize(("preset", "count"), [("bmr-mlp", MLP_5x400), ("bmr-vit", 3_186_954), ("bmr-mixer", 1_987_722)])
def test_the_nets_of_the_bmr_paper(preset: str, count: int) -> None:
    """At their sizes, with posteriors of everything, and all but the last layer prunable; flags go before."""
    made = parsed("--preset", preset)
    assert (made.dataset, made.method, made.steps, made.every) == ("fashion_mnist", "bmr", 25_500, 500)
    data = Dataset(np.zeros((4, 28, 28, 1), np.float32), np.array([0, 9, 3, 4], np.int32))
    bnn = build.make_bnn(made, rows.Data(data, data, "test", 1.0, data))
    assert sum(math.prod(spec.shape) for spec in bnn.layout if spec.bayesian) == count
    assert {str(spec.path.layer) for spec in bnn.layout if not spec.prunable} == {bnn.layout[-1].path.layer}
    short = parsed("--preset", preset, "--steps", "60", "--dataset", "digits", "--bayesian", "weights")
    assert (short.every, short.dataset, short.bayesian) == (2, "digits", "weights")


@pytest.mark.slow
def test_sizes_of_the_token_nets_are_flags() -> None:
    words = ("--net", "vit", "--vit.features", "8", "--vit.num-heads", "2", "--vit.frame", "8", "--vit.dropout", "0.2")
    bnn = build.make_bnn(parsed("--dataset", "digits", *words, "--vit.num-blocks", "1"), images())
    assert next(s.shape for s in bnn.layout if s.path == "position_embedding") == (1, 5, 8)
    assert not any(spec.bayesian for spec in bnn.layout if spec.path.is_token or spec.path.is_norm)
    small = ("--mixer.hidden-tokens", "3", "--mixer.features", "8", "--mixer.num-blocks", "1")
    mixer = build.make_bnn(parsed("--dataset", "digits", "--net", "mixer", *small), images())
    assert next(s.shape for s in mixer.layout if s.path == "MixerBlock_0.over_tokens.Dense_0.kernel") == (64, 3)
    sizes = ("--vgg.stage-sizes", "1", "1", "--vgg.features", "2", "3", "--vgg.units", "4", "--vgg.frame", "0")
    vgg = build.make_bnn(parsed("--dataset", "digits", "--net", "vgg", *sizes), images())
    assert next(s.shape for s in vgg.layout if s.path == "Dense_0.kernel") == (2 * 2 * 3, 4)


def test_the_command_line_has_the_defaults_of_fit_svi() -> None:
    python = {name: one.default for name, one in inspect.signature(bp.fit_svi).parameters.items()}
    made = build.fit_arguments(parsed(), images())
    of_a_run = {"num_steps", "batch_size", "eval_data", "eval_every", "evaluator", "checkpoint_every"}
    same = made.keys() - of_a_run
    assert {"course", "optimizer", "kl_weight", "estimator", "every", "storage", "remat", "early_stop"} <= same
    assert {name: made[name] for name in same} == {name: python[name] for name in same}


def sizes(optimizer: Any, steps: int = 3) -> list[float]:
    """Of a weight's steps under a gradient of 1."""
    params = {"w_auto_loc": jnp.zeros(())}
    state, found = optimizer.init(params), []
    for _ in range(steps):
        update, state = optimizer.update({"w_auto_loc": jnp.ones(())}, state, params)
        found.append(-float(update["w_auto_loc"]))
    return found


@pytest.mark.parametrize(
    ("words", "theirs"),
    [
        (["--learning-rate", "0.5"], optax.adabelief(optax.cosine_decay_schedule(0.5, 600))),
        (["--optimizer", "adam"], optax.adam(optax.cosine_decay_schedule(0.04, 600))),
        # Points in the weights' own units, and points under a prior that scales its sites.
        (
            ["--optimizer", "adam", "--posterior", "map", "--prior", "gaussian"],
            optax.adam(optax.cosine_decay_schedule(0.005, 600)),
        ),
        (["--optimizer", "adam", "--posterior", "map", "--prior", "flat"], optax.adam(optax.cosine_decay_schedule(0.04, 600))),
        (["--schedule", "constant", "--standard.rate", "0.3"], optax.adabelief(0.3)),
        (["--course", "plain", "--optimizer", "adam"], optax.adam(bp.courses.Plain().rate)),
        (["--course", "bmr", "--schedule", "cosine"], optax.adabelief(optax.cosine_decay_schedule(0.01, 600))),
    ],
)
def test_what_is_given_stands_and_the_rest_follows_the_course(words: list[str], theirs: Any) -> None:
    made = build.fit_arguments(parsed("--steps", "600", "--every", "50", *words), images())
    np.testing.assert_allclose(sizes(made["optimizer"]), sizes(theirs), rtol=1e-5)
    assert (made["kl_weight"], made["estimator"], made["every"]) == (None, None, 50)


@pytest.mark.slow
def test_the_weight_of_the_divergence_and_its_rise_are_given_apart() -> None:
    def weights(*words: str) -> list[float]:
        return [
            round(float(one), 6) for one in course.weights_by_step(parsed("--steps", "800", *words), 801)[[0, 100, 200, 800]]
        ]

    rise = ["--standard.warm-up", "0.25"]
    assert weights(*rise) == [0.0, 0.5, 1.0, 1.0]
    assert weights(*rise, "--kl-weight", "0.1") == [0.0, 0.05, 0.1, 0.1]
    assert weights("--kl-warmup", "0") == weights("--course", "plain") == [1.0] * 4
    assert weights("--course", "plain", "--kl-weight", "0.1", "--kl-warmup", "1") == [0.0, 0.0125, 0.025, 0.1]
    assert build.fit_arguments(parsed(*rise), images())["kl_weight"] is None


def test_a_course_is_a_choice_with_knobs() -> None:
    made = build.fit_arguments(parsed("--course", "Standard", "--standard.first", "0.1", "--standard.verified", "4"), images())
    assert made["course"] == bp.courses.Standard(first=0.1, verified=4)
    paper = build.fit_arguments(parsed("--course", "bmr", "--plain.every", "300"), images())["course"]
    assert isinstance(paper, bp.courses.Plain) and (paper.rate, paper.every) == (0.01, 300)


def test_presets_state_their_settings() -> None:
    stated = {"course", "estimator", "learning_rate", "optimizer", "batch_size", "schedule", "every", "kl_weight", "kl_warmup"}
    for name in flags.presets():
        made = flags.of_preset(name, {})
        assert stated <= set(made) and made["course"] == "plain", name


@pytest.mark.slow
def test_schedules_scale_with_the_steps() -> None:
    made = build.fit_arguments(parsed("--preset", "ssvi-cifar", "--steps", "1000"), images())
    assert [float(made["kl_weight"](step)) for step in (0, 250, 500, 999)] == pytest.approx([0.0, 0.005, 0.01, 0.01])
    params = {"b": jnp.zeros(())}
    state, rates = made["optimizer"].init(params), []
    for step in range(1000):
        update, state = made["optimizer"].update({"b": jnp.asarray(float(step % 500 == 0))}, state, params)
        rates += [-float(update["b"])] if step % 500 == 0 else []
    assert rates == pytest.approx([0.01, 0.01 / 2], rel=1e-4)  # momentum of 500 steps before is gone; cosine: half


def test_density_is_the_knob_of_the_method(tmp_path: Path) -> None:
    assert parsed("--method", "ssvi", "--density", "0.05").ssvi.density == 0.05
    assert parsed("--method", "snr", "--density", "Cubic(0.05, 0, 20)").snr.density == "Cubic(0.05, 0, 20)"
    assert parsed("--preset", "ssvi-cifar", "--density=0.2").ssvi.density == 0.2
    assert parsed("--method", "ssvi", "--density", "0.05", "--ssvi.density", "0.050").ssvi.density == 0.05
    made = parsed("--method", "ssvi", "--density", "0.05")
    settings.claim(made, tmp_path)
    assert json.loads((tmp_path / "settings.json").read_text())["ssvi"]["density"] == 0.05
    settings.claim(parsed("--method", "ssvi", "--ssvi.density", "0.05"), tmp_path)  # the same run, said otherwise


def test_every_knob_of_ssvi_is_a_flag() -> None:
    wanted = SSVI(
        density=0.2, removal="snr", addition="mean_gradient", distribution="erdos_renyi", first="sparse", replace=0.2,
        until=0.5, new_scale=0.01, growth="loss", num_draws=3, lam=2.0,
    )  # fmt: skip
    words = [word for name, value in dataclasses.asdict(wanted).items() for word in (f"--ssvi.{name}", str(value))]
    made = parsed("--method", "ssvi", *words)
    assert build.make_method(made) == wanted
    assert build.make_method(parsed("--method", "ssvi", "--ssvi.new-scale", "mean_raw")).new_scale == "mean_raw"


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["--density", "0.05"], "method bmr has no density to set"),
        (["--method", "ssvi", "--density", "low"], "density must be a number for method ssvi, got 'low'"),
        (["--method", "ssvi", "--density", "0.1", "--ssvi.density", "0.2"], "density=0.1 and ssvi.density=0.2 differ"),
        (["--method", "snr", "--density", "0.1", "--snr.density=0.2"], "density=0.1 and snr.density=0.2 differ"),
        (["--method", "ssvi", "--density", "1.5"], "density must lie in (0, 1]"),
        (["--method", "ssvi", "--ssvi.new-scale", "men"], "unknown new_scale 'men'. Did you mean 'mean'"),
        (["--preset", "ssvi"], "unknown preset 'ssvi'. Did you mean 'ssvi-cifar'"),
        (["--optimizer", "sdg"], "unknown optimizer 'sdg'. Did you mean 'sgd'"),
        (["--storage", "activ"], "unknown storage 'activ'. Did you mean 'active'"),
        (["--storage", "active"], "storage='active' needs as many alive weights in each array throughout"),
        (["--dataset", "diabetes", "--augment", "crop-flip"], "augment=crop-flip needs images"),
        (["--dataset", "diabetes", "--net", "resnet18"], "net resnet18 needs images"),
        (["--kl-weight", "-1"], "kl_weight must be finite and not negative, got -1.0"),
        (["--kl-warmup", "2"], "kl_warmup must lie in [0, 1]"),
        (["--learning-rate", "-1"], "learning_rate must be finite and not negative, got -1.0"),
        (["--init-spread", "0.1"], "init_spread=0.1 spreads the scales about init_scale"),
        (["--init-spread", "0.1", "--init-scale", "0.1"], "whose start has one scale for each array: give init_loc too, or"),
        (["--course", "standrd"], "unknown course 'standrd'. Did you mean 'standard'"),
        (["--steps", "300", "--course", "bmr"], "every=500 never prunes in 300 steps: choose less, or method none"),
        (["--steps", "300", "--standard.first", "0.99", "--standard.last", "0.99"], "never prunes in 300 steps (297 to 297 of"),
    ],
)
def test_a_bad_setting_is_told_before_anything_is_written(
    words: list[str], told: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert told in refused(capsys, "run", *words, "--out", str(tmp_path / "run"))
    assert not (tmp_path / "run").exists()


@pytest.mark.slow
def test_the_preset_runs_shortened_on_a_tiny_net(tmp_path: Path) -> None:
    from bayesprune import cli

    assert cli.main(["run", *TINY, "--density", "0.4", "--out", str(tmp_path)]) == 0
    made = content(tmp_path)
    kept = json.loads((tmp_path / "settings.json").read_text())
    kept.pop("checksum")
    assert kept["preset"] == "ssvi-cifar" and kept["optimizer"] == "sgd" and kept["ssvi"]["new_scale"] == "mean_raw"
    assert made["settings"] == kept and made["kl_weight"] == 0.01
    assert made["sparsity"]["prunable"]["density"] == pytest.approx(0.4, abs=0.01)
    assert made["sparsity"]["per_site"]["Conv_0.kernel"]["density"] == 1.0
    assert made["chosen_step"]["on"] == "validation" and made["chosen_step"]["step"] in (6, 12)
    assert 0 < made["flops"]["theoretical"] < made["flops"]["executed"]


@pytest.mark.every
@pytest.mark.slow
def test_a_posterior_of_points_under_ssvi_is_rigl(tmp_path: Path) -> None:
    assert small_run(tmp_path, "--method", "ssvi", "--density", "0.3", "--posterior", "map", "--optimizer", "sgd") == 0
    assert content(tmp_path)["sparsity"]["prunable"]["density"] == pytest.approx(0.3, abs=0.01)
    assert (tmp_path / "exchanged.png").exists() and not (tmp_path / "pruned.png").exists()
