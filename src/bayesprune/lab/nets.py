"""Networks of a comparison by a short text, which a record can hold: "mlp-100-100", "lenet5"."""

import re
from dataclasses import dataclass
from typing import Any

from bayesprune import nets
from bayesprune.data import catalogue


@dataclass(frozen=True)
class NamedNet:
    """``kind``: "mlp" or "lenet5"; ``hidden``: units of the hidden layers of an MLP."""

    kind: str
    hidden: tuple[int, ...] = ()

    def make(self, num_outputs: int) -> Any:
        """The module."""
        return nets.LeNet5(num_outputs=num_outputs) if self.kind == "lenet5" else nets.MLP(self.hidden, num_outputs)

    def pad(self, data: str) -> int:
        """The side that images are padded to, 0: they stay as they are."""
        return 32 * (self.kind == "lenet5" and data in (*catalogue.IMAGES, "digits"))


def net_of(text: str) -> NamedNet:
    """The network that a text names. Raises `ValueError` for another.

    >>> net_of("mlp-300-100").hidden
    (300, 100)
    """
    if text == "lenet5":
        return NamedNet(text)
    if re.fullmatch(r"mlp(-[1-9]\d*)+", text):
        return NamedNet("mlp", tuple(int(units) for units in text.split("-")[1:]))
    raise ValueError(f'net must be "lenet5", or "mlp" with the units of its hidden layers, "mlp-100-100"; got {text!r}.')
