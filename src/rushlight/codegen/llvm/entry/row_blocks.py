"""Row block kernels: several launches that one thread runs one after the other for each row block of a batch.

Two functions: `@name(args, begin, end)` deals out row blocks to threads and lays out their arguments; `@name_one(args)`
runs the launches of one row block. `RowBlockKernel` lists the arguments.
"""

from __future__ import annotations

from collections.abc import Sequence

from rushlight.codegen.llvm.builder.function_builder import FunctionBuilder
from rushlight.codegen.llvm.builder.functions import KernelFunction, function_text
from rushlight.codegen.llvm.builder.scope import Context
from rushlight.codegen.llvm.builder.target import CodeTarget
from rushlight.codegen.llvm.entry.arguments import LaunchArguments
from rushlight.ir.dtype import uint8
from rushlight.ir.kernel import Kernel
from rushlight.ir.plan import CausalBound, Launch, RowBlockKernel
from rushlight.ir.scalar import Buffer
from rushlight.ir.type import TensorType


def emit_row_blocks(kernel: RowBlockKernel, functions: Sequence[KernelFunction], target: CodeTarget, name: str) -> str:
    """Emits the function `@name` of a row block kernel; `functions` are those of the plan's kernels."""
    return "\n".join((_emit_one(kernel, functions, target, f"{name}_one"), _emit_deal(kernel, target, name)))


def _emit_deal(kernel: RowBlockKernel, target: CodeTarget, name: str) -> str:
    """Emits the function that runs shares [begin, end): share s has the row blocks s, s + shares, and so on.

    A share is a slot of the scratch memory, so the row blocks of one share reuse memory that is in the thread's cache.
    With `in_order`, each number stands for all row blocks of the last loop.
    """
    shared = 1 + len(kernel.buffers) + len(kernel.sizes)
    loops = range(len(kernel.loops))
    dealt = loops[:-1] if kernel.in_order else loops
    code = FunctionBuilder(f"define void @{name}(ptr noalias %args, i64 %begin, i64 %end) {target.attributes}")
    code.let("block_args", f"alloca [{shared + 2 * len(loops)} x i64], align 64")
    code.branch(code.let("any", "icmp slt i64 %begin, %end"), "start", "done")
    code.block("start")
    for index in range(1, shared):
        _set_block_arg(code, f"shared{index}", index, code.load_word(f"shared{index}", "%args", index))
    scratch = code.load("scratch", "i64", "%args", 8)
    shares = code.load_word("shares", "%args", shared)
    slot_bytes = code.load_word("slot_bytes", "%args", shared + 1)
    for loop in loops:
        code.load_word(f"step{loop}", "%args", shared + 2 + 2 * loop)
        code.load_word(f"extent{loop}", "%args", shared + 3 + 2 * loop)
    blocks = _count_blocks(code, dealt)
    with code.loop("share", "slot", "%end", start="%begin", after="done") as share:
        offset = code.let("offset", f"mul i64 {share.index}, {slot_bytes}")
        code.store("i64", code.let("memory", f"add i64 {scratch}, {offset}"), "%block_args", 8)
        code.branch(code.let("some", f"icmp slt i64 {share.index}, {blocks}"), "block", "share_end")
        with code.loop(
            *("block", "number", blocks), start=share.index, step=shares, before="share", after="share_end"
        ) as block:
            rest = block.index
            for loop in reversed(dealt):
                index = code.let(f"index{loop}", f"urem i64 {rest}, %count{loop}")
                rest = code.let(f"rest{loop}", f"udiv i64 {rest}, %count{loop}")
                _set_range(code, shared, loop, code.let(f"from{loop}", f"mul i64 {index}, %step{loop}"))
            if kernel.in_order:
                last = loops[-1]
                with code.loop("row", f"from{last}", f"%extent{last}", step=f"%step{last}", after="rows_end") as row:
                    _set_range(code, shared, last, row.index)
                    code.do(f"call void @{name}_one(ptr %block_args)")
            else:
                code.do(f"call void @{name}_one(ptr %block_args)")
    return code.finish()


def _count_blocks(code: FunctionBuilder, loops: range) -> str:
    """The number of row blocks: the product of the numbers of steps of some loops, each rounded up."""
    blocks = "1"
    for loop in loops:
        over = code.let(f"over{loop}", f"add i64 %extent{loop}, %step{loop}")
        last = code.let(f"last{loop}", f"sub i64 {over}, 1")
        count = code.let(f"count{loop}", f"udiv i64 {last}, %step{loop}")
        blocks = code.let(f"blocks{loop}", f"mul i64 {blocks}, {count}")
    return blocks


def _set_range(code: FunctionBuilder, shared: int, loop: int, start: str) -> None:
    """Sets the arguments `start` and `length` of a loop: where a row block begins, and how many rows it has."""
    left = code.let(f"left{loop}", f"sub i64 %extent{loop}, {start}")
    length = code.minimum(f"length{loop}", left, f"%step{loop}")
    _set_block_arg(code, f"from{loop}", shared + 2 * loop, start)
    _set_block_arg(code, f"length{loop}", shared + 2 * loop + 1, length)


def _set_block_arg(code: FunctionBuilder, name: str, index: int, value: str) -> None:
    code.store("i64", value, code.address(f"{name}_to", "i64", "%block_args", index), 8)


def _emit_one(kernel: RowBlockKernel, functions: Sequence[KernelFunction], target: CodeTarget, name: str) -> str:
    """Emits the function that runs the launches of one row block."""
    row_block = _RowBlock(kernel, target)
    if kernel.causal_bound is not None:
        row_block.bind_causal_bound(kernel.causal_bound)
    most = max([len(launch.arguments) for launch in kernel.launches])
    arguments = row_block.ctx.allocate("i64", most)
    for launch in kernel.launches:
        row_block.launch(launch, functions[launch.kernel], arguments)
    row_block.ctx.entry.do("ret void")
    header = f"define internal void @{name}(ptr noalias %args) {target.attributes}"
    return function_text(header, row_block.ctx.allocations, row_block.ctx.entry.lines)


class _RowBlock(LaunchArguments):
    """The launches of one row block: their arguments are computed from the row block's own."""

    def __init__(self, kernel: RowBlockKernel, target: CodeTarget) -> None:
        self.scratch = Buffer("scratch", TensorType((0,), uint8), "arena")
        self.offsets = dict(kernel.offsets)
        symbols = [symbol for loop in kernel.loops for symbol in (loop.start, loop.length)]
        signature = Kernel(kernel.name, (self.scratch, *kernel.buffers), (*kernel.sizes, *symbols), ())
        super().__init__(Context(signature, target, {}))

    def bind_causal_bound(self, causal_bound: CausalBound) -> None:
        """Selects the value of the causal bound, `near` or `far`, by the flag of the row block."""
        scope = self.scope
        at = scope.let(f"getelementptr i8, ptr {self.address(causal_bound.flags)}, i64 {self.size(causal_bound.at)}")
        flag = scope.let(f"icmp ne i8 {scope.let(f'load i8, ptr {at}, align 1')}, 0")
        near, far = self.size(causal_bound.near), self.size(causal_bound.far)
        scope.sizes[causal_bound.symbol] = scope.let(f"select i1 {flag}, i64 {near}, i64 {far}")

    def address(self, buffer: Buffer) -> str:
        """A buffer's address: an argument, or in the scratch memory."""
        offset = self.offsets.get(buffer)
        if offset is None:
            return self.ctx.base(buffer)
        return self.scope.let(f"getelementptr i8, ptr {self.ctx.base(self.scratch)}, i64 {self.size(offset)}")

    def launch(self, launch: Launch, function: KernelFunction, arguments: str) -> None:
        """Runs all iterations of one kernel."""
        scope = self.scope
        self.store(arguments, [self.argument(argument) for argument in launch.arguments])
        count = self.size(launch.count)
        if function.tiles:
            count = scope.let(f"call i64 @{function.tiles}(ptr {arguments}, i64 {count}, i64 1)")
        scope.do(f"call void @{function.name}(ptr {arguments}, i64 0, i64 {count})")
