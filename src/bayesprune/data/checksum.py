"""Is a file the published one? MD5 sums of the original distributions, as their authors and mirrors give them.

MD5 guards against damage and mix-ups here, not against an adversary: it is what was published.
"""

import hashlib

# (data set, file stem): (MD5 of the gzipped file as distributed, MD5 of its content). The second one lets files pass that
# were unpacked or compressed again. An empty string: not known, and then only the file's structure is checked.
IDX: dict[tuple[str, str], tuple[str, str]] = {
    ("mnist", "train-images"): ("f68b3c2dcbeaaa9fbdd348bbdeb94873", "6bbc9ace898e44ae57da46a324031adb"),
    ("mnist", "train-labels"): ("d53e105ee54ea40749a09fcbcd1e9432", "a25bea736e30d166cdddb491f175f624"),
    ("mnist", "t10k-images"): ("9fb629c4189551a2d022fa330f9573f3", "2646ac647ad5339dbf082846283269ea"),
    ("mnist", "t10k-labels"): ("ec29112dd5afa0611ce80d1b7f02629c", "27ae3e4e09519cfbb04c329615203637"),
    ("fashion_mnist", "train-images"): ("8d4fb7e6c68d591d4c3dfef9ec88bf0d", "f4a8712d7a061bf5bd6d2ca38dc4d50a"),
    ("fashion_mnist", "train-labels"): ("25c81989df183df01b3e8a0aad5dffbe", "9018921c3c673c538a1fc5bad174d6f9"),
    ("fashion_mnist", "t10k-images"): ("bef4ecab320f06d8554ea6380940ec79", "8181f5470baa50b63fa0f6fddb340f0a"),
    ("fashion_mnist", "t10k-labels"): ("bb300cfdad3c16e7a12a480ee83cd310", "15d484375f8d13e6eb1aabb0c3f46965"),
    ("kmnist", "train-images"): ("bdb82020997e1d708af4cf47b453dcf7", ""),
    ("kmnist", "train-labels"): ("e144d726b3acfaa3e44228e80efcd344", ""),
    ("kmnist", "t10k-images"): ("5c965bf0a639b31b8f53240b1b52f4d7", "bf305b8cd328700fbc17f5acbc2856d2"),
    ("kmnist", "t10k-labels"): ("7320c461ea6c1c855c0b718fb2a4b134", "9f55f451c0988b028eccdf7d5cc265ab"),
}

CIFAR10: dict[str, str] = {
    "data_batch_1.bin": "5dd7e06a14cb22eb9f671a540d1b7c25",
    "data_batch_2.bin": "5ea93a67294ea407fff1d09f752e9692",
    "data_batch_3.bin": "942cd6a4bcdd0dd3c604fbe906cb4421",
    "data_batch_4.bin": "ae636b3ba5c66a11e91e8cb52e771fcb",
    "data_batch_5.bin": "53f37980c15c3d472c316c40844f3f0d",
    "test_batch.bin": "803d5f7f4d78ea53de84dbe85f74fb6d",
    "data_batch_1": "c99cafc152244af753f735de768cd75f",
    "data_batch_2": "d4bba439e000b95fd0a9bffe97cbabec",
    "data_batch_3": "54ebc095f3ab1f0389bbae665268c751",
    "data_batch_4": "634d18415352ddfa80567beed471001a",
    "data_batch_5": "482c414d41f54cd18b22e5b47cb7c3cb",
    "test_batch": "40351d587109b95175f43aff81a1287e",
}

# Of the arrays, not of a file (see uci.content): any packaging of the same numbers and splits passes.
UCI: dict[str, str] = {
    "uci/boston_housing": "32928934cbe4e96f4c8065f26d8c5538",
    "uci/concrete": "aed1507b5451ac0491b48c99b582e6cf",
    "uci/naval_propulsion_plant": "5ce5c4a8372482ee50b50c133a83b9b8",
    "uci/power_plant": "72146b57179b71534cf3750f4eb4ed97",
    "uci/protein_tertiary_structure": "faa10fd4e4b70dd4b401935c9d881a59",
    "uci/wine_quality_red": "28f3b0061af64814458fdee3efa2af79",
    "uci/yacht": "5f12c0c30e92ad4d22c192501650635b",
}


def md5(content: bytes) -> str:
    """MD5 of some bytes, in hexadecimal."""
    return hashlib.md5(content, usedforsecurity=False).hexdigest()


def require(got: str, expected: str, what: str) -> None:
    """Refuse a checksum that differs from the published one; an unknown (empty) one passes.

    Raises:
        ValueError: naming what was read, both sums, whose file it is if that is known, and the remedy.
    """
    if expected in ("", got):
        return
    owners = [f"{name} {stem}" for (name, stem), sums in IDX.items() if got in sums]
    owners += [f"cifar10 {stem}" for stem, known in CIFAR10.items() if got == known]
    whose = f" It is the file of {owners[0]}." if owners else ""
    raise ValueError(
        f"{what}: MD5 is {got}, the original's is {expected}.{whose} Fetch the file again from its source, "
        "or pass verify=False if these are meant to be other data in the same format."
    )
