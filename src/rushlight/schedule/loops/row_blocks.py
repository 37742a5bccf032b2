"""Row blocks: groups that share batch axes run block by block, with values between them in the cache.

A chain begins with a batch of matrix products. Each further group reads what an earlier group of the chain computes, at
the same index of the leading axes. A block is one value of the batch axes or, where every group of the chain works row
by row, a range of rows of it. Values that only the chain reads lie in scratch memory of a block's size. So attention
keeps a block of scores instead of all of them, whether it is one operator or written out.
"""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from dataclasses import replace

from rushlight.ir.dtype import uint8
from rushlight.ir.gemm_tile import BLOCK
from rushlight.ir.plan import ALIGNMENT, THREADS, Address, CausalBound, Launch, RowBlockKernel, RowBlockLoop
from rushlight.ir.scalar import Buffer, Scalar, index, load
from rushlight.ir.type import TensorType
from rushlight.schedule.fuse.causal_bound import Limits, causal_bound_of, finite_flags
from rushlight.schedule.fuse.fusion import Group
from rushlight.schedule.gemm.recognition import match_gemm
from rushlight.schedule.loops.blocks import Walk
from rushlight.schedule.loops.row_block_sums import add_partial_sums, common, dims_with_axes, matching, sums_over_rows
from rushlight.schedule.lower.nodes import Node
from rushlight.schedule.lower.rewrite import Index, Substitution, as_size
from rushlight.schedule.memory.arena import plan_memory
from rushlight.support.frozen import frozen
from rushlight.sym import (
    Size,
    SizeExpr,
    axis_size,
    axis_symbol,
    ceildiv,
    floordiv,
    free_symbols,
    maximum,
    minimum,
    product,
    size_of_code,
    substitute,
)

# The rows of a block are a multiple of this, which suits the tiles of matrix products.
ROW_UNIT = 48
# Shares of the row blocks, two per thread: if a thread is delayed, others take the rest. The symbol is created with the
# module, before any other size, so that a plan's text does not depend on what was compiled before.
SHARES = THREADS * 2
# The number of groups that are tried after the last one that joined.
WINDOW = 12


@frozen(eq=False)
class FusedChain:
    """Groups to run block by block: over `batch` leading axes, and over blocks of the next axis if `rows`.

    The groups in `sums` sum over the rows: their blocks run in order. Only the chain reads the values in `private`.
    """

    groups: tuple[Group, ...]
    batch: int
    rows: bool
    private: tuple[Buffer, ...]
    sums: tuple[Group, ...]

    def with_groups(self, images: Mapping[Group, Group]) -> FusedChain:
        """The chain with other groups in place of its own."""
        groups, sums = ([images[group] for group in groups] for groups in (self.groups, self.sums))
        return replace(self, groups=tuple(groups), sums=tuple(sums))


def find_chains(groups: Sequence[Group], overwrites: Container[Buffer] = ()) -> list[Group | FusedChain]:
    """The groups in an order in which they can run, those of a chain gathered.

    `overwrites` are new values that may be written over older ones: groups that make them do not run earlier.
    """
    readers: dict[Buffer, list[Group]] = {}
    for group in groups:
        for buffer in group.reads:
            readers.setdefault(buffer, []).append(group)
    waiting = list(groups)
    ordered: list[Group | FusedChain] = []
    while waiting:
        first = waiting.pop(0)
        result = _ChainBuilder(first, readers, overwrites).grow(waiting) if _leads(first) else None
        if result is None:
            ordered.append(first)
            continue
        before, chain = result
        taken = {*before, *chain.groups}
        waiting = [group for group in waiting if group not in taken]
        ordered += [*before, chain]
    return ordered


def groups_of(parts: Sequence[Group | FusedChain]) -> list[Group]:
    """The groups of parts in order, those of chains one by one."""
    return [group for part in parts for group in (part.groups if isinstance(part, FusedChain) else (part,))]


def made_in_chains(parts: Sequence[Group | FusedChain]) -> set[Buffer]:
    """The values that chains make."""
    chains = [part for part in parts if isinstance(part, FusedChain)]
    return {node.buffer for chain in chains for group in chain.groups for node in group.nodes}


def _leads(group: Group) -> bool:
    shape = group.gemm
    return shape is not None and bool(shape.batch) and group.nodes[0].axes[: len(shape.batch)] == shape.batch


class _ChainBuilder:
    """Builds a chain group by group; `level` is the number of leading axes that all its groups share."""

    def __init__(self, first: Group, readers: Mapping[Buffer, list[Group]], overwrites: Container[Buffer]) -> None:
        assert first.gemm is not None
        self.readers = readers
        self.overwrites = overwrites
        self.members = [first]
        self.sums: list[Group] = []
        self.batch = len(first.gemm.batch)
        self.sizes = first.nodes[0].sizes
        self.level = _most_level(first, self.batch)
        self.made: dict[Buffer, Group] = {node.buffer: first for node in first.nodes}

    def grow(self, waiting: Sequence[Group]) -> tuple[list[Group], FusedChain] | None:
        """The groups that run before, and the chain; None if no value becomes private."""
        inside = 1 << self.members[0].number
        after = 0
        passed: list[Group] = []
        before: list[Group] = []
        for group in waiting:
            bit = 1 << group.number
            bound = group.ancestors & after or any(node.buffer in self.overwrites for node in group.nodes)
            adds = not bound and self.adds_up(group)
            level = None if bound or adds else self.joined_level(group)
            if adds:
                self.members.append(group)
                self.sums.append(group)
                after |= bit
                before, passed = before + passed, []
            elif level is not None:
                self.level = level
                for other in [*self.helpers(group, passed), group]:
                    self.members.append(other)
                    self.made.update({node.buffer: other for node in other.nodes})
                    inside |= 1 << other.number
                before, passed = before + [other for other in passed if not inside >> other.number & 1], []
            elif bound or group.ancestors & inside:
                after |= bit
            else:
                passed.append(group)
            if len(passed) > WINDOW or after.bit_count() > WINDOW:
                break
        private = [buffer for buffer in self.made if self.is_private(buffer)]
        if not private:
            return None
        rows = self.level > self.batch
        sums = tuple(self.sums) if rows else ()
        return before, FusedChain(tuple(self.members), self.batch, rows, tuple(private), sums)

    def adds_up(self, group: Group) -> bool:
        """Whether a group sums over the rows of values of the chain."""
        fits = self.level > self.batch and bool(group.reads & self.made.keys())
        return fits and sums_over_rows(group, self.sizes[: self.batch + 1], self.made)

    def helpers(self, group: Group, passed: Sequence[Group]) -> list[Group]:
        """Products that a joining group needs, that need nothing of the chain, and that can join as well."""
        groups: list[Group] = []
        for other in passed:
            wanted = {node.buffer for node in other.nodes} & group.reads
            if not wanted or not _leads(other) or any(node.buffer in self.overwrites for node in other.nodes):
                continue
            level = min(_most_level(other, self.batch), common(other.nodes[0].sizes, self.sizes))
            reads = [(node, buffer, at) for node in group.nodes for buffer, at in node.reads if buffer in wanted]
            level = min([level, *[matching(node.axes, buffer, at) for node, buffer, at in reads]])
            if level >= self.level and not any(later.ancestors >> other.number & 1 for later in passed):
                groups.append(other)
        return groups

    def is_private(self, buffer: Buffer) -> bool:
        """Whether other groups of the chain read a value, and no group outside."""
        readers = set(self.readers.get(buffer, ()))
        apart = bool(readers - {self.made[buffer]}) and readers <= set(self.members)
        return apart and buffer.scope == "arena"

    def joined_level(self, group: Group) -> int | None:
        """The level of the chain with another group, or None if the group cannot join."""
        if any(node.writes_at_data for node in group.nodes) or not group.reads & self.made.keys():
            return None
        level = min(self.level, _most_level(group, self.batch))
        for node in group.nodes:
            level = min(level, common(node.sizes, self.sizes))
            for buffer, indices in node.reads:
                if buffer in self.made:
                    level = min(level, matching(node.axes, buffer, indices))
        return level if level >= self.batch else None


def _most_level(group: Group, batch: int) -> int:
    shape = group.gemm
    if shape is None:
        return min(group.outer_rank, batch + 1)
    if len(shape.batch) != batch or group.nodes[0].axes[:batch] != shape.batch:
        return -1
    return batch + 1 if shape.rows == group.nodes[0].axes[batch : batch + 1] else batch


@frozen(eq=False)
class LocalChain:
    """A chain as one row block sees it: its groups over local axes, and the loops over blocks.

    If `in_order`, row blocks run one after the other on one thread.
    """

    groups: tuple[Group, ...]
    loops: tuple[RowBlockLoop, ...]
    row_blocks: Size
    flags: Node | None
    causal_bound: CausalBound | None
    in_order: bool
    aliases: Mapping[Buffer, Buffer]


def localise(chain: FusedChain, name: str, makers: Mapping[Buffer, Node], row_bytes: int, walk: Walk) -> LocalChain:
    """Turns leading axes into sizes that a row block knows; private values get buffers of a block's size.

    `makers` maps the values of the program to their nodes. A block's scratch memory is some `row_bytes`: what fits a
    core's cache beside the operands.
    """
    lead = chain.groups[0].nodes[0].axes[: chain.batch + chain.rows]
    loops: list[RowBlockLoop] = []
    for position, axis in enumerate(lead):
        step = _block_rows(chain, axis, row_bytes, walk) if position == chain.batch else 1
        start, length = (size_of_code(f"{name}{position}", 1) for name in ("block", "length"))
        loops.append(RowBlockLoop(start, length, step, axis_size(axis)))
    maker = _ChainLocaliser(chain, loops)
    made = [(group, whole) for whole in chain.groups for group in maker.groups(whole)]
    groups = [group for group, _ in made]
    dealt = loops[:-1] if chain.sums else loops
    row_blocks = product([ceildiv(loop.extent, loop.step) for loop in dealt])
    flags, causal_bound = None, None
    sums = [group for group, whole in made if whole in chain.sums and group.gemm is not None]
    limits = Limits(groups, set(maker.buffers.values()), sums, makers, loops[-1]) if chain.rows else None
    if limits is not None and limits.ends:
        wholes = {group.number: whole for group, whole in made}
        factors = [(wholes[end.group.number], end.factor) for end in limits.ends]
        flags = finite_flags(factors, chain.batch, f"{name}_finite")
        causal_bound = causal_bound_of(limits, flags, loops)
        groups = limits.applied()
    return LocalChain(tuple(groups), tuple(loops), row_blocks, flags, causal_bound, bool(chain.sums), maker.aliases)


def _block_rows(chain: FusedChain, axis: SizeExpr, bytes_of_block: int, walk: Walk) -> Size:
    rows = axis_size(axis)
    if chain.sums:
        return maximum(1, minimum(rows, BLOCK))
    width = walk.width(axis, 0)
    if width:
        return maximum(1, minimum(rows, width))
    row_bytes: Size = 0
    for buffer in chain.private:
        sizes = [size for size in buffer.type.shape if size != 1][chain.batch + 1 :]
        row_bytes = row_bytes + product(sizes) * buffer.type.dtype.itemsize
    units = floordiv(bytes_of_block // ROW_UNIT, maximum(1, row_bytes))
    return maximum(1, minimum(rows, maximum(1, units) * ROW_UNIT))


class _ChainLocaliser:
    def __init__(self, chain: FusedChain, loops: Sequence[RowBlockLoop]) -> None:
        self.chain = chain
        self.loops = loops
        self.buffers = {buffer: self.buffer(buffer) for buffer in chain.private}
        self.aliases: dict[Buffer, Buffer] = {}

    def lead(self, buffer: Buffer) -> list[int]:
        """The dims of a private value that the loops over blocks run over."""
        return dims_with_axes(buffer)[: len(self.loops)]

    def buffer(self, buffer: Buffer) -> Buffer:
        """A block's buffer for a private value: batch dims have size 1, and rows are those of the block."""
        shape = list(buffer.type.shape)
        for position, dim in enumerate(self.lead(buffer)):
            shape[dim] = 1 if position < self.chain.batch else self.loops[position].length
        return Buffer(buffer.name, TensorType(tuple(shape), buffer.type.dtype, buffer.type.device), "arena")

    def groups(self, group: Group) -> list[Group]:
        """The groups of a block for a group of the chain."""
        return self.sum(group) if group in self.chain.sums else [self.group(group)]

    def sum(self, group: Group) -> list[Group]:
        """A sum over rows: a group of zeros, then one that adds the partial sum of a block."""
        (node,) = group.nodes
        starts: dict[SizeExpr, Index] = {
            axis: loop.start for axis, loop in zip(node.axes, self.loops[: self.chain.batch], strict=False)
        }
        shares = add_partial_sums(node, starts, self.loops[-1], self.on_load)
        self.aliases[shares.before] = node.buffer
        gemm = match_gemm(shares.share)
        assert gemm is not None
        return [Group(group.number, (shares.zeros,), None), Group(group.number, (shares.share,), group.outer, gemm)]

    def group(self, group: Group) -> Group:
        """A group over the axes of a block."""
        nodes = tuple([self.node(node) for node in group.nodes])
        outer = None if group.outer is None else group.outer - self.chain.batch
        gemm = None if group.gemm is None else match_gemm(nodes[0])
        assert (gemm is None) is (group.gemm is None)
        return Group(group.number, nodes, outer, gemm)

    def node(self, node: Node) -> Node:
        """A node over the axes of a block."""
        images: dict[SizeExpr, Index] = {}
        axes = list(node.axes[self.chain.batch :])
        for position, (axis, loop) in enumerate(zip(node.axes, self.loops, strict=False)):
            images[axis] = loop.start
            if position == self.chain.batch:
                axes[0] = axis_symbol(loop.length, "i")
                images[axis] = loop.start + axes[0]
        body = Substitution(images, self.on_load)(node.body)
        local = self.buffers.get(node.buffer)
        sizes = {axis: image for axis, image in images.items() if not isinstance(image, Scalar)}
        where = None if local is not None else tuple([substitute(expr, sizes) for expr in node.index()])
        return replace(node.with_body(tuple(axes), body, where), buffer=local or node.buffer)

    def on_load(self, buffer: Buffer, indices: tuple[Scalar, ...]) -> Scalar | None:
        """The load of a private value from the block's buffer."""
        local = self.buffers.get(buffer)
        if local is None:
            return None
        result = list(indices)
        for position, dim in enumerate(self.lead(buffer)):
            at = as_size(indices[dim])
            assert at is not None
            result[dim] = index(0 if position < self.chain.batch else at - self.loops[position].start)
        return load(local, *result)


def row_block_launch(
    name: str, local: LocalChain, launches: Sequence[Launch], outside: set[Buffer]
) -> tuple[RowBlockKernel, tuple[Buffer | Address | Size, ...], Size]:
    """The kernel that runs row blocks, the arguments of its launch, and the number of shares.

    Buffers in `outside` have memory already.
    """
    most = {loop.length: loop.step for loop in local.loops}
    if local.causal_bound is not None:
        most[local.causal_bound.symbol] = local.causal_bound.far
    places: dict[Buffer, Size] = {}
    ends: list[Size] = []
    for slot in plan_memory(launches, (), outside):
        start = places[slot.buffer] = _largest([ends[position] for position in slot.after])
        ends.append(start + ceildiv(substitute(slot.size_bytes, most), ALIGNMENT) * ALIGNMENT)
    slot_bytes = _largest(ends)
    inside = places
    used = [buffer for launch in launches for buffer in launch.buffers]
    bound = {symbol for loop in local.loops for symbol in (loop.start, loop.length)}
    words = [word for launch in launches for word in (*launch.arguments, launch.count)]
    if local.causal_bound is not None:
        used.append(local.causal_bound.flags)
        bound.add(local.causal_bound.symbol)
        words += [local.causal_bound.at, local.causal_bound.near, local.causal_bound.far]
    buffers = tuple(dict.fromkeys([operand for operand in used if operand not in inside]))
    words += places.values()
    symbols: dict[SizeExpr, None] = {}
    for word in words:
        if not isinstance(word, Buffer):
            symbols.update(dict.fromkeys(free_symbols(word.offset if isinstance(word, Address) else word)))
    sizes = tuple([symbol for symbol in symbols if symbol not in bound])
    own = tuple(places.items())
    kernel = RowBlockKernel(
        name, buffers, sizes, local.loops, local.in_order, local.causal_bound, tuple(launches), own, slot_bytes
    )
    shares = minimum(local.row_blocks, SHARES)
    scratch = Buffer(f"{name}_scratch", TensorType((shares * slot_bytes,), uint8), "arena")
    loops = [word for loop in local.loops for word in (loop.step, loop.extent)]
    return kernel, (scratch, *buffers, *sizes, shares, slot_bytes, *loops), shares


def _largest(sizes: Sequence[Size]) -> Size:
    largest: Size = 0
    for size in sizes:
        largest = maximum(largest, size)
    return largest
