"""Counted loops: appends a finished loop body to the enclosing scope, with its phis, increment and branch."""

from __future__ import annotations

from collections.abc import Sequence

from rushlight.codegen.llvm.builder.scope import Scope


class Carry:
    """A loop-carried value: its start, its name in the body, and the result of the body."""

    __slots__ = ("name", "result", "start", "type")

    def __init__(self, llvm_type: str, start: str, name: str) -> None:
        self.type = llvm_type
        self.start = start
        self.name = name
        self.result = name


def close_loop(
    outer: Scope,
    body: Scope,
    counter: str,
    bounds: tuple[str, str],
    step: int | str = 1,
    carries: Sequence[Carry] = (),
    runs: bool = False,
) -> list[str]:
    """Appends a loop of `counter` over [start, end) to `outer`. It returns the results of the carried values.

    If `runs`, the loop runs at least once and needs no check before it. The body starts at the label that its scope was
    made with.
    """
    start, end = bounds
    names = outer.names
    first, after, following = body.first, names.label(), names.value()
    if runs:
        outer.jump(first)
    else:
        outer.branch(outer.let(f"icmp slt i64 {start}, {end}"), first, after)
    before = outer.label
    outer.block(first)
    outer.do(f"{counter} = phi i64 [ {start}, %{before} ], [ {following}, %{body.label} ]")
    for carry in carries:
        outer.do(f"{carry.name} = phi {carry.type} [ {carry.start}, %{before} ], [ {carry.result}, %{body.label} ]")
    outer.append(body)
    last = outer.label
    outer.do(f"{following} = add i64 {counter}, {step}")
    outer.branch(outer.let(f"icmp slt i64 {following}, {end}"), first, after)
    outer.block(after)
    if runs:
        return [carry.result for carry in carries]
    return [merge(outer, carry.type, (carry.start, before), (carry.result, last)) for carry in carries]


def merge(scope: Scope, llvm_type: str, *incoming: tuple[str, str]) -> str:
    """A phi of (value, label) pairs, at the start of the scope's current block."""
    return scope.let(f"phi {llvm_type} " + ", ".join([f"[ {text}, %{label} ]" for text, label in incoming]))
