"""The command line: `bayesprune run`, `compare`, `predict` and the other `COMMANDS`."""

import functools
import importlib
import os
import sys
import traceback
from collections.abc import Callable, Sequence
from typing import Any

from bayesprune.cli.errors import EXPECTED, flags_in_one_line, one_line
from bayesprune.core.checks import check_name
from bayesprune.core.compiling import bits_by_kernel
from bayesprune.train.interruption import sigterm_like_ctrl_c

# name: what it does. Each is the function of its name in the module of its name, imported when it is asked for.
COMMANDS = {
    "run": "train and prune a network; write metrics, posterior and figures to a folder; resumes",
    "fit": "fit a table as it comes, and report what came of it: bayesprune fit table.csv --target COLUMN",
    "sweep": "many runs, over seeds and settings, side by side, and one table of them; resumes",
    "compare": "every method on one task, tuned by one budget, at equal connected density: one table; resumes",
    "methods": "list methods, priors, nets and data sets, with their knobs",
    "evaluate": "evaluate a finished fit or run, with more draws, on another data set, or against foreign data",
    "report": "compare finished runs in one table, and draw their figures again",
    "compact": "write a finished run's network without what pruning left idle, certified, as one small file",
    "export": "write a compact network for another runtime, ONNX",
    "predict": "predict rows of your own by a fit, a run or a compact network",
    "reproduce": "run a comparison of a paper, cell by cell: its table and its figures; resumes",
}
FAILED, INTERRUPTED = 2, 130


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; ``argv`` is what follows the program's name.

    Returns the exit code: 0, 2 for an error, 130 after Ctrl-C, 143 after SIGTERM.

    >>> main(["--version"])
    bayesprune 0.1.0
    0
    """
    words = list(sys.argv[1:] if argv is None else argv)
    debug = "--debug" in words
    try:
        with sigterm_like_ctrl_c(), bits_by_kernel():
            code = _dispatch([word for word in words if word != "--debug"])
            sys.stdout.flush()
            return code
    except BrokenPipeError:  # whoever read it has seen enough, as `head` has; what is left to flush goes nowhere
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return FAILED
    except KeyboardInterrupt as stop:
        return _complain(str(stop) or "interrupted.", getattr(stop, "exit_code", INTERRUPTED))
    except EXPECTED as error:
        if debug:
            traceback.print_exc()
        return _complain(f"error: {one_line(error)}", FAILED)


def _dispatch(words: list[str]) -> int:
    if not words or words[0] in ("-h", "--help", "help"):
        print(_overview())
        return 0
    name, *rest = words
    if name == "--version":
        from bayesprune import __version__

        print(f"bayesprune {__version__}")
        return 0
    check_name("command", name, COMMANDS)
    try:
        command = getattr(importlib.import_module(f"{__name__}.{name}"), name)
        if name in ("run", "sweep"):  # the flags of a run follow from one another
            command(rest)
        else:
            _parsed(name, command, rest)()
    except SystemExit as leave:  # --help
        return leave.code if isinstance(leave.code, int) else FAILED
    return 0


def _parsed(name: str, command: Callable[..., None], words: list[str]) -> Callable[[], None]:
    """The command with the arguments that its flags say."""

    @functools.wraps(command)
    def with_arguments(*args: Any, **kwargs: Any) -> Callable[[], None]:
        return functools.partial(command, *args, **kwargs)

    with flags_in_one_line(name):
        return importlib.import_module("tyro").cli(with_arguments, args=words, prog=f"bayesprune {name}")  # type: ignore[no-any-return]


def _overview() -> str:
    rows = "\n".join(f"  {name:<10}{what}" for name, what in COMMANDS.items())
    return (
        "usage: bayesprune COMMAND [flags]\n\n"
        f"Sparse Bayesian neural networks.\n\ncommands:\n{rows}\n\n"
        "bayesprune COMMAND --help shows a command's flags; --debug, with any of them, shows where an error came from.\n"
        "A first run: bayesprune run --dataset digits --net mlp --method bmr --out runs/first"
    )


def _complain(message: str, code: int) -> int:
    print(f"bayesprune: {message}", file=sys.stderr)
    return code
