"""Exported programs as text; `export.parse` reads it back.

    rushlight.export 1
    spec f32[B, 4] where B >= 1
    arguments ["x"]
    parameter "linear.weight"
    input %linear_weight = parameter "linear.weight"
    input %x = argument 0
    result {"y": %0, "rows": `B`}
    line 0 "model.py" 12 "forward" "return self.linear(x)"
    lines 0 = [0]
    program(%linear_weight: f32[3, 4], %x: f32[B, 4]) {
      %0 = linear(%x, %linear_weight, none) at 0 : f32[B, 3]
      return %0
    }

Sizes have their own names. `at N` is a row of the user's lines, innermost first; `check` lines are run-time asserts,
with the line they were written in and what they say. Equal programs have equal texts.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from rushlight.capture.source import ArgumentSource
from rushlight.capture.values import Constant, Container, InputRef, Number, Output, SizeOf, Template
from rushlight.ir.graph import Call
from rushlight.ir.text import GraphPrinter
from rushlight.ir.type import symbols_in
from rushlight.support import lazy
from rushlight.support.provenance import Frame
from rushlight.sym import RuntimeAssert, Size, SizeExpr, format_size, free_symbols
from rushlight.sym.expr import SymbolFacts
from rushlight.term import format_value

if TYPE_CHECKING:
    from rushlight.export.parts import Parts

MAGIC = "rushlight.export 1"


class Lines:
    """The user's lines that a program names: each once, and each row of them once."""

    def __init__(self) -> None:
        self.frames: dict[Frame, int] = {}
        self.rows: dict[tuple[Frame, ...], int] = {}

    def row(self, frames: tuple[Frame, ...]) -> str:
        """How a call names its lines."""
        if not frames:
            return ""
        for frame in frames:
            self.frames.setdefault(frame, len(self.frames))
        return f" at {self.rows.setdefault(frames, len(self.rows))}"

    def line(self, frame: Frame | None) -> str:
        """How something is said to be written in one line."""
        return self.row(() if frame is None else (frame,))

    def text(self) -> list[str]:
        """The lines, then the rows."""
        lines = [
            f"line {path} {_quoted(frame.filename)} {frame.line} {_quoted(frame.function)} {_quoted(frame.source)}"
            for frame, path in self.frames.items()
        ]
        return [*lines, *[f"lines {at} = {[self.frames[frame] for frame in row]}" for row, at in self.rows.items()]]


class ProgramPrinter(GraphPrinter):
    """Prints graphs with the names that `given` sizes have, and the user's lines. Sizes born in them are u0, u1, ..."""

    def __init__(self, outer: ProgramPrinter | None = None, given: Iterable[SizeExpr] = ()) -> None:
        super().__init__(outer)
        self.lines: Lines = Lines() if outer is None else outer.lines
        self.given: dict[SizeExpr, str] = {it: it.facts.name for it in given} if outer is None else outer.given
        self.fresh: Iterator[str] = self._fresh() if outer is None else outer.fresh

    def size(self, size: Size) -> str:
        """A size."""
        for symbol in free_symbols(size):
            if symbol not in self.symbols:
                self.symbols[symbol] = self.given.get(symbol) or next(self.fresh)
        return format_size(size, self.symbols)

    def _fresh(self) -> Iterator[str]:
        taken = set(self.given.values())
        return (name for name in map("u{}".format, itertools.count()) if name not in taken)

    def place(self, call: Call) -> str:
        """The row of the user's lines that a call stands in."""
        return self.lines.row(call.frames)

    def check(self, check: RuntimeAssert) -> str:
        """A run-time assert, its line, and what it says."""
        said = f" {_quoted(check.message)}" if check.message else ""
        return super().check(check) + self.lines.line(check.frame) + said


def program_text(program: Parts) -> str:
    """The text of an exported program."""
    opened = program.opened
    printer = ProgramPrinter(given=[*opened.bindings, *symbols_in(opened.types)])
    header, *body = printer.graph(program.graph)
    checks = [f"  {printer.check(check)}" for check in program.checks]
    inputs = [f"input %{input_.name} = {input_.kind} {_target(input_.target)}" for input_ in program.inputs]
    state = [f"{kind} {_quoted(name)}" for name, kind in program.state.kinds.items()]
    ties = [f"tie {_quoted(name)} {_quoted(other)}" for name, other in program.state.ties.items()]
    result = f"result {result_text(program.result, printer)}"
    unbacked = {symbol: name for symbol, name in printer.symbols.items() if symbol not in printer.given}
    sizes = [f"size {name}{_facts_text(symbol.facts, printer.lines)}" for symbol, name in unbacked.items()]
    draws = [f"draws {program.draws}"] if program.draws else []
    names = f"arguments {lazy.json.dumps(program.names)}"
    graph = [header, *checks, *body]
    start = [MAGIC, f"spec {program.spec}", names, *state, *ties, *inputs, *draws, result]
    return "\n".join([*start, *sizes, *printer.lines.text(), *graph])


def result_text(template: Template, printer: ProgramPrinter) -> str:
    """The text of what a run returns."""

    def text(template: Template) -> str:
        if isinstance(template, Output):
            return f"output {template.place}"
        if isinstance(template, InputRef):
            assert isinstance(template.source, ArgumentSource)
            return f"argument {template.source.position}"
        if isinstance(template, Number):
            return f"number {_quoted(template.text)}"
        if isinstance(template, SizeOf):
            return f"`{printer.size(template.expr)}`"
        if isinstance(template, Constant):
            return format_value(template.value, printer)
        assert isinstance(template, Container), "an exported program makes the containers that it returns"
        return _container(template, [text(part) for part in template.items], printer)

    return text(template)


def _container(container: Container, parts: list[str], printer: ProgramPrinter) -> str:
    if container.kind is dict:
        entries = [f"{format_value(key, printer)}: {part}" for key, part in zip(container.keys, parts, strict=True)]
        return f"{{{', '.join(entries)}}}"
    opening, closing = ("(", ")") if container.kind is tuple else ("[", "]")
    return opening + ", ".join(parts) + closing


def _facts_text(facts: SymbolFacts, lines: Lines) -> str:
    text = "" if facts.lower == 0 else f" from {'-inf' if facts.lower is None else facts.lower}"
    origin = facts.source
    if origin is None:
        return text
    return f"{text} of {origin.kind.name.lower()} {_quoted(origin.what)}{lines.line(origin.frame)}"


def _target(target: str | int) -> str:
    return _quoted(target) if isinstance(target, str) else str(target)


def _quoted(text: str) -> str:
    return lazy.json.dumps(text)
