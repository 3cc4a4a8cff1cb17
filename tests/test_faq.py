"""The page on messages: each of them is the library's own, word for word, and a handful is provoked."""

import ast
import functools
import re
from pathlib import Path

import jax
import numpy as np
import optax
import pytest

import bayesprune as bp
from tests.infer import programs

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "faq.md"
OF_FLAX, OF_SKLEARN = ["Input type must be an integer or unsigned integer"], ["X contains NaN", "Sparse data was passed for X"]


def quoted(text: str) -> list[str]:
    """The messages of the page: bold code."""
    return re.findall(r"\*\*`(.+?)`\*\*", text)


def pattern(node: ast.AST) -> str:
    """A text of the source, its fields written as the page writes what differs."""
    if isinstance(node, ast.Constant):
        return str(node.value)
    assert isinstance(node, ast.JoinedStr)
    return "".join(str(part.value) if isinstance(part, ast.Constant) else "..." for part in node.values)


@functools.cache
def texts() -> tuple[str, ...]:
    """Every text of the source that is no docstring."""
    found = []
    for path in sorted((ROOT / "src" / "bayesprune").rglob("*.py")):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        alone = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
        for node in ast.walk(tree):
            if isinstance(node, ast.JoinedStr) or (isinstance(node, ast.Constant) and isinstance(node.value, str)):
                found += [pattern(node)] if id(node) not in alone else []
    return tuple(found)


def is_said(message: str) -> bool:
    """Whether a text of the source has these words, and a field wherever they say so."""
    return any(message in text for text in texts())


MESSAGES = quoted(PAGE.read_text(encoding="utf-8"))


def test_every_message_is_one_of_ours() -> None:
    assert len(MESSAGES) > 40 and len(set(MESSAGES)) == len(MESSAGES)
    assert [message for message in MESSAGES if not is_said(message) and message not in OF_FLAX + OF_SKLEARN] == []


def test_words_that_nothing_says_would_be_found() -> None:
    assert quoted("**`a ... b`**, **`c`** d `e` **f**") == ["a ... b", "c"]
    assert is_said("batch_size=... is larger than the data set of ... rows")
    assert not is_said("batch_size=... is greater than the data set of ... rows")
    assert not is_said("must have fields x and y, got ...: wrap them")


GOOD = programs.classes()


def fit(data=None, **settings):
    given = {"num_steps": 1, "progress": False}
    return bp.fit_svi(jax.random.key(0), programs.small_bnn(), GOOD if data is None else data, **(given | settings))


PROVOKED = {
    "must have fields x and y": lambda: fit((GOOD.x, GOOD.y)),
    "data.y holds labels from": lambda: fit(bp.Dataset(GOOD.x, GOOD.y + 3)),
    "data.y must hold integer class labels": lambda: fit(bp.Dataset(GOOD.x, GOOD.y * 1.0)),
    "data.y has shape": lambda: fit(bp.Dataset(GOOD.x, np.eye(3)[GOOD.y])),
    "value(s) that are NaN": lambda: fit(bp.Dataset(np.where(GOOD.x > 1, np.nan, GOOD.x), GOOD.y)),
    "must hold numbers": lambda: fit(bp.Dataset(GOOD.x.astype(str), GOOD.y)),
    "batch_size=": lambda: fit(batch_size=10_000),
    "... can be read only once": lambda: fit((pair for pair in [GOOD]), num_rows=60),
    "must be an object, got the class": lambda: fit(sparsifier=bp.methods.BMR),
    "must be a JAX random key": lambda: bp.fit_svi(0, programs.small_bnn(), GOOD, num_steps=1),
    "optimizer must be an optax": lambda: fit(optimizer=optax.adam),
    "early_stop must be an object": lambda: fit(early_stop=5),
    "early_stop watches the evaluation": lambda: fit(early_stop=bp.EarlyStop("nll")),
    "Of a figure of your own": lambda: bp.EarlyStop("f1"),
    "kl_weight must be": lambda: fit(kl_weight="warm-up"),
    "storage='active' keeps": lambda: fit(storage="active"),
    "it is the fraction of weights": lambda: bp.methods.SNR(5.0),
    "must lie in [0, 1]": lambda: bp.metrics.summary(np.array([[2.0, -1.0]]), np.zeros(1, int)),
    "must be parameters by name": lambda: bp.predict(jax.random.key(0), programs.small_bnn(), GOOD, GOOD.x),
    "Did you mean": lambda: bp.data.load("digit"),
    "covariance is singular": lambda: bp.features.knockoffs(jax.random.key(0), np.repeat(GOOD.x, 2, axis=1)),
}


@pytest.mark.parametrize("words", PROVOKED)
def test_they_come_as_the_page_has_them(words) -> None:
    (message,) = (one for one in MESSAGES if one.startswith(words))
    with pytest.raises((ValueError, TypeError)) as caught:
        PROVOKED[words]()
    said = ".*?".join(re.escape(part) for part in message.split("..."))
    assert re.search(said, str(caught.value)), caught.value
