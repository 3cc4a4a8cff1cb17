"""IDX files, the format of MNIST and its kin: a big-endian header, then bytes.

Images: magic 2051, rows, height, width, then uint8 pixels row by row. Labels: magic 2049, rows, then uint8 classes.
Source: Y. LeCun, C. Cortes & C. Burges, "The MNIST database of handwritten digits".
"""

import gzip
import math
from pathlib import Path

import numpy as np
from jaxtyping import UInt8

from bayesprune.core.files import reading
from bayesprune.data import checksum, locate
from bayesprune.data.images import RawImages

STEMS = {"train": "train", "test": "t10k"}
ALIASES = {"fashion_mnist": ("fashion_mnist", "fashion"), "kmnist": ("kmnist", "kmnist_test"), "mnist": ("mnist",)}


def wanted(name: str, part: str) -> str:
    """Which files belong where, in words; of the training part also those of the test part, which are needed next."""
    stems = STEMS.values() if part == "train" else (STEMS[part],)
    files = [f"{stem}-{kind}-ubyte" for stem in stems for kind in ("images-idx3", "labels-idx1")]
    return f"{', '.join(files)} (gzipped or not) in DIR/{name.replace('_', '-')}"


def find(root: Path, name: str, part: str) -> tuple[Path, ...]:
    """The image file and the label file of a part ("train" or "test") below ``root``; empty where not both are there."""
    for folder in locate.folders(root, ALIASES[name]):
        pair = tuple(_candidate(folder, f"{STEMS[part]}-{kind}") for kind in ("images-idx3", "labels-idx1"))
        if all(path.is_file() for path in pair):
            return pair
    return ()


def read(paths: tuple[Path, ...], name: str, part: str, verify: bool = True) -> RawImages:
    """Images (rows, height, width, 1) and labels of one part, from the two files of `find`.

    Raises:
        ValueError: a file is damaged, is not IDX of its kind, is not the published one (with ``verify``), or the two
            do not have equally many rows, or none.
    """
    stem = STEMS[part]
    images = _parsed(paths[0], 3, name, f"{stem}-images", verify)
    labels = _parsed(paths[1], 1, name, f"{stem}-labels", verify)
    if len(images) != len(labels):
        raise ValueError(f"{paths[0]} holds {len(images)} images but {paths[1]} {len(labels)} labels: fetch both again.")
    if len(images) == 0:
        raise ValueError(f"{paths[0]} holds no images: fetch it again.")
    return RawImages(images[..., None], labels.astype(np.int32))


def parse(content: bytes, num_axes: int, what: str) -> UInt8[np.ndarray, "..."]:
    """The array in an IDX file of bytes with ``num_axes`` axes (3: images, 1: labels).

    Example:
        >>> from bayesprune.data import idx
        >>> idx.parse(bytes([0, 0, 8, 1, 0, 0, 0, 2, 7, 9]), 1, "two labels")
        array([7, 9], dtype=uint8)

    Raises:
        ValueError: wrong magic number, or more or fewer bytes than the header announces.
    """
    header = 4 * (num_axes + 1)
    magic = int.from_bytes(content[:4], "big")
    if magic != 0x0800 + num_axes:
        kind = "images" if num_axes == 3 else "labels"
        raise ValueError(
            f"{what}: magic number {magic}, expected {0x0800 + num_axes}: this is no IDX file of {kind}. Fetch it again."
        )
    if len(content) < header:
        raise ValueError(f"{what}: it ends after {len(content)} bytes, within its header of {header}. Fetch it again.")
    shape = tuple(np.frombuffer(content, ">u4", num_axes, 4).tolist())
    if len(content) != header + math.prod(shape):
        raise ValueError(
            f"{what}: the header announces {math.prod(shape)} bytes of shape {shape}, the file has {len(content) - header}: "
            "it is truncated or damaged. Fetch it again."
        )
    return np.frombuffer(content, np.uint8, offset=header).reshape(shape)


def _candidate(folder: Path, stem: str) -> Path:
    """The file of this stem under any of its usual names; where there is none, the plain name."""
    plain = [folder / f"{stem}-ubyte", folder / f"{stem.replace('-idx', '.idx')}-ubyte"]
    return next((path for path in (*plain, *(p.with_name(p.name + ".gz") for p in plain)) if path.is_file()), plain[0])


def _parsed(path: Path, num_axes: int, name: str, stem: str, verify: bool) -> UInt8[np.ndarray, "..."]:
    """A file's array, unpacked. Structure is judged first, so that damage is reported as such, not as a wrong checksum."""
    packed = path.read_bytes()
    content = packed
    if path.suffix == ".gz":
        with reading(path, "gzip file", "Fetch it again."):
            content = gzip.decompress(packed)
    found = parse(content, num_axes, str(path))
    if verify:
        as_distributed, unpacked = checksum.IDX[name, stem]
        if path.suffix != ".gz":
            checksum.require(checksum.md5(content) if unpacked else "", unpacked, str(path))
        elif checksum.md5(packed) != as_distributed:
            checksum.require(checksum.md5(content), unpacked or as_distributed, str(path))
    return found
