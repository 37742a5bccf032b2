"""The stages of the schedule as text: definitions, nodes, groups, and groups in order.

    v2[`i0`, 0] over i0 < n: f32[n, 1] {
      %0 = load v1[`i0`, `i1`] : f32
      %1 = reduce(%0) {kind="sum", axes=["i1 < 32"], order=order[4096, 64, 64]} : f64
      %2 = cast(%1) : f32
      return %2
    }

Buffers and sizes have their own names: `v4` is the value of call %4 in the graph.
"""

from __future__ import annotations

from collections.abc import Sequence

from rushlight.ir.dtype import SHORT_NAMES
from rushlight.ir.loops import Definition, Scatter
from rushlight.ir.outline import NamedPrinter
from rushlight.ir.scalar import OPS, Buffer, Scalar
from rushlight.schedule.fuse.fusion import Group
from rushlight.schedule.loops.row_blocks import FusedChain
from rushlight.schedule.lower.nodes import Node, Overwrite
from rushlight.schedule.record import Schedule
from rushlight.sym import Size, SizeExpr, axis_size

_LOAD = OPS["load"]


class _ValuePrinter(NamedPrinter):
    """Prints one value: for each index, the scalars that it is computed from."""

    def value(
        self, buffer: Buffer, index: Sequence[Size], axes: Sequence[SizeExpr], body: Scalar, scatter: Scatter | None
    ) -> str:
        """The text of a value; `index` is the position in the buffer for some values of the axes."""
        head = f"{buffer.name}[{', '.join([self._at(position) for position in index])}]"
        over = f" over {self._extents(axes)}" if axes else ""
        self.lines = [f"{head}{over}: {buffer.type} {{"]
        result = self.operand(body, "  ")
        if scatter is None:
            self.lines.append(f"  return {result}")
        else:
            self.lines.append(f"  start from {result}")
            value = self.operand(scatter.value, "  ")
            at = [
                self.operand(position, "  ") if isinstance(position, Scalar) else self._at(position)
                for position in scatter.index
            ]
            self.lines.append(
                f"  scatter {scatter.combine} over {self._extents(scatter.axes)}: [{', '.join(at)}] takes {value}"
            )
        return "\n".join([*self.lines, "}"])

    def overwrite(self, node: Node, over: Overwrite) -> str:
        """The text of a value that is written over another, at distinct places."""
        at = [self._at(position) for position in over.axes]
        self.lines = [f"{node.buffer.name}[{', '.join(at)}] over {self._extents(over.axes)}: {node.buffer.type} {{"]
        self.lines.append(f"  start from {self.operand(over.initial, '  ')}")
        value, places = self.operand(node.body, "  "), ", ".join([self.operand(one, "  ") for one in over.index])
        self.lines.append(f"  write over {self._extents(node.axes)}: [{places}] takes {value}")
        return "\n".join([*self.lines, "}"])

    def _at(self, position: Size) -> str:
        return str(position) if isinstance(position, int) else f"`{self.size(position)}`"

    def _extents(self, axes: Sequence[SizeExpr]) -> str:
        return ", ".join([f"{self.axis(axis)} < {self.size(axis_size(axis))}" for axis in axes])

    def _line(self, term: Scalar) -> str:
        if term.op is not _LOAD:
            return super()._line(term)
        buffer: Buffer = term.attr("buffer")
        indices = ", ".join([self._name(operand) for operand in term.operands])
        name = self.values[term] = f"%{len(self.values)}"
        return f"{name} = load {self.name_buffer(buffer)}[{indices}] : {SHORT_NAMES[term.type]}"


def lowered_text(schedule: Schedule) -> str:
    """Every value of the graph by its definition."""
    lines = [_ends_text(schedule)]
    for definition in schedule.definitions:
        whole = isinstance(definition, Definition)
        body, scatter = (definition.body, None) if whole else (definition.scatter.initial, definition.scatter)
        lines.append(_ValuePrinter().value(definition.buffer, definition.axes, definition.axes, body, scatter))
    return "\n".join([*lines, ""])


def folded_text(schedule: Schedule) -> str:
    """The values that were not folded into their users. Those that are computed once come first."""
    lines = [_ends_text(schedule)]
    for title, nodes in (("# computed once", schedule.once_nodes), ("# computed at each call", schedule.nodes)):
        lines += [title] if schedule.once_nodes else []
        for node in nodes:
            if node.overwrite is not None:
                lines.append(_ValuePrinter().overwrite(node, node.overwrite))
                continue
            lines.append(_ValuePrinter().value(node.buffer, node.index(), node.axes, node.body, node.scatter))
    return "\n".join([*lines, ""])


def fused_text(schedule: Schedule) -> str:
    """The groups with their values, then the fusions that were declined, with reasons."""
    lines = [f"once {_group_text(group)}" for group in schedule.once_groups]
    lines += [_group_text(group) for group in schedule.groups]
    if schedule.missed:
        lines.append("")
    for missed in schedule.missed:
        details = ", ".join([str(detail) for detail in missed.verdict.details])
        reason = f"{missed.verdict.reason} ({details})" if details else missed.verdict.reason
        lines.append(f"{missed.consumer} not with {missed.producer}: {reason}")
    return "\n".join([*lines, ""])


def ordered_text(schedule: Schedule) -> str:
    """The groups in the order in which they run, chains as blocks, then which values share memory."""
    lines = [f"once {_group_text(group)}" for group in schedule.once_parts]
    for part in schedule.parts:
        lines += [_group_text(part)] if isinstance(part, Group) else _chain_lines(part)
    lines += [f"{value.name} lies in {memory.name}" for value, memory in schedule.aliases.items()]
    lines += [f"copy {source.name} to {target.name}" for source, target in schedule.commits]
    return "\n".join([*lines, ""])


def _ends_text(schedule: Schedule) -> str:
    """The line of inputs and outputs."""
    inputs = ", ".join([f"{buffer.name}: {buffer.type}" for buffer in schedule.inputs])
    outputs = ", ".join([buffer.name for buffer in schedule.outputs])
    return f"from ({inputs}) to ({outputs})"


def _group_text(group: Group) -> str:
    """One line: the kind of the group, its values, and what it reads from others."""
    if group.gemm is not None:
        kind = "matrix product"
    elif group.nodes[0].scatter is not None:
        kind = "scatter"
    else:
        kind = "pointwise" if group.outer is None else f"{group.outer} shared axes"
    made = {node.buffer for node in group.nodes}
    reads = ", ".join([buffer.name for buffer in group.read_buffers() if buffer not in made])
    values = ", ".join([_node_text(node) for node in group.nodes])
    return f"group {group.number}, {kind}: {values}" + (f" from {reads}" if reads else "")


def _node_text(node: Node) -> str:
    return node.buffer.name if node.stored else f"{node.buffer.name} (not stored)"


def _chain_lines(chain: FusedChain) -> list[str]:
    axes = f"{chain.batch} batch axes{' and blocks of rows' if chain.rows else ''}"
    private = ", ".join([buffer.name for buffer in chain.private])
    sums = ", ".join([str(group.number) for group in chain.sums])
    lines = [f"for {axes} {{", *[f"  {_group_text(group)}" for group in chain.groups]]
    lines += [f"  sums over the rows: group {sums}"] if sums else []
    return [*lines, f"  scratch memory: {private}", "}"]
