"""CIFAR-10 in its two original forms, as folders or as the archives they came in.

Binary: records of one label byte and 3072 pixel bytes (planes R, G, B). Python: pickles of {"data": (rows, 3072) uint8,
"labels": list}. Source: A. Krizhevsky, "Learning Multiple Layers of Features from Tiny Images", 2009.
"""

import io
import pickle
import tarfile
from pathlib import Path, PurePosixPath
from typing import Any

import numpy as np

from bayesprune.core.files import reading
from bayesprune.data import checksum, locate
from bayesprune.data.images import RawImages

BATCHES = {"train": tuple(f"data_batch_{i}" for i in range(1, 6)), "test": ("test_batch",)}
RECORD = 1 + 3 * 32 * 32
FOLDERS = (("cifar-10-batches-bin", ".bin"), ("cifar-10-batches-py", ""))
NUMPY_MODULES = ("numpy", *(f"numpy.{core}.{part}" for core in ("core", "_core") for part in ("multiarray", "numeric")))
ARCHIVES = (("cifar-10-binary.tar.gz", ".bin"), ("cifar-10-python.tar.gz", ""))


def wanted(name: str, part: str) -> str:
    """Which files belong where, in words; the two forms hold both parts."""
    folders, archives = (" or ".join(place for place, _ in places) for places in (FOLDERS, ARCHIVES))
    return f"the folder {folders} (data_batch_1 to 5 and test_batch) in DIR, or the archive {archives}"


def find(root: Path, name: str, part: str) -> tuple[Path, ...]:
    """The batch files of a part below ``root`` in either form, or one archive; empty where there is none.

    Raises:
        FileNotFoundError: a folder has some batches of the part but not all.
    """
    for base in locate.folders(root, ("cifar10",)):
        places = [(base / folder, suffix) for folder, suffix in FOLDERS] + [(base, suffix) for _, suffix in FOLDERS]
        for folder, suffix in places:
            paths = tuple(folder / (batch + suffix) for batch in BATCHES[part])
            absent = [path.name for path in paths if not path.is_file()]
            if not absent:
                return paths
            if len(absent) < len(paths):
                raise FileNotFoundError(f"{folder} lacks {', '.join(absent)}: unpack the CIFAR-10 archive there again.")
        for archive, _ in ARCHIVES:
            if (base / archive).is_file():
                return (base / archive,)
    return ()


def read(paths: tuple[Path, ...], name: str, part: str, verify: bool = True) -> RawImages:
    """Images (rows, 32, 32, 3) and labels of one part, from the files of `find`, batch after batch.

    Raises:
        ValueError: a file is damaged, has the wrong size, labels above 9, or is not the published one (with ``verify``).
    """
    packed = paths[0].suffix == ".gz"
    contents = _unpack(paths[0], part) if packed else {str(path): path.read_bytes() for path in paths}
    batches = [_batch(content, Path(what), verify) for what, content in contents.items()]
    planes = np.concatenate([pixels for pixels, _ in batches]).reshape(-1, 3, 32, 32)
    return RawImages(np.ascontiguousarray(planes.transpose(0, 2, 3, 1)), np.concatenate([labels for _, labels in batches]))


def _batch(content: bytes, path: Path, verify: bool) -> tuple[np.ndarray, np.ndarray]:
    """Pixels (rows, 3072) and labels (rows,) of one batch; structure first, so that damage is reported as damage."""
    pixels, labels = (_records if path.suffix == ".bin" else _pickled)(content, path)
    if labels.size and (labels.min() < 0 or labels.max() > 9):
        raise ValueError(f"{path}: labels must lie in 0..9, got {labels.min()} to {labels.max()}: fetch the file again.")
    if verify:
        checksum.require(checksum.md5(content), checksum.CIFAR10[path.name], str(path))
    return pixels, labels.astype(np.int32)


def _records(content: bytes, path: Path) -> tuple[np.ndarray, np.ndarray]:
    if not content or len(content) % RECORD:
        raise ValueError(
            f"{path}: {len(content)} bytes are not whole records of {RECORD}: the file is damaged. Fetch it again."
        )
    records = np.frombuffer(content, np.uint8).reshape(-1, RECORD)
    return records[:, 1:], records[:, 0]


class _ArraysOnly(pickle.Unpickler):
    """An unpickler that can build NumPy arrays of plain numbers and the built-in containers, and nothing else.

    A pickle is a program: an ordinary `pickle.load` would run whatever a tampered download names (os.system, say).
    These few names are all that the original files use; every other one is refused before anything is called.
    """

    def find_class(self, module: str, name: str) -> Any:
        # NumPy's own makers of arrays are private and have moved between its versions: ask an array who they are.
        old, new = (np.empty(1).__reduce_ex__(protocol)[0] for protocol in (2, 5))
        allowed = {"ndarray": np.ndarray, "dtype": np.dtype, "_reconstruct": old, "_frombuffer": new}
        if module in NUMPY_MODULES and name in allowed:
            return allowed[name]
        if (module, name) == ("_codecs", "encode"):  # how Python 3 writes bytes into an old-protocol pickle
            return _encode_latin1
        raise pickle.UnpicklingError(f"it asks for {module}.{name}, which no CIFAR-10 batch needs")


def _encode_latin1(text: str, encoding: str = "latin1") -> bytes:
    return text.encode("latin1")


def _pickled(content: bytes, path: Path) -> tuple[np.ndarray, np.ndarray]:
    with reading(path, "CIFAR-10 batch", "Fetch the file again."):
        stored = _ArraysOnly(io.BytesIO(content), encoding="bytes").load()
        fields = {key.decode() if isinstance(key, bytes) else key: value for key, value in stored.items()}
        pixels, labels = fields["data"], np.asarray(fields["labels"])
    shape, dtype = getattr(pixels, "shape", None), getattr(pixels, "dtype", None)
    if dtype != np.uint8 or labels.dtype.kind not in "iu" or labels.ndim != 1 or shape != (len(labels), RECORD - 1):
        raise ValueError(
            f"{path}: expected uint8 data of shape (rows, {RECORD - 1}) and one integer label per row, got {dtype} data of "
            f"shape {shape} and {labels.dtype} labels of shape {labels.shape}. Fetch the file again."
        )
    return pixels, labels


def _unpack(archive: Path, part: str) -> dict[str, bytes]:
    """The batches of a part, in order, read out of an archive into memory: nothing is written to disk."""
    suffix = dict(ARCHIVES)[archive.name]
    found: dict[str, bytes] = {}
    with (
        reading(archive, ".tar.gz file", "Fetch it again."),
        tarfile.open(archive, "r:gz") as members,
    ):
        for member in members:
            stream = members.extractfile(member)
            if stream is not None and PurePosixPath(member.name).name.removesuffix(suffix) in BATCHES[part]:
                found[PurePosixPath(member.name).name] = stream.read()
    absent = [batch + suffix for batch in BATCHES[part] if batch + suffix not in found]
    if absent:
        raise ValueError(f"{archive} lacks {', '.join(absent)}: fetch it again.")
    return {f"{archive}/{batch}{suffix}": found[batch + suffix] for batch in BATCHES[part]}
