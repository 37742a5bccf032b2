"""Values of options that commands share: names and numbers in lists, files, and what is said on the way."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from pathlib import Path

import typer

from rushlight.support.errors import error, fail


def names_in(text: str | None) -> list[str]:
    """The names of an option, which are separated by commas; none where it is not given."""
    return text.split(",") if text else []


def whole_numbers(text: str, option: str) -> list[int]:
    """The numbers of an option, which are separated by commas."""
    parts = text.split(",")
    if not all(part.strip().isdecimal() for part in parts):
        raise typer.BadParameter("it is whole numbers, separated by commas", param_hint=option)
    return [int(part) for part in parts]


def known(names: Sequence[str], choices: Collection[str], message: str) -> Sequence[str]:
    """The names, all of which are choices. Errors: A002, with the name in the message's braces."""
    for name in names:
        if name not in choices:
            fail("A002", message.format(name), hint=f"one of {', '.join(choices)}")
    return names


def progress(text: str) -> None:
    """Says what is done, at the side."""
    typer.echo(text, err=True, nl=False)


def write(out: Path | None, content: str) -> None:
    """Writes a file, if one is named. Errors: P003."""
    if out is None:
        return
    try:
        out.write_text(content, encoding="utf-8")
    except OSError as cause:
        raise error("P003", f"bench: {out} could not be written: {cause.strerror}") from cause
