"""What our own files hold: JSON, NumPy arrays, or tensors, with a checksum of the contents.

A byte that has changed on the way is an error that names the file, never another number. Files of others have no checksum and
are read as they are. The checksum is a SHA-256: it guards against damage, not against an adversary.
"""

import hashlib
import io
import json
import math
import os
import zipfile
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
from safetensors import safe_open
from safetensors.numpy import save as to_bytes

from bayesprune.core.files import check_readable, reading, write_atomically
from bayesprune.core.numbers import without_mask

CHECKSUM = "checksum"
_PREFIX = "sha256:"
_CHANGED = "its contents do not have the checksum that it states: something in it has changed"


def jsonable(value: object, where: str = "data") -> Any:
    """``value`` in JSON's own types: arrays become lists, tuples lists, paths text, and NaN or infinity ``None``.

    Raises ``TypeError`` that names the place of a value with no JSON form, ``ValueError`` for masked entries.

    >>> jsonable({"losses": np.array([1.0, np.nan]), "steps": np.int64(3)})
    {'losses': [1.0, None], 'steps': 3}
    """
    if value is None or isinstance(value, str | bool | int):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    if isinstance(value, Mapping):
        made = {str(k): jsonable(v, f"{where}[{k!r}]") for k, v in value.items()}
        if len(made) < len(value):
            raise TypeError(f"{where} has keys that are one text in JSON, as 1 and '1' are: name one of them anew.")
        return made
    if isinstance(value, list | tuple):
        return [jsonable(v, f"{where}[{i}]") for i, v in enumerate(value)]
    if hasattr(value, "__array__"):  # NumPy and JAX arrays and scalars
        array = np.asarray(without_mask(value, where))
        plain = array.astype(np.float64) if array.dtype.name in ("bfloat16", "float16") else array
        if plain.dtype.kind in "biufU":
            return jsonable(plain.tolist(), where)
    raise TypeError(f"{where} is a {type(value).__name__}, which JSON cannot hold: use numbers, text, lists or dicts.")


def write_json(path: str | os.PathLike[str], data: object) -> None:
    """Write ``data`` as strict, indented JSON, atomically; NaN and infinities, which JSON lacks, become ``null``.

    Raises ``TypeError`` for values with no JSON form (before anything is written), ``OSError`` as `write_atomically` does.

    >>> import pathlib, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_json(f"{folder}/metrics.json", {"ece": float("nan")})
    ...     print(pathlib.Path(folder, "metrics.json").read_text().strip())
    {
      "ece": null
    }
    """
    text = json.dumps(jsonable(data), indent=2, allow_nan=False, ensure_ascii=False)
    write_atomically(path, (text + "\n").encode())


def write_record(path: str | os.PathLike[str], data: Mapping[str, Any]) -> None:
    """Write a JSON object as `write_json` does, with its checksum as a last entry."""
    plain = jsonable(data)
    write_json(path, plain | {CHECKSUM: _of_json(plain)})


def read_record(path: str | os.PathLike[str], what: str, remedy: str, needed: Iterable[str] = ()) -> dict[str, Any]:
    """What `write_record` wrote, without the checksum.

    ``what`` and ``remedy`` are for the error; ``needed``: the entries that such a file has. Raises `DamagedFileError` for a
    file that is not what was written, ``FileNotFoundError`` where there is none.
    """
    check_readable(path)
    with reading(path, what, remedy):
        with open(path, encoding="utf-8") as file:
            text = file.read()
        data = json.loads(text)
        stated = data.pop(CHECKSUM, None)
        if stated is None and f'"{_PREFIX}' in text:
            raise ValueError(f"the name of its {CHECKSUM} has changed")
        if stated not in (None, _of_json(data)):
            raise ValueError(f'{_CHANGED}. If you did that, and mean it, delete the entry "{CHECKSUM}"')
        require(data, needed)
        return data


def write_arrays(path: str | os.PathLike[str], arrays: Mapping[str, Any]) -> None:
    """Write NumPy arrays by name as a compressed ``.npz``, atomically, with their checksum as one more entry."""
    buffer, plain = io.BytesIO(), {name: np.asarray(value) for name, value in arrays.items()}
    np.savez_compressed(buffer, allow_pickle=False, **plain, **{CHECKSUM: np.array(digest(plain))})
    write_atomically(path, buffer.getvalue())


def read_arrays(path: str | os.PathLike[str], what: str, remedy: str, needed: Iterable[str] = ()) -> dict[str, np.ndarray]:
    """The arrays of `write_arrays`, or of any ``.npz`` of plain arrays; arguments and errors as in `read_record`."""
    check_readable(path)
    with reading(path, what, remedy), open(path, "rb") as file, zipfile.ZipFile(file) as stored:
        # Whole members, not NumPy's own reader: it stops before the end, where zip's checksum would be compared.
        members = {name: io.BytesIO(stored.read(name)) for name in stored.namelist()}
        arrays = {name.removesuffix(".npy"): np.load(member, allow_pickle=False) for name, member in members.items()}
        stated = arrays.pop(CHECKSUM, None)
        file.seek(0)
        if stated is None and f"{CHECKSUM}.npy".encode() in file.read():  # zip does not count its members
            raise ValueError("its list of arrays has changed")
        if stated is not None and str(stated) != digest(arrays):
            raise ValueError(_CHANGED)
        require(arrays, needed)
        return arrays


def pack_tensors(tensors: Mapping[str, np.ndarray], header: Mapping[str, str]) -> bytes:
    """Tensors and a header of texts as the bytes of a safetensors file, with a checksum of each in the header."""
    # The order matters: safetensors writes a strided array's memory as it lies, without a word.
    plain = {name: np.asarray(value, order="C") for name, value in tensors.items()}
    texts = dict(header) | {"tensors": digest(plain)}
    return to_bytes(plain, metadata=texts | {CHECKSUM: _of_json(texts)})


def read_tensors(
    path: str | os.PathLike[str], what: str, remedy: str, header_only: bool = False
) -> tuple[dict[str, np.ndarray], dict[str, str]]:
    """Tensors and header of `pack_tensors`, or of any safetensors file; without the tensors where only the header is wanted.

    A file whose header states a "version" is ours and must have checksums. Errors as in `read_record`.
    """
    check_readable(path)
    with reading(path, what, remedy), safe_open(path, framework="np") as file:
        header = file.metadata() or {}
        tensors = {} if header_only else {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        if CHECKSUM not in header and "version" in header:
            raise ValueError(f"its header has no {CHECKSUM}")
        stated = header.pop(CHECKSUM, None)
        if stated is not None and stated != _of_json(header):
            raise ValueError(_CHANGED)
        if stated is not None and not header_only and header["tensors"] != digest(tensors):
            raise ValueError(_CHANGED)
        return tensors, header


def digest(arrays: Mapping[str, np.ndarray]) -> str:
    """A checksum of arrays: of their names, types, shapes and bytes in row-major order, whatever order they come in."""
    made = hashlib.sha256()
    for name, array in sorted(arrays.items()):
        made.update(json.dumps([name, array.dtype.str, array.shape]).encode())
        made.update(np.ascontiguousarray(array).reshape(-1).view(np.uint8).data)
    return _PREFIX + made.hexdigest()


def _of_json(data: object) -> str:
    text = json.dumps(data, sort_keys=True, separators=(",", ":"))
    return _PREFIX + hashlib.sha256(text.encode()).hexdigest()


def require(found: Mapping[str, Any], needed: Iterable[str]) -> None:
    """Refuse what lacks an entry; to be called within `reading`."""
    absent = [name for name in needed if name not in found]
    if absent:
        raise ValueError(f"it has no {', '.join(absent)}")
