"""Networks of the papers, as Flax modules. Any other linen, nnx or Equinox module serves as well."""

from bayesprune.nets.lenet import LeNet5
from bayesprune.nets.mlp import MLP
from bayesprune.nets.resnet import ResNet, ResNet18

__all__ = ["MLP", "LeNet5", "ResNet", "ResNet18"]
