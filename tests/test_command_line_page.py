"""The page on the command line: its commands run, in its order, in one folder."""

import re
import shlex
from pathlib import Path

import pytest

from bayesprune import cli
from bayesprune.cli import run

PAGE = Path(__file__).resolve().parent.parent / "docs" / "command_line.md"


def commands(text: str) -> list[list[str]]:
    """The words of every command in the page's shell blocks."""
    shell = "\n".join(re.findall(r"^```sh\n(.*?)^```", text, re.S | re.M)).replace("\\\n", " ")
    return [words for line in shell.splitlines() if (words := shlex.split(line, comments=True))]


def test_the_reader_finds_commands() -> None:
    assert commands("```sh\na b \\\n  'c d'  # e\n```\n```\nx\n```\n") == [["a", "b", "c d"]]
    assert all(words[0] == "bayesprune" and words[1] in cli.COMMANDS for words in commands(PAGE.read_text(encoding="utf-8")))


@pytest.mark.slow
def test_the_commands_of_the_page_run(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(run, "draw", lambda _: [])  # figures are tested elsewhere, and cost as much as all the rest
    page = PAGE.read_text(encoding="utf-8")
    exec("\n".join(re.findall(r"^```python\n(.*?)^```", page, re.S | re.M)), {})
    for words in commands(page):
        assert cli.main(words[1:]) == 0, words
