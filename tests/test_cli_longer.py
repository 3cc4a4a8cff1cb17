"""A run that goes on to more steps: what may change, what may not, and that it is the run it would have been."""

import json
from pathlib import Path

import jax
import numpy as np
import pytest

from bayesprune.cli import results, settings
from bayesprune.cli.build import resolve
from bayesprune.cli.flags import parse
from bayesprune.report.export import load_posterior
from tests.test_cli import content, refused, small_run

PLAIN = ["--course", "plain"]  # which is not laid out over its steps


def started(folder: Path, *words: str) -> Path:
    """A folder with the settings of a run of 600 steps."""
    settings.claim(resolve(parse(["--steps", "600", *words, "--out", str(folder)])), folder)
    return folder


def test_more_steps_keep_the_periods_of_the_first(tmp_path: Path) -> None:
    folder = started(tmp_path, *PLAIN, "--every", "20")
    longer = resolve(parse([*PLAIN, "--steps", "900", "--out", str(folder)]))
    assert (longer.every, longer.eval_every, longer.checkpoint_every) == (20, 30, 60)
    settings.check(longer, folder)
    assert json.loads((folder / settings.FILE).read_text())["steps"] == 600  # a check writes nothing
    settings.claim(longer, folder)
    again = resolve(parse([*PLAIN, "--steps", "900", "--out", str(folder)]))
    assert settings.to_json(again) == settings.to_json(longer) and settings.load(folder).steps == 900
    settings.claim(again, folder)


ALL_BUT_ACTS = ["--schedule", "constant", "--kl-warmup", "0"]


def test_a_course_of_which_nothing_is_laid_out_goes_on(tmp_path: Path) -> None:
    folder = started(tmp_path, *ALL_BUT_ACTS, "--every", "20")
    settings.check(resolve(parse([*ALL_BUT_ACTS, "--steps", "900", "--out", str(folder)])), folder)


@pytest.mark.parametrize(
    ("first", "then", "told"),
    [
        ([], ["--steps", "300"], "steps was 600, now 300"),
        ([], ["--steps", "900", "--seed", "1"], "seed was 0, now 1"),
        (["--every", "20"], ["--steps", "900", "--every", "30"], "every was 20, now 30"),
        (
            [],
            ["--steps", "900"],
            "with course=standard, which is laid out over its steps: it cannot be lengthened. Give another",
        ),
        (ALL_BUT_ACTS, [*ALL_BUT_ACTS, "--steps", "900"], "with course=standard, which is laid out"),
        (["--schedule", "cosine"], ["--schedule", "cosine", "--steps", "900"], "with schedule=cosine, which is laid out"),
        (["--kl-warmup", "0.5"], ["--kl-warmup", "0.5", "--steps", "900"], "with kl_warmup=0.5, which is laid out"),
    ],
)
def test_what_cannot_go_on_is_refused(
    first: list[str], then: list[str], told: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = started(tmp_path / "run", *first)
    before = (folder / settings.FILE).read_text()
    assert told in refused(capsys, "run", *then, "--out", str(folder))
    assert (folder / settings.FILE).read_text() == before


def test_a_run_is_finished_for_as_many_steps_as_it_has(tmp_path: Path) -> None:
    assert not results.finished(tmp_path, 1)
    made = {name: {} for name in results.NEEDED[results.METRICS]} | {"settings": {"steps": 600}}
    results.write_record(tmp_path / results.METRICS, made)
    assert results.finished(tmp_path, 600) and not results.finished(tmp_path, 601)


@pytest.mark.slow_cases(1)
@pytest.mark.slow
@pytest.mark.parametrize("more", [[], ["--choose", "best", "--validation", "0.3", "--eval-every", "7"]], ids=["last", "best"])
def test_a_lengthened_run_is_the_longer_run_to_the_bit(
    more: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    short, straight = tmp_path / "short", tmp_path / "straight"
    more = [*more, *PLAIN]
    assert small_run(short, *more) == 0
    capsys.readouterr()
    assert small_run(short, *more, "--steps", "28") == 0
    assert "going on from step 20 of 28" in capsys.readouterr().out
    assert small_run(straight, *more, "--steps", "28") == 0
    one, other = (load_posterior(folder / "posterior.safetensors") for folder in (short, straight))
    jax.tree.map(np.testing.assert_array_equal, one.posterior, other.posterior)
    jax.tree.map(np.testing.assert_array_equal, one.mask, other.mask)
    for name in ("metrics", "sparsity", "num_steps", "chosen_step"):
        assert content(short)[name] == content(straight)[name]
    assert content(short)["num_steps"] == 28
    assert small_run(short, *more, "--steps", "28") == 0 and "finished" in capsys.readouterr().out
