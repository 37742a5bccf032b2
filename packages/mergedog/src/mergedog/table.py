"""A table of pull requests, coloured by who can unblock each."""

from collections.abc import Iterable
from pathlib import Path

from rich.table import Table
from rich.text import Text

from mergedog.errors import StateError
from mergedog.records import Who
from mergedog.state import State, decoded

COLOURS = {
    Who.AUTHOR: "yellow",
    Who.MAINTAINER: "magenta",
    Who.CHECKS: "blue",
    Who.INFRASTRUCTURE: "red",
    Who.HARNESS: "cyan",
    Who.NOBODY: "green",
}


def colour(who: str) -> str:
    """Return the colour of whoever can unblock."""
    return next((shade for name, shade in COLOURS.items() if name.value == who), "white")


def read_states(folder: Path, repository: str) -> list[State]:
    """Return the states of a repository's pull requests; a file that cannot be read is left out."""
    found: list[State] = []
    for path in sorted(folder.glob("pull-*/state.json")):
        try:
            state = decoded(path.read_text(encoding="utf-8"))
        except (StateError, OSError):
            continue
        if state.repository == repository:
            found.append(state)
    return sorted(found, key=lambda state: state.number)


def status_table(states: Iterable[State], now: float, notes: dict[int, str] | None = None) -> Table:
    """Return the table; `notes` say of a pull request that its process is not there."""
    table = Table(box=None, header_style="dim", pad_edge=False)
    for heading in ("pull request", "phase", "can unblock", "why", "for"):
        table.add_column(heading)
    for state in states:
        waiting = state.waiting
        why = (notes or {}).get(state.number) or waiting.why
        shade = colour(waiting.who)
        age = _age(now - waiting.since) if waiting.since else ""
        cells = (f"#{state.number}", waiting.phase, waiting.who, why, age)
        table.add_row(*(Text(cell, style=shade if place in (2, 3) else "") for place, cell in enumerate(cells)))
    return table


def _age(seconds: float) -> str:
    for unit, length in (("d", 86400), ("h", 3600), ("min", 60)):
        if seconds >= length:
            return f"{seconds / length:.0f} {unit}"
    return f"{max(0.0, seconds):.0f} s"
