"""Fusion: gathers nodes in groups, one kernel each, by verdicts with reasons.

A group runs over outer axes that all its nodes share; a node may have inner axes of its own below them. Inside a group
a value is not read back from memory: its body is evaluated where it is used. That is correct if the reader uses the
same outer index, and it is free if the code generator keeps row results in registers.
"""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence

from rushlight.ir.scalar import Buffer
from rushlight.schedule.fuse.verdict import Verdict, no, yes
from rushlight.schedule.gemm.recognition import GemmShape, match_gemm
from rushlight.schedule.lower.nodes import Node
from rushlight.schedule.lower.rewrite import Substitution, as_size, loads
from rushlight.support.frozen import frozen
from rushlight.sym import product

MAX_BUFFERS = 24
MAX_NODES = 48
# A group without outer axes runs on one thread, so producers with more elements do not join it.
SERIAL_ELEMENTS = 4096
# A pointwise node this many definitions after a group joins it only if that ends the life of an operand: otherwise its
# result takes memory from there on.
FAR = 64


@frozen(eq=False)
class Group:
    """Nodes that make one kernel; compared by identity.

    `outer` is the number of shared leading axes, or None if every node is pointwise. `ancestors` has a bit for the
    number of each group that must run before. `reads` are the buffers that its nodes read.
    """

    number: int
    nodes: tuple[Node, ...]
    outer: int | None
    gemm: GemmShape | None = None
    ancestors: int = 0
    reads: frozenset[Buffer] = frozenset()

    @property
    def outer_rank(self) -> int:
        """The number of outer axes."""
        return len(self.nodes[0].axes) if self.outer is None else self.outer

    def read_buffers(self) -> list[Buffer]:
        """The buffers that its nodes read, in order, each once."""
        return list(dict.fromkeys([buffer for node in self.nodes for buffer, _ in node.reads]))


class _GrowingGroup:
    """A group that nodes still join; its fields are those of Group."""

    __slots__ = ("ancestors", "gemm", "nodes", "number", "outer", "reads")

    def __init__(self, number: int, first: Node) -> None:
        fixed = first.reduces or first.scatter is not None
        self.number = number
        self.nodes = [first]
        self.outer: int | None = len(first.axes) if fixed else None
        self.gemm = match_gemm(first)
        self.ancestors = 0
        self.reads: set[Buffer] = set()

    def join(self, node: Node) -> None:
        """Adds a node."""
        self.nodes.append(node)
        if node.reduces:
            self.outer = len(node.axes)

    def finished(self) -> Group:
        """The group with all nodes that joined it."""
        reads = frozenset(self.reads)
        return Group(self.number, tuple(self.nodes), self.outer, self.gemm, self.ancestors, reads)


@frozen
class Missed:
    """A fusion that was considered and declined."""

    producer: str
    consumer: str
    verdict: Verdict


@frozen
class Fused:
    """Groups whose dependences have no cycle, and the declined fusions."""

    groups: tuple[Group, ...]
    missed: tuple[Missed, ...]


def fuse_nodes(nodes: Sequence[Node], without: Container[str] = ()) -> Fused:
    """Gathers nodes greedily, in program order.

    A node joins the group of a producer if it can, otherwise a group that reads the same data. Mechanisms `without`
    which it does join none.
    """
    groups: list[_GrowingGroup] = []
    home: dict[Buffer, _GrowingGroup] = {}
    readers: dict[Buffer, list[_GrowingGroup]] = {}
    missed: list[Missed] = []
    last = {buffer: node.order for node in nodes for buffer, _ in node.reads}
    for node in nodes:
        reads = node.reads
        producers = {home[buffer].number: home[buffer] for buffer, _ in reads if buffer in home}
        siblings = {group.number: group for buffer, _ in reads for group in readers.get(buffer, ())[-4:]}
        chosen: _GrowingGroup | None = None
        ordered = sorted(producers, reverse=True) + sorted(set(siblings) - set(producers), reverse=True)
        for number in ordered:
            group = groups[number]
            verdict = _is_wanted(group, node, without) and can_join(group, node, groups, producers)
            verdict = verdict and _is_timely(group, node, last)
            if verdict:
                chosen = group
                break
            missed.append(Missed(group.nodes[-1].buffer.name, node.buffer.name, verdict))
        if chosen is None:
            chosen = _GrowingGroup(len(groups), node)
            groups.append(chosen)
        else:
            chosen.join(node)
        _depend(chosen, producers, groups)
        home[node.buffer] = chosen
        for buffer, _ in reads:
            chosen.reads.add(buffer)
            readers.setdefault(buffer, []).append(chosen)
        for other in producers.values():
            if other is not chosen and "rows" not in without and can_merge(other, chosen, groups):
                home.update([(member.buffer, chosen) for member in other.nodes])
                for buffer in other.reads:
                    readers[buffer] = [chosen if group is other else group for group in readers[buffer]]
                _merge(other, chosen, groups)
    return Fused(tuple([group.finished() for group in groups if group.nodes]), tuple(missed))


def can_merge(first: _GrowingGroup, second: _GrowingGroup, groups: Sequence[_GrowingGroup]) -> Verdict:
    """Whether two groups that a node reads may be one: rows of the same data, whose sums began apart.

    So do those of a norm's gradient: one of its sums over a row needs the gradient alone, another the input too.
    """
    if first.gemm is not None or second.gemm is not None or not first.reads & second.reads:
        return no("nothing in common")
    if first.outer is None or first.outer != second.outer:
        return no("they are not of the same rows")
    if any(node.writes_at_data for node in (*first.nodes, *second.nodes)):
        return no("writes where data says have a loop nest of their own")
    for one, other in ((first, second), (second, first)):
        bit = 1 << other.number
        if any(one.ancestors >> group.number & 1 and group.ancestors & bit for group in groups if group is not other):
            return no("a value between them is computed by another kernel")
    both = _GrowingGroup(second.number, second.nodes[0])
    both.reads = first.reads | second.reads
    if len(first.nodes) + len(second.nodes) > MAX_NODES or len(both.reads) > MAX_BUFFERS:
        return no("the kernel would be too large", len(first.nodes) + len(second.nodes), len(both.reads))
    members = sorted([*first.nodes, *second.nodes], key=lambda node: node.order)
    both.nodes, both.outer = members[:1], second.outer
    for node in members[1:]:
        verdict = _can_share_axes(both, node) and _can_forward(both, node)
        if not verdict:
            return verdict
        both.nodes.append(node)
    return yes("rows of the same data")


def _merge(first: _GrowingGroup, second: _GrowingGroup, groups: Sequence[_GrowingGroup]) -> None:
    """Moves the nodes of one group to another, and leaves it empty."""
    second.nodes = sorted([*first.nodes, *second.nodes], key=lambda node: node.order)
    second.reads |= first.reads
    both = 1 << first.number | 1 << second.number
    ancestors = (first.ancestors | second.ancestors) & ~both
    first.nodes, first.ancestors, second.ancestors = [], 0, ancestors
    for group in groups:
        if group.ancestors & both:
            group.ancestors = group.ancestors & ~both | 1 << second.number | ancestors


def _depend(group: _GrowingGroup, producers: dict[int, _GrowingGroup], groups: list[_GrowingGroup]) -> None:
    new = 0
    for producer in producers.values():
        if producer is not group:
            new |= producer.ancestors | (1 << producer.number)
    if new & ~group.ancestors:
        group.ancestors |= new
        bit = 1 << group.number
        for other in groups:
            if other.ancestors & bit:
                other.ancestors |= group.ancestors


def can_join(
    group: _GrowingGroup, node: Node, groups: list[_GrowingGroup], producers: dict[int, _GrowingGroup]
) -> Verdict:
    """Whether a node may become part of a group's kernel."""
    bit = 1 << group.number
    for producer in producers.values():
        if producer is not group and producer.ancestors & bit:
            return no(
                "a value between them is computed by another kernel", groups[producer.number].nodes[0].buffer.name
            )
    if node.scatter is not None or any(member.scatter is not None for member in group.nodes):
        return no("scattered writes have a loop nest of their own")
    places = _can_have_places(group, node)
    if not places:
        return places
    if len(group.nodes) >= MAX_NODES or len(group.reads) >= MAX_BUFFERS:
        return no("the kernel would be too large", len(group.nodes), len(group.reads))
    shape = _can_share_axes(group, node)
    return shape if not shape else _can_forward(group, node)


def _can_have_places(group: _GrowingGroup, node: Node) -> Verdict:
    """Whether nodes of a group, with another, can write at distinct places."""
    members = [*group.nodes, node]
    writers = [member for member in members if member.overwrite is not None]
    if not writers:
        return yes("at their own index")
    if group.gemm is not None:
        return no("an epilogue writes the product's own elements")
    made = {member.buffer for member in members}
    outer = len(node.axes) if node.reduces else group.outer
    rank = len(group.nodes[0].axes) if outer is None else outer
    for writer in writers:
        if any(buffer is writer.buffer for member in members for buffer, _ in member.reads):
            return no("what is written at places is read when all of it is there", writer.buffer.name)
        assert writer.overwrite is not None
        if any(load.attr("buffer") in made for load in loads(writer.overwrite.initial)):
            return no("what is written over is there before", writer.buffer.name)
        verdict = can_overwrite(writer, members, rank)
        if not verdict:
            return verdict
    return yes("at distinct places")


def can_overwrite(writer: Node, members: Sequence[Node], rank: int) -> Verdict:
    """Whether a node at distinct places can be written over what it begins as, while others run.

    These may read an old element at its place alone, where no inner axes come in between: a value could be read again
    after it has been written over. `rank` is the number of axes that they share.
    """
    over = writer.overwrite
    assert over is not None
    base = over.base()
    for member in members:
        start = over.initial.operands if member is writer else None
        reads = [at for buffer, at in member.reads if buffer is base and at != start]
        if not reads:
            continue
        if any(len(other.axes) != rank for other in members) or member.sizes != writer.sizes:
            return no("old values would be read after they are written over", writer.buffer.name)
        at = Substitution(dict(zip(member.axes, writer.axes, strict=True)))
        if any(tuple([at(position) for position in read]) != over.index for read in reads):
            return no("old values are read at other places", writer.buffer.name)
    return yes("at its places")


def _is_wanted(group: _GrowingGroup, node: Node, without: Container[str]) -> Verdict:
    """Whether the mechanism that would join them is not left out."""
    if group.gemm is not None and "epilogues" in without:
        return no("epilogues are left out")
    rows = group.gemm is None and (node.reduces or any(member.reduces for member in group.nodes))
    return no("rows are left out") if rows and "rows" in without else yes("wanted")


def _is_timely(group: _GrowingGroup, node: Node, last: Mapping[Buffer, int]) -> Verdict:
    """Whether computing a value where an earlier group runs does not cost memory.

    The value takes memory from there on, and so do its operands, unless this is their last use.
    """
    near = node.order - group.nodes[-1].order <= FAR
    if near or node.reduces or node.buffer.scope != "arena":
        return yes("soon")
    ending = any(last[buffer] == node.order for buffer, _ in node.reads if buffer.scope == "arena")
    return yes("instead of what it is made of") if ending else no("its operands live on until it is needed")


def _can_share_axes(group: _GrowingGroup, node: Node) -> Verdict:
    if group.gemm is not None:
        if node.reduces:
            return no("a reduction is no epilogue")
        if node.sizes != group.nodes[0].sizes:
            return no("an epilogue runs over the product's own axes", node.sizes)
        return yes("epilogue")
    if node.contraction is not None:
        return no("a contraction has a kernel of its own")
    outer = group.outer
    if node.reduces:
        if outer is not None and outer != len(node.axes):
            return no("reductions over different axes", outer, len(node.axes))
        outer = len(node.axes)
    members = [*group.nodes, node]
    if outer is None:
        return (
            yes("same axes")
            if node.sizes == group.nodes[0].sizes
            else no("axes differ", node.sizes, group.nodes[0].sizes)
        )
    lead = node.sizes[:outer]
    if any(len(member.axes) < outer or member.sizes[:outer] != lead for member in members):
        return no("outer axes differ", lead)
    if outer == 0 and not all(_is_short(member) for member in members):
        return no("it would run on one thread")
    return yes("same outer axes", outer)


def _is_short(node: Node) -> bool:
    count = product(node.sizes)
    return isinstance(count, int) and count <= SERIAL_ELEMENTS


def _can_forward(group: _GrowingGroup, node: Node) -> Verdict:
    outer = group.outer
    if node.reduces:
        outer = len(node.axes)
    members = {member.buffer: member for member in group.nodes}
    shared = False
    for buffer, indices in node.reads:
        shared = shared or buffer in group.reads
        member = members.get(buffer)
        if member is None:
            continue
        shared = True
        positions = [as_size(index) for index, size in zip(indices, buffer.type.shape, strict=True) if size != 1]
        rank = len(member.axes) if outer is None else outer
        if any(position is not axis for position, axis in zip(positions[:rank], node.axes[:rank], strict=False)):
            return no("it reads the value at another index", buffer.name)
        if len(node.axes) < rank:
            return no("it reads the value at another index", buffer.name)
    if group.outer is None and outer is not None:
        inside = _members_agree(group, outer)
        if not inside:
            return inside
    if group.gemm is not None and not any(buffer in members for buffer, _ in node.reads):
        return no("it does not use the product")
    return yes("reads the same data") if shared else no("nothing in common")


def _members_agree(group: _GrowingGroup, outer: int) -> Verdict:
    # Pointwise nodes read each other at equal indices already; fewer shared axes keep that true.
    if any(len(member.axes) < outer for member in group.nodes):
        return no("outer axes differ", outer)
    return yes("rows")
