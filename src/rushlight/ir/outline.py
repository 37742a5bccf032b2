"""Kernels and plans in outline: loops, loads, reductions and stores, without the arithmetic between them.

    kernel k0 {
      parallel i0 in n {
        %0 = load x[`m*i0 + i1`]
        %1 = reduce max (i1 < m) of %0
        ...

Buffers and sizes keep their own names, so that they can be found in the graph: `v4` is the value of its call %4.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from rushlight.ir.kernel import Kernel
from rushlight.ir.kernel_text import KernelPrinter, memory_lines
from rushlight.ir.plan import AnyKernel, Launch, Plan, RowBlockKernel
from rushlight.ir.scalar import OPS, Buffer, Scalar, bound_axes
from rushlight.sym import Size, SizeExpr, axis_size, format_size, is_axis
from rushlight.term import postorder

_LANDMARKS = (OPS["load"], OPS["keep"], OPS["reduce"], OPS["contract"])
_LEAVES = (OPS["constant"], OPS["index"])


class NamedPrinter(KernelPrinter):
    """Prints values whose buffers and sizes keep their names; loop axes are numbered."""

    def axis(self, axis: SizeExpr) -> str:
        """The name of an axis or of a size."""
        if not is_axis(axis):
            return self.axes.setdefault(axis, format_size(axis))
        return self.axes.setdefault(axis, f"i{sum([is_axis(other) for other in self.axes])}")

    def name_buffer(self, buffer: Buffer) -> str:
        """The buffer's own name."""
        return self.names.setdefault(buffer, buffer.name)


class OutlinePrinter(NamedPrinter):
    """Prints a kernel's landmarks; arithmetic between them is `pointwise(...)` of its inputs."""

    def outline(self, kernel: Kernel, indent: str = "  ") -> list[str]:
        """The lines of a kernel's body."""
        self.statements(kernel.body, indent)
        return self.lines

    def operand(self, operand: Scalar | Size, indent: str) -> str:
        """A value in terms of landmarks. Appends the lines of the landmarks that it needs."""
        if not isinstance(operand, Scalar):
            return self.size(operand)
        for term in postorder([operand], lambda term: () if term in self.values else term.operands):
            if term.op in _LANDMARKS and term not in self.values:
                text = self._landmark(term)
                self.values[term] = f"%{len(self.values)}"
                self.lines.append(f"{indent}{self.values[term]} = {text}")
        return self._summary(operand)

    def _landmark(self, term: Scalar) -> str:
        if term.op is OPS["load"]:
            return f"load {self.name_buffer(term.attr('buffer'))}[{self._summary(term.operands[0])}]"
        if term.op is OPS["keep"]:
            value, offset = (self._summary(operand) for operand in term.operands)
            return f"keep {value} in {self.name_buffer(term.attr('buffer'))}[{offset}]"
        axes = ", ".join([f"{self.axis(axis)} < {self.size(axis_size(axis))}" for axis in bound_axes(term)])
        kind = f"reduce {term.attr('kind')}" if term.op is OPS["reduce"] else "contract"
        return f"{kind} ({axes}) of {', '.join([self._summary(operand) for operand in term.operands])}"

    def _summary(self, term: Scalar) -> str:
        if term in self.values or term.op in _LEAVES:
            return self._name(term)
        if all(operand in self.values or operand.op in _LEAVES for operand in term.operands):
            return f"{term.op.name}({', '.join([self._name(operand) for operand in term.operands])})"
        below = postorder([term], lambda part: () if part in self.values else part.operands)
        return f"pointwise({', '.join([self.values[part] for part in below if part in self.values])})"


def kernel_outline(kernel: AnyKernel) -> str:
    """A kernel in outline."""
    if isinstance(kernel, Kernel):
        return "\n".join([f"kernel {kernel.name} {{", *OutlinePrinter().outline(kernel), "}"])
    if isinstance(kernel, RowBlockKernel):
        loops = ", ".join(
            [f"{loop.start} < {format_size(loop.extent)} by {format_size(loop.step)}" for loop in kernel.loops]
        )
        return f"row blocks {kernel.name} ({loops})" + (" in order" if kernel.in_order else "")
    tile = kernel.tile
    packed = [operand for operand, is_packed in (("a", tile.a_packed), ("b", tile.b_packed)) if is_packed]
    text = f"gemm {kernel.name} {tile.dtype}" + (f" packed {' and '.join(packed)}" if packed else "")
    text += " split-K" if kernel.split_k else ""
    for inner, where in ((kernel.prologue, "for each panel of b"), (kernel.epilogue, "on each tile")):
        if inner is not None:
            text = "\n".join([f"{text}, {where} {{", *OutlinePrinter().outline(inner), "}"])
    return text


def plan_outline(plan: Plan) -> str:
    """A plan in outline: its kernels, its launches in order, the layout of the arena. What runs once comes first."""
    if plan.once is not None:
        constants = [f"once {buffer.name}: {buffer.type}" for buffer in plan.once.outputs]
        return "\n".join([plan_outline(plan.once), *constants, "", plan_outline(replace(plan, once=None))])
    lines = [kernel_outline(kernel) for kernel in plan.kernels]
    for launch in plan.launches:
        lines.append(_launch_outline(plan, launch, "", {}))
        kernel = plan.kernels[launch.kernel]
        if isinstance(kernel, RowBlockKernel):
            operands = kernel.operands_of(launch)
            lines.extend([_launch_outline(plan, inner, "  ", operands) for inner in kernel.launches])
    lines += memory_lines(plan)
    if plan.slots:
        lines.append(f"arena of {plan.arena_hints()[1]} bytes")
    return "\n".join(lines)


def _launch_outline(plan: Plan, launch: Launch, indent: str, operands: Mapping[Buffer, Buffer]) -> str:
    buffers = ", ".join([operands.get(buffer, buffer).name for buffer in launch.buffers])
    return f"{indent}launch {plan.kernels[launch.kernel].name} ({buffers}) x {format_size(launch.count)}"
