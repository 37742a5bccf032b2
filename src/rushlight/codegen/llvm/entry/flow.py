"""The entry of a flow: `i64 @entry(ctx, descriptors)`, as that of a plan, and `i64 @sizing(ctx, descriptors)`.

Both first compute all sizes and write a descriptor of each buffer. The sizing function asks what native code needs of
the arena. The entry then runs the steps: it branches, loops, sets addresses, and calls the entries of native code. Each
frame has a context of its own, whose arena is what lies behind the frame's slots.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from rushlight.codegen.llvm.builder.functions import function_text
from rushlight.codegen.llvm.builder.scope import Context
from rushlight.codegen.llvm.builder.target import CodeTarget
from rushlight.codegen.llvm.builder.vector_types import literal
from rushlight.codegen.llvm.entry import entry
from rushlight.codegen.llvm.entry.words import CONTEXT_WORDS, WordFunction
from rushlight.ir.dtype import Kind, float64
from rushlight.ir.flow.frame import (
    MOVING,
    Branches,
    BufferCopy,
    Carry,
    Flow,
    FlowStep,
    Frame,
    NativeRun,
    ScanLoop,
    WhileLoop,
)
from rushlight.ir.kernel import Kernel
from rushlight.ir.plan import ALIGNMENT, ENTRY, Assertion
from rushlight.ir.scalar import Buffer
from rushlight.support.frozen import frozen
from rushlight.sym import Size, ceildiv, product

_WITHOUT_MEMORY = (MOVING, "sizes")
"""Scopes of buffers whose descriptors begin without an address."""


@frozen
class NativeFunction:
    """The entry of native code, its sizing function if it has an arena, and its first assertion's number."""

    entry: str
    sizing: str | None
    first_check: int


def emit_flow(
    flow: Flow, target: CodeTarget, natives: Sequence[NativeFunction], first_check: int, sizing: str
) -> tuple[str, tuple[str, ...]]:
    """The text of a flow's two functions, and the messages of its checks, numbered from `first_check`."""
    checks = [check for frame in _frames(flow.frame) for check in frame.checks]
    numbers = {id(check): number for number, check in enumerate(checks, first_check)}
    asks = _Sizing(flow, target, natives, numbers).emit(sizing)
    runs = _Run(flow, target, natives, numbers).emit(ENTRY, sizing)
    return "\n".join((asks, runs)), tuple([check.message for check in checks])


def _frames(frame: Frame) -> Iterator[Frame]:
    yield frame
    for inner in frame.inner:
        yield from _frames(inner)


class _FlowFunction(WordFunction):
    """What both functions begin with."""

    def __init__(
        self, flow: Flow, target: CodeTarget, natives: Sequence[NativeFunction], numbers: dict[int, int]
    ) -> None:
        super().__init__(Context(Kernel("flow", (), (), ()), target, {}))
        self.flow = flow
        self.target = target
        self.natives = natives
        self.numbers = numbers
        self.descriptors: dict[Buffer, str] = {}
        self.starts: dict[Buffer, str] = {}
        self.ends: dict[Frame, str] = {}
        self.contexts: dict[Frame, str] = {}
        self.operands: dict[NativeRun, str] = {}

    def prepare(self) -> None:
        """Computes all sizes, and writes descriptors and contexts."""
        flow, scope = self.flow, self.scope
        buffers = (*flow.inputs, *flow.outputs)
        self.descriptors.update(
            {buffer: self.load_word("ptr", "%descriptors", at) for at, buffer in enumerate(buffers)}
        )
        for source in flow.symbols:
            buffer = buffers[source.descriptor]
            scope.sizes[source.symbol] = self.load_symbol(source, buffer.type, self.descriptors[buffer])
        for symbol, size in flow.equal:
            if symbol not in scope.sizes:
                scope.sizes[symbol] = self.size(size)
        for buffer, value in flow.numbers:
            self.descriptors[buffer] = self.descriptor(buffer.type, self.number(buffer, value))
        self.place(flow.frame, "0")

    def number(self, buffer: Buffer, value: complex) -> str:
        """The address of memory with a number."""
        memory = self.ctx.allocate("i64", 2)
        if buffer.type.dtype.kind in (Kind.BOOL, Kind.INT):
            self.store_word("i64", str(int(value.real)), memory, 0)
        else:
            for at, part in enumerate((value.real, value.imag)):
                self.store_word("double", literal(part, float64), memory, at)
        return memory

    def place(self, frame: Frame, base: str) -> None:
        """Places a frame's slots behind `base` bytes of the arena, and writes what its steps need."""
        ends: list[str] = []
        for slot in frame.slots:
            start = self.starts[slot.buffer] = self.largest([base, *[ends[index] for index in slot.after]])
            ends.append(self.total(start, self.size(ceildiv(slot.size_bytes, ALIGNMENT) * ALIGNMENT)))
        end = self.ends[frame] = self.largest([base, *ends])
        self.contexts[frame] = self.context(end)
        for step in frame.steps:
            self.prepare_step(step)
        for inner in frame.inner:
            self.place(inner, end)

    def prepare_step(self, step: FlowStep) -> None:
        """Writes the descriptors of a step's buffers, and computes its sizes."""
        if isinstance(step, NativeRun):
            memory = self.operands[step] = self.ctx.allocate("i64", max(len(step.buffers), 1))
            for at, buffer in enumerate(step.buffers):
                self.store_word("ptr", self.described(buffer), memory, at)
        elif isinstance(step, ScanLoop):
            self.size(step.length)
            for whole, part in step.slices:
                self.size(_bytes(part))
                self.describe(whole, part)
        elif isinstance(step, BufferCopy):
            self.size(_bytes(step.target))
            self.describe(step.source, step.target)
        elif isinstance(step, Branches):
            self.describe(step.predicate)
        else:
            self.describe(step.flag)
        if isinstance(step, (ScanLoop, WhileLoop)):
            for carry in step.carries:
                self.size(_bytes(carry.last))
                self.describe(carry.initial, carry.now, carry.following, *carry.spares, carry.last)

    def described(self, buffer: Buffer) -> str:
        """The descriptor of a buffer."""
        words = self.descriptors.get(buffer)
        if words is None:
            words = self.descriptors[buffer] = self.descriptor(buffer.type, self.first_address(buffer))
        return words

    def describe(self, *buffers: Buffer) -> None:
        """Writes the descriptors of buffers."""
        for buffer in buffers:
            self.described(buffer)

    def first_address(self, buffer: Buffer) -> str:
        """The address that a buffer begins with."""
        if buffer.scope in _WITHOUT_MEMORY:
            return "null"
        arena = self.load_word("ptr", "%ctx", entry.ARENA)
        return self.scope.let(f"getelementptr i8, ptr {arena}, i64 {self.starts[buffer]}")

    def context(self, end: str) -> str:
        """A context like the given one, whose arena begins `end` bytes later."""
        words = self.ctx.allocate("i64", CONTEXT_WORDS)
        self.scope.do(f"call void @llvm.memcpy.p0.p0.i64(ptr {words}, ptr %ctx, i64 {8 * CONTEXT_WORDS}, i1 false)")
        arena = self.load_word("ptr", "%ctx", entry.ARENA)
        self.store_word("ptr", self.scope.let(f"getelementptr i8, ptr {arena}, i64 {end}"), words, entry.ARENA)
        have = self.scope.let(f"sub i64 {self.load_word('i64', '%ctx', entry.ARENA_BYTES)}, {end}")
        self.store_word("i64", have, words, entry.ARENA_BYTES)
        return words

    def call(self, function: str, frame: Frame, run: NativeRun) -> str:
        """Calls native code; its status, with numbers of assertions that are this function's."""
        let, first = self.scope.let, self.natives[run.number].first_check
        status = let(f"call i64 @{function}(ptr {self.contexts[frame]}, ptr {self.operands[run]})")
        fails = let(f"icmp uge i64 {status}, {entry.STATUS_ASSERTION}")
        return let(f"select i1 {fails}, i64 {let(f'add i64 {status}, {first}')}, i64 {status}")

    def text(self, name: str) -> str:
        """The function's text; every path has returned."""
        self.ctx.close()
        header = f"define i64 @{name}(ptr noalias %ctx, ptr noalias readonly %descriptors)"
        return function_text(
            f"{header} {self.target.attributes} noinline optnone", self.ctx.allocations, self.scope.lines
        )


class _Sizing(_FlowFunction):
    """Asks all native code what it needs of the arena; 1 if this is shorter."""

    def emit(self, name: str) -> str:
        """The function's text."""
        let, scope = self.scope.let, self.scope
        self.prepare()
        need = self.ctx.allocate("i64")
        self.store_word("i64", "0", need, 0)
        for frame in _frames(self.flow.frame):
            self.raise_word(self.ends[frame], need)
            for run in frame.steps:
                if isinstance(run, NativeRun) and self.natives[run.number].sizing is not None:
                    self.ask(frame, run, need)
        whole = self.load_word("i64", need, 0)
        self.store_word("i64", whole, "%ctx", entry.ARENA_NEED)
        have = self.load_word("i64", "%ctx", entry.ARENA_BYTES)
        self.leave_unless(let(f"icmp sle i64 {whole}, {have}"), f"i64 {entry.STATUS_ARENA}")
        scope.do("ret i64 0")
        return self.text(name)

    def ask(self, frame: Frame, run: NativeRun, need: str) -> None:
        """Asks one."""
        status = self.call(str(self.natives[run.number].sizing), frame, run)
        self.leave_unless(self.scope.let(f"icmp ule i64 {status}, {entry.STATUS_ARENA}"), f"i64 {status}")
        wanted = self.load_word("i64", self.contexts[frame], entry.ARENA_NEED)
        self.raise_word(self.total(self.ends[frame], wanted), need)


class _Run(_FlowFunction):
    """Runs the steps."""

    def emit(self, name: str, sizing: str) -> str:
        """The function's text; `sizing` is the name of what asks for the arena."""
        status = self.scope.let(f"call i64 @{sizing}(ptr %ctx, ptr %descriptors)")
        self.leave_unless(self.scope.let(f"icmp eq i64 {status}, 0"), f"i64 {status}")
        self.prepare()
        self.run(self.flow.frame)
        self.scope.do("ret i64 0")
        return self.text(name)

    def run(self, frame: Frame) -> None:
        """Runs a frame."""
        for check in frame.checks:
            self.check(check)
        for step in frame.steps:
            if isinstance(step, NativeRun):
                status = self.call(self.natives[step.number].entry, frame, step)
                self.leave_unless(self.scope.let(f"icmp eq i64 {status}, 0"), f"i64 {status}")
            elif isinstance(step, BufferCopy):
                self.copy(step.source, step.target)
            elif isinstance(step, Branches):
                self.branches(step)
            elif isinstance(step, WhileLoop):
                self.while_loop(step)
            else:
                self.scan(step)

    def check(self, check: Assertion) -> None:
        """Returns if an assertion does not hold. Its sizes are computed where it is asked."""
        left, right = self.here(check.left), self.here(check.right)
        holds = self.scope.let(f"icmp {entry.RELATIONS[check.relation]} i64 {left}, {right}")
        self.leave_unless(holds, f"i64 {entry.STATUS_ASSERTION + self.numbers[id(check)]}")

    def here(self, size: Size) -> str:
        """The text of a size whose parts no later code may use: it is computed where not all paths lead."""
        kept = dict(self.scope.sizes)
        text = self.size(size)
        self.scope.sizes.clear()
        self.scope.sizes.update(kept)
        return text

    def address(self, buffer: Buffer) -> str:
        """The address that a buffer has at this moment."""
        return self.load_word("ptr", self.descriptors[buffer], 0)

    def move(self, buffer: Buffer, address: str) -> None:
        """Sets the address of a buffer."""
        self.store_word("ptr", address, self.descriptors[buffer], 0)

    def copy(self, source: Buffer, target: Buffer) -> None:
        """Copies a buffer."""
        to, at, count = self.address(target), self.address(source), self.size(_bytes(target))
        self.scope.do(f"call void @llvm.memcpy.p0.p0.i64(ptr {to}, ptr {at}, i64 {count}, i1 false)")

    def is_true(self, buffer: Buffer) -> str:
        """Whether a bool is true."""
        flag = self.scope.let(f"load i8, ptr {self.address(buffer)}, align 1")
        return self.scope.let(f"icmp ne i8 {flag}, 0")

    def branches(self, step: Branches) -> None:
        """Runs one of two frames."""
        scope = self.scope
        yes, no, after = (scope.names.label() for _ in range(3))
        scope.branch(self.is_true(step.predicate), yes, no)
        for label, frame in zip((yes, no), step.frames, strict=True):
            scope.block(label)
            self.run(frame)
            scope.jump(after)
        scope.block(after)

    def repeat(self, carries: Sequence[Carry], more: Callable[[], str], body: Callable[[], None]) -> None:
        """Runs a body for as long as `more` is true, and hands on what it carries."""
        scope = self.scope
        cells = [self.ctx.allocate("ptr") for _ in carries]
        for carry, cell in zip(carries, cells, strict=True):
            self.move(carry.now, self.address(carry.initial))
            self.move(carry.following, self.address(carry.spares[0]))
            self.store_word("ptr", self.address(carry.spares[1]), cell, 0)
        head, inside, after = (scope.names.label() for _ in range(3))
        scope.jump(head)
        scope.block(head)
        scope.branch(more(), inside, after)
        scope.block(inside)
        body()
        for carry, cell in zip(carries, cells, strict=True):
            made, other = self.address(carry.following), self.load_word("ptr", cell, 0)
            self.move(carry.now, made)
            self.move(carry.following, other)
            self.store_word("ptr", made, cell, 0)
        scope.jump(head)
        scope.block(after)
        for carry in carries:
            self.copy(carry.now, carry.last)

    def while_loop(self, step: WhileLoop) -> None:
        """Runs a loop that a value ends."""

        def more() -> str:
            self.run(step.condition)
            return self.is_true(step.flag)

        self.repeat(step.carries, more, lambda: self.run(step.body))

    def scan(self, step: ScanLoop) -> None:
        """Runs a loop over slices."""
        let, count = self.scope.let, self.size(step.length)
        cell = self.ctx.allocate("i64")
        self.store_word("i64", "0", cell, 0)

        def more() -> str:
            return let(f"icmp slt i64 {self.load_word('i64', cell, 0)}, {count}")

        def body() -> None:
            index = self.load_word("i64", cell, 0)
            self.store_word("i64", let(f"add i64 {index}, 1"), cell, 0)
            if step.reverse:
                index = let(f"sub i64 {let(f'sub i64 {count}, 1')}, {index}")
            for whole, part in step.slices:
                offset = let(f"mul i64 {index}, {self.size(_bytes(part))}")
                self.move(part, let(f"getelementptr i8, ptr {self.address(whole)}, i64 {offset}"))
            self.run(step.body)

        self.repeat(step.carries, more, body)


def _bytes(buffer: Buffer) -> Size:
    return product(buffer.type.shape) * buffer.type.dtype.itemsize
