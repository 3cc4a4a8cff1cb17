"""Figures of the BMR paper, final epoch, single runs: read off its plots, accuracy and ECE to .002, NLL to .01."""

# (data, net, method): accuracy, ECE of 20 equal-mass bins, NLL, pruned share. A bound ("more than") is given as the bound.
PUBLISHED: dict[tuple[str, str, str], tuple[float | None, ...]] = {
    ("fashion_mnist", "lenet5", "map"): (0.887, 0.064, 0.438, None),
    ("fashion_mnist", "lenet5", "flat"): (0.884, 0.041, 0.335, None),
    ("fashion_mnist", "lenet5", "tiered"): (0.889, 0.008, 0.313, None),
    ("fashion_mnist", "lenet5", "bmr"): (0.902, 0.014, 0.283, 0.811),
    ("fashion_mnist", "mlp", "map"): (0.898, 0.060, 0.430, None),
    ("fashion_mnist", "mlp", "flat"): (0.843, 0.040, 0.444, None),
    ("fashion_mnist", "mlp", "tiered"): (0.860, 0.032, 0.394, None),
    ("fashion_mnist", "mlp", "bmr"): (0.869, 0.009, 0.358, 0.99),
    ("fashion_mnist", "vit", "map"): (0.855, 0.037, 0.417, None),
    ("fashion_mnist", "vit", "flat"): (0.845, 0.038, 0.438, None),
    ("fashion_mnist", "vit", "tiered"): (0.832, 0.015, 0.467, None),
    ("fashion_mnist", "vit", "bmr"): (0.855, 0.009, 0.402, 0.99),
    ("fashion_mnist", "mixer", "map"): (0.892, 0.046, 0.344, None),
    ("fashion_mnist", "mixer", "flat"): (0.853, 0.021, 0.399, None),
    ("fashion_mnist", "mixer", "tiered"): (0.864, 0.011, 0.373, None),
    ("fashion_mnist", "mixer", "bmr"): (0.869, 0.007, 0.355, 0.992),
    ("cifar10", "lenet5", "map"): (0.609, 0.2, 2.5, None),
    ("cifar10", "lenet5", "flat"): (0.558, 0.094, 1.25, None),
    ("cifar10", "lenet5", "tiered"): (0.596, 0.051, 1.15, None),
    ("cifar10", "lenet5", "bmr"): (0.632, 0.036, 1.05, 0.970),
    ("cifar10", "mlp", "map"): (0.562, 0.2, 1.72, None),
    ("cifar10", "mlp", "flat"): (0.438, 0.105, 1.60, None),
    ("cifar10", "mlp", "tiered"): (0.491, 0.078, 1.45, None),
    ("cifar10", "mlp", "bmr"): (0.514, 0.019, 1.37, 0.99),
    ("cifar10", "vit", "map"): (0.498, 0.109, 1.46, None),
    ("cifar10", "vit", "flat"): (0.510, 0.061, 1.39, None),
    ("cifar10", "vit", "tiered"): (0.360, 0.038, 1.72, None),
    ("cifar10", "vit", "bmr"): (0.525, 0.015, 1.35, 0.99),
    ("cifar10", "mixer", "map"): (0.687, 0.173, 1.30, None),
    ("cifar10", "mixer", "flat"): (0.547, 0.054, 1.27, None),
    ("cifar10", "mixer", "tiered"): (0.454, 0.023, 1.51, None),
    ("cifar10", "mixer", "bmr"): (0.566, 0.015, 1.18, 0.994),
}


def published(dataset: str, net: str, method: str) -> str:
    """The figures in a line: accuracy / ECE / NLL / pruned share."""
    return " / ".join("-" if value is None else f"{value:g}" for value in PUBLISHED[dataset, net, method])
