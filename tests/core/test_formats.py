"""What our files hold: as it went, strict, and with a checksum that a changed value does not pass."""

import json
import os
from pathlib import Path

import jax.numpy as jnp
import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from bayesprune.core import files, formats
from bayesprune.core.files import DamagedFileError
from bayesprune.core.formats import read_arrays, read_record, read_tensors, write_arrays, write_json, write_record

TOLD = ("thing", "Mend it.")


@pytest.mark.parametrize("call", ["fsync", "replace"])
@pytest.mark.parametrize(
    ("failure", "expected", "remedy"),
    [
        (OSError(28, "No space left on device"), OSError, "free some disk space"),
        (PermissionError(13, "Permission denied"), PermissionError, "folder you may write to"),
        (KeyboardInterrupt("by hand"), KeyboardInterrupt, "by hand"),
    ],
)
def test_a_failed_write_leaves_the_old_file_and_no_litter(tmp_path, monkeypatch, call, failure, expected, remedy):
    path = tmp_path / "metrics.json"
    write_json(path, {"old": 1})

    def fail(*_):
        raise failure

    monkeypatch.setattr(files.os, call, fail)
    with pytest.raises(expected, match=remedy) as caught:
        write_json(path, {"new": 2})
    monkeypatch.undo()
    assert expected is KeyboardInterrupt or str(path) in str(caught.value)
    assert json.loads(path.read_text()) == {"old": 1}
    assert os.listdir(tmp_path) == ["metrics.json"]


def test_a_path_through_a_file_and_a_folder_as_file_are_told(tmp_path):
    (tmp_path / "file").write_text("x")
    with pytest.raises(OSError, match="Remedy: "):
        write_json(tmp_path / "file" / "metrics.json", {})
    with pytest.raises(IsADirectoryError, match="add a file name"):
        write_json(tmp_path, {})


def test_a_link_survives_and_permissions_are_the_usual_ones(tmp_path):
    (tmp_path / "real.json").write_text("old")
    (tmp_path / "link.json").symlink_to(tmp_path / "real.json")
    write_json(tmp_path / "link.json", [1])
    assert (tmp_path / "link.json").is_symlink()
    assert json.loads((tmp_path / "real.json").read_text()) == [1]
    (tmp_path / "plain").touch()
    assert (tmp_path / "real.json").stat().st_mode == (tmp_path / "plain").stat().st_mode


def test_json_is_strict_and_takes_arrays(tmp_path):
    data = {
        "a": np.float32(0.5),
        "b": jnp.array([1, 2]),
        "c": [float("inf"), np.nan, True, None],
        3: Path("x"),
        "d": (np.bool_(True),),
    }
    write_json(tmp_path / "m.json", data)

    def refuse(token):
        raise AssertionError(token)

    got = json.loads((tmp_path / "m.json").read_text(), parse_constant=refuse)
    assert got == {"a": 0.5, "b": [1, 2], "c": [None, None, True, None], "3": "x", "d": [True]}
    with pytest.raises(TypeError, match=r"data\['x'\]\[1\] is a set"):
        write_json(tmp_path / "m.json", {"x": [1, {2}]})
    with pytest.raises(TypeError, match=r"data\['x'\] has keys that are one text"):
        write_json(tmp_path / "m.json", {"x": {1: "a", "1": "b"}})
    with pytest.raises(ValueError, match=r"data\['x'\] is a masked array"):
        write_json(tmp_path / "m.json", {"x": np.ma.array([1.0, 2.0], mask=[0, 1])})


def test_arrays_come_back_as_they_went_and_numpy_reads_them(tmp_path):
    wanted = {
        "losses": np.arange(3.0, dtype=np.float32),
        "eval/step": np.array([1, 2]),
        "empty": np.zeros((0, 2)),
        "one": np.array(7),
    }
    write_arrays(tmp_path / "a.npz", wanted)
    got = read_arrays(tmp_path / "a.npz", *TOLD, needed=("losses",))
    with np.load(tmp_path / "a.npz", allow_pickle=False) as stored:
        assert set(stored.files) == {*wanted, "checksum"}
        for name, array in wanted.items():
            for back in (got[name], stored[name]):
                assert back.dtype == array.dtype and back.shape == array.shape
                np.testing.assert_array_equal(back, array)
    assert got.keys() == wanted.keys()


def test_tensors_come_back_with_their_header(tmp_path):
    wanted = {"a": np.arange(6.0).reshape(2, 3).T, "b": np.array(True), "c": np.zeros((0, 4), np.int8)}
    (tmp_path / "t").write_bytes(formats.pack_tensors(wanted, {"version": "2", "note": "ä"}))
    tensors, header = read_tensors(tmp_path / "t", *TOLD)
    assert header["note"] == "ä" and read_tensors(tmp_path / "t", *TOLD, header_only=True) == ({}, header)
    for name, array in load_file(tmp_path / "t").items():
        np.testing.assert_array_equal(array, wanted[name])
        np.testing.assert_array_equal(array, tensors[name])


def test_a_value_that_was_changed_is_told(tmp_path):
    record, arrays, tensors = tmp_path / "r.json", tmp_path / "a.npz", tmp_path / "t"
    write_record(record, {"nll": 0.5, "name": "ä", "none": float("nan")})
    assert read_record(record, *TOLD) == {"nll": 0.5, "name": "ä", "none": None}
    record.write_text(record.read_text().replace("0.5", "0.4"))
    with pytest.raises(DamagedFileError, match=r'r\.json is no whole thing .*delete the entry "checksum"\)\. Mend it\.'):
        read_record(record, *TOLD)
    record.write_text(record.read_text().replace("checksum", "chequesum"))
    with pytest.raises(DamagedFileError, match="the name of its checksum has changed"):
        read_record(record, *TOLD)
    write_arrays(arrays, {"losses": np.ones(2)})
    with np.load(arrays) as stored:
        np.savez(arrays, **dict(stored) | {"losses": np.zeros(2)})
    with pytest.raises(DamagedFileError, match=r"a\.npz .* checksum .* Mend it"):
        read_arrays(arrays, *TOLD)
    content = formats.pack_tensors({"w": np.ones(2)}, {"version": "2"})
    for old, new in (
        (np.ones(1).tobytes(), np.zeros(1).tobytes()),
        (b'"w"', b'"v"'),
        (b'"2"', b'"1"'),
        (b'"checksum"', b'"chequesu"'),
    ):
        tensors.write_bytes(content.replace(old, new))
        with pytest.raises(DamagedFileError, match=r"checksum.*Mend it"):
            read_tensors(tensors, *TOLD)


def test_what_a_file_must_hold_is_asked_for(tmp_path):
    write_record(tmp_path / "r", {"a": 1})
    write_arrays(tmp_path / "n", {"a": 1})
    for read, name in ((read_record, "r"), (read_arrays, "n")):
        with pytest.raises(DamagedFileError, match="it has no b, c"):
            read(tmp_path / name, *TOLD, needed=("a", "b", "c"))
        with pytest.raises(FileNotFoundError):
            read(tmp_path / "nowhere", *TOLD)


def test_files_of_others_have_no_checksums_and_are_read(tmp_path):
    write_json(tmp_path / "r", {"a": 1})
    np.savez(tmp_path / "n.npz", a=np.ones(2))
    save_file({"a": np.ones(2)}, tmp_path / "t", metadata={"note": "mine"})
    assert read_record(tmp_path / "r", *TOLD) == {"a": 1}
    assert read_arrays(tmp_path / "n.npz", *TOLD)["a"].tolist() == [1, 1]
    assert read_tensors(tmp_path / "t", *TOLD)[0]["a"].tolist() == [1, 1]
