"""The active lanes of a vector one by one, or the first ones by halves, without masked instructions."""

from __future__ import annotations

from rushlight.codegen.llvm.builder.scope import Context, Scope
from rushlight.codegen.llvm.builder.vector_types import Shape, vector_type


class LaneLoop:
    """A loop over the active lanes, for elements that no masked instruction handles."""

    def __init__(self, ctx: Context, scope: Scope, width: int, active: str | None) -> None:
        self.scope = scope
        names = scope.names
        self.again, self.hit, self.next, self.after = names.label(), names.label(), names.label(), names.label()
        self.lane, self.following = names.value(), names.value()
        self.width = width
        bits = scope.let(f"bitcast <{width} x i1> {active} to i{width}") if active else None
        before = scope.label
        scope.jump(self.again)
        scope.block(self.again)
        scope.do(f"{self.lane} = phi i64 [ 0, %{before} ], [ {self.following}, %{self.next} ]")
        if bits is None:
            scope.jump(self.hit)
        else:
            count = self.lane if width == 64 else scope.let(f"trunc i64 {self.lane} to i{width}")
            shifted = scope.let(f"lshr i{width} {bits}, {count}")
            scope.branch(scope.let(f"trunc i{width} {shifted} to i1"), self.hit, self.next)
        scope.block(self.hit)

    def close(self) -> None:
        """Ends the loop."""
        scope = self.scope
        scope.jump(self.next)
        scope.block(self.next)
        scope.do(f"{self.following} = add i64 {self.lane}, 1")
        more = scope.let(f"icmp ult i64 {self.following}, {self.width}")
        scope.branch(more, self.again, self.after)
        scope.block(self.after)


def spill(ctx: Context, scope: Scope, llvm_type: str, text: str) -> str:
    """The address of scratch memory that holds a vector."""
    slot = ctx.allocate(llvm_type)
    scope.do(f"store {llvm_type} {text}, ptr {slot}, align 64")
    return slot


def lane_address(scope: Scope, element_type: str, pointer: str | None, table: str | None, lane: str) -> str:
    """The address of a lane: from a table of pointers in memory, or behind one pointer."""
    if table is None:
        return scope.let(f"getelementptr {element_type}, ptr {pointer}, i64 {lane}")
    at = scope.let(f"getelementptr ptr, ptr {table}, i64 {lane}")
    return scope.let(f"load ptr, ptr {at}, align 8")


def copy_first(scope: Scope, shape: Shape, source: str, target: str, count: str) -> None:
    """Copies the first elements of a vector in memory: of 7 first 4, then 2, then 1. `count` is below the lanes."""
    half = shape.lanes // 2
    while half:
        copied, after = scope.names.label(), scope.names.label()
        bit = scope.let(f"and i64 {count}, {half}")
        scope.branch(scope.let(f"icmp ne i64 {bit}, 0"), copied, after)
        scope.block(copied)
        done = scope.let(f"and i64 {count}, {-2 * half}")
        kind, align = vector_type(half, shape.memory), shape.itemsize
        start = scope.let(f"getelementptr {shape.memory}, ptr {source}, i64 {done}")
        part = scope.let(f"load {kind}, ptr {start}, align {align}")
        start = scope.let(f"getelementptr {shape.memory}, ptr {target}, i64 {done}")
        scope.do(f"store {kind} {part}, ptr {start}, align {align}")
        scope.jump(after)
        scope.block(after)
        half //= 2


def count_of_first(ctx: Context, scope: Scope, active: str) -> str | None:
    """How many lanes a tail has; None where fewer are active, or there are mask registers."""
    lanes = scope.vector
    return None if ctx.target.has_masks or lanes is None or lanes.mask != active else lanes.count
