"""Kinds of tables on which a default collapses, as simulations: each returns x, y and the number of training rows.

The rows after the first ``train`` are new ones of the same simulation, by which models are judged. The shapes are those of real
tables: spectra of a few samples, fingerprints of molecules, codes of categories, a plant with sensors that hardly move.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

TEST = 2000


class Table(NamedTuple):
    """``x`` (rows, columns), ``y`` (rows,) of floats, or of whole numbers for classes; the first ``train`` rows are to fit."""

    x: np.ndarray
    y: np.ndarray
    train: int


Generator = np.random.Generator


def spectra(rng: Generator, train: int = 200) -> Table:
    """100 wavelengths of six smooth bands; two concentrations add up, hardly bent."""
    amounts = rng.gamma(3.0, 1.0, (train + TEST, 6))
    centres, places = rng.uniform(0, 100, 6), np.arange(100)
    bands = np.exp(-0.5 * ((places - centres[:, None]) / rng.uniform(12, 30, (6, 1))) ** 2)
    x = amounts @ bands + rng.normal(0, 0.3, (len(amounts), 1)) + 0.02 * rng.standard_normal((len(amounts), 100))
    signal = amounts[:, 0] - 0.7 * amounts[:, 1] + 0.02 * amounts[:, 0] ** 2
    return Table(x, signal + 0.5 * rng.standard_normal(len(x)), train)


def fingerprints(rng: Generator, train: int = 165) -> Table:
    """1,100 bits that few molecules have, set by one of twelve scaffolds each; scaffolds, a few bits and one pair decide."""
    scaffold = rng.integers(0, 12, train + TEST)
    frequent = np.clip(rng.beta(0.25, 3.0, (12, 1100)), 0.005, 0.95)
    x = (rng.random((len(scaffold), 1100)) < frequent[scaffold]).astype(float)
    use = rng.permutation(np.flatnonzero((x.mean(0) > 0.08) & (x.mean(0) < 0.5)))[:8]
    signal = rng.normal(0, 1.0, 12)[scaffold] + x[:, use] @ rng.normal(0, 0.7, 8) + 0.8 * x[:, use[0]] * x[:, use[1]]
    return Table(x, signal + 0.5 * rng.standard_normal(len(x)), train)


def mixed(rng: Generator, train: int = 2000) -> Table:
    """80 columns, half of them codes of up to nine categories with effects of their own; two classes."""
    rows = train + TEST
    codes = np.stack([rng.integers(0, levels, rows) for levels in rng.integers(2, 10, 40)], axis=1)
    numbers = rng.standard_normal((rows, 40)) * np.exp(rng.normal(0, 1, 40))
    numbers[:, :10] = np.exp(numbers[:, :10] / numbers[:, :10].std(0))
    logit = sum(rng.normal(0, 1.6, 10)[codes[:, column]] for column in range(6))
    logit = logit + 2.0 * np.sign(numbers[:, 12]) * (codes[:, 7] > 2) + np.log(numbers[:, 0]) + np.log(numbers[:, 1])
    y = rng.random(rows) < 1 / (1 + np.exp(-2.0 * (logit - np.median(logit))))
    return Table(np.concatenate([codes, numbers], axis=1), y.astype(int), train)


def plant(rng: Generator, train: int = 1500) -> Table:
    """Sixteen sensors of three states of a machine, smooth and nearly copies of each other; two hardly move, one never."""
    speed, wear, leak = (
        rng.uniform(0.1, 1.0, train + TEST),
        rng.uniform(0.95, 1.0, train + TEST),
        rng.uniform(0.975, 1.0, train + TEST),
    )
    power = speed**3 / wear
    base = np.stack([speed, speed**2, power, power * leak, np.sqrt(power), np.log(speed), power / leak, speed * wear])
    more = np.stack([2 + 3 * power + 0.1 * wear, np.exp(speed) * leak, speed**1.5 / wear**2, power**0.8 * leak**2])
    still = np.stack([np.full(len(speed), 288.0), 1 + 1e-6 * leak, 14.7 + 1e-4 * rng.standard_normal(len(speed)), 9 * speed])
    x = np.concatenate([base, more, still]).T
    x[:, [0, 1, 2, 3, 6, 8, 9, 10]] *= 1 + 1e-4 * rng.standard_normal((len(x), 8))
    return Table(x, wear + 1e-4 * rng.standard_normal(len(x)), train)


def steps(rng: Generator, train: int = 1000) -> Table:
    """Three of ten columns, each by a few jumps."""
    x = rng.uniform(0, 1, (train + TEST, 10))
    y = 2.0 * (x[:, 0] > 0.3) - 3.0 * (x[:, 1] > 0.6) + np.floor(5 * x[:, 2]) % 2 + 1.5 * (x[:, 0] > 0.7) * (x[:, 1] > 0.35)
    return Table(x, y + 0.3 * rng.standard_normal(len(x)), train)


def heavy_tails(rng: Generator, train: int = 500) -> Table:
    """A smooth signal of five of ten columns under noise of Student's t with two degrees of freedom: no variance."""
    x = rng.standard_normal((train + TEST, 10))
    signal = 2 * x[:, 0] + x[:, 1] + np.sin(2 * x[:, 2]) + x[:, 3] * x[:, 4]
    return Table(x, signal + 1.5 * rng.standard_t(2, len(x)), train)


def money(rng: Generator, train: int = 1300) -> Table:
    """Costs: factors multiply, two of them strong for few, and one bill in twenty is several times as high."""
    rows = train + TEST
    age, weight, children = rng.integers(18, 65, rows), rng.normal(30, 6, rows), rng.poisson(1.1, rows)
    smokes, region, noise = rng.random(rows) < 0.2, rng.integers(0, 4, rows), rng.standard_normal((rows, 3))
    log = 7.5 + 0.035 * age + 0.1 * children + 0.05 * region + smokes * (0.8 + 0.07 * (weight > 30) * (weight - 20))
    x = np.column_stack([age, weight, children, smokes, region, np.exp(noise[:, 0]), noise[:, 1]])
    return Table(x, np.exp(log + 0.25 * noise[:, 2]) * np.where(rng.random(rows) < 0.05, rng.uniform(2, 5, rows), 1.0), train)


def biochemistry(rng: Generator, train: int = 2000) -> Table:
    """Nine sizes and shares of a molecule, skewed and correlated; jagged, and more than half is noise."""
    size, shape = rng.gamma(4.0, 2500.0, train + TEST), rng.beta(4, 8, (train + TEST, 4))
    x = np.column_stack(
        [
            size,
            size * shape[:, 0],
            shape[:, 0],
            size**0.9 * shape[:, 1],
            size * 130 * np.exp(0.05 * rng.standard_normal(len(size))),
        ]
    )
    x = np.column_stack(
        [
            x,
            size * shape[:, 2] / 80,
            np.sqrt(size) * shape[:, 3] * 40,
            size**1.1 * shape[:, 1],
            30 + 8 * rng.standard_normal(len(size)),
        ]
    )
    signal = (
        3 * np.tanh(8 * (shape[:, 0] - 0.33))
        + 3 * np.sin(14 * shape[:, 1]) * (size > 9000)
        + 2 * (shape[:, 2] > 0.35) * (shape[:, 3] > 0.3)
    )
    return Table(x, 8 + signal + 2.6 * rng.standard_normal(len(x)), train)


def decades(rng: Generator, train: int = 700) -> Table:
    """Eight concentrations over four decades each: the outcome saturates in one, and goes by the logarithms of three others."""
    logs = 2.0 * rng.standard_normal((train + TEST, 8))
    y = 3.0 / (1.0 + np.exp(-logs[:, 0])) + 0.5 * logs[:, 1] - 0.3 * logs[:, 2] + 0.2 * logs[:, 2] * (logs[:, 3] > 0)
    return Table(np.exp(logs), y + 0.3 * rng.standard_normal(len(y)), train)


def churn(rng: Generator, train: int = 2000) -> Table:
    """Who leaves: three rules of two or three of nineteen columns each; one in seven does."""
    x = rng.standard_normal((train + TEST, 19))
    x[:, 8:12] = rng.poisson(1.5, (len(x), 4))
    x[:, 12:15] = rng.random((len(x), 3)) < 0.25
    logit = -4.0 + 6.0 * (x[:, 0] > 1.0) * (x[:, 12] == 0) + 6.0 * (x[:, 8] > 3) + 6.0 * (x[:, 13] == 1) * (x[:, 1] > 0.8)
    logit += 6.0 * (x[:, 0] < -0.5) * (x[:, 8] > 2) + 4.0 * (x[:, 14] == 1) * (x[:, 9] < 1)
    return Table(x, (rng.random(len(x)) < 1 / (1 + np.exp(-logit))).astype(int), train)


def parity(rng: Generator, train: int = 2000) -> Table:
    """Whether an even number of three signs among twelve columns is positive."""
    x = rng.standard_normal((train + TEST, 12))
    return Table(x, (np.prod(np.sign(x[:, :3]), axis=1) > 0).astype(int), train)


def eight_classes(rng: Generator, train: int = 1500) -> Table:
    """Eight classes of three clouds each in eight of twenty columns, which overlap."""
    centres = rng.normal(0, 1.25, (8, 3, 8))
    y, cloud = rng.integers(0, 8, train + TEST), rng.integers(0, 3, train + TEST)
    x = rng.standard_normal((len(y), 20))
    x[:, :8] += centres[y, cloud]
    return Table(x, y, train)


NUMBERS: dict[str, Callable[[Generator], Table]] = {
    "spectra": spectra,
    "fingerprints": fingerprints,
    "plant": plant,
    "steps": steps,
    "heavy_tails": heavy_tails,
    "money": money,
    "biochemistry": biochemistry,
}
CLASSES: dict[str, Callable[[Generator], Table]] = {
    "mixed": mixed,
    "churn": churn,
    "parity": parity,
    "eight_classes": eight_classes,
}
LATER: dict[str, Callable[[Generator], Table]] = {"decades": decades}
KINDS = NUMBERS | CLASSES | LATER  # a kind's place is its seed: what comes later comes last


def make(kind: str) -> Table:
    """The table of a kind, always the same."""
    return KINDS[kind](np.random.default_rng(list(KINDS).index(kind)))
