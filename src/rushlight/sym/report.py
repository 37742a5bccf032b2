"""What one graph knows and asks of sizes: symbols, guards, run-time asserts, and what was left open."""

from __future__ import annotations

from collections.abc import Iterable

from rushlight.support.frozen import frozen
from rushlight.support.provenance import Frame
from rushlight.sym import RuntimeAssert, Scope, SizeExpr, Undecided, format_size, promise


@frozen
class SymbolReport:
    """One symbol: its `name`, its `origin` in words, and what is known of it.

    `facts` are its bounds, its divisor and what it was found equal to, as text. `hint` is the example's size, or for
    an unbacked symbol what optimisations go by, if it was said.
    """

    name: str
    origin: str
    backed: bool
    hint: int | None
    facts: tuple[str, ...]

    def __str__(self) -> str:
        hint = () if self.hint is None else (f"{'here' if self.backed else 'hint'} {self.hint}",)
        facts = "; ".join(["backed" if self.backed else "unbacked", *hint, *self.facts])
        return f"{self.name}: {facts}; {self.origin}"


@frozen
class ConditionReport:
    """A condition that a graph relies on: guarded before it runs, or asserted while it does, with the user's line."""

    condition: str
    reason: str
    frame: Frame | None

    def __str__(self) -> str:
        reason = f" ({self.reason})" if self.reason else ""
        return f"{self.condition}{reason}{_line(self.frame)}"


@frozen
class OpenReport:
    """A choice that nobody could make, so that a general path was taken: `unlock` is what to write to spare it.

    `operation` is what the user's line called, and `reason` what its rule says. It was asked `count` times, first at
    the line; `late` says that the condition became known after that.
    """

    condition: str
    operation: str
    reason: str
    unlock: str
    late: bool
    count: int
    frame: Frame | None

    def __str__(self) -> str:
        times = f"{self.count}x " if self.count > 1 else ""
        before = " before this line" if self.late else ""
        asked = f"{self.operation} ({self.reason})" if self.reason else self.operation
        return f"{times}{self.condition}, asked by {asked}{_line(self.frame)}\n  write {self.unlock}{before}"


@frozen
class GraphShapes:
    """The sizes of one graph; all is empty where its sizes are constants."""

    symbols: tuple[SymbolReport, ...] = ()
    guards: tuple[ConditionReport, ...] = ()
    asserts: tuple[ConditionReport, ...] = ()
    undecided: tuple[OpenReport, ...] = ()

    def __str__(self) -> str:
        titled = {
            "sizes": self.symbols,
            "guards": self.guards,
            "asserted at run time": self.asserts,
            "left open": self.undecided,
        }
        lines = [line for title, items in titled.items() if items for line in _section(title, items)]
        return "\n".join(lines or ["all sizes are constants"])


def shapes_of(scope: Scope | None) -> GraphShapes:
    """What a graph's scope knows of sizes and asks of them."""
    if scope is None:
        return GraphShapes()
    return GraphShapes(
        tuple([_symbol(scope, symbol) for symbol in scope.symbols.values()]),
        tuple([ConditionReport(str(guard.condition), guard.reason, guard.frame) for guard in scope.guards]),
        (*map(_assert, scope.asserts), *map(_branch_assert, scope.branch_asserts)),
        tuple(
            [
                _open(scope, undecided)
                for undecided in scope.undecided.values()
                if scope.known(undecided.unlocking) is not False
            ]
        ),
    )


def _symbol(scope: Scope, symbol: SizeExpr) -> SymbolReport:
    facts = symbol.facts
    hint = facts.suggested if facts.hint is None else facts.hint
    origin = "made by the compiler" if facts.source is None else str(facts.source)
    return SymbolReport(facts.name, origin, facts.hint is not None, hint, tuple(_facts(scope, symbol)))


def _facts(scope: Scope, symbol: SizeExpr) -> Iterable[str]:
    lower, upper = scope.bounds(symbol)
    equal = scope.resolve(symbol)
    if equal is not symbol:
        yield f"== {format_size(equal)}"
    if lower is not None and lower != upper:
        yield f">= {lower}"
    if upper is not None and lower != upper:
        yield f"<= {upper}"
    divisor = scope.knowledge.multiple(symbol)
    if divisor > 1:
        yield f"a multiple of {divisor}"


def _assert(check: RuntimeAssert) -> ConditionReport:
    return ConditionReport(str(check.condition), check.message, check.frame)


def _branch_assert(check: RuntimeAssert) -> ConditionReport:
    reason = "; ".join([part for part in (check.message, "where this branch or body runs") if part])
    return ConditionReport(str(check.condition), reason, check.frame)


def _open(scope: Scope, undecided: Undecided) -> OpenReport:
    late = scope.known(undecided.unlocking) is True
    condition, unlock = str(undecided.unlocking), promise(undecided.unlocking)
    return OpenReport(condition, undecided.operation, undecided.reason, unlock, late, undecided.count, undecided.frame)


def _section(title: str, items: Iterable[object]) -> list[str]:
    return [f"{title}:", *[line for report in items for line in _indented(str(report), 2)]]


def _indented(text: str, count: int) -> list[str]:
    return [f"{' ' * count}{line}" for line in text.splitlines()]


def _line(frame: Frame | None) -> str:
    return "" if frame is None else f", {frame}"
