"""Commands that pages name exist: subcommands and options of `rushlight`, modules of `python -m`, files of `pytest`."""

from __future__ import annotations

import importlib.util
import itertools
import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer

from rushlight.cli.app import app

ROOT = Path(__file__).resolve().parent.parent.parent
PAGES = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *(ROOT / "devlog").glob("*.md")]
FENCED = re.compile(r"^ *```(?:console|bash)\n(.*?)^ *```$", re.M | re.S)
SPAN = re.compile(r"`((?:rushlight|python -m (?:tools|rushlight)|pytest tests)[^`]*)`")
SETTING = re.compile(r"[A-Z_]+=")
COMMANDS = typer.main.get_command(app)
PASSES_ON = ("run", "launch", "explain")  # what follows the script is the script's


def commands(text: str) -> Iterator[str]:
    """Yield the commands of a page, without comments."""
    lines = [line for block in FENCED.findall(text) for line in block.splitlines()]
    for line in [*lines, *[" ".join(span.split()) for span in SPAN.findall(text)]]:
        yield from parts_of(line)


def parts_of(line: str) -> list[str]:
    """The commands of a line, without comments."""
    parts = re.split(r"&&|\|\|", line.removeprefix("$ "))
    return [re.split(r" #|   |(?<=\.\.\.) ", part.strip())[0] for part in parts]


def wrong(command: str) -> str | None:
    """What does not exist of a command."""
    try:
        words = shlex.split(command)
    except ValueError:
        return "it cannot be split into words"
    words = list(itertools.dropwhile(SETTING.match, words))
    if words[:1] == ["rushlight"]:
        return wrong_of(COMMANDS, words[1:])
    if words[:2] == ["python", "-m"] and words[2].partition(".")[0] in ("tools", "rushlight"):
        return None if importlib.util.find_spec(words[2]) is not None else f"there is no module {words[2]}"
    paths = (
        [word.partition("::")[0] for word in words[1:] if word.startswith("tests/")] if words[:1] == ["pytest"] else []
    )
    missing = [path for path in paths if not (ROOT / path).exists() and not list(ROOT.glob(path))]
    return f"there is no {missing[0]}" if missing else None


def wrong_of(command: Any, words: list[str]) -> str | None:
    """What does not exist of the words after a command's name."""
    options = {name for parameter in command.params for name in (*parameter.opts, *parameter.secondary_opts)}
    for at, word in enumerate(words):
        if word.startswith("-") and word.partition("=")[0] not in options and not re.fullmatch(r"-+\d*", word):
            return f"{command.name} has no option {word}"
        if word.startswith("-"):
            continue
        below: dict[str, Any] | None = getattr(command, "commands", None)
        if below is not None:
            names = word.rstrip(",").split("|")
            if missing := [name for name in names if name not in below]:
                return f"{command.name} has no command {missing[0]}"
            return next((said for name in names if (said := wrong_of(below[name], words[at + 1 :]))), None)
        if command.name in PASSES_ON:
            return None
    return None


@pytest.mark.parametrize("path", PAGES, ids=[path.relative_to(ROOT).as_posix() for path in PAGES])
def test_the_commands_of_a_page_exist(path: Path):
    found = {command: wrong(command) for command in commands(path.read_text(encoding="utf-8"))}
    assert {command: said for command, said in found.items() if said is not None} == {}


@pytest.mark.parametrize(
    ("command", "said"),
    [
        ("rushlight tuen mm 512", "has no command tuen"),
        ("rushlight emb plan tables.toml --statistics", "plan has no option --statistics"),
        ("RUSHLIGHT_POISON=255 rushlight bench opps", "has no command opps"),
        ("python -m tools.fuss --seed 0", "no module tools.fuss"),
        ("pytest tests/no/where.py", "no tests/no/where.py"),
    ],
)
def test_a_command_that_does_not_exist_is_found(command: str, said: str):
    assert said in (wrong(command) or "")


def test_commands_are_found():
    block = "```console\n$ pip install x && rushlight demo   # trains\nRUSHLIGHT_LOG=a python f.py\n```\n"
    text = f"`rushlight info` and\n{block}"
    assert list(commands(text)) == ["pip install x", "rushlight demo", "RUSHLIGHT_LOG=a python f.py", "rushlight info"]
    assert sum(command.startswith("rushlight ") for path in PAGES for command in commands(path.read_text())) > 80
