"""Networks of the user's own by MODULE:FUNCTION: what they are given, and each way to get it wrong."""

import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from bayesprune import cli
from bayesprune.cli import build, rows
from bayesprune.cli.flags import parse
from tests.test_cli import SMALL, content, refused

SOURCE = """
import equinox as eqx, jax
from flax import linen

class Net(linen.Module):
    num_outputs: int
    @linen.compact
    def __call__(self, x):
        return linen.Dense(self.num_outputs)(x.reshape(len(x), -1))

class Own(eqx.Module):
    layer: eqx.nn.Linear
    def __call__(self, x):
        return self.layer(x.ravel())

def make_net(num_outputs): return Net(num_outputs)
def of_another_name(k, /): return Net(k)
def fixed(): return Net(10)
def equinox_net(input_shape, num_outputs, seed=0):
    return Own(eqx.nn.Linear(64, num_outputs, key=jax.random.key(seed)))
def needs_more(num_outputs, width): return Net(num_outputs)
def fails(num_outputs): raise RuntimeError("no such layer")
def no_net(num_outputs): return "a net"
number = 3
"""


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder with own_nets.py and broken.py, and the process in it."""
    (tmp_path / "own_nets.py").write_text(SOURCE)
    (tmp_path / "broken.py").write_text("import nowhere_to_be_found")
    (tmp_path / "wrong.py").write_text("1 +")
    monkeypatch.chdir(tmp_path)
    path = list(sys.path)
    yield tmp_path
    assert sys.path == path
    for name in ("own_nets", "broken", "wrong"):
        sys.modules.pop(name, None)


@pytest.mark.parametrize("function", ["make_net", "of_another_name", "fixed", "Net", "equinox_net"])
def test_a_function_is_given_what_it_takes(function: str, module: Path) -> None:
    chosen = build.resolve(parse(["--net", f"own_nets:{function}"]))
    bnn = build.bnn_for(chosen, rows.RowsTask((8, 8, 1), "classes", 10))
    assert bnn.output_shape == (10,) and {spec.shape for spec in bnn.layout} >= {(10,)}
    assert str(chosen.out) == f"runs/digits-{function}-bmr"


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("nowhere:make_net", "there is no module 'nowhere' in .*: run this where nowhere.py is"),
        ("broken:make_net", "broken imports 'nowhere_to_be_found', which is not installed"),
        ("wrong:make_net", "importing wrong failed, SyntaxError"),
        ("own_nets:make_nett", "unknown function in own_nets 'make_nett'. Did you mean 'make_net'"),
        ("own_nets:number", "is 3, no function that makes a network: write `def make_net"),
        ("own_nets:", "or MODULE:FUNCTION"),
        ("own_nets:needs_more", "asks for width, and is given num_outputs and input_shape alone"),
        ("own_nets:fails", "failed when it was called with {'num_outputs': 10}: RuntimeError: no such layer"),
        ("own_nets:no_net", "own_nets:no_net gave 'a net', no network: write"),
    ],
)
def test_a_wrong_name_or_function_is_told_in_one_line(
    name: str, told: str, module: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert re.search(told, refused(capsys, "run", "--net", name))
    assert not list(module.glob("runs/*"))


@pytest.mark.slow
def test_a_run_of_an_own_net_is_evaluated_where_its_module_is(
    module: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    words = [word for word in SMALL if word not in ("--mlp.hidden", "8")]
    assert cli.main(["run", *words, "--net", "own_nets:make_net", "--prunable", "everything", "--out", "run"]) == 0
    assert content(module / "run")["settings"]["net"] == "own_nets:make_net"
    assert cli.main(["evaluate", "run", "--num-samples", "5", "--net", "own_nets:make_net"]) == 0
    capsys.readouterr()
    (module / "elsewhere").mkdir()
    monkeypatch.chdir(module / "elsewhere")
    sys.modules.pop("own_nets")
    assert "run this where own_nets.py is" in refused(capsys, "evaluate", str(module / "run"), "--net", "own_nets:make_net")
