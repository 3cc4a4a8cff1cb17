"""The way through tensorflow-datasets, for image sets without files of their own.

Reading a prepared set needs no TensorFlow. Preparing one may: tensorflow-datasets writes images as PNG with it.
"""

import importlib.util
from collections.abc import Iterable
from pathlib import Path

import numpy as np

from bayesprune.data.images import RawImages


class Unavailable(Exception):
    """tensorflow-datasets cannot give the set; the message says why."""


def read_tfds(name: str, part: str, searched: Iterable[Path], download: bool) -> RawImages:
    """Images and labels of one part ("train" or "test"), in the order of tensorflow-datasets, which is a shuffled one.

    A folder of ``searched`` that holds the prepared set (NAME/VERSION/dataset_info.json) is taken first, then the default
    folder of tensorflow-datasets, where the set is downloaded and prepared if it is not there and ``download`` allows it.

    Raises:
        Unavailable: the package is not installed, or it fails.
    """
    if importlib.util.find_spec("tensorflow_datasets") is None:
        raise Unavailable("The package tensorflow_datasets, which might have it, is not installed.")
    prepared = [root for root in searched if any((root / name).glob("*/dataset_info.json"))]
    places = {"data_dir": str(prepared[0]), "download": False} if prepared else {"download": download}
    try:
        import tensorflow_datasets

        source = tensorflow_datasets.data_source(name, split=part, **places)
        rows = [(np.asarray(row["image"], np.uint8), int(row["label"])) for row in source]
    except Exception as error:  # no network, no disk, no decoder, another version: all the same to the one who asked
        hint = "" if download else " With download=True it would try to fetch it."
        reason = (str(error).splitlines() or [""])[0][:300]
        raise Unavailable(f"tensorflow_datasets could not give it ({type(error).__name__}: {reason}).{hint}") from error
    return RawImages(np.stack([image for image, _ in rows]), np.array([label for _, label in rows], np.int32))
