"""The entry point of an executable: `i64 @entry(ctx, descriptors)`.

It reads sizes from descriptors, checks the assertions, lays the arena out and launches kernels in order. Values that
are asserted are looked at before the first launch that writes to an input's storage. The entry returns 0; 1 when the
arena is too small (the need is in ctx); 2 when interrupted; 16 + n when assertion n failed, and the numbers behind
those for values.
"""

from __future__ import annotations

from collections.abc import Sequence

from rushlight.codegen.llvm.builder.functions import KernelFunction, function_text
from rushlight.codegen.llvm.builder.scope import Context
from rushlight.codegen.llvm.builder.target import CodeTarget
from rushlight.codegen.llvm.entry.arguments import LaunchArguments
from rushlight.codegen.llvm.entry.launch_table import LaunchTable
from rushlight.ir.kernel import TASK_ARGS, GemmKernel, Kernel
from rushlight.ir.plan import ALIGNMENT, ENTRY, Address, Assertion, Launch, Plan, RowBlockKernel
from rushlight.ir.plan import THREADS as THREAD_COUNT
from rushlight.ir.scalar import Buffer
from rushlight.sym import ceildiv, product

ARENA, ARENA_BYTES, ARENA_NEED, PARALLEL_FOR, INTERRUPT, THREADS = range(6)
"""Positions of the 64-bit words of ctx."""

STATUS_ARENA, STATUS_INTERRUPTED, STATUS_ASSERTION = 1, 2, 16

FEW_LAUNCHES = 8
"""Up to this many launches are spelled out: the kernel of an eager call then starts some nanoseconds sooner."""

RELATIONS = {"==": "eq", "!=": "ne", "<=": "sle", "<": "slt", ">=": "sge", ">": "sgt"}
"""LLVM's comparisons of sizes."""


def emit_entry(plan: Plan, target: CodeTarget, functions: Sequence[KernelFunction], name: str = ENTRY) -> str:
    """Emits the entry function of a plan; `functions` are those of its kernels.

    It polls the interrupt byte before each launch but the first, until a launch has written to an input's storage: a
    call is then no longer interrupted, so its mutations are made completely or not at all.
    """
    return _Entry(plan, target, functions).emit(name)


class _Entry(LaunchArguments):
    def __init__(self, plan: Plan, target: CodeTarget, functions: Sequence[KernelFunction]) -> None:
        self.plan = plan
        self.target = target
        self.functions = functions
        super().__init__(Context(Kernel("entry", (), (), ()), target, {}))
        self.descriptors = {buffer: index for index, buffer in enumerate((*plan.inputs, *plan.outputs))}
        self.slots = {slot.buffer: slot for slot in plan.slots}
        self.starts: dict[Buffer, str] = {}
        self.bases: dict[Buffer, str] = {}
        self.addresses: dict[Buffer, str] = {}
        self.pointers: dict[int, str] = {}
        self.ctx_words: dict[int, str] = {}

    def emit(self, name: str) -> str:
        """The function's text."""
        plan, scope = self.plan, self.scope
        for source in plan.symbols:
            buffer = (*plan.inputs, *plan.outputs)[source.descriptor]
            pointer = self.pointer(source.descriptor)
            self.ctx.entry.sizes[source.symbol] = self.load_symbol(source, buffer.type, pointer)
        for number, assertion in enumerate(plan.assertions):
            self.check(number, assertion)
        if any(isinstance(kernel, RowBlockKernel) for kernel in plan.kernels):
            scope.sizes[THREAD_COUNT] = self.ctx_word(THREADS, "i64")
        self.check_arena()
        most = max([len(launch.arguments) for launch in plan.launches], default=0)
        arguments = self.ctx.allocate("i64", max(most, 1))
        inputs = frozenset(plan.inputs)
        committed = False
        table = LaunchTable(len(self.descriptors)) if len(plan.launches) > FEW_LAUNCHES else None
        for number, launch in enumerate(plan.launches):
            poll = number > 0 and not committed
            if not committed and not inputs.isdisjoint(_written(plan, launch)):
                committed = True
                self.check_values(table, name, arguments)
            if table is None:
                self.launch(launch, arguments, poll)
            else:
                self.add_row(table, launch, poll)
        if not committed:
            self.check_values(table, name, arguments)
        status = "0" if table is None else self.run_table(table, name, arguments)
        # With a table the entry still has thousands of lines, which run once a call: LLVM's passes would not pay.
        attributes = self.target.attributes + ("" if table is None else " noinline optnone")
        scope.do(f"ret i64 {status}")
        header = f"define i64 @{name}(ptr noalias %ctx, ptr noalias readonly %descriptors) {attributes}"
        text = function_text(header, self.ctx.allocations, scope.lines)
        if table is None:
            return text
        return "\n".join((text, table.text(name, self.target, PARALLEL_FOR, INTERRUPT, STATUS_INTERRUPTED)))

    def ctx_word(self, index: int, llvm_type: str) -> str:
        """Loads a word of ctx, once."""
        word = self.ctx_words.get(index)
        if word is None:
            word = self.ctx_words[index] = self.load_word(llvm_type, "%ctx", index)
        return word

    def pointer(self, descriptor: int) -> str:
        """Loads the address of a descriptor, once."""
        pointer = self.pointers.get(descriptor)
        if pointer is None:
            pointer = self.pointers[descriptor] = self.load_word("ptr", "%descriptors", descriptor)
        return pointer

    def check(self, number: int, assertion: Assertion) -> None:
        """Emits one assertion."""
        left, right = (self.size(side) for side in (assertion.left, assertion.right))
        holds = self.scope.let(f"icmp {RELATIONS[assertion.relation]} i64 {left}, {right}")
        self.leave_unless(holds, f"i64 {STATUS_ASSERTION + number}")

    def check_values(self, table: LaunchTable | None, name: str, arguments: str) -> None:
        """Emits the asserts of values, after the launches so far."""
        if not self.plan.asserted:
            return
        scope = self.scope
        if table is not None:
            status = self.run_table(table, name, arguments)
            self.leave_unless(scope.let(f"icmp eq i64 {status}, 0"), f"i64 {status}")
        for number, buffer in enumerate(self.plan.asserted, STATUS_ASSERTION + len(self.plan.assertions)):
            fails = scope.let(f"load i8, ptr {self.address(buffer)}, align 1")
            self.leave_unless(scope.let(f"icmp eq i8 {fails}, 0"), f"i64 {number}")

    def check_arena(self) -> None:
        """Computes where slots start, and returns if the arena is smaller than they need."""
        if not self.plan.slots:
            return
        scope = self.scope
        ends: list[str] = []
        for slot in self.plan.slots:
            start = self.starts[slot.buffer] = self.largest([ends[index] for index in slot.after])
            size = self.size(ceildiv(slot.size_bytes, ALIGNMENT) * ALIGNMENT)
            ends.append(self.total(start, size))
        covered = {index for slot in self.plan.slots for index in slot.after}
        needs: dict[Buffer | None, list[str]] = {None: []}
        for index, (slot, end) in enumerate(zip(self.plan.slots, ends, strict=True)):
            if index not in covered:
                needs.setdefault(slot.within, []).append(end)
        need = self.largest(needs.pop(None))
        for output, texts in needs.items():
            if output is not None:
                need = self.place_in_output(output, self.largest(texts), need)
        have = self.ctx_word(ARENA_BYTES, "i64")
        self.store_word("i64", need, "%ctx", ARENA_NEED)
        self.leave_unless(scope.let(f"icmp ule i64 {need}, {have}"), f"i64 {STATUS_ARENA}")

    def place_in_output(self, output: Buffer, length: str, arena: str) -> str:
        """Places slots in an output that is not written yet, or behind `arena` bytes; the arena's length."""
        scope = self.scope
        size = self.size(product(output.type.shape) * output.type.dtype.itemsize)
        fits = scope.let(f"icmp ule i64 {length}, {size}")
        behind = scope.let(f"getelementptr i8, ptr {self.ctx_word(ARENA, 'ptr')}, i64 {arena}")
        self.bases[output] = scope.let(f"select i1 {fits}, ptr {self.address(output)}, ptr {behind}")
        return self.total(arena, scope.let(f"select i1 {fits}, i64 0, i64 {length}"))

    def poll(self) -> None:
        """Returns if the interrupt byte is set."""
        byte = self.scope.let(f"load volatile i8, ptr {self.ctx_word(INTERRUPT, 'ptr')}, align 1")
        self.leave_unless(self.scope.let(f"icmp eq i8 {byte}, 0"), f"i64 {STATUS_INTERRUPTED}")

    def address(self, buffer: Buffer) -> str:
        """A buffer's address: from its descriptor, or in the arena."""
        address = self.addresses.get(buffer)
        if address is None:
            if buffer in self.descriptors:
                address = self.load_word("ptr", self.pointer(self.descriptors[buffer]), 0)
            else:
                within, start = self.slots[buffer].within, self.starts[buffer]
                base = self.ctx_word(ARENA, "ptr") if within is None else self.bases[within]
                address = self.scope.let(f"getelementptr i8, ptr {base}, i64 {start}")
            self.addresses[buffer] = address
        return address

    def launch(self, launch: Launch, arguments: str, poll: bool) -> None:
        """Stores the arguments of one kernel and runs it."""
        scope = self.scope
        if poll:
            self.poll()
        values = [self.argument(argument) for argument in launch.arguments]
        count, grain = (self.size(size) for size in (launch.count, launch.grain))
        self.store(arguments, values)
        function = self.functions[launch.kernel]
        if function.tiles:
            threads = self.ctx_word(THREADS, "i64")
            tiles = f"@{function.tiles}(ptr {arguments}, i64 {count}, i64 {threads})"
            count, grain = scope.let(f"call i64 {tiles}"), "1"
        self.run(f"@{function.name}", arguments, count, grain)

    def add_row(self, table: LaunchTable, launch: Launch, poll: bool) -> None:
        """Adds the row of a launch to the table."""
        numbers: list[int] = []
        for argument in launch.arguments:
            descriptor = self.descriptors.get(argument) if isinstance(argument, Buffer) else None
            numbers.append(table.value(*self.argument(argument)) if descriptor is None else table.operand(descriptor))
        count, grain = (self.size(size) for size in (launch.count, launch.grain))
        function = self.functions[launch.kernel]
        table.add(poll, function.name, function.tiles, count, grain, numbers)

    def run_table(self, table: LaunchTable, name: str, arguments: str) -> str:
        """Stores the values of a table and runs the rows that were added since it ran last; the status."""
        scope = self.scope
        values = self.ctx.allocate("i64", table.first + len(table.values))
        self.store(scope.let(f"getelementptr i64, ptr {values}, i64 {table.first}"), table.values)
        places = (table.ran, len(table.rows))
        start, end = (scope.let(f"getelementptr i32, ptr @{name}_rows, i64 {place}") for place in places)
        table.ran = len(table.rows)
        ends = f"ptr {start}, ptr {end}"
        threads = self.ctx_word(THREADS, "i64")
        return scope.let(
            f"call i64 @{name}_run(ptr %ctx, ptr %descriptors, {ends}, ptr {values}, ptr {arguments}, i64 {threads})"
        )

    def run(self, function: str, arguments: str, count: str, grain: str) -> None:
        """Calls a kernel, or shares it among threads if it has more iterations than one grain."""
        scope = self.scope
        direct, shared, after = (scope.names.label() for _ in range(3))
        is_single = count in ("0", "1")
        if not is_single:
            parallel_for = self.ctx_word(PARALLEL_FOR, "ptr")
            scope.branch(scope.let(f"icmp sle i64 {count}, {grain}"), direct, shared)
            scope.block(shared)
            scope.do(f"call void {parallel_for}(ptr %ctx, ptr {function}, ptr {arguments}, i64 {count}, i64 {grain})")
            scope.jump(after)
            scope.block(direct)
        scope.do(f"call void {function}(ptr {arguments}, i64 0, i64 {count})")
        if not is_single:
            scope.jump(after)
            scope.block(after)


def _written(plan: Plan, launch: Launch) -> list[Buffer]:
    """The buffers that a launch writes to."""
    kernel = plan.kernels[launch.kernel]
    if isinstance(kernel, RowBlockKernel):
        return []  # Row blocks write no input's storage.
    arguments = [argument.buffer if isinstance(argument, Address) else argument for argument in launch.arguments]
    if isinstance(kernel, GemmKernel):
        if kernel.epilogue is None:
            return [c for c in arguments[2:3] if isinstance(c, Buffer)]
        kernel, arguments = kernel.epilogue, [None, *arguments[len(TASK_ARGS) :]]
    buffers = dict(zip(kernel.buffers, arguments, strict=False))
    stored = [buffers.get(store.buffer) for store in kernel.stores()]
    return [buffer for buffer in stored if isinstance(buffer, Buffer)]
