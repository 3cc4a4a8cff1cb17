"""Ready callbacks, by fakes that take nothing but Python's own floats and whole steps that rise."""

import json
import math

import numpy as np
import pytest
from tests.infer import programs

import bayesprune as bp

BNN, DATA = programs.small_bnn(), programs.classes()
SETTINGS = {
    "num_steps": 12, "batch_size": 16, "sparsifier": bp.methods.BMR(), "every": 5, "eval_data": DATA, "eval_every": 6,
    "evaluator": lambda *_, **__: {"nll": 0.5}, "progress": False,
}  # fmt: skip


class Strict:
    """Records calls as Weights & Biases' ``run.log(dict, step=)`` would take them, and answers True to be ignored."""

    def __init__(self) -> None:
        self.rows: dict[int, dict[str, float]] = {}

    def log(self, data: dict[str, float], step: int) -> bool:
        assert type(step) is int and step > max(self.rows, default=0), "steps must rise"
        assert all(type(name) is str and type(figure) is float and math.isfinite(figure) for name, figure in data.items())
        self.rows[step] = dict(data)
        return True


class Writer(Strict):
    """As PyTorch's SummaryWriter; `FlaxWriter` as Flax's."""

    def add_scalar(self, tag: str, scalar_value: float, global_step: int) -> None:
        assert type(tag) is str and type(scalar_value) is float and type(global_step) is int
        self.rows.setdefault(global_step, {})[tag] = scalar_value


class FlaxWriter:
    def __init__(self) -> None:
        self.writer = Writer()

    def scalar(self, tag: str, value: float, step: int) -> None:
        self.writer.add_scalar(tag, value, step)


@pytest.mark.slow
def test_every_receiver_gets_the_figures_of_the_fit(tmp_path, rng_key) -> None:
    strict, writer, flax = Strict(), Writer(), FlaxWriter()
    ready = [bp.callbacks.to_logger(strict.log), bp.callbacks.to_logger(writer), bp.callbacks.to_logger(flax)]
    fit = bp.fit_svi(rng_key, BNN, DATA, callbacks=[*ready, bp.callbacks.to_jsonl(tmp_path / "new" / "log.jsonl")], **SETTINGS)
    assert list(strict.rows) == [5, 6, 10, 12], "whatever the receiver answers, the fit goes on"
    assert strict.rows == writer.rows == flax.writer.rows
    lines = [json.loads(line) for line in (tmp_path / "new" / "log.jsonl").read_text().splitlines()]
    assert lines == [{"step": step} | row for step, row in strict.rows.items()]
    for step, row in strict.rows.items():
        assert row["loss"] == float(fit.losses[step - 1])
    assert [step for step, row in strict.rows.items() if "eval/nll" in row] == [6, 12]
    np.testing.assert_array_equal([strict.rows[step]["eval/nll"] for step in (6, 12)], fit.history["eval/nll"])
    assert {step: row["prune/step"] for step, row in strict.rows.items() if "prune/step" in row} == {6: 5.0, 12: 10.0}
    assert strict.rows[12]["prune/num_alive"] == float(fit.history["prune/num_alive"][1])
    assert strict.rows[5]["density"] == 1.0 and strict.rows[12]["density"] == pytest.approx(fit.history["prune/density"][1])


def test_what_is_undefined_is_left_out_and_a_receiver_may_see_several_fits() -> None:
    strict = Strict()
    callback = bp.callbacks.to_logger(strict.log)
    history = {"prune/step": [np.int64(2)], "prune/readiness": [math.nan], "prune/density": [np.float32(0.5)], "other/x": [1.0]}
    for step in (3, 4):
        callback(bp.Moment(step, np.float32(1.5), 0.5, history, dict, dict))
    now = {"loss": 1.5, "density": 0.5}
    assert strict.rows == {3: now | {"prune/step": 2.0, "prune/density": 0.5}, 4: now}


@pytest.mark.parametrize("logger", ["wandb", Writer, None, 3], ids=str)
def test_what_logs_nothing_is_refused(logger) -> None:
    with pytest.raises(TypeError, match=r"logger must be a function of a dict.*add_scalar or scalar, got .*run\.log"):
        bp.callbacks.to_logger(logger)


def test_a_file_that_goes_on_tells_an_act_once(tmp_path) -> None:
    """Of a fit that is resumed at step 30: the line of step 40 leaves out what that of step 20 had. A torn line is no harm."""
    path = tmp_path / "log.jsonl"
    history = {"prune/step": [10], "prune/density": [0.5]}
    moment = lambda step: bp.Moment(step, 2.0, 1.0, history, dict, dict)  # noqa: E731
    bp.callbacks.to_jsonl(path)(moment(20))
    with open(path, "a") as file:
        file.write('{"step": 30, "lo\n')
    again = bp.callbacks.to_jsonl(path)
    again(moment(40))
    again(moment(50)._replace(history=history | {"prune/step": [10, 45], "prune/density": [0.5, 0.4]}))
    lines = path.read_text().splitlines()
    told = [json.loads(line).get("prune/step") for line in (lines[0], *lines[2:])]
    assert told == [10.0, None, 45.0]
    fresh = bp.callbacks.to_jsonl(path)
    fresh(moment(20))
    assert json.loads(path.read_text().splitlines()[-1])["prune/step"] == 10.0  # a step that is told again


def test_a_second_fit_of_one_callback_is_told_whole() -> None:
    """Of as many steps as the first: its evaluation at step 4 is another one, not that of the first fit again."""
    rows: list[dict[str, float]] = []
    callback = bp.callbacks.to_logger(lambda figures, step: rows.append(figures))
    for nll in (0.5, 0.25):
        callback(bp.Moment(4, 2.0, 1.0, {"eval/step": [4], "eval/nll": [nll]}, dict, dict))
        callback(bp.Moment(5, 2.0, 1.0, {"eval/step": [4], "eval/nll": [nll]}, dict, dict))
    assert [row.get("eval/nll") for row in rows] == [0.5, None, 0.25, None]
