"""Kernels and plans as text. Kernels that differ only in names print equal, so the text also serves as a key.

    kernel(b0: f32, b1: f32; s0) {
      parallel i0 in s0 {
        %0 = load(`i0`) {buffer=b0} : f32
        %1 = mul(%0, 2.0) : f32
        b1[`i0`] = %1
      }
    }

Buffers, sizes and axes are numbered by first use, values by line; constants and indices stand where they are used. Each
statement follows the lines of the values that it needs and that were not printed before. The code generator chooses the
loop in which it computes them.

A launch prints as `launch k0 (b0=in0, b1=v1, s0=n) x 64 grain 1`: its arguments by the names of the kernel's text, the
number of parallel iterations, and the least number of iterations that is worth a thread. The arguments of a matrix
product have the names of `TASK_ARGS`; those that are 0 are left out.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from rushlight.ir.dtype import SHORT_NAMES, DType
from rushlight.ir.kernel import TASK_ARGS, GemmKernel, Kernel, Loop, Multiply, Statement, Store
from rushlight.ir.plan import Address, AnyKernel, Launch, Plan, RowBlockKernel
from rushlight.ir.scalar import OPS, Buffer, Order, Scalar, bound_axes
from rushlight.sym import Size, SizeExpr, axis_size, format_size, free_symbols
from rushlight.term import format_value, postorder

_INLINE = (OPS["constant"], OPS["index"])
_CHANGES_DTYPE = tuple([OPS[name] for name in ("cast", "bitcast", "lt", "le", "eq", "ne", "complex")])


class KernelPrinter:
    """Prints one kernel; remembers the names it gave."""

    def __init__(self) -> None:
        self.names: dict[Buffer, str] = {}
        self.axes: dict[SizeExpr, str] = {}
        self.values: dict[Scalar, str] = {}
        self.lines: list[str] = []

    def format_atom(self, value: object) -> str | None:
        """The text of an attribute value that is not a plain literal (see `term.FormatsAtoms`)."""
        if isinstance(value, SizeExpr):
            return f"`{self.size(value)}`"
        if isinstance(value, Buffer):
            return self.names[value]
        if isinstance(value, DType):
            return SHORT_NAMES[value]
        if isinstance(value, Order):
            return f"order[{value.block}, {value.lanes}, {value.chain}]"
        if isinstance(value, complex):
            return f"complex[{value.real!r}, {value.imag!r}]"
        return None

    def size(self, size: Size) -> str:
        """A size, its symbols and axes renamed."""
        if isinstance(size, int):
            return str(size)
        for symbol in free_symbols(size):
            self.axis(symbol)
        return format_size(size, self.axes)

    def axis(self, axis: SizeExpr) -> str:
        """The name of an axis, or of a size that is no argument."""
        return self.axes.setdefault(axis, f"i{len(self.axes)}")

    def kernel(self, kernel: Kernel) -> str:
        """The text of a kernel."""
        for number, buffer in enumerate(kernel.buffers):
            self.names[buffer] = f"b{number}"
        for number, size in enumerate(kernel.sizes):
            self.axes[size] = f"s{number}"
        self.statements(kernel.body, "  ")
        unread = [" unread" if buffer in kernel.unread else "" for buffer in kernel.buffers]
        buffers = [f"b{number}: {self._buffer(buffer)}{unread[number]}" for number, buffer in enumerate(kernel.buffers)]
        sizes = [f"s{number}" for number in range(len(kernel.sizes))]
        head = "; ".join([", ".join(part) for part in (buffers, sizes) if part])
        return "\n".join([f"kernel({head}) {{", *self.lines, "}"])

    def _buffer(self, buffer: Buffer) -> str:
        text = SHORT_NAMES[buffer.type.dtype]
        if buffer.scope == "local":
            text += f"[{', '.join([self.size(size) for size in buffer.type.shape])}]"
        return text if buffer.scope == "global" else f"{buffer.scope} {text}"

    def statements(self, body: tuple[Statement, ...], indent: str) -> None:
        """The lines of statements."""
        for statement in body:
            if isinstance(statement, Loop):
                self.loop(statement, indent)
            elif isinstance(statement, Store):
                self.store(statement, indent)
            elif isinstance(statement, Multiply):
                self.multiply(statement, indent)
            else:
                self.lines.append(f"{indent}barrier")

    def loop(self, loop: Loop, indent: str) -> None:
        """The lines of a loop."""
        axis = loop.axis
        extent = self.operand(axis.extent, indent)
        start = "" if axis.start == 0 else f" from {self.operand(axis.start, indent)}"
        self.lines.append(f"{indent}{axis.kind.value} {self.axis(axis.symbol)} in {extent}{start} {{")
        self.statements(loop.body, indent + "  ")
        self.lines.append(indent + "}")

    def store(self, store: Store, indent: str) -> None:
        """The lines of a store."""
        value = self.operand(store.value, indent)
        offset = self.operand(store.offset, indent)
        where = "" if store.where is None else f" where {self.operand(store.where, indent)}"
        combine = f" {store.combine}" if store.combine else ""
        self.lines.append(f"{indent}{self.name_buffer(store.buffer)}[{offset}]{combine} = {value}{where}")

    def multiply(self, multiply: Multiply, indent: str) -> None:
        """The line of a product of a matrix unit."""
        parts = ((multiply.result, multiply.result_offset), (multiply.a, multiply.a_offset))
        names = [f"{self.name_buffer(part)}[{self.size(at)}]" for part, at in (*parts, (multiply.b, multiply.b_offset))]
        self.lines.append(f"{indent}{names[0]} += {names[1]} {names[2]} by {multiply.unit.name}")

    def name_buffer(self, buffer: Buffer) -> str:
        """The name of a buffer, by number if it is new."""
        name = self.names.get(buffer)
        if name is None:
            kind = buffer.scope if buffer.scope in ("shared", "register") else "b"
            name = self.names[buffer] = f"{kind}{len(self.names)}"
        return name

    def operand(self, operand: Scalar | Size, indent: str) -> str:
        """The name of a value, or the text of a size. Appends the lines of the values that it needs."""
        if not isinstance(operand, Scalar):
            return self.size(operand)
        for term in postorder([operand], lambda term: () if term in self.values else term.operands):
            if term in self.values or term.op in _INLINE:
                continue
            for axis in bound_axes(term):
                self.axis(axis)
            self.lines.append(indent + self._line(term))
        return self._name(operand)

    def _name(self, term: Scalar, typed: bool = False) -> str:
        """A value as its users write it. `typed` adds the dtype of a constant, where no other operand shows it."""
        if term.op is OPS["index"]:
            return f"`{self.size(term.attr('expr'))}`"
        if term.op is not OPS["constant"]:
            return self.values[term]
        text = format_value(term.attr("value"), self)
        return f"{text}:{SHORT_NAMES[term.type]}" if typed else text

    def _line(self, term: Scalar) -> str:
        name = self.values[term] = f"%{len(self.values)}"
        attrs: list[str] = []
        for key, value in term.attrs:
            if key == "axes":
                value = tuple([f"{self.axis(axis)} < {self.size(axis_size(axis))}" for axis in value])
            elif isinstance(value, Buffer):
                self.name_buffer(value)
            attrs.append(f"{key}={format_value(value, self)}")
        body = f" {{{', '.join(attrs)}}}" if attrs else ""
        typed = term.op in _CHANGES_DTYPE and all(operand.op is OPS["constant"] for operand in term.operands)
        operands = ", ".join([self._name(operand, typed) for operand in term.operands])
        return f"{name} = {term.op.name}({operands}){body} : {SHORT_NAMES[term.type]}"


def kernel_text(kernel: AnyKernel) -> str:
    """The text of a kernel, without its name."""
    if isinstance(kernel, Kernel):
        return KernelPrinter().kernel(kernel)
    if isinstance(kernel, RowBlockKernel):
        return _row_block_text(kernel, ())
    start = f"gemm {kernel.tile!r}" + (" split-K" if kernel.split_k else "")
    return " ".join([start, *[KernelPrinter().kernel(inner.kernel) for inner in kernel.attached]])


def plan_text(plan: Plan) -> str:
    """The text of a plan: its kernels, its launches with arguments, and the layout of its arena.

    The plan that runs once comes first.
    """
    if plan.once is not None:
        constants = ", ".join([buffer.name for buffer in plan.once.outputs])
        return f"{plan_text(plan.once)}\nonce {constants}\n\n{plan_text(replace(plan, once=None))}"
    lines: list[str] = []
    for number, kernel in enumerate(plan.kernels):
        is_rows = isinstance(kernel, RowBlockKernel)
        text = _row_block_text(kernel, plan.kernels) if is_rows else kernel_text(kernel)
        lines.append(f"# kernel {number}: {kernel.name}\n{text}")
    lines += [_launch_text(launch, plan.kernels) for launch in plan.launches]
    lines += [f"assert not {buffer.name}" for buffer in plan.asserted]
    return "\n".join([*lines, *memory_lines(plan)])


def memory_lines(plan: Plan) -> list[str]:
    """One line for each buffer in the arena, or in the memory of an output that is written later."""
    lines: list[str] = []
    for slot in plan.slots:
        below = ", ".join([plan.slots[number].buffer.name for number in slot.after])
        where = f"after {below}" if below else "at 0"
        memory = "arena" if slot.within is None else f"within {slot.within.name}"
        lines.append(f"{memory} {slot.buffer.name} {where}: {format_size(slot.size_bytes)} bytes")
    return lines


def _row_block_text(kernel: RowBlockKernel, kernels: Sequence[AnyKernel]) -> str:
    args = ", ".join([*[buffer.name for buffer in kernel.buffers], *map(format_size, kernel.sizes)])
    lines = [f"row blocks ({args}){' in order' if kernel.in_order else ''} {{"]
    for loop in kernel.loops:
        lines.append(f"  {loop.start}, {loop.length} of {format_size(loop.extent)} by {format_size(loop.step)}")
    if kernel.causal_bound is not None:
        causal_bound = kernel.causal_bound
        flag = f"{causal_bound.flags.name}[{format_size(causal_bound.at)}]"
        lines.append(
            f"  {causal_bound.symbol} = {format_size(causal_bound.near)} if {flag} else {format_size(causal_bound.far)}"
        )
    lines += [f"  {buffer.name} at {format_size(offset)}" for buffer, offset in kernel.offsets]
    return "\n".join([*lines, *[f"  {_launch_text(launch, kernels)}" for launch in kernel.launches], "}"])


def _launch_text(launch: Launch, kernels: Sequence[AnyKernel]) -> str:
    """The line of a launch; without `kernels`, the kernel is a number and its arguments have no names."""
    values = [_argument_text(argument) for argument in launch.arguments]
    callee = str(launch.kernel)
    if kernels:
        kernel = kernels[launch.kernel]
        callee = kernel.name
        named = zip(argument_names(kernel), values, strict=True)
        is_gemm = isinstance(kernel, GemmKernel)
        values = [f"{name}={value}" for name, value in named if not (is_gemm and value == "0")]
    count, grain = format_size(launch.count), format_size(launch.grain)
    return f"launch {callee} ({', '.join(values)}) x {count} grain {grain}"


def argument_names(kernel: AnyKernel) -> list[str]:
    """The names of the arguments of a kernel's launches, in order, as in the kernel's text."""
    if isinstance(kernel, Kernel):
        return _names_of(kernel)
    if isinstance(kernel, RowBlockKernel):
        args = [*[buffer.name for buffer in kernel.buffers], *map(format_size, kernel.sizes)]
        loops = [f"{loop.start}.{field}" for loop in kernel.loops for field in ("step", "extent")]
        return ["scratch", *args, "shares", "slot_bytes", *loops]
    names = list(TASK_ARGS)
    for inner in kernel.attached:
        given = {"b0", *[f"s{number}" for number in range(len(inner.args))]}
        names += [f"{inner.role}.{name}" for name in _names_of(inner.kernel) if name not in given]
    return names


def _names_of(kernel: Kernel) -> list[str]:
    buffers = [f"b{number}" for number in range(len(kernel.buffers))]
    return [*buffers, *[f"s{number}" for number in range(len(kernel.sizes))]]


def _argument_text(argument: Buffer | Address | Size) -> str:
    if isinstance(argument, Address):
        return str(argument)
    return argument.name if isinstance(argument, Buffer) else format_size(argument)
