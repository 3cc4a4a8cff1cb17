"""The harness of the benchmarks, on a toy study: keys, records, resuming, and what the tables say is missing."""

import json
from dataclasses import dataclass, field, make_dataclass
from pathlib import Path

import numpy as np
import pytest

from bayesprune import cells
from bayesprune.core.files import DamagedFileError


@dataclass(frozen=True)
class Toy:
    net: str
    rate: float
    seed: int
    epochs: int = 50
    cold: bool = False


PLANNED = tuple(Toy(net, 0.1, seed) for net in ("small", "large") for seed in (0, 1))


def mean_score(found: cells.Found) -> str:
    have = [found[cell]["score"] for cell in PLANNED if cell in found]
    return cells.table(["seeds", "score"], [[cells.count(have, PLANNED), cells.mean_and_spread(have)]], "rl")


def toy(done: list[Toy]) -> cells.Study:
    def run(cell: Toy, folder: Path) -> cells.Record:
        done.append(cell)
        return {"score": cell.rate + cell.seed}

    return cells.Study("toy", PLANNED, run, {"score": mean_score})


def lines(folder: Path) -> list[str]:
    return (folder / "toy.jsonl").read_text().splitlines()


def test_the_key_names_every_setting_that_is_not_at_its_default():
    assert cells.key(Toy("small", 0.1, 0)) == "net=small rate=0.1 seed=0"
    assert cells.key(Toy("small", 0.1, 0, epochs=3, cold=True)) == "net=small rate=0.1 seed=0 epochs=3 cold=True"


def test_a_field_added_with_a_default_changes_no_key():
    older = make_dataclass("Older", ["net", ("seed", int, 0)], frozen=True)
    newer = make_dataclass("Newer", ["net", ("width", float, field(default=1.0)), ("seed", int, 0)], frozen=True)
    assert cells.key(older("small")) == cells.key(newer("small"))


def test_settings_are_chosen_and_changed_with_their_own_types():
    cell = cells.change(PLANNED[0], ["rate=1e-3", "epochs=2", "cold=True"])
    assert cell == Toy("small", 0.001, 0, epochs=2, cold=True)
    assert cells.select(PLANNED, ["net=large", "seed=1,2"]) == [Toy("large", 0.1, 1)]
    assert cells.with_seeds(PLANNED, [7]) == [Toy("small", 0.1, 7), Toy("large", 0.1, 7)]


@pytest.mark.parametrize("wrong", ["depth=3", "epochs", "epochs=many", "cold=maybe"])
def test_a_setting_that_is_none_is_refused_by_name(wrong):
    with pytest.raises(ValueError, match=wrong):
        cells.change(PLANNED[0], [wrong])


def test_records_come_back_bit_for_bit(tmp_path):
    values = np.random.default_rng(0).standard_normal((3, 2))
    record = {"cell": "a", "third": 1 / 3, "array": values, "single": np.float32(0.1), "none": float("nan")}
    cells.append(tmp_path / "toy.jsonl", record)
    back = cells.read_records(tmp_path / "toy.jsonl")["a"]
    assert back["third"] == 1 / 3
    assert (np.array(back["array"]) == values).all()
    assert back["single"] == float(np.float32(0.1))
    assert back["none"] is None


@pytest.mark.parametrize("cut", [1, 20, -1])
def test_half_a_line_of_a_killed_writer_is_noticed_and_its_cell_is_run_again(tmp_path, cut):
    done: list[Toy] = []
    cells.main(toy(done), ["run", "--out", str(tmp_path)])
    whole = lines(tmp_path)
    (tmp_path / "toy.jsonl").write_text("\n".join([*whole[:-1], whole[-1][:cut]]))
    with pytest.warns(UserWarning, match="line 4 is cut short"):
        assert len(cells.read_records(tmp_path / "toy.jsonl")) == 3
    with pytest.warns(UserWarning, match="line 4 is cut short"):
        cells.main(toy(done), ["run", "--out", str(tmp_path)])
    assert done == [*PLANNED, PLANNED[-1]]
    with pytest.warns(UserWarning, match="cut short"):
        assert set(cells.found(toy(done), tmp_path)) == set(PLANNED)


def test_the_same_cell_twice_is_refused(tmp_path):
    for score in (1, 2):
        cells.append(tmp_path / "toy.jsonl", {"cell": "a", "score": score})
    with pytest.raises(ValueError, match=r"line 2: 'a' is there twice.*delete"):
        cells.read_records(tmp_path / "toy.jsonl")


def test_finished_cells_are_skipped_and_other_settings_stay_out_of_the_tables(tmp_path, capsys):
    done: list[Toy] = []
    cells.main(toy(done), ["run", "--only", "net=small", "--out", str(tmp_path)])
    cells.main(toy(done), ["run", "--only", "seed=0", "--set", "epochs=1", "--out", str(tmp_path)])
    assert "| 2 of 4 | 0.6000 ± 0.7071 |" in capsys.readouterr().out
    cells.main(toy(done), ["run", "--out", str(tmp_path)])
    assert [cell for cell in done if cell.epochs == 50] == list(PLANNED)
    out = capsys.readouterr().out
    assert out.count("there already") == 2
    assert "| 4 | 0.6000 ± 0.5774 |" in out


def test_one_value_has_a_mean_and_no_error():
    assert cells.mean_and_error([1.25]) == "1.25"  # it was "1.25 ± 0", as if known exactly
    assert cells.mean_and_error([1.0, 2.0]) == "1.5 ± 0.5"


def test_what_is_missing_is_said(tmp_path):
    cells.main(toy([]), ["run", "--only", "seed=1", "--out", str(tmp_path)])
    assert "2 of 4 cells are missing, 'net=small rate=0.1 seed=0' first." in cells.tables(toy([]), tmp_path)
    assert "| 0 of 4 | missing |" in cells.tables(toy([]), tmp_path / "nowhere")


def test_every_record_says_what_made_it(tmp_path):
    cells.main(toy([]), ["run", "--only", "net=small", "seed=1", "--out", str(tmp_path)])
    (record,) = map(json.loads, lines(tmp_path))
    assert {name: record[name] for name in ("net", "rate", "seed", "epochs", "cold", "score")} == {
        "net": "small",
        "rate": 0.1,
        "seed": 1,
        "epochs": 50,
        "cold": False,
        "score": 1.1,
    }
    assert {"commit", "dirty", "date", "python", "jax", "numpyro", "bayesprune", "device", "seconds"} <= record.keys()
    assert record["commit"] is None or len(record["commit"]) == 40
    assert record["jax"] and record["numpyro"] and record["device"]


def test_a_figure_named_like_a_setting_is_refused(tmp_path):
    study = cells.Study("toy", PLANNED, lambda cell, folder: {"seed": 3}, {})
    with pytest.raises(ValueError, match="seed would be there twice"):
        cells.main(study, ["run", "--out", str(tmp_path)])


@pytest.mark.parametrize("words", [["--only", "net=huge"], ["--only", "depth=3"], ["--set", "epochs=x"]])
def test_a_wrong_command_ends_with_a_sentence(words, tmp_path):
    with pytest.raises(SystemExit, match=r"net=huge leaves none|NAME=VALUE|must be a int"):
        cells.main(toy([]), ["run", *words, "--out", str(tmp_path)])


@pytest.mark.parametrize("words", [["--only", "net=small"], ["--seeds", "0"], ["--set", "epochs=1"]])
def test_a_table_of_some_cells_is_refused(words, tmp_path):
    """It was one of all of them, in silence."""
    with pytest.raises(SystemExit, match="table shows all finished cells"):
        cells.main(toy([]), ["table", *words, "--out", str(tmp_path)])


def test_damaged_records_end_with_a_sentence_or_are_left_out_with_a_warning(tmp_path, recwarn):
    """Any byte changed, or any end cut off: never a traceback; a setting that has changed is another cell's."""
    cells.main(toy([]), ["run", "--out", str(tmp_path)])
    path, rng = tmp_path / "toy.jsonl", np.random.default_rng(0)
    content, study = path.read_bytes(), toy([])
    deep, renamed = b'{"cell": ' + b"[" * 100_000, content.replace(b'"score"', b'"scorf"', 1)
    changed = [
        content[:place] + bytes([content[place] ^ int(by)]) + content[place + 1 :]
        for place, by in zip(rng.integers(0, len(content), 150), rng.integers(1, 256, 150), strict=True)
    ]
    refused = 0
    for bad in [*changed, *(content[:end] for end in range(0, len(content), 97)), deep, content + deep, renamed, b"\x00" * 64]:
        path.write_bytes(bad)
        try:
            cells.tables(study, tmp_path)
        except DamagedFileError as error:
            refused += str(path) in str(error)
            with pytest.raises(SystemExit, match=r"toy\.jsonl"):
                cells.main(study, ["table", "--out", str(tmp_path)])
    assert refused and recwarn


def test_a_record_with_the_settings_of_another_cell_is_refused(tmp_path):
    cells.main(toy([]), ["run", "--out", str(tmp_path)])
    path = tmp_path / "toy.jsonl"
    path.write_text(path.read_text().replace('"rate": 0.1', '"rate": 0.7', 1))
    with pytest.raises(DamagedFileError, match=r"rate=0\.7"):
        cells.tables(toy([]), tmp_path)


def test_a_folder_in_the_place_of_the_records_is_said(tmp_path):
    (tmp_path / "toy.jsonl").mkdir()
    with pytest.raises(SystemExit, match=r"toy\.jsonl"):
        cells.main(toy([]), ["table", "--out", str(tmp_path)])
