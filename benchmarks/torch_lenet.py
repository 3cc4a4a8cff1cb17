"""PyTorch's time for one MAP step of LeNet-5 (batch 128, 32 x 32), the yardstick for this package's convolutions on a CPU.

Run it in an environment that has ``torch`` (this package does not need it); it writes one JSON line to standard output::

    python benchmarks/torch_lenet.py --threads 2

The step is the same work as one of ours: forward, backward and an AdaBelief update of every weight (or Adam's, fused).
"""

import argparse
import json
import statistics
import sys
import time

import torch
from torch import nn


def lenet(wide: bool) -> nn.Module:
    """LeNet-5 with tanh and average pooling; ``wide`` is the version for 32 x 32 x 3 images (18, 48, 360 filters)."""
    channels, (a, b, c), hidden = (3, (18, 48, 360), 256) if wide else (1, (6, 16, 120), 84)
    return nn.Sequential(
        *(nn.Conv2d(channels, a, 5), nn.Tanh(), nn.AvgPool2d(2)),
        *(nn.Conv2d(a, b, 5), nn.Tanh(), nn.AvgPool2d(2)),
        *(nn.Conv2d(b, c, 5), nn.Tanh(), nn.Flatten()),
        *(nn.Linear(c, hidden), nn.Tanh(), nn.Linear(hidden, 10)),
    )


class AdaBelief:
    """AdaBelief (Zhuang et al., 2020, algorithm 2) in multi-tensor operations, so that Python's share stays small."""

    def __init__(self, weights: list[torch.Tensor], rate: float = 1e-3, b1: float = 0.9, b2: float = 0.999, eps: float = 1e-16):
        self.weights, self.rate, self.b1, self.b2, self.eps, self.count = weights, rate, b1, b2, eps, 0
        self.mean = [torch.zeros_like(w) for w in weights]
        self.belief = [torch.zeros_like(w) for w in weights]

    @torch.no_grad()
    def step(self) -> None:
        """Move every weight once along its gradient."""
        self.count += 1
        gradients = [w.grad for w in self.weights]
        torch._foreach_lerp_(self.mean, gradients, 1 - self.b1)
        surprise = torch._foreach_sub(gradients, self.mean)
        torch._foreach_mul_(self.belief, self.b2)
        torch._foreach_addcmul_(self.belief, surprise, surprise, value=1 - self.b2)
        torch._foreach_add_(self.belief, self.eps)
        size = torch._foreach_div(self.belief, 1 - self.b2**self.count)
        torch._foreach_sqrt_(size)
        torch._foreach_add_(size, self.eps)
        torch._foreach_addcdiv_(self.weights, self.mean, size, value=-self.rate / (1 - self.b1**self.count))

    def zero_grad(self) -> None:
        """Forget the gradients."""
        for weight in self.weights:
            weight.grad = None


def milliseconds(
    wide: bool, optimiser: str, batch_size: int, num_steps: int, num_repeats: int, channels_last: bool
) -> list[float]:
    """The mean time of a step in each of ``num_repeats`` runs of ``num_steps`` steps, in milliseconds."""
    torch.manual_seed(0)
    net = lenet(wide)
    images = torch.randn(num_steps, batch_size, 3 if wide else 1, 32, 32)
    if channels_last:
        net = net.to(memory_format=torch.channels_last)
    labels = torch.randint(10, (num_steps, batch_size))
    weights = list(net.parameters())
    optim = AdaBelief(weights) if optimiser == "adabelief" else torch.optim.Adam(weights, fused=True)
    times = []
    for _ in range(num_repeats + 1):
        start = time.perf_counter()
        for x, y in zip(images, labels, strict=True):
            x = x.contiguous(memory_format=torch.channels_last) if channels_last else x
            optim.zero_grad()
            nn.functional.cross_entropy(net(x), y).backward()
            optim.step()
        times.append((time.perf_counter() - start) / num_steps * 1e3)
    return times[1:]  # the first run warms up


def main() -> None:
    """Time the step and write one JSON line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--batch-size", type=int, default=128)
    parser.add_argument("--num-steps", type=int, default=20)
    parser.add_argument("--num-repeats", type=int, default=10)
    parser.add_argument("--optimiser", choices=("adabelief", "adam"), default="adabelief")
    parser.add_argument("--wide", action="store_true")
    parser.add_argument("--channels-last", action="store_true")
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    times = milliseconds(args.wide, args.optimiser, args.batch_size, args.num_steps, args.num_repeats, args.channels_last)
    record = {
        "benchmark": "torch_lenet",
        "torch": torch.__version__,
        **vars(args),
        "median_ms": round(statistics.median(times), 3),
        "min_ms": round(min(times), 3),
        "max_ms": round(max(times), 3),
    }
    sys.stdout.write(json.dumps(record) + "\n")


if __name__ == "__main__":
    main()
