"""The studies of fits as they come: their cells, what they count as dead, refused or chosen, and one tiny cell of each."""

import warnings
from dataclasses import replace
from types import SimpleNamespace

import course
import course_choices
import course_idle
import course_points
import course_uci
import course_warm_up
import fits_judged
import nets_at_random
import no_silent_deaths
import numpy as np
import pytest

import bayesprune as bp
from bayesprune import cells

STUDIES = (
    course.STUDY,
    course_choices.STUDY,
    no_silent_deaths.STUDY,
    course_uci.STUDY,
    course_warm_up.STUDY,
    course_idle.STUDY,
    course_points.STUDY,
)
TRIAL = course.Cell("digits", "mlp100x2", "standard", 0, 5_000, "held_out", "warm_up=0.3;start=he;acts=(1, 2)")


@pytest.mark.parametrize("study", STUDIES, ids=lambda study: study.name)
def test_no_two_cells_have_one_key_and_empty_tables_say_so(study, tmp_path):
    assert len({cells.key(cell) for cell in study.cells}) == len(study.cells)
    made = cells.tables(study, tmp_path)
    assert f"{len(study.cells)} of {len(study.cells)} cells are missing" in made
    assert "missing |" in made


def test_the_first_seed_comes_first_and_settings_are_chosen_by_held_out_rows_alone():
    assert [cell.seed for cell in course.CELLS] == sorted(cell.seed for cell in course.CELLS)
    assert {(cell.rows, cell.knobs) for cell in course.CELLS} == {("test", "")}
    chosen_by = (*course_choices.CELLS, *course_warm_up.CELLS)
    assert {(cell.rows, cell.road) for cell in chosen_by} == {("held_out", "standard")}
    assert {(cell.rows, cell.road, cell.knobs) for cell in course_idle.CELLS} == {("held_out", "two_calls", "")}


def test_one_knob_is_changed_at_a_time():
    around = course.read_knobs(course_choices.AROUND)
    for cell in course_choices.CELLS:
        knobs = course.read_knobs(cell.knobs)
        assert around.keys() <= knobs.keys()
        assert sum(around.get(name) != value for name, value in knobs.items()) == (cell.knobs != course_choices.AROUND)


def test_test_rows_are_not_looked_at_where_settings_are_chosen(monkeypatch):
    rows = bp.Dataset(np.arange(60.0)[:, None], np.arange(60) % 3)
    monkeypatch.setattr(bp.data, "load", lambda *_, **__: (rows, None))
    train, held = course.split(TRIAL)
    assert (len(train.y), len(held.y)) == (50, 10)
    assert sorted([*train.x[:, 0], *held.x[:, 0]]) == list(range(60))
    with pytest.raises(ValueError, match="'held_out'"):
        course.split(replace(TRIAL, rows="train"))


def test_knobs_are_those_of_the_standard_course(monkeypatch):
    knobs = {"warm_up": 0.3, "start": "he", "acts": (1, 2)}
    assert course.read_knobs(TRIAL.knobs) == knobs
    monkeypatch.setattr(bp, "courses", SimpleNamespace(Standard=dict), raising=False)
    assert course.course(TRIAL) == {"course": {"warm_up": 0.3, "acts": (1, 2)}}  # the start is the posterior's
    assert course.start_of(TRIAL) == "he" and course.start_of(replace(TRIAL, knobs="")) == ""
    assert course.course(replace(TRIAL, knobs="")) == {}


def test_what_is_watched_is_told_even_after_an_error():
    with pytest.raises(ZeroDivisionError), fits_judged.watched() as told:
        for _ in range(2):
            warnings.warn("x" * 300, UserWarning, stacklevel=1)
        warnings.warn("of no interest", DeprecationWarning, stacklevel=1)
        1 / 0  # noqa: B018
    assert told["warnings"] == ["x" * fits_judged.WORDS]
    assert told["cpu_seconds"] >= 0


def test_acts_are_summed_and_what_nobody_wrote_down_is_unknown():
    history = {"prune/step": np.array([5, 10]), "prune/num_pruned": np.array([3.0, 1.0])}
    none = fits_judged.acts_of(history)
    assert none == {"acts": 2, "proposed": None, "refused": None, "bound_gained": None}
    verified = history | {"prune/num_proposed": np.array([4.0, np.nan]), "prune/bound_gained": np.array([1.5, 0.5])}
    assert fits_judged.acts_of(verified) == {"acts": 2, "proposed": 4, "refused": 1, "bound_gained": 2}


def test_a_network_without_a_path_is_dead_and_one_answer_for_all_is_no_learning():
    bnn = bp.BNN(bp.nets.MLP((2,), 2), prior=bp.priors.Flat(), likelihood=bp.likelihoods.Categorical(), input_shape=(3,))
    cut = {"Dense_0.kernel": np.zeros((3, 2), bool), "Dense_0.bias": np.ones(2, bool)}
    assert fits_judged.sizes(bnn, {}) == {"prunable": 8, "alive": 8, "connected": 8}
    assert fits_judged.sizes(bnn, cut) == {"prunable": 8, "alive": 2, "connected": 2}
    assert fits_judged.sizes(bnn, cut | {"Dense_0.bias": np.zeros(2, bool)})["connected"] == 0
    assert fits_judged.unseen(np.array([1, 0, 1, 2])) == 0.5
    assert fits_judged.unseen(np.array([1.0, 3.0])) == pytest.approx(1.0, rel=1e-5)


@pytest.mark.parametrize(("figures", "dead"), [({"accuracy": 0.5}, True), ({"accuracy": 0.6}, False), ({"rmse": 1.0}, True)])
def test_who_died_is_told_by_the_figures(figures, dead, monkeypatch):
    monkeypatch.setattr(bp, "evaluate", lambda *_, **__: figures)
    monkeypatch.setattr(fits_judged, "sizes", lambda *_: {"connected": 4})
    y = np.array([0.0, 2.0]) if "rmse" in figures else np.array([0, 1])
    assert fits_judged.judged(None, {}, {}, bp.Dataset(y, y))["died"] is dead


def test_networks_at_random_are_of_all_kinds_and_steps_are_within_bounds():
    planned = no_silent_deaths.CELLS
    assert {cell.net.split("-")[0] for cell in planned} == set(nets_at_random.KINDS)
    least = no_silent_deaths.NETS // len(no_silent_deaths.METHODS)
    assert all(sum(cell.method == method for cell in planned) >= least for method in no_silent_deaths.METHODS)
    assert {cell.number for cell in planned} == set(range(no_silent_deaths.NETS))
    assert all(no_silent_deaths.FEWEST <= cell.steps <= no_silent_deaths.MOST for cell in planned)
    depths = {cell.net.count("-") for cell in planned if cell.net.startswith("mlp")}
    assert depths <= set(range(1, 9)) and {1, 8} <= depths


def test_silence_and_refusal_are_counted(monkeypatch):
    well = {
        "raised": "",
        "died": False,
        "warnings": [],
        "prunable": 10,
        "alive": 5,
        "connected": 5,
        "accuracy": 0.9,
        "unseen": 0.1,
    }
    long = [replace(cell, steps=2_000) for cell in no_silent_deaths.CELLS if cell.method == "bmr"][:4]
    monkeypatch.setattr(no_silent_deaths, "CELLS", tuple(long))
    records = [well | {"died": True}, well | {"died": True, "warnings": ["a | b"]}, well | {"alive": 10}, well]
    found = dict(zip(long, records, strict=True))
    assert "| bmr | 4 | 0 | 2 | 1 | 1 | 0 | 0.900 ± 0.000 |" in no_silent_deaths.counts(found)
    assert [row.split("|")[1].strip() for row in no_silent_deaths.cases(found).splitlines()[2:]] == [
        "died in silence", "died, and said so", "refused to prune"
    ]  # fmt: skip
    assert not no_silent_deaths.refused(replace(long[2], method="ssvi"), records[2])
    assert not no_silent_deaths.refused(replace(long[2], steps=900), records[2])


def test_the_best_of_twenty_is_chosen_by_held_out_rows():
    common = {"test_deviation": 9.0, "alive": 1, "prunable": 2, "died": False}
    planned = [cell for cell in course_uci.CELLS if cell.data == "yacht"]
    found = {
        cell: common | course_uci.drawn(cell.number) | {"held_rmse": abs(cell.number - 3), "test_rmse": 1.0 + cell.number}
        for cell in planned
        if cell.number != course_uci.STANDARD
    }
    found |= {cell: common | {"test_rmse": 2.0} for cell in planned if cell.number == course_uci.STANDARD}
    row = next(line for line in course_uci.compared(found).splitlines() if line.startswith("| yacht"))
    assert "| 20 | 4 |" in row and "| 0.500 | 1 | 1 of 20 | 10.5 | 0 |" in row


def test_random_courses_are_within_bounds_and_come_again():
    drawn = [course_uci.drawn(number) for number in range(course_uci.COURSES)]
    assert drawn == [course_uci.drawn(number) for number in range(course_uci.COURSES)]
    assert all(0 <= one["warm_up"] <= 0.8 and 1e-3 <= one["rate"] <= 3e-2 for one in drawn)
    assert all(len({one[name] for one in drawn}) == 2 for name in ("start", "cosine", "verified"))
    assert course_uci.given(course_uci.drawn(course_uci.STANDARD), 100) == {}


TINY = {
    "course": (["data=digits", "road=two_calls", "seed=0"], ["steps=20"], "accuracy"),
    "course_choices": (["data=digits", "seed=0", "knobs=first=0.0;warm_up=0.5;start=he"], ["steps=20"], "accuracy"),
    "course_warm_up": (["data=digits", "seed=0", "knobs=warm_up=1.0"], ["steps=20"], "accuracy"),
    "no_silent_deaths": (["number=7"], ["steps=20"], "accuracy"),  # a recurrent cell
    "course_idle": (["data=digits", "seed=0"], ["steps=20"], "idle=0.05/accuracy"),
    "course_uci": (["number=-1", "seed=0", "data=yacht"], ["steps=20"], "test_rmse"),
}


@pytest.mark.slow_cases(1)
@pytest.mark.slow
@pytest.mark.parametrize("study", STUDIES, ids=lambda study: study.name)
def test_a_tiny_cell_runs(study, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    tables = [bp.Dataset(rng.normal(size=(rows, 3)), rng.normal(size=rows)) for rows in (300, 30)]
    if study is course_uci.STUDY:
        monkeypatch.setattr(bp.data, "load", lambda *_, **__: tables)
    only, changes, figure = TINY[study.name]
    cells.main(study, ["run", "--only", *only, "--set", *changes])
    (record,) = cells.read_records(tmp_path / "runs" / f"{study.name}.jsonl").values()
    of_a_rule = "".join(figure.rpartition("/")[:2])
    assert np.isfinite(record[figure]) and record[of_a_rule + "connected"] > 0


@pytest.mark.slow_cases(5)
@pytest.mark.fast_cases(4)
@pytest.mark.parametrize("number", range(len(nets_at_random.KINDS)))
def test_networks_of_every_kind_are_built(number):
    data, name = nets_at_random.draw(number)
    side = nets_at_random.SIDES[data]
    shape = (side, side, 1)
    bnn = bp.BNN(nets_at_random.build(name), prior=bp.priors.Flat(), likelihood=bp.likelihoods.Categorical(), input_shape=shape)
    assert bnn.output_shape == (10,)
