"""Why functions were compiled as they were: graphs, where they end, why more were made, and guards without use."""

from __future__ import annotations

import dis
import html
import re
from collections import Counter
from collections.abc import Callable, Iterator
from types import CodeType, FunctionType, MethodType
from typing import Any

from rushlight.capture import api
from rushlight.capture.entry.entry import Entry
from rushlight.capture.function import CompiledFunction
from rushlight.capture.guard import Guard
from rushlight.capture.resume.continuation import Continuation
from rushlight.compiler.report import is_compiled
from rushlight.support import events
from rushlight.support.events import Event
from rushlight.support.frozen import frozen

MOST_FINDINGS = 12
MOST_GRAPHS = 4  # of one function, in text
_ARGUMENT = re.compile(r"args\[(\d+)\]|kwargs\[(?:'|\")(\w+)(?:'|\")\]")
_SECTIONS = {
    "breaks": "graph breaks",
    "recompiles": "compiled again because",
    "dead_guards": "guards without use",
}


@frozen
class Finding:
    """Something that was found: a code, the reason, the user's line, what to do, and how often it happened."""

    code: str
    reason: str
    line: str
    hint: str
    times: int = 1

    def lines(self, hinted: bool = False) -> list[str]:
        """As lines of text: one line where the same hint stands above it (`hinted`)."""
        said = f"  {self.times}x {self.reason}" + (f" ({self.code})" if self.code else "")
        if hinted:
            return [f"{said}, {self.line}" if self.line else said]
        return [said, f"     {self.line}; {self.hint}" if self.line else f"     {self.hint}"]


@frozen
class Explanation:
    """What was compiled, and why. Printed it is text, in a notebook a table; `html()` is a page.

    `functions` has each compiled function with a line of text for each of its graphs.
    """

    functions: tuple[tuple[str, tuple[str, ...]], ...]
    breaks: tuple[Finding, ...]
    recompiles: tuple[Finding, ...]
    dead_guards: tuple[Finding, ...]

    @property
    def graph_count(self) -> int:
        """How many graphs there are."""
        return sum([len(graphs) for _, graphs in self.functions])

    @property
    def graph_break_count(self) -> int:
        """At how many places graphs end before their function does."""
        return len(self.breaks)

    def lines(self) -> Iterator[str]:
        """Yield it as lines of text."""
        yield f"compiled: {self.graph_count} graphs"
        for name, graphs in self.functions:
            yield f"  {name}: {len(graphs)} graphs"
            yield from graphs[:MOST_GRAPHS]
            if len(graphs) > MOST_GRAPHS:
                yield f"    and {len(graphs) - MOST_GRAPHS} more"
        for field, title in _SECTIONS.items():
            findings: tuple[Finding, ...] = getattr(self, field)
            if findings:
                yield f"{title}:"
                hints: set[str] = set()
                for finding in findings[:MOST_FINDINGS]:
                    yield from finding.lines(finding.hint in hints)
                    hints.add(finding.hint)
                if len(findings) > MOST_FINDINGS:
                    yield f"  and {len(findings) - MOST_FINDINGS} more"

    def __str__(self) -> str:
        return "\n".join(self.lines())

    def _repr_html_(self) -> str:
        return "".join(self._html_parts())

    def html(self) -> str:
        """The same as a page of HTML that needs nothing else."""
        style = "body{font:14px sans-serif;margin:2em}td,th{padding:.3em .8em;text-align:left;vertical-align:top}"
        return (
            f"<!doctype html><meta charset='utf-8'><title>rushlight explain</title><style>{style}</style>"
            f"{self._repr_html_()}\n"
        )

    def _html_parts(self) -> Iterator[str]:
        yield f"<h1>compiled: {self.graph_count} graphs</h1><ul>"
        for name, graphs in self.functions:
            shown = "".join([f"<li>{html.escape(graph.strip())}</li>" for graph in graphs])
            yield f"<li><b>{html.escape(name)}</b><ol>{shown}</ol></li>"
        yield "</ul>"
        for field, title in _SECTIONS.items():
            findings: tuple[Finding, ...] = getattr(self, field)
            if findings:
                yield f"<h2>{title}</h2><table><tr><th>times<th>code<th>reason<th>line<th>what to do</tr>"
                for finding in findings:
                    cells = (str(finding.times), finding.code, finding.reason, finding.line, finding.hint)
                    yield "<tr>" + "".join([f"<td>{html.escape(cell)}</td>" for cell in cells]) + "</tr>"
                yield "</table>"


def explain(fn: Callable[..., Any], *extra_args: Any, **extra_kwargs: Any) -> Any:
    """What `rl.compile(fn)` does for a call: `explain(fn)(*args)` gives an `Explanation`.

    A function that is compiled is explained as it is, with the graphs that it has from before. Events from before the
    call are forgotten.
    """

    def explained(*args: Any, **kwargs: Any) -> Explanation:
        compiled: Any = fn if is_compiled(fn) else api.compile(fn)
        events.reset()
        compiled(*args, **kwargs)
        return explanation([compiled._compiled if isinstance(compiled, api.CompiledModule) else compiled])

    return explained(*extra_args, **extra_kwargs) if extra_args or extra_kwargs else explained


def explanation(functions: list[CompiledFunction]) -> Explanation:
    """The explanation of some functions, and of all events that there were."""
    named: dict[str, list[str]] = {}
    parts = [part for function in functions for part in function.parts() or [function]]
    for function in sorted(parts, key=lambda function: function.name):
        shown = _graphs(function, len(named.get(function.name, ())))
        if shown or not function.is_part:
            named.setdefault(function.name, []).extend(shown)
    named = {name: graphs for name, graphs in named.items() if graphs} or named
    dead = [guard for function in parts for entry in function.traces() for guard in _dead(function, entry)]
    return Explanation(
        tuple([(name, tuple(graphs)) for name, graphs in named.items()]),
        _findings(events.events("graph_break")),
        _findings(events.events("recompile")),
        tuple(dict.fromkeys(dead)),
    )


def _graphs(function: CompiledFunction, before: int) -> list[str]:
    """A line for each graph of a function that computes something."""
    lines: list[str] = []
    for entry in reversed(function.traces()):
        executables = entry.executables
        if function.is_part and not any(it.summary.launches for it in executables):
            continue
        launches = sum([it.summary.launches for it in executables])
        kernels = sum([it.summary.kernels for it in executables])
        arena = max([it.summary.arena_hint_bytes for it in executables], default=0)
        spent = sum([it.summary.compile_ns for it in executables if not it.cached]) / 1e6
        origin = f"compiled in {spent:.0f} ms" if spent else "from the cache"
        parts = [
            f"{kernels} kernels in {launches} launches, arena {arena:,} bytes, {origin}",
            f"guards: {_kinds(entry)}",
        ]
        for once in [it.summary.once for it in executables if it.summary.once is not None]:
            parts.append(f"keeps {len(once.results)} values made of frozen tensors, {once.nbytes:,} bytes")
        line = _first_line(function.function)
        lines.append(f"    graph {before + len(lines) + 1}{line}: {', '.join(parts)}")
    return lines


def _kinds(entry: Entry) -> str:
    counted = Counter([guard.kind for guard in entry.guards])
    return ", ".join([f"{count} {kind}" for kind, count in sorted(counted.items())]) or "none"


def _first_line(function: object) -> str:
    """Where a part begins, as text."""
    if not isinstance(function, Continuation):
        return ""
    shape = function.shapes[-1]
    instructions = shape.body.code.instructions
    following = (instruction.line for instruction in instructions[shape.position :] if instruction.line)
    return f" from line {next(following, shape.body.raw.co_firstlineno)}"


def _findings(found: tuple[Event, ...]) -> tuple[Finding, ...]:
    """Events that say the same of one line, or why a function was compiled again, are one finding."""
    first: dict[tuple[str, ...], Event] = {}
    times: Counter[tuple[str, ...]] = Counter()
    for event in found:
        key = (event.code, event.reason) if event.kind == "recompile" else (event.code, event.reason, str(event.frame))
        first.setdefault(key, event)
        times[key] += 1
    findings: list[Finding] = []
    for key, event in first.items():
        findings.append(Finding(event.code, event.reason, str(event.frame or ""), event.hint or "", times[key]))
    return tuple(findings)


def _dead(function: CompiledFunction, entry: Entry) -> Iterator[Finding]:
    """The guards of an entry that no call can fail, or on what its function never reads."""
    asked: set[str] = set()
    decided: set[str] = set()
    for guard in entry.guards:
        if guard.failed in asked or (guard.kind == "type" and guard.path in decided):
            yield Finding(guard.kind, f"{guard.path} is {guard.expected}: an earlier guard says so", "", "none needed")
        elif guard.kind in ("constant", "number", "object"):
            decided.add(guard.path)
            yield from _unread(function, entry, guard)
        asked.add(guard.failed)


def _unread(function: CompiledFunction, entry: Entry, guard: Guard) -> Iterator[Finding]:
    """A guard on an argument that its function does not read."""
    code, names = _parameters(function.function)
    text = next((line.partition(" = ")[2] for line in entry.unpack if line.startswith(f"{guard.path} = ")), "")
    place = _ARGUMENT.fullmatch(text)
    if code is None or place is None:
        return
    position, keyword = place.groups()
    name = keyword or (names[int(position)] if int(position) < len(names) else "")
    if name and name not in _read_names(code):
        line = f"{code.co_filename.rpartition('/')[2]}:{code.co_firstlineno} in {code.co_qualname}"
        reason = f"{name} is {guard.expected}: the function does not read it"
        yield Finding(guard.kind, reason, line, "leave the argument out, or every other value makes another graph")


def _parameters(function: object) -> tuple[CodeType | None, tuple[str, ...]]:
    """A function's code, and the names of what it is given by position."""
    if isinstance(function, Continuation):
        shape = function.shapes[0]
        if len(function.shapes) > 1 or shape.position > 1:
            return None, ()
        names = shape.body.raw.co_varnames
        return shape.body.raw, tuple([names[at] if at < len(names) else "" for at in function.given()])
    skipped = 1 if isinstance(function, MethodType) else 0
    plain = getattr(function, "__func__", function)
    if not isinstance(plain, FunctionType):
        return None, ()
    return plain.__code__, plain.__code__.co_varnames[skipped : plain.__code__.co_argcount]


def _read_names(code: CodeType) -> set[str]:
    names: set[str] = set()
    for instruction in dis.get_instructions(code):
        if instruction.opname.startswith(("LOAD_", "STORE_FAST_LOAD", "MAKE_CELL", "DELETE_")):
            names.update(instruction.argval if isinstance(instruction.argval, tuple) else (instruction.argval,))
    return names
