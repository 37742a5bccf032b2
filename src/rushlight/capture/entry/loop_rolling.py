"""Rolls similar statements into a loop: Python compiles the body once and runs it as fast."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from rushlight.capture.arguments import Names

_FEW = 4  # as many statements take as long to compile as a loop
# Text in quotes, the names of objects, and numbers in brackets.
_PARTS = re.compile(r"""('(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*"|\bv\d+\b|(?<=\[)\d+(?=\]))""")
_HOLE = "\0"


def rolled(lines: Iterable[str], names: Names) -> list[str]:
    """Statements in any order: those that differ only in objects and in numbers in brackets are loops over tables."""
    alike: dict[str, list[Sequence[str]]] = {}
    for line in lines:
        text, holes = _taken_apart(line)
        alike.setdefault(text, []).append(holes)
    made: list[str] = []
    for text, rows in alike.items():
        made += [_filled(text, row) for row in rows] if len(rows) < _FEW else [_loop(text, rows, names)]
    return made


def _taken_apart(line: str) -> tuple[str, list[str]]:
    """A statement with holes, and what was there."""
    parts = _PARTS.split(line)
    places = [position for position in range(1, len(parts), 2) if parts[position][0] not in "'\""]
    holes = [parts[position] for position in places]
    for index in places:
        parts[index] = _HOLE
    return "".join(parts), holes


def _filled(text: str, holes: Sequence[str]) -> str:
    first, *rest = text.split(_HOLE)
    return first + "".join([hole + part for hole, part in zip(holes, rest, strict=True)])


def _loop(text: str, rows: Sequence[Sequence[str]], names: Names) -> str:
    columns = list(zip(*rows, strict=True))
    varying = [position for position, column in enumerate(columns) if len(set(column)) > 1]
    table = tuple([tuple([_value(row[position], names) for position in varying]) for row in rows])
    body = _filled(
        text, [f"t{position}" if position in varying else column[0] for position, column in enumerate(columns)]
    )
    return f"for ({''.join([f't{position}, ' for position in varying])}) in {names(table)}: {body}"


def _value(part: str, names: Names) -> object:
    return names.space[part] if part[0] == "v" else int(part)
