"""LLVM text in a normal form without names and numbers: modules that compute the same are equal by line.

In kernels and tables only names are replaced. The entry point, whose asserts differ with what is guarded before the
call, is written anew: without asserts, each value once, just before its first use.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

ENTRY = "entry"
FIRST_ASSERT = 16  # the status that says that assert 0 does not hold
_LOCAL = re.compile(r"%[\w.]+")
_GLOBAL = re.compile(r"@[\w.]+")
_DEFINED = re.compile(r"(?:define [^@]*|^)@([\w.]+)")
_LABEL = re.compile(r"^([\w.]+):$")
_RESULT = re.compile(r"^(%[\w.]+) = (.*)$")
_BRANCH = re.compile(r"^br i1 (%[\w.]+), label (%[\w.]+), label (%[\w.]+)$")
_LEAVES = re.compile(r"^ret i64 (\d+)$")
_EFFECTS = ("alloca", "load", "phi", "atomicrmw", "cmpxchg")


class Function(NamedTuple):
    """A function, or a table as a function of one line: its lines under the names that its place gives it."""

    name: str
    lines: tuple[str, ...]
    asserts: int


def functions_of(text: str) -> list[Function]:
    """The functions, tables and declarations of a module, in order."""
    pieces = list(_pieces(text))
    symbols = {
        match[1]: f"@g{position}" for position, piece in enumerate(pieces) if (match := _DEFINED.search(piece[0]))
    }
    return [_function(piece, symbols) for piece in pieces]


def _pieces(text: str) -> Iterator[list[str]]:
    """The lines of each function; every other line is a piece of its own."""
    inside: list[str] = []
    for line in map(str.strip, text.splitlines()):
        if not line:
            continue
        if line.startswith("define "):
            inside = [line]
        elif inside:
            inside.append(line)
            if line == "}":
                yield inside
                inside = []
        else:
            yield [line]


def _function(lines: list[str], symbols: dict[str, str]) -> Function:
    header = _DEFINED.search(lines[0])
    name = header[1] if header is not None else lines[0]
    lines = [_GLOBAL.sub(lambda match: symbols.get(match[0][1:], match[0]), line) for line in lines]
    if len(lines) == 1 or name != ENTRY:
        return Function(name, tuple(_renamed(lines)), 0)
    body, asserts = _without_asserts(lines)
    return Function(name, tuple(Rewriting(body).lines()), asserts)


def _renamed(lines: Sequence[str]) -> Iterator[str]:
    """The lines with local names and labels numbered by their first occurrence."""
    names: dict[str, str] = {}
    for line in lines:
        shown = _LABEL.sub(r"label %\1", line)
        yield _LOCAL.sub(lambda match: names.setdefault(match[0], f"%{len(names)}"), shown)


def _without_asserts(lines: Sequence[str]) -> tuple[list[str], int]:
    """The lines without asserts (branches and their returns), and the number of asserts."""
    failing = {
        f"%{label[1]}": int(leaves[1]) >= FIRST_ASSERT
        for line, after in itertools.pairwise(lines)
        if (label := _LABEL.match(line)) and (leaves := _LEAVES.match(after))
    }
    kept: list[str] = []
    asserts = 0
    follows = ""  # the block after an assert, which belongs to the one before it now
    skipped = False
    for line in lines:
        branch, label = _BRANCH.match(line), _LABEL.match(line)
        skipped = skipped and label is None
        if branch is not None and failing.get(branch[3]):
            asserts, follows = asserts + 1, branch[2]
        elif label is not None and failing.get(f"%{label[1]}"):
            skipped = True
        elif not skipped and (label is None or f"%{label[1]}" != follows):
            kept.append(line)
    return kept, asserts


class Rewriting:
    """A function's lines in a normal form: each pure value stands just before its first use."""

    def __init__(self, lines: Sequence[str]) -> None:
        self._lines = lines
        self._pure = {match[1]: match[2] for line in lines if (match := _RESULT.match(line)) and _is_pure(match[2])}
        self._names: dict[str, str] = {}
        self._values: dict[str, str] = {}  # names by what they are
        self._written: list[str] = []

    def lines(self) -> list[str]:
        """All of them."""
        for line in self._lines:
            definition = _RESULT.match(line)
            if definition is not None and definition[1] in self._pure:
                continue
            shown = _LABEL.sub(r"label %\1", line)
            operands = _LOCAL.findall(shown if definition is None else definition[2])
            for operand in operands:
                self._need(operand)
            self._written.append(_LOCAL.sub(lambda match: self._name(match[0]), shown))
        return self._written

    def _name(self, local: str) -> str:
        return self._names.setdefault(local, f"%{len(self._names)}")

    def _need(self, local: str) -> None:
        """Writes a pure value, after its operands."""
        stack = [local]
        while stack:
            one = stack[-1]
            text = self._pure.get(one)
            if one in self._names or text is None:
                stack.pop()
                continue
            missing = [other for other in _LOCAL.findall(text) if other in self._pure and other not in self._names]
            if missing:
                stack.extend(missing)
                continue
            stack.pop()
            value = _LOCAL.sub(lambda match: self._name(match[0]), text)
            if value in self._values:
                self._names[one] = self._values[value]
            else:
                self._values[value] = name = self._name(one)
                self._written.append(f"{name} = {value}")


def _is_pure(text: str) -> bool:
    return not text.startswith(_EFFECTS) and ("call" not in text.split()[:2] or "@llvm." in text)
