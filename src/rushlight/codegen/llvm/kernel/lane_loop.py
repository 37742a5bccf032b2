"""Loops over the active lanes of a vector, for elements that no masked instruction handles."""

from __future__ import annotations

from rushlight.codegen.llvm.builder.scope import Context, Scope


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
