"""One door to all data sets: `load`, `load_test` and `uci_splits`."""

import os
from types import ModuleType
from typing import Literal

import numpy as np

from bayesprune.core import checks
from bayesprune.core.types import Dataset
from bayesprune.data import catalogue, cifar, embedded, idx, locate, saha, scaling, simulations, teachers, uci
from bayesprune.data.images import RawImages, channel_scaling, pad_to, to_dataset, unit_scaling
from bayesprune.data.truth import Simulation

Folder = str | os.PathLike[str] | None
Standardise = bool | Literal["auto", "inputs"]


def load(
    name: str,
    data_dir: Folder = None,
    *,
    standardise: Standardise = "auto",
    split: int = 0,
    pad: int = 0,
    seed: int = 0,
    verify: bool = True,
    download: bool = False,
) -> tuple[Dataset, Dataset]:
    """A data set by name: its training and its test part, NumPy arrays in float32 (class labels: int32).

    Files are looked for in ``data_dir``, then in the folder that the environment variable BAYESPRUNE_DATA names; image
    sets then through tensorflow-datasets, if it is installed. "digits" and "diabetes" (cut 80 : 20 by a fixed
    permutation) come with scikit-learn, and simulations are made, so these need no file.

    Args:
        name: one of `names`; case, hyphens and underscores do not matter, and "uci/" may be left out.
        data_dir: folder that holds the data sets' folders, for example ``data_dir/fashion-mnist``.
        standardise: with the training part's mean and standard deviation, per channel of images, per column of tables.
            "auto": images, and inputs and targets of real tables; simulations stay in the units of their formula.
            True: also a simulation's inputs and real targets. "inputs": never the targets. False: nothing (images are
            only brought to 0..1).
        split: which of the published splits of a UCI set.
        pad: side of the square that images are padded to, in pixels; 0 leaves them alone. Convolutional nets of the papers
            take 28 x 28 images at ``pad=32``. Raw black pixels are added first; then the padded images are standardised.
        seed: of a simulation.
        verify: compare files with the published checksums. Structure is checked in any case.
        download: let tensorflow-datasets fetch and prepare an image set that is nowhere. It needs a network (without one it
            tries for minutes), and preparing images, unlike reading them, may need TensorFlow.

    Returns:
        (train, test), each ``Dataset(x, y)``. Images: x (rows, height, width, channels). Tables: x (rows, columns) and y
        (rows,), or (rows, outputs) for several targets.

    Raises:
        ValueError: an unknown name, an option out of range or without meaning for the set, a damaged or a wrong file.
        FileNotFoundError: the set is nowhere; the error says which file to put where.

    Example:
        >>> from bayesprune import data
        >>> train, test = data.load("digits")
        >>> train.x.shape, test.x.shape
        ((1438, 8, 8, 1), (359, 8, 8, 1))
    """
    name = catalogue.canonical(name)
    _check_options(name, standardise, split, pad, seed)
    if name in catalogue.UCI:
        return _table(*uci.split(_read_uci(name, data_dir, split, verify), split), standardise)
    if name == "diabetes":
        return _table(*embedded.diabetes(), standardise)
    if name in catalogue.SIMULATIONS:
        made = _simulated(name, seed)
        return (made.train, made.test) if standardise == "auto" else _table(made.train, made.test, standardise)
    train, test = (_padded(_read_images(name, part, data_dir, verify, download), pad) for part in ("train", "test"))
    scale = channel_scaling(train.x) if standardise else unit_scaling(train)
    return to_dataset(train, scale), to_dataset(test, scale)


def load_test(
    name: str, data_dir: Folder = None, *, like: str, pad: int = 0, verify: bool = True, download: bool = False
) -> Dataset:
    """The test part of an image set, scaled as another set was: for out-of-distribution tests.

    A network trained on one set must get foreign images scaled as its own were, so the channel means and standard
    deviations are those of the training part of ``like``. The training files of ``name`` need not exist.

    Args:
        name: an image set, for example "kmnist".
        data_dir, pad, verify, download: as in `load`; use the same ``pad`` as in training.
        like: the image set that the network was trained on; "" brings pixels to 0..1, as ``standardise=False`` in `load`.

    Returns:
        ``Dataset(x, y)``: x float32 (rows, height, width, channels), y int32 (rows,), the classes of ``name``.

    Raises:
        ValueError: no image set, channels that do not fit, or as `load`.
        FileNotFoundError: as `load`.

    Example:
        >>> from bayesprune import data
        >>> data.load_test("digits", like="digits").x.shape
        (359, 8, 8, 1)
    """
    name = catalogue.image_set(name, "name")
    test = _padded(_read_images(name, "test", data_dir, verify, download), pad)
    if like == "":
        return to_dataset(test, unit_scaling(test))
    train = _padded(_read_images(catalogue.image_set(like, "like"), "train", data_dir, verify, download), pad)
    if train.x.shape[1:] != test.x.shape[1:]:
        raise ValueError(f"{name} has images of shape {test.x.shape[1:]}, {like} of {train.x.shape[1:]}: pad them to one size.")
    # Brightness is a fraction of the white level, should the two sets count it differently.
    by_top = test.top / train.top
    scale = channel_scaling(train.x)
    return to_dataset(test, scaling.Scaling(scale.loc * by_top, scale.scale * by_top))


def uci_splits(
    name: str, data_dir: Folder = None, *, standardise: Standardise = "auto", verify: bool = True
) -> tuple[Dataset, Dataset]:
    """All published splits of a UCI set at once, stacked on a new first axis, ready for `jax.vmap`.

    Args:
        name: a UCI set, for example "yacht".
        data_dir, standardise, verify: as in `load`; every split is standardised with its own training rows.

    Returns:
        (train, test): x float32 (splits, rows, columns), y float32 (splits, rows).

    Raises:
        ValueError, FileNotFoundError: as `load`.

    Example:
        >>> from bayesprune import data
        >>> train, test = data.uci_splits("yacht")  # doctest: +SKIP
        >>> train.x.shape, test.y.shape  # doctest: +SKIP
        ((20, 277, 6), (20, 31))
    """
    name = catalogue.canonical(name)
    checks.check_name("UCI set", name, catalogue.UCI)
    _check_options(name, standardise, 0, 0, 0)
    table = _read_uci(name, data_dir, 0, verify)
    pairs = [_table(*uci.split(table, index), standardise) for index in range(len(table.index_train))]
    train, test = (Dataset(*(np.stack(field) for field in zip(*part, strict=True))) for part in zip(*pairs, strict=True))
    return train, test


def _check_options(name: str, standardise: object, split: int, pad: int, seed: int) -> None:
    if not (isinstance(standardise, bool) or standardise in ("auto", "inputs")):
        raise ValueError(f"standardise must be True, False, 'auto' or 'inputs', got {standardise!r}.")
    owners = {"split": catalogue.UCI, "pad": catalogue.IMAGE_SETS, "seed": catalogue.SIMULATIONS}
    for option, value in (("split", split), ("pad", pad), ("seed", seed)):
        checks.check_integer(value, option, minimum=0)
        if value and name not in owners[option]:
            raise ValueError(
                f"{option}={value} means nothing for {name!r}, only for {', '.join(owners[option])}: leave it out."
            )


def _simulated(name: str, seed: int) -> Simulation:
    """A simulation at the sizes and settings that its function has by default."""
    if name in teachers.WIDTHS:
        return teachers.teacher_student(name, seed=seed)
    if name in simulations.RELEVANT:
        return simulations.simulate(name, seed=seed)
    # The others are functions of their own name.
    made: Simulation = getattr(simulations if name == "linear_regression" else saha, name)(seed=seed)
    return made


def _table(train: Dataset, test: Dataset, standardise: Standardise) -> tuple[Dataset, Dataset]:
    real = np.issubdtype(train.y.dtype, np.floating)
    if standardise:
        train, test = scaling.standardise(train, test, targets=real and standardise != "inputs")
    y_type = np.float32 if real else np.int32
    return tuple(Dataset(part.x.astype(np.float32), part.y.astype(y_type)) for part in (train, test))  # type: ignore[return-value]


def _padded(raw: RawImages, pad: int) -> RawImages:
    return raw._replace(x=pad_to(raw.x, pad)) if pad else raw


def _read_images(name: str, part: str, data_dir: Folder, verify: bool, download: bool) -> RawImages:
    """One part of an image set, from the first place that has it."""
    if name == "digits":
        return embedded.digits()[part == "test"]
    reader: ModuleType = cifar if name == "cifar10" else idx
    searched = locate.roots(data_dir)
    for root in searched:
        if found := reader.find(root, name, part):
            return reader.read(found, name, part, verify)
    try:
        return embedded.read_tfds(name, part, searched, download)
    except embedded.Unavailable as error:
        tests_there = part == "train" and any(reader.find(root, name, "test") for root in searched)
        hint = " Its test part alone is there: load_test reads it." if tests_there else ""
        raise locate.missing(name, reader.wanted(name, part), searched, f"{error}{hint}") from error


def _read_uci(name: str, data_dir: Folder, split: int, verify: bool) -> uci.UciSet:
    searched = locate.roots(data_dir)
    for root in searched:
        if found := uci.find(root, name):
            table = uci.read_uci(found[0], name, verify)
            if split >= len(table.index_train):
                raise ValueError(f"split must lie in 0..{len(table.index_train) - 1} for {name!r}, got {split}.")
            return table
    raise locate.missing(name, uci.wanted(name), searched)
