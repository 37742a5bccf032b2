"""Reductions over several axes: segments of the innermost axis, split at the ends of rows and of blocks.

The blocks of a reduction's order are blocks of the flattened axes. A segment lies in one row and in one block, so that
its loop needs no division.
"""

from __future__ import annotations

from rushlight.codegen.llvm.builder import sizes
from rushlight.codegen.llvm.builder.scope import Context, Scope
from rushlight.codegen.llvm.kernel.accumulators import Group
from rushlight.codegen.llvm.kernel.loop_close import Carry


class Segments:
    """A loop over segments.

    `flat` is the flattened index of a segment's first element; its innermost index goes from `start` to `stop`. If
    there is a loop over blocks, `carries` take the indices from one block to the next.
    """

    def __init__(self, ctx: Context, group: Group, outer: Scope, block: Scope | None) -> None:
        self.group = group
        self.extents = [sizes.size_text(ctx, extent, outer) for extent in group.extents]
        self.bits = group.bits(ctx, slice(0, -1))
        names = outer.names
        self.carries = [Carry("i64", "0", names.value()) for _ in group.extents] if block is not None else []
        self.flat, self.indices = names.value(), [names.value() for _ in group.extents]
        self.start = self.indices[-1]
        self.stop = ""
        self._folded: list[Carry] = []

    def open(self, outer: Scope, first: str, end: str) -> Scope:
        """The scope of one segment, within elements `first` to `end`."""
        self.outer, self.first, self.end = outer, first, end
        run = self.run = outer.inner(outer.names.label(), self.bits)
        for axis, index in enumerate(self.indices[:-1]):
            self.group.bind(run, axis, index)
        left = run.let(f"sub i64 {self.extents[-1]}, {self.start}")
        room = run.let(f"sub i64 {end}, {self.flat}")
        self.length = run.let(f"call i64 @llvm.smin.i64(i64 {left}, i64 {room})")
        self.stop = run.let(f"add i64 {self.start}, {self.length}")
        return run

    def chain(self, carries: list[Carry]) -> list[Carry]:
        """Makes the inner loop's carried values start from the results of the previous segment."""
        for carry in carries:
            outer = Carry(carry.type, carry.start, self.run.names.value())
            carry.start = outer.name
            self._folded.append(outer)
        return carries

    def close(self, folded: list[str]) -> list[str]:
        """Ends the loop over segments; `folded` are the inner loop's results, which it returns."""
        run, outer, names = self.run, self.outer, self.outer.names
        following = run.let(f"add i64 {self.flat}, {self.length}")
        row_ends = run.let(f"icmp eq i64 {self.stop}, {self.extents[-1]}")
        nexts = [run.let(f"select i1 {row_ends}, i64 0, i64 {self.stop}")]
        carry_in = run.let(f"zext i1 {row_ends} to i64")
        for axis in range(len(self.indices) - 2, -1, -1):
            raised = run.let(f"add i64 {self.indices[axis]}, {carry_in}")
            full = run.let(f"icmp eq i64 {raised}, {self.extents[axis]}")
            nexts.insert(0, run.let(f"select i1 {full}, i64 0, i64 {raised}"))
            carry_in = run.let(f"zext i1 {full} to i64")
        more = run.let(f"icmp slt i64 {following}, {self.end}")
        starts = [carry.name for carry in self.carries] or ["0"] * len(self.indices)
        before, after = outer.label, names.label()
        outer.jump(run.first)
        outer.block(run.first)
        outer.do(f"{self.flat} = phi i64 [ {self.first}, %{before} ], [ {following}, %{run.label} ]")
        for index, start, later in zip(self.indices, starts, nexts, strict=True):
            outer.do(f"{index} = phi i64 [ {start}, %{before} ], [ {later}, %{run.label} ]")
        for carry, text in zip(self._folded, folded, strict=True):
            outer.do(f"{carry.name} = phi {carry.type} [ {carry.start}, %{before} ], [ {text}, %{run.label} ]")
        outer.append(run)
        outer.branch(more, run.first, after)
        outer.block(after)
        for carry, text in zip(self.carries, nexts, strict=False):
            carry.result = text
        return folded
