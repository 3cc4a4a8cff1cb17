"""What can be loaded: the names, and how the different spellings of a name are taken."""

from bayesprune.core import checks

IMAGES = ("cifar10", "fashion_mnist", "kmnist", "mnist")
IMAGE_SETS = (*IMAGES, "digits")
EMBEDDED = ("diabetes", "digits")
SIMULATIONS = (
    "linear_regression",
    "saha_1",
    "saha_2",
    "saha_3",
    "simulation_e1",
    "simulation_e2",
    "simulation_e3",
    "simulation_svbnn",
    "simulation_svbnn_normal",
    "teacher_a",
    "teacher_b",
)
UCI = (
    "uci/boston_housing",
    "uci/concrete",
    "uci/energy",
    "uci/kin8nm",
    "uci/naval_propulsion_plant",
    "uci/power_plant",
    "uci/protein_tertiary_structure",
    "uci/wine_quality_red",
    "uci/yacht",
)


def names() -> tuple[str, ...]:
    """Every name that `load` takes, in alphabetical order.

    Example:
        >>> from bayesprune import data
        >>> data.names()[:3]
        ('cifar10', 'diabetes', 'digits')
    """
    return tuple(sorted(IMAGES + EMBEDDED + SIMULATIONS + UCI))


def squash(name: str) -> str:
    """A name without case and separators: all spellings of one name ("Fashion-MNIST", "fashion_mnist") squash alike."""
    return "".join(character for character in name.lower() if character not in "-_. ")


def canonical(name: str) -> str:
    """The listed spelling of ``name``; the prefix "uci/" may be left out.

    Raises:
        TypeError: ``name`` is not a string.
        ValueError: the name is unknown; the error shows the nearest ones.
    """
    if not isinstance(name, str):
        raise TypeError(f"name must be a string such as 'digits', got {name!r}; names() lists all.")
    wanted = squash(name).removeprefix("uci/")
    for known in names():
        if squash(known).removeprefix("uci/") == wanted:
            return known
    raise checks.unknown_name("data set", name, names())


def image_set(name: str, argument: str) -> str:
    """The listed spelling of an image set; a `ValueError` that names the ``argument`` for another data set."""
    known = canonical(name)
    if known not in IMAGE_SETS:
        raise ValueError(f"{argument} must be an image set ({', '.join(IMAGE_SETS)}), got {name!r}.")
    return known
