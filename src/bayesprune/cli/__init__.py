"""The command line: `bayesprune run | methods | evaluate | report`."""

import importlib
import sys
import traceback
from collections.abc import Sequence

from bayesprune.core.checks import unknown_name
from bayesprune.infer.diverged import DivergedError

# name: (module of this package, what it does); `main` imports the one that is asked for.
COMMANDS = {
    "run": ("run", "train and prune a network; write metrics, posterior and figures to a folder; resumes"),
    "methods": ("listing", "list methods, priors, nets and data sets, with their knobs"),
    "evaluate": ("evaluate", "evaluate a finished run, with more draws, on another data set, or against foreign data"),
    "report": ("report", "compare finished runs in one table, and draw their figures again"),
}
FAILED, INTERRUPTED = 2, 130


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; ``argv`` is what follows the program's name. Returns the exit code: 0, 2 for an error, 130 after Ctrl-C.

    >>> main(["--version"])
    bayesprune 0.1.0
    0
    """
    words = list(sys.argv[1:] if argv is None else argv)
    debug = "--debug" in words
    words = [word for word in words if word != "--debug"]
    try:
        return _dispatch(words)
    except KeyboardInterrupt as stop:
        return _complain(str(stop) or "interrupted.", INTERRUPTED)
    except (ValueError, TypeError, OSError, ImportError, FloatingPointError) as error:
        if debug:
            traceback.print_exc()
        return _complain(f"error: {_one_line(error)}", FAILED)


def _dispatch(words: list[str]) -> int:
    if not words or words[0] in ("-h", "--help", "help"):
        print(_overview())
        return 0
    if words[0] == "--version":
        from bayesprune import __version__

        print(f"bayesprune {__version__}")
        return 0
    if words[0] not in COMMANDS:
        raise unknown_name("command", words[0], COMMANDS)
    try:
        command = importlib.import_module(f"{__name__}.{COMMANDS[words[0]][0]}")
        command.main(words[1:])
    except SystemExit as leave:  # --help, or a flag that is not known; tyro has said so already
        return leave.code if isinstance(leave.code, int) else FAILED
    return 0


def _overview() -> str:
    rows = "\n".join(f"  {name:<10}{what}" for name, (_, what) in COMMANDS.items())
    return (
        "usage: bayesprune COMMAND [flags]\n\n"
        f"Sparse Bayesian neural networks.\n\ncommands:\n{rows}\n\n"
        "bayesprune COMMAND --help shows a command's flags; --debug, with any of them, shows where an error came from.\n"
        "A first run: bayesprune run --dataset digits --net mlp --method bmr --out runs/first"
    )


def _complain(message: str, code: int) -> int:
    print(f"bayesprune: {message}", file=sys.stderr)
    return code


def _one_line(error: BaseException) -> str:
    if isinstance(error, DivergedError):
        return (
            f"the loss stopped being finite at step {error.step}, first seen at {error.site!r}. Start again in another folder "
            "with a smaller --learning-rate."
        )
    text = str(error)
    if isinstance(error, OSError) and error.strerror:
        text = error.strerror + (f": {error.filename}" if error.filename else "")
    return " ".join(text.split()) or type(error).__name__
