"""Writes an LLVM function as text, instruction by instruction: named values, basic blocks, counted loops.

Code whose every instruction is chosen uses it: matrix products, and the loops that run row blocks and launch tables.
The builder tracks the current block, so that the phis of a loop name their predecessors. Kernels of scalar terms use
`scope` instead, which hoists code out of loops.

    code = FunctionBuilder("define void @zero(ptr %to, i64 %count)")
    with code.loop("element", "i", "%count") as loop:
        code.store("float", "0.0", code.address("to_at", "float", "%to", loop.index), 4)
    text = code.finish()
"""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import NamedTuple

from rushlight.codegen.llvm.builder.blocks import BasicBlocks


class Carried(NamedTuple):
    """A loop-carried value: its name, its LLVM type and its value before the loop."""

    name: str
    type: str
    start: str


class FunctionBuilder(BasicBlocks):
    """The lines of one function; `label` is the current basic block.

    Names are given without `%`. A method that defines a value returns its text, with `%`. Integers are i64.
    """

    def __init__(self, header: str) -> None:
        self.lines = [f"{header} {{"]
        self.label = ""
        self.block("entry")

    def finish(self, result: str = "void") -> str:
        """Ends the function with `ret <result>`; its text."""
        self.lines += [f"  ret {result}", "}", ""]
        return "\n".join(self.lines)

    def let(self, name: str, instruction: str) -> str:
        """Appends an instruction that defines a value."""
        self.lines.append(f"  %{name} = {instruction}")
        return f"%{name}"

    def address(self, name: str, element: str, base: str, index: int | str) -> str:
        """The address of an element of an array."""
        return self.let(name, f"getelementptr {element}, ptr {base}, i64 {index}")

    def row(self, name: str, element: str, base: str, number: int | str, stride: int | str) -> str:
        """The address of a row of a matrix: element `number * stride` of an array."""
        return self.address(name, element, base, self.let(f"{name}_start", f"mul i64 {number}, {stride}"))

    def load(self, name: str, kind: str, address: str, align: int) -> str:
        """Loads a value; `kind` is its LLVM type."""
        return self.let(name, f"load {kind}, ptr {address}, align {align}")

    def store(self, kind: str, value: int | str, address: str, align: int) -> None:
        """Stores a value; `kind` is its LLVM type."""
        self.lines.append(f"  store {kind} {value}, ptr {address}, align {align}")

    def load_word(self, name: str, array: str, index: int, kind: str = "i64") -> str:
        """Loads a value from an array of 64-bit words."""
        return self.load(name, kind, self.address(f"{name}_word", "i64", array, index), 8)

    def minimum(self, name: str, a: int | str, b: int | str) -> str:
        """The smaller of two signed numbers."""
        return self.let(name, f"call i64 @llvm.smin.i64(i64 {a}, i64 {b})")

    def maximum(self, name: str, a: int | str, b: int | str) -> str:
        """The larger of two signed numbers."""
        return self.let(name, f"call i64 @llvm.smax.i64(i64 {a}, i64 {b})")

    def is_zero(self, name: str, value: int | str) -> str:
        """Whether a number is 0, as an i1."""
        return self.let(name, f"icmp eq i64 {value}, 0")

    def phi(self, name: str, kind: str, *incoming: tuple[int | str, str]) -> str:
        """A phi of (value, label) pairs; `kind` is its LLVM type."""
        return self.let(name, f"phi {kind} " + ", ".join([f"[ {value}, %{label} ]" for value, label in incoming]))

    def switch(self, value: str, default: str, labels: Mapping[int, str]) -> None:
        """Ends the block with a branch to the label of a number."""
        cases = [f"    i64 {number}, label %{label}" for number, label in labels.items()]
        self.lines += [f"  switch i64 {value}, label %{default} [", *cases, "  ]"]

    def when(self, condition: str, label: str, after: str) -> AbstractContextManager[None]:
        """A block `label` that runs if the condition holds, then the block `after`."""
        self.branch(condition, label, after)
        return self._before(label, after)

    def unless(self, skip: str, label: str, after: str) -> AbstractContextManager[None]:
        """A block `label` that runs unless the condition `skip` holds; then the block `after`."""
        self.branch(skip, after, label)
        return self._before(label, after)

    @contextmanager
    def _before(self, label: str, after: str) -> Generator[None]:
        self.block(label)
        yield
        self.jump(after)
        self.block(after)

    @contextmanager
    def loop(
        self,
        label: str,
        index: str,
        end: int | str,
        *,
        start: int | str = 0,
        step: int | str = 1,
        carried: Sequence[Carried] = (),
        skip: str = "",
        after: str = "",
        relation: str = "slt",
        before: str = "",
        opens_after: bool = True,
    ) -> Generator[Loop]:
        """A loop of `index` from `start` while it is below `end`.

        The block `after` follows, by default `<label>_end`. The loop tests after each iteration, so it runs at least
        once, or not at all if the condition `skip` holds. The body sets `next` of each carried value. If the block
        `before` has branched to the loop already, no branch is added; without `opens_after` the caller opens the block
        `after` later.
        """
        loop = Loop(self, label, [Carried(index, "i64", str(start)), *carried], skip, after or f"{label}_end")
        loop.advance_by = f"add i64 {loop.index}, {step}"
        loop.test_by = f"icmp {relation} i64 %{index}_next, {end}"
        loop.begin(before)
        yield loop
        self.branch(loop.test(), label, loop.after)
        loop.end()
        if opens_after:
            self.block(loop.after)

    @contextmanager
    def countdown(
        self,
        label: str,
        index: str,
        count: str,
        *,
        step: int = 1,
        carried: Sequence[Carried] = (),
        skip: str = "",
        after: str = "",
    ) -> Generator[Loop]:
        """A loop of `index` from `count` down to 0; otherwise as `loop`. The test against 0 needs no register."""
        loop = Loop(self, label, [Carried(index, "i64", count), *carried], skip, after or f"{label}_end")
        loop.advance_by = f"sub i64 {loop.index}, {step}"
        loop.test_by = f"icmp eq i64 %{index}_next, 0"
        loop.begin()
        yield loop
        self.branch(loop.test(), loop.after, label)
        loop.end()
        self.block(loop.after)


class Loop:
    """A loop under construction: its index, its carried values in the body, and their `next` values."""

    def __init__(self, code: FunctionBuilder, label: str, carried: Sequence[Carried], skip: str, after: str) -> None:
        self.code = code
        self.label = label
        self.carried = carried
        self.skip = skip
        self.after = after
        self.index = f"%{carried[0].name}"
        self.values = {value.name: f"%{value.name}" for value in carried[1:]}
        self.next: dict[str, str] = {}
        self.advance_by = self.test_by = ""
        self._test = ""
        self._before = self._last = ""
        self._phis = 0

    def begin(self, before: str = "") -> None:
        """Branches to the loop, unless the block `before` does so, and leaves room for its phis."""
        code = self.code
        if before:
            code.label = before
        elif self.skip:
            code.branch(self.skip, self.after, self.label)
        else:
            code.jump(self.label)
        self._before = code.label
        code.block(self.label)
        self._phis = len(code.lines)
        code.lines += [""] * len(self.carried)

    def advance(self) -> str:
        """The next index; emitted at the first call, at the end of the body at the latest."""
        name = self.carried[0].name
        if name not in self.next:
            self.next[name] = self.code.let(f"{name}_next", self.advance_by)
        return self.next[name]

    def test(self) -> str:
        """The condition of the branch; emitted at the first call, at the end of the body at the latest."""
        if not self._test:
            self.advance()
            self._test = self.code.let(f"{self.carried[0].name}_test", self.test_by)
        return self._test

    def end(self) -> None:
        """Writes the phis, whose next values are known now."""
        self._last = self.code.label
        for line, value in enumerate(self.carried, self._phis):
            edges = f"[ {value.start}, %{self._before} ], [ {self.next[value.name]}, %{self._last} ]"
            self.code.lines[line] = f"  %{value.name} = phi {value.type} {edges}"

    def results(self, values: Sequence[Carried], suffix: str) -> list[str]:
        """Carried values after a loop that may be skipped: phis, at the start of the block after it."""
        edges = [((value.start, self._before), (self.next[value.name], self._last)) for value in values]
        return [
            self.code.phi(value.name + suffix, value.type, *edge) for value, edge in zip(values, edges, strict=True)
        ]
