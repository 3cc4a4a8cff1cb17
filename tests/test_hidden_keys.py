"""No number is drawn by a key that nobody gave: literal keys are there for tracing alone, where values do not matter."""

import ast

from tests.test_house import nodes, project_sources

# Modules that write a key out, and what for.
TRACING = {
    "bayesprune.core.keys",
    "bayesprune.infer.laid_out", "bayesprune.infer.curvature.over_rows",
    "bayesprune.infer.observed", "bayesprune.infer.second_level", "bayesprune.model.adapters.net",
    "bayesprune.model.likelihoods.protocol", "bayesprune.model.minibatches", "bayesprune.model.network",
    "bayesprune.model.samples",
    "bayesprune.posteriors.family",
    "bayesprune.train.alike", "bayesprune.train.recipe", "bayesprune.train.sites",
}  # fmt: skip
NOTHING_IS_DRAWN = {
    "bayesprune.deploy.compact",  # of networks that were drawn before
    "bayesprune.deploy.files.to_onnx",
    "bayesprune.deploy.program.laws",
    "bayesprune.deploy.rungs",  # of the posterior mean
    "bayesprune.infer.from_trained",  # what starts at random is then set
    "bayesprune.model.adapters.of_equinox",  # a net that draws where it predicts is refused
    "bayesprune.model.bnn",  # the first running statistics
    "bayesprune.model.program",  # two draws that have to agree
    "bayesprune.model.transforms.slopes",  # outputs are themselves
}
COMMANDS = {"bayesprune.cli.shipping"}  # which network is timed makes no difference


def literal_keys(source: str) -> list[int]:
    """Lines with ``random.key(0)`` and the like."""
    return [
        node.lineno
        for node in nodes(source)
        if isinstance(node, ast.Call)
        and getattr(node.func, "attr", "") in ("key", "PRNGKey")
        and node.args
        and isinstance(node.args[0], ast.Constant)
    ] + [node.lineno for node in nodes(source) if isinstance(node, ast.keyword) and node.arg == "rng_seed"]


def test_no_key_is_hidden() -> None:
    found = {module for module, source in project_sources().items() if literal_keys(source)}
    assert found <= TRACING | NOTHING_IS_DRAWN | COMMANDS


def test_a_hidden_key_would_be_found() -> None:
    assert literal_keys("key = jax.random.key(0) if key is None else key") == [1]
    assert literal_keys("x = jax.random.key(seed)") == []
