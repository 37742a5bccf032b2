"""Loops that count: how a finished body becomes a loop in the region around it."""

from __future__ import annotations

from collections.abc import Sequence

from rushlight.codegen.llvm.builder.scope import Scope


class Carry:
    """A value that a loop carries: what it starts from, its name in the body, what the body makes of it."""

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
    """Appends to `outer` a loop of `counter` from the first bound up to below the second; returns the carried results.

    `runs` says that it runs at least once. The body starts at the label that its region was made with.
    """
    start, end = bounds
    names = outer.names
    first, after, following = body.first, names.label(), names.value()
    if runs:
        outer.jump(first)
    else:
        outer.branch(outer.let(f"icmp slt i64 {start}, {end}"), first, after)
    before = outer.label
    outer.open(first)
    outer.do(f"{counter} = phi i64 [ {start}, %{before} ], [ {following}, %{body.label} ]")
    for carry in carries:
        outer.do(f"{carry.name} = phi {carry.type} [ {carry.start}, %{before} ], [ {carry.result}, %{body.label} ]")
    outer.take(body)
    last = outer.label
    outer.do(f"{following} = add i64 {counter}, {step}")
    outer.branch(outer.let(f"icmp slt i64 {following}, {end}"), first, after)
    outer.open(after)
    if runs:
        return [carry.result for carry in carries]
    return [merge(outer, carry.type, (carry.start, before), (carry.result, last)) for carry in carries]


def merge(scope: Scope, llvm_type: str, *incoming: tuple[str, str]) -> str:
    """A phi at the start of the region's current block: (value, label) pairs."""
    return scope.let(f"phi {llvm_type} " + ", ".join([f"[ {text}, %{label} ]" for text, label in incoming]))
