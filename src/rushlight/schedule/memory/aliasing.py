"""Decides which values share memory: with outputs, with overwritten parameters, or with each other."""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import replace

from rushlight.ir.graph import Call, Graph
from rushlight.ir.loops import Definition, axes_of
from rushlight.ir.scalar import Buffer, Scalar, load
from rushlight.ir.type import TensorType
from rushlight.schedule.fuse.fusion import Group, can_overwrite
from rushlight.schedule.gemm.recognition import match_gemm
from rushlight.schedule.lower.lowering import Lowered
from rushlight.schedule.lower.nodes import Node, loads_of_writes, make_node
from rushlight.schedule.lower.rewrite import Substitution, as_size, linear_offset
from rushlight.sym import Size, SizeExpr, product


def alias_results(graph: Graph, lowered: Lowered) -> list[Buffer]:
    """The buffer of each output, of the new value of each mutated parameter, and of what is asserted.

    Values that are output twice, or that are parameters, are copied. What is asserted lies in the arena.
    """
    taken: set[Buffer] = set()
    defined = {definition.buffer for definition in lowered.definitions}
    outputs: list[Buffer] = []
    count = len(graph.results())
    for position, call in enumerate(graph.needed()):
        buffer = lowered.buffers.get(id(call))
        if buffer is None or buffer in taken or buffer not in defined:
            scope = "global" if position < count else "arena"
            buffer = _copy_definition(call, f"out{position}", lowered, scope)
        taken.add(buffer)
        outputs.append(buffer)
    return outputs


def _copy_definition(call: Call, name: str, lowered: Lowered, scope: str) -> Buffer:
    axes = axes_of(call.type.shape)
    at = tuple([0 if size == 1 else axis for axis, size in zip(axes, call.type.shape, strict=True)])
    buffer = Buffer(name, call.type, scope)
    lowered.definitions.append(Definition(buffer, axes, lowered.operands[id(call)][at]))
    return buffer


def stored_buffers(groups: Sequence[Group]) -> set[Buffer]:
    """The values that need memory: scattered ones, and those that another kernel reads."""
    home = {node.buffer: group for group in groups for node in group.nodes}
    stored: set[Buffer] = set()
    for group in groups:
        for node in group.nodes:
            if node.writes_at_data:
                stored.add(node.buffer)
            stored.update([buffer for buffer, _ in node.reads if home.get(buffer, group) is not group])
    return stored


def with_stored(groups: Iterable[Group], stored: Container[Buffer]) -> tuple[Group, ...]:
    """The groups with the buffers in `stored` marked as stored. Results of the program are marked already."""
    marked: list[Group] = []
    for group in groups:
        nodes = tuple(
            [node if node.stored or node.buffer not in stored else replace(node, stored=True) for node in group.nodes]
        )
        marked.append(group if nodes == group.nodes else replace(group, nodes=nodes))
    return tuple(marked)


def mutated_values(graph: Graph, lowered: Lowered, values: Sequence[Buffer]) -> dict[Buffer, Buffer]:
    """The parameters to overwrite, by the buffers of their new values; `values` begins with these."""
    parameters = [lowered.buffers[id(graph.parameters[position])] for position, _ in graph.mutations]
    return dict(zip(values, parameters, strict=False))


def overwrites(mutations: Mapping[Buffer, Buffer], groups: Iterable[Group]) -> dict[Buffer, Buffer]:
    """The mutations whose new values can be written over the old ones while these are read."""
    home = {node.buffer: (group, node) for group in groups for node in group.nodes}
    return {new: old for new, old in mutations.items() if reads_in_place(*home[new], old.type, old)}


def place_mutations(
    mutations: Mapping[Buffer, Buffer], groups: Sequence[Group], asserted: Iterable[Buffer]
) -> dict[Buffer, Buffer]:
    """The buffer of each mutated parameter's new value; the groups come in execution order.

    The buffer is global if the value is written over the parameter, at the parameter's strides, and lies in the arena
    if it is copied at the end. Nothing is written over a parameter before all that is `asserted` is known.
    """
    made = {node.buffer: position for position, group in enumerate(groups) for node in group.nodes}
    last = _last_readers(groups)
    known = max([made[buffer] for buffer in asserted], default=-1)
    candidates = overwrites(mutations, groups)
    in_place = {new for new, old in candidates.items() if last.get(old, -1) <= made[new] and known < made[new]}
    placed: dict[Buffer, Buffer] = {}
    for new, old in mutations.items():
        type_ = new.type
        if new not in in_place:
            placed[new] = replace(new, type=TensorType(type_.shape, type_.dtype, type_.device), scope="arena")
        elif type_.strides != old.type.strides:
            placed[new] = replace(new, type=TensorType(type_.shape, type_.dtype, type_.device, old.type.strides))
        else:
            placed[new] = new
    return placed


def replace_buffers(groups: Sequence[Group], images: Mapping[Buffer, Buffer]) -> list[Group]:
    """The groups with other buffers in place of some."""
    changed = {old for old, new in images.items() if new is not old}

    def on_load(buffer: Buffer, indices: tuple[Scalar, ...]) -> Scalar | None:
        return load(images[buffer], *indices) if buffer in changed else None

    def image(node: Node) -> Node:
        buffer, scatter = images.get(node.buffer, node.buffer), node.scatter
        if changed.isdisjoint([read for read, _ in node.reads]):
            return node if buffer is node.buffer else replace(node, buffer=buffer)
        inline = Substitution({}, on_load)
        if scatter is not None:
            index = tuple([inline(at) if isinstance(at, Scalar) else at for at in scatter.index])
            scatter = replace(scatter, index=index, value=inline(scatter.value))
        over = None if node.overwrite is None else node.overwrite.image(inline)
        return make_node(buffer, node.order, node.axes, inline(node.body), scatter, node.stored, node.place, over)

    replaced: list[Group] = []
    for group in groups:
        nodes = tuple([image(node) for node in group.nodes])
        if nodes == group.nodes:
            replaced.append(group)
        else:
            reads = frozenset([images.get(buffer, buffer) for buffer in group.reads])
            gemm = None if group.gemm is None else match_gemm(nodes[0])
            replaced.append(replace(group, nodes=nodes, gemm=gemm, reads=reads))
    return replaced


def share_storage(
    groups: Sequence[Group],
    written_over: Mapping[Buffer, Buffer],
    commits: Iterable[tuple[Buffer, Buffer]],
    apart: Container[Buffer],
    asserted: Iterable[Buffer] = (),
) -> dict[Buffer, Buffer]:
    """Lets values reuse the memory of an operand that they read for the last time, element by element.

    The groups come in execution order. Returns the buffers in whose memory values lie: those `written_over` in that of
    their parameters, an arena value in that of an older value, or of a result that is computed from it. Copies in
    `commits` read their sources at the end, and so is what is `asserted`. Values in `apart` are left alone.
    """
    aliases = dict(written_over)
    last = _last_readers(groups)
    made: set[Buffer] = set()  # in places that others may take
    kept = {*[new for new, _ in commits], *asserted}
    overwritten = set(aliases.values())
    sharers: dict[Buffer, list[Buffer]] = {}  # all values in a place, by the buffer whose place it is
    for position, group in enumerate(groups):
        ending = [
            buffer
            for buffer in group.read_buffers()
            if buffer in made and buffer.scope == "arena" and last[buffer] == position and buffer not in kept
        ]
        for node in group.nodes if ending else ():
            if not node.stored or node.buffer in apart or aliases.get(node.buffer) in overwritten:
                continue
            heir = next((buffer for buffer in ending if _takes_over(group, node, buffer)), None)
            if heir is None:
                continue
            ending.remove(heir)
            owner = aliases.get(heir, heir)
            together = sharers.pop(owner, [owner])
            if node.buffer.scope == "arena":
                sharers[owner] = [*together, node.buffer]
                aliases[node.buffer] = owner
            else:
                aliases.update(dict.fromkeys(together, node.buffer))
        made.update([node.buffer for node in group.nodes if node.stored and node.buffer not in apart])
    return aliases


def _takes_over(group: Group, node: Node, buffer: Buffer) -> bool:
    ours, old = node.buffer.type, buffer.type
    if ours.dtype is not old.dtype or product(ours.shape) != product(old.shape):
        return False
    return reads_in_place(group, node, ours, buffer)


def _last_readers(groups: Sequence[Group]) -> dict[Buffer, int]:
    last: dict[Buffer, int] = {}
    for position, group in enumerate(groups):
        for node in group.nodes:
            last.update([(buffer, position) for buffer, _ in node.reads])
    return last


def reads_in_place(group: Group, node: Node, layout: TensorType, buffer: Buffer) -> bool:
    """Whether a group reads a buffer only at the element that the node writes.

    The node's value is laid out as `layout`. No node of the group may have inner axes, because a value could then be
    read again after its memory has been overwritten. An epilogue runs once for each element of a product; the operands
    of the product are never read at the element that it writes, so they fail the test. So does what a scatter reads
    for its writes, which come in any order. A node at distinct places is written over what it begins as, whose elements
    are read elsewhere at these places alone.
    """
    if node.overwrite is not None:
        return _begins_as(node, layout, buffer) and bool(can_overwrite(node, group.nodes, group.outer_rank))
    if node.scatter is not None and any(load.attr("buffer") is buffer for load in loads_of_writes(node.scatter)):
        return False
    if any(len(member.axes) != group.outer_rank for member in group.nodes):
        return False
    for member in group.nodes:
        for read, indices in member.reads:
            if read is buffer and (
                member.sizes != node.sizes
                or as_size(linear_offset(indices, buffer.type.strides)) != _offset(layout, member.axes)
            ):
                return False
    return True


def _begins_as(node: Node, layout: TensorType, buffer: Buffer) -> bool:
    """Whether what a node at distinct places begins as is a buffer, element by element."""
    over = node.overwrite
    if over is None or over.base() is not buffer:
        return False
    return as_size(linear_offset(over.initial.operands, buffer.type.strides)) == _offset(layout, over.axes)


def _offset(layout: TensorType, axes: Iterable[SizeExpr]) -> Size:
    """The offset of the element at some axes; dims of literal size 1 have none."""
    strides = [stride for size, stride in zip(layout.shape, layout.strides, strict=True) if size != 1]
    total: Size = 0
    for axis, stride in zip(axes, strides, strict=True):
        total = total + axis * stride
    return total
