"""Networks of the papers, as Flax modules. Any other linen, nnx or Equinox module serves as well."""

from bayesprune.nets.lenet import LeNet5
from bayesprune.nets.mixer import Mixer, MLPMixer
from bayesprune.nets.mlp import MLP
from bayesprune.nets.resnet import ResNet, ResNet18
from bayesprune.nets.vgg import VGG
from bayesprune.nets.vit import ViT
from bayesprune.nets.wide_mlp import WideMLP

__all__ = ["MLP", "VGG", "LeNet5", "MLPMixer", "Mixer", "ResNet", "ResNet18", "ViT", "WideMLP"]
__dir__ = __all__.copy  # what completion offers
