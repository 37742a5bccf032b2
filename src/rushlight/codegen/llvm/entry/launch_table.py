"""Launches as a table: what an entry with many of them does instead of spelling each one out.

A training step has hundreds of launches with dozens of arguments each. Spelled out they took LLVM longer than all
kernels together; as numbers in a table they take it nothing, and the processor some nanoseconds each.
"""

from __future__ import annotations

from collections.abc import Sequence

from rushlight.codegen.llvm.builder.target import CodeTarget

ROW_HEAD = 6
"""Numbers before a row's arguments: whether to poll first, then values: the kernel, what counts its tiles (the first
value if nothing does), the count, the grain; and how many arguments there are."""

_RUN = """\
define i64 @{name}_run(ptr %ctx, ptr %descriptors, ptr %rows, ptr %end, ptr %values, ptr %arguments, \
i64 %threads) {attributes} {{
start:
  %parallel_at = getelementptr i64, ptr %ctx, i64 {parallel_for}
  %parallel_for = load ptr, ptr %parallel_at, align 8
  %interrupt_at = getelementptr i64, ptr %ctx, i64 {interrupt}
  %interrupt = load ptr, ptr %interrupt_at, align 8
  store i64 0, ptr %values, align 8
  br label %read
read:
  %operand = phi i64 [ 0, %start ], [ %operand_next, %read ]
  %descriptor_at = getelementptr ptr, ptr %descriptors, i64 %operand
  %descriptor = load ptr, ptr %descriptor_at, align 8
  %address = load i64, ptr %descriptor, align 8
  %operand_next = add i64 %operand, 1
  %address_at = getelementptr i64, ptr %values, i64 %operand_next
  store i64 %address, ptr %address_at, align 8
  %unread = icmp slt i64 %operand_next, {operands}
  br i1 %unread, label %read, label %next
next:
  %row = phi ptr [ %rows, %read ], [ %after, %ran ]
  %finished = icmp eq ptr %row, %end
  br i1 %finished, label %leave, label %launch
launch:
  %polls = load i32, ptr %row, align 4
  %asked = icmp ne i32 %polls, 0
  br i1 %asked, label %poll, label %fill
poll:
  %byte = load volatile i8, ptr %interrupt, align 1
  %quiet = icmp eq i8 %byte, 0
  br i1 %quiet, label %fill, label %leave
fill:
  %number_at = getelementptr i32, ptr %row, i64 5
  %number = load i32, ptr %number_at, align 4
  %most = zext i32 %number to i64
  %first = getelementptr i32, ptr %row, i64 {head}
  %after = getelementptr i32, ptr %first, i64 %most
  br label %argument
argument:
  %place = phi i64 [ 0, %fill ], [ %following, %copy ]
  %full = icmp eq i64 %place, %most
  br i1 %full, label %size, label %copy
copy:
  %slot_at = getelementptr i32, ptr %first, i64 %place
  %slot = load i32, ptr %slot_at, align 4
  %value_at = getelementptr i64, ptr %values, i32 %slot
  %value = load i64, ptr %value_at, align 8
  %argument_at = getelementptr i64, ptr %arguments, i64 %place
  store i64 %value, ptr %argument_at, align 8
  %following = add i64 %place, 1
  br label %argument
size:
{fields}
  %tiled = icmp ne i64 %tiles_value, 0
  br i1 %tiled, label %tile, label %share
tile:
  %tiles = inttoptr i64 %tiles_value to ptr
  %tasks = call i64 %tiles(ptr %arguments, i64 %count_value, i64 %threads)
  br label %share
share:
  %count = phi i64 [ %count_value, %size ], [ %tasks, %tile ]
  %grain = phi i64 [ %grain_value, %size ], [ 1, %tile ]
  %kernel = inttoptr i64 %kernel_value to ptr
  %alone = icmp sle i64 %count, %grain
  br i1 %alone, label %direct, label %shared
direct:
  call void %kernel(ptr %arguments, i64 0, i64 %count)
  br label %ran
shared:
  call void %parallel_for(ptr %ctx, ptr %kernel, ptr %arguments, i64 %count, i64 %grain)
  br label %ran
ran:
  br label %next
leave:
  %status = phi i64 [ 0, %next ], [ {interrupted}, %poll ]
  ret i64 %status
}}
"""

_FIELD = """\
  %{field}_slot_at = getelementptr i32, ptr %row, i64 {place}
  %{field}_slot = load i32, ptr %{field}_slot_at, align 4
  %{field}_at = getelementptr i64, ptr %values, i32 %{field}_slot
  %{field}_value = load i64, ptr %{field}_at, align 8"""


class LaunchTable:
    """Rows of numbers, and the values that they number.

    Value 0 is the number 0. The addresses of the `operands` follow, at least one, which are read from descriptors when
    the table is worked off; then come `values`.
    """

    def __init__(self, operands: int) -> None:
        self.operands = operands
        self.values: dict[tuple[str, str], int] = {}
        self.rows: list[int] = []

    @property
    def first(self) -> int:
        """The number of the first of `values`."""
        return 1 + self.operands

    def operand(self, place: int) -> int:
        """The number of an operand's address."""
        return 1 + place

    def value(self, llvm_type: str, text: str) -> int:
        """The number of a value."""
        return 0 if text == "0" else self.values.setdefault((llvm_type, text), self.first + len(self.values))

    def add(self, poll: bool, kernel: str, tiles: str, count: str, grain: str, arguments: Sequence[int]) -> None:
        """One launch on values; `tiles` may be empty."""
        counts = self.value("ptr", f"@{tiles}") if tiles else 0
        head = [self.value("ptr", f"@{kernel}"), counts, self.value("i64", count), self.value("i64", grain)]
        self.rows += [int(poll), *head, len(arguments), *arguments]

    def text(self, name: str, target: CodeTarget, parallel_for: int, interrupt: int, interrupted: int) -> str:
        """The table `@<name>_rows`, and the function `@<name>_run` that works it off.

        `parallel_for` and `interrupt` are places in ctx, `interrupted` is a status.
        """
        numbers = ", ".join([f"i32 {number}" for number in self.rows])
        fields = [_FIELD.format(field=field, place=place) for place, field in enumerate(_FIELDS, 1)]
        table = f"@{name}_rows = private unnamed_addr constant [{len(self.rows)} x i32] [{numbers}], align 64\n"
        return table + _RUN.format(
            name=name,
            attributes=target.attributes,
            parallel_for=parallel_for,
            interrupt=interrupt,
            interrupted=interrupted,
            head=ROW_HEAD,
            operands=self.operands,
            fields="\n".join(fields),
        )


_FIELDS = ("kernel", "tiles", "count", "grain")
