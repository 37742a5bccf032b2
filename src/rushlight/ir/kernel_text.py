"""Kernels as text, for people and as keys: kernels that differ in nothing but names print equal.

    kernel(b0: f32, b1: f32; s0) {
      parallel i0 in s0 {
        %0 = load(`i0`) {buffer=b0} : f32
        %1 = mul(%0, 2.0) : f32
        b1[`i0`] = %1
      }
    }

Buffers, sizes and axes are numbered by first use, values by line; constants and indices stand where they are used. Each
statement is preceded by the lines of the values that were not printed before; where they are computed is the code
generator's choice.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from rushlight.ir.dtype import SHORT_NAMES, DType
from rushlight.ir.kernel import Kernel, Loop, Statement, Store
from rushlight.ir.plan import Address, AnyKernel, Launch, Plan, RowBlockKernel
from rushlight.ir.scalar import OPS, Buffer, Order, Scalar, bound_axes
from rushlight.sym import Size, SizeExpr, axis_size, format_size, free_symbols
from rushlight.term import format_value, postorder

_INLINE = (OPS["constant"], OPS["index"])
_CHANGES_DTYPE = tuple([OPS[name] for name in ("cast", "bitcast", "lt", "le", "eq", "ne", "complex")])


class KernelPrinter:
    """Prints one kernel; remembers the names it gave."""

    def __init__(self) -> None:
        self.names: dict[Any, str] = {}
        self.axes: dict[SizeExpr, str] = {}
        self.values: dict[Scalar, str] = {}
        self.lines: list[str] = []

    def format_atom(self, value: Any) -> str | None:
        """Text of what is no plain literal (see `term.FormatsAtoms`)."""
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
        for place, buffer in enumerate(kernel.buffers):
            self.names[buffer] = f"b{place}"
        for place, size in enumerate(kernel.sizes):
            self.axes[size] = f"s{place}"
        self.statements(kernel.body, "  ")
        unread = [" unread" if buffer in kernel.unread else "" for buffer in kernel.buffers]
        buffers = [f"b{place}: {self._buffer(buffer)}{unread[place]}" for place, buffer in enumerate(kernel.buffers)]
        sizes = [f"s{place}" for place in range(len(kernel.sizes))]
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
        if store.buffer not in self.names:
            self.names[store.buffer] = f"b{len(self.names)}"
        combine = f" {store.combine}" if store.combine else ""
        self.lines.append(f"{indent}{self.names[store.buffer]}[{offset}]{combine} = {value}{where}")

    def operand(self, operand: Scalar | Size, indent: str) -> str:
        """The name of a value, the lines of what it needs appended; or the text of a size."""
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
        """A value as its users write it; `typed` where nothing else there tells a constant's dtype."""
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
            elif isinstance(value, Buffer) and value not in self.names:
                self.names[value] = f"b{len(self.names)}"
            attrs.append(f"{key}={format_value(value, self)}")
        body = f" {{{', '.join(attrs)}}}" if attrs else ""
        typed = term.op in _CHANGES_DTYPE and all(item.op is OPS["constant"] for item in term.operands)
        operands = ", ".join([self._name(item, typed) for item in term.operands])
        return f"{name} = {term.op.name}({operands}){body} : {SHORT_NAMES[term.type]}"


def kernel_text(kernel: AnyKernel) -> str:
    """The text of a kernel, without its name."""
    if isinstance(kernel, Kernel):
        return KernelPrinter().kernel(kernel)
    if isinstance(kernel, RowBlockKernel):
        return _row_block_text(kernel)
    start = f"gemm {kernel.tile!r}" + (" in parts" if kernel.split_k else "")
    return " ".join([start, *[KernelPrinter().kernel(inner.kernel) for inner in kernel.attached]])


def plan_text(plan: Plan) -> str:
    """All kernels of a plan, then its launches in order, with their arguments and number of parallel iterations.

    What runs once before comes first.
    """
    if plan.once is not None:
        words = ", ".join([buffer.name for buffer in plan.once.outputs])
        return f"{plan_text(plan.once)}\nkeep {words}\n\n{plan_text(replace(plan, once=None))}"
    lines = [f"# kernel {number}: {kernel.name}\n{kernel_text(kernel)}" for number, kernel in enumerate(plan.kernels)]
    return "\n".join([*lines, *[_launch_text(launch) for launch in plan.launches]])


def _row_block_text(kernel: RowBlockKernel) -> str:
    words = ", ".join([*[buffer.name for buffer in kernel.buffers], *map(format_size, kernel.sizes)])
    lines = [f"bands ({words}){' in order' if kernel.in_order else ''} {{"]
    for loop in kernel.loops:
        lines.append(f"  {loop.start}, {loop.length} of {format_size(loop.extent)} by {format_size(loop.step)}")
    if kernel.causal_bound is not None:
        causal_bound = kernel.causal_bound
        flag = f"{causal_bound.flags.name}[{format_size(causal_bound.at)}]"
        lines.append(
            f"  {causal_bound.symbol} = {format_size(causal_bound.near)} if {flag} else {format_size(causal_bound.far)}"
        )
    lines += [f"  {buffer.name} at {format_size(place)}" for buffer, place in kernel.offsets]
    return "\n".join([*lines, *[f"  {_launch_text(launch)}" for launch in kernel.launches], "}"])


def _launch_text(launch: Launch) -> str:
    words = [_word(item) for item in launch.arguments]
    count, grain = format_size(launch.count), format_size(launch.grain)
    return f"launch {launch.kernel} ({', '.join(words)}) x {count} grain {grain}"


def _word(item: Buffer | Address | Size) -> str:
    if isinstance(item, Address):
        return str(item)
    return item.name if isinstance(item, Buffer) else format_size(item)
