"""Launches as a table, which an entry with many launches runs instead of spelling each one out.

A training step has hundreds of launches with dozens of arguments each. Spelled out, they took LLVM longer than all
kernels together; as numbers in a table they take LLVM no time, and the processor some nanoseconds each.
"""

from __future__ import annotations

from collections.abc import Sequence

from rushlight.codegen.llvm.builder.function_builder import FunctionBuilder
from rushlight.codegen.llvm.builder.target import CodeTarget

ROW_HEAD = 6
"""Numbers before a row's arguments: whether to poll first, then `_FIELDS`, then how many arguments follow."""

# Numbers of values in a row: the kernel, the function that counts its tiles (value 0 if there is none), the number of
# iterations and the grain.
_FIELDS = ("kernel", "tiles", "count", "grain")


class LaunchTable:
    """Rows of numbers, and the values that they refer to.

    Value 0 is the number 0. The addresses of the `operands` follow, at least one, which are read from descriptors when
    the table is run; then come `values`.
    """

    def __init__(self, operands: int) -> None:
        self.operands = operands
        self.values: dict[tuple[str, str], int] = {}
        self.rows: list[int] = []
        self.ran = 0  # numbers in `rows` of launches that have run

    @property
    def first(self) -> int:
        """The number of the first of `values`."""
        return 1 + self.operands

    def operand(self, descriptor: int) -> int:
        """The number of the address that a descriptor holds."""
        return 1 + descriptor

    def value(self, llvm_type: str, text: str) -> int:
        """The number of a value."""
        return 0 if text == "0" else self.values.setdefault((llvm_type, text), self.first + len(self.values))

    def add(self, poll: bool, kernel: str, tiles: str, count: str, grain: str, arguments: Sequence[int]) -> None:
        """Adds a launch; `tiles` is empty unless it is a matrix product, `arguments` are numbers of values."""
        counts = self.value("ptr", f"@{tiles}") if tiles else 0
        head = [self.value("ptr", f"@{kernel}"), counts, self.value("i64", count), self.value("i64", grain)]
        self.rows += [int(poll), *head, len(arguments), *arguments]

    def text(self, name: str, target: CodeTarget, parallel_for: int, interrupt: int, interrupted: int) -> str:
        """The table `@<name>_rows`, and the function `@<name>_run` that runs it.

        `parallel_for` and `interrupt` are positions in ctx, `interrupted` is a status.
        """
        numbers = ", ".join([f"i32 {number}" for number in self.rows])
        table = f"@{name}_rows = private unnamed_addr constant [{len(self.rows)} x i32] [{numbers}], align 64\n"
        return table + _emit_run(f"{name}_run", target, self.operands, (parallel_for, interrupt), interrupted)


def _emit_run(name: str, target: CodeTarget, operands: int, ctx_words: tuple[int, int], interrupted: int) -> str:
    """Emits the loop over rows: poll, copy arguments, count tiles, then call the kernel or share it among threads."""
    parameters = "ptr %ctx, ptr %descriptors, ptr %rows, ptr %end, ptr %values, ptr %arguments, i64 %threads"
    code = FunctionBuilder(f"define i64 @{name}({parameters}) {target.attributes}")
    parallel_for = code.load_word("parallel_for", "%ctx", ctx_words[0], "ptr")
    interrupt = code.load_word("interrupt", "%ctx", ctx_words[1], "ptr")
    code.store("i64", 0, "%values", 8)
    with code.loop("read", "operand", operands, after="next") as read:
        pointer = code.address("descriptor_at", "i64", "%descriptors", read.index)
        address = code.load("address", "i64", code.load("descriptor", "ptr", pointer, 8), 8)
        code.store("i64", address, code.address("address_at", "i64", "%values", read.advance()), 8)
    row = code.phi("row", "ptr", ("%rows", "read"), ("%after", "ran"))
    code.branch(code.let("finished", f"icmp eq ptr {row}, %end"), "leave", "launch")
    code.block("launch")
    polls = code.load("polls", "i32", row, 4)
    code.branch(code.let("polls_first", f"icmp ne i32 {polls}, 0"), "poll", "fill")
    code.block("poll")
    byte = code.let("byte", f"load volatile i8, ptr {interrupt}, align 1")
    code.branch(code.let("quiet", f"icmp eq i8 {byte}, 0"), "fill", "leave")
    code.block("fill")
    _copy_arguments(code, row)
    kernel, tiles, count, grain = [_row_value(code, row, index, field) for index, field in enumerate(_FIELDS, 1)]
    code.branch(code.let("is_tiled", f"icmp ne i64 {tiles}, 0"), "tile", "share")
    code.block("tile")
    tiling = code.let("tiling", f"inttoptr i64 {tiles} to ptr")
    tasks = code.let("tasks", f"call i64 {tiling}(ptr %arguments, i64 {count}, i64 %threads)")
    code.jump("share")
    code.block("share")
    count = code.phi("count", "i64", (count, "size"), (tasks, "tile"))
    grain = code.phi("grain", "i64", (grain, "size"), (1, "tile"))
    function = code.let("kernel", f"inttoptr i64 {kernel} to ptr")
    code.branch(code.let("is_single", f"icmp sle i64 {count}, {grain}"), "direct", "shared")
    code.block("direct")
    code.do(f"call void {function}(ptr %arguments, i64 0, i64 {count})")
    code.jump("ran")
    code.block("shared")
    code.do(f"call void {parallel_for}(ptr %ctx, ptr {function}, ptr %arguments, i64 {count}, i64 {grain})")
    code.jump("ran")
    code.block("ran")
    code.jump("next")
    code.block("leave")
    return code.finish(f"i64 {code.phi('status', 'i64', (0, 'next'), (interrupted, 'poll'))}")


def _copy_arguments(code: FunctionBuilder, row: str) -> None:
    """Copies the values of a row's arguments, of which there may be none; defines `%after`, the next row."""
    number = code.load("number", "i32", code.address("number_at", "i32", row, ROW_HEAD - 1), 4)
    most = code.let("most", f"zext i32 {number} to i64")
    first = code.address("first", "i32", row, ROW_HEAD)
    code.address("after", "i32", first, most)
    code.jump("argument")
    code.block("argument")
    index = code.phi("index", "i64", (0, "fill"), ("%index_next", "copy"))
    code.branch(code.let("copied", f"icmp eq i64 {index}, {most}"), "size", "copy")
    code.block("copy")
    value = _load_value(code, "value", code.address("value_number_at", "i32", first, index))
    code.store("i64", value, code.address("argument_at", "i64", "%arguments", index), 8)
    code.let("index_next", f"add i64 {index}, 1")
    code.jump("argument")
    code.block("size")


def _row_value(code: FunctionBuilder, row: str, index: int, field: str) -> str:
    """The value that a number in a row's head refers to."""
    return _load_value(code, f"{field}_value", code.address(f"{field}_number_at", "i32", row, index))


def _load_value(code: FunctionBuilder, name: str, number_at: str) -> str:
    number = code.load(f"{name}_number", "i32", number_at, 4)
    return code.load(name, "i64", code.let(f"{name}_at", f"getelementptr i64, ptr %values, i32 {number}"), 8)
