"""Whether a plan reads only memory that has been written: a proof for all sizes, made for every plan.

The verifier visits launches in order. A buffer is *whole* once the caller or launches have written all its elements;
`ir.coverage` decides that from the offsets of stores. A kernel may read a buffer that is not whole only if it has
stored the same elements before, or if earlier launches have written exactly these elements. Values with overlapping
lifetimes must lie in different memory.

A write is `Undecided` if its offsets, conditions or loops depend on data, or if the proof lacks a rule. Such memory
must be filled first. `undecided_writes` checks only memory with data-dependent stores, which is quick.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Any

from rushlight.ir.accesses import KernelAccesses, buffer_of, data_written, given_buffers, product_piece, starts_of
from rushlight.ir.coverage import Piece, Run, covers, runs_of, walked
from rushlight.ir.gemm_tile import BLOCK
from rushlight.ir.kernel import TASK_ARGS, TILE_ARGS, Attached, GemmKernel, Kernel
from rushlight.ir.plan import ALIGNMENT, AnyKernel, Launch, Plan, RowBlockKernel, RowBlockLoop
from rushlight.ir.scalar import Buffer, Scalar
from rushlight.ir.verify import broken
from rushlight.support.frozen import frozen
from rushlight.sym import (
    Size,
    SizeExpr,
    axis_size,
    axis_symbol,
    ceildiv,
    coefficient,
    depends_on,
    le,
    product,
    statically_known,
    substitute,
)


@frozen
class Undecided:
    """A launch that writes unknown elements of a buffer; `filled` tells whether all were written before."""

    buffer: Buffer
    launch: int
    kernel: str
    reason: str
    filled: bool


def verify_memory(plan: Plan, *, strict: bool = True) -> tuple[Undecided, ...]:
    """Checks the reads and writes of a plan; returns the undecided writes. Errors: C015.

    If `strict`, an undecided write to memory that is not filled is an error, and so are values of a row block that may
    overlap in scratch memory. Otherwise both are returned as well.
    """
    panels = _panels(plan)
    undecided: list[Undecided] = []
    for part in (plan,) if plan.once is None else (plan.once, plan):
        undecided += _Verifier(part, panels, strict).run()
        _verify_lifetimes(part)
        undecided += _overlaps_in_scratch(part, strict)
    return tuple(undecided)


def undecided_writes(plan: Plan) -> tuple[Undecided, ...]:
    """The undecided writes to buffers with data-dependent stores. Errors: C015.

    Launches without these buffers are skipped, and so is the plan that runs once.
    """
    written = _written_by_data(plan)
    return _Verifier(plan, {}, False, written).run() if written else ()


def _written_by_data(plan: Plan) -> set[Buffer]:
    """The buffers of a plan that some launch writes at offsets that depend on data."""
    written: set[Buffer] = set()
    by_data = [_by_data(kernel) for kernel in plan.kernels]
    for launch in plan.launches:
        kernel = plan.kernels[launch.kernel]
        for inner in _inner(kernel):
            given = kernel.operands_of(launch) if isinstance(kernel, RowBlockKernel) else {}
            named = _named(plan.kernels[inner.kernel], inner, by_data[inner.kernel])
            written.update([given[buffer] for buffer in named if buffer in given])
        written.update(_named(kernel, launch, by_data[launch.kernel]))
    return written - set(plan.inputs)


def _by_data(kernel: AnyKernel) -> set[Buffer]:
    """The parameters of a kernel that it writes at offsets that depend on data."""
    if isinstance(kernel, GemmKernel):
        return set() if kernel.epilogue is None else _by_data(kernel.epilogue)
    return data_written(kernel) if isinstance(kernel, Kernel) else set()


def _named(kernel: AnyKernel, launch: Launch, own: set[Buffer]) -> list[Buffer]:
    """The buffers that a launch passes for some parameters of a kernel."""
    if not own or isinstance(kernel, RowBlockKernel):
        return []
    if isinstance(kernel, Kernel):
        given = given_buffers(kernel.buffers, launch.arguments, {})
    else:
        epilogue = kernel.attached[0]
        arguments = launch.arguments[epilogue.first_arg : epilogue.first_arg + epilogue.buffers]
        given = given_buffers(epilogue.kernel.buffers[1:], arguments, {})
    return [given[buffer] for buffer in own if buffer in given]


def _panels(plan: Plan) -> dict[Buffer, int]:
    """The packed operands of matrix products, and the width of their panels."""
    widths: dict[Buffer, int] = {}
    for launch in [*plan.launches, *[inner for kernel in plan.kernels for inner in _inner(kernel)]]:
        kernel = plan.kernels[launch.kernel]
        if isinstance(kernel, GemmKernel):
            tile = kernel.tile
            for argument, packed, width in (
                (launch.arguments[0], tile.a_packed, BLOCK if tile.a_format == "row" else tile.mr),
                (launch.arguments[1], tile.b_packed, tile.nr),
            ):
                buffer = buffer_of(argument)
                if packed and buffer is not None:
                    widths[buffer] = width
    return widths


def _inner(kernel: AnyKernel) -> tuple[Launch, ...]:
    return kernel.launches if isinstance(kernel, RowBlockKernel) else ()


@frozen
class _Blocks:
    """An axis in blocks: the symbols of a block's start and length, and the whole axis."""

    start: SizeExpr
    length: SizeExpr | None
    axis: SizeExpr

    def images(self, piece: Piece) -> dict[SizeExpr, Size] | None:
        """Substitutions for a block's start and inner axis that extend a piece over all blocks.

        None if the blocks are not adjacent.
        """
        if not depends_on(piece.offset, self.start):
            once = {axis: 0 for axis, extent in piece.axes if extent is self.length and axis_size(self.axis) == 1}
            return {self.start: 0, **once}
        if self.length is None:
            return {self.start: self.axis}
        step = coefficient(piece.offset, self.start)
        for axis, extent in piece.axes:
            if extent is self.length and coefficient(piece.offset, axis) == step:
                images: dict[SizeExpr, Size] = {self.start: 0, axis: self.axis}
                if step is not None or _is_of_sum(piece.offset, self.start, axis, self.axis):
                    return images
        return None


def _is_of_sum(offset: Size, start: SizeExpr, axis: SizeExpr, total: SizeExpr) -> bool:
    """Whether an offset depends on a block's start and the index in the block only by their sum."""
    return substitute(offset, {start: 0, axis: total}) == substitute(offset, {start: 1, axis: total - 1})


class _Verifier:
    """The state of memory between the launches of a plan, or only that of the buffers in `only`."""

    def __init__(self, plan: Plan, panels: Mapping[Buffer, int], strict: bool, only: set[Buffer] | None = None) -> None:
        self.plan = plan
        self.panels = panels
        self.strict = strict
        self.only = only
        self.whole = set(plan.inputs)
        if only is not None:
            launches = [*plan.launches, *[inner for kernel in plan.kernels for inner in _inner(kernel)]]
            everything = {buffer for launch in launches for buffer in launch.buffers}
            self.whole |= (everything | set(plan.outputs)) - only
        self.pieces: dict[Buffer, list[Piece]] = {}
        self.writers: dict[Buffer, int] = {}
        self.open: set[Buffer] = set()
        self.undecided: list[Undecided] = []
        self.accesses: dict[int, KernelAccesses] = {}
        self.runs: dict[Buffer, tuple[Run, ...]] = {}
        self.number = 0

    def run(self) -> tuple[Undecided, ...]:
        """Checks all launches, then that the outputs are written."""
        for number, launch in enumerate(self.plan.launches):
            self.number = number
            if self.only is None or not self.only.isdisjoint(launch.buffers):
                self.launch(launch, {}, ())
        for output in self.plan.outputs:
            if output not in self.whole and not _is_empty(output):
                self.unwritten(output, "an output is")
        for buffer in self.plan.asserted:
            if buffer not in self.whole and self.only is None:
                self.unwritten(buffer, "what is asserted is")
        return tuple(self.undecided)

    def launch(self, launch: Launch, given: Mapping[Buffer, Buffer], blocks: tuple[_Blocks, ...]) -> None:
        """Checks a launch; in a row block with loops `blocks`, `given` are the buffers of its parameters."""
        kernel = self.plan.kernels[launch.kernel]
        if isinstance(kernel, RowBlockKernel):
            self.row_block(kernel, launch)
        elif isinstance(kernel, GemmKernel):
            self.product(kernel, launch, given, blocks)
        else:
            extents = [axis.extent for axis in kernel.parallel_axes if not isinstance(axis.extent, Scalar)]
            images = _sizes(kernel, launch.arguments[len(kernel.buffers) :])
            if substitute(product(extents), images) != launch.count:
                self.fail("a launch runs other iterations than its kernel has", launch.buffers[-1])
            outers = given_buffers(kernel.buffers, launch.arguments, given)
            self.kernel(kernel, outers, blocks, images, starts_of(kernel.buffers, launch.arguments))

    def kernel(
        self,
        kernel: Kernel,
        given: Mapping[Buffer, Buffer],
        blocks: tuple[_Blocks, ...],
        images: Mapping[SizeExpr, Size],
        starts: Mapping[Buffer, Size] = MappingProxyType({}),
    ) -> None:
        """Checks the reads of a loop nest, then records its writes. `starts` are where buffers begin in those given."""
        accesses = self.accesses.get(id(kernel))
        if accesses is None:
            accesses = self.accesses[id(kernel)] = KernelAccesses(kernel)
        for buffer in accesses.reads:
            outer = given.get(buffer)
            if outer is not None and outer in self.whole:
                if outer in self.panels and self.is_padded(outer):
                    self.fail("a kernel reads panels of which the last may not be full", outer)
                continue
            if outer is None and (buffer in kernel.buffers or buffer.scope in ("shared", "register")):
                continue  # the product's own tile or panel; what a block shares, whose accesses are checked as it runs
            if accesses.writes_before_reads(buffer):
                continue
            pieces = accesses.read_pieces(buffer)
            if (
                outer is None
                or pieces is None
                or not self.wrote(outer, [_placed(piece, images, starts.get(buffer, 0)) for piece in pieces])
            ):
                self.unwritten(outer or buffer)
        for buffer, store, walks in accesses.stores:
            outer = given.get(buffer)
            if outer is None:
                continue
            if isinstance(store, str):
                self.note(outer, kernel.name, store)
            elif outer not in self.whole:
                piece = Piece.of(store, walks)
                self.write(outer, _placed(piece, images, starts.get(buffer, 0)), blocks, kernel.name)
        for buffer in accesses.written:
            self.finish(given.get(buffer))

    def product(
        self, kernel: GemmKernel, launch: Launch, given: Mapping[Buffer, Buffer], blocks: tuple[_Blocks, ...]
    ) -> None:
        """Checks the operands of a matrix product, then records what it, or its epilogue, writes."""
        arguments = launch.arguments
        for argument, name in zip(arguments[:2], "ab", strict=True):
            buffer = buffer_of(argument)
            if buffer is not None and given.get(buffer, buffer) not in self.whole:
                self.read_matrix(given.get(buffer, buffer), product_piece(kernel, launch, name))
        m, n = arguments[3:5]
        for inner in kernel.attached:
            mine = arguments[inner.first_arg : inner.first_arg + inner.buffers + inner.sizes]
            around = (*_tile_blocks(inner, m, n, launch.count), *blocks) if inner.role == "epilogue" else blocks
            own = given_buffers(inner.kernel.buffers[1:], mine, given)
            self.kernel(inner.kernel, own, around, _sizes(inner.kernel, mine[inner.buffers :], len(inner.args)))
        target = buffer_of(arguments[TASK_ARGS.index("c")])
        if target is not None:
            outer = given.get(target, target)
            piece = None if outer in self.whole else product_piece(kernel, launch, "c")
            if piece is not None:
                self.write(outer, piece, blocks, kernel.name)
                self.finish(outer)
        sums = buffer_of(arguments[TASK_ARGS.index("sums")])
        if sums is not None:
            self.whole.add(sums)  # The product writes its partial sums and counters before it reads them.

    def row_block(self, kernel: RowBlockKernel, launch: Launch) -> None:
        """Checks the launches of a row block, whose scratch memory holds nothing at first."""
        given = kernel.operands_of(launch)
        own = {buffer for buffer, _ in kernel.offsets if self.only is None or buffer in self.only}
        for buffer in own:
            self.whole.discard(buffer)
            self.pieces.pop(buffer, None)
        if kernel.causal_bound is not None:
            flags = given.get(kernel.causal_bound.flags, kernel.causal_bound.flags)
            if flags not in self.whole:
                self.unwritten(flags)
        blocks = tuple([_row_block_loops(loop) for loop in kernel.loops])
        for inner in kernel.launches:
            self.launch(inner, given, blocks)
        for buffer in own:
            self.whole.discard(buffer)

    def read_matrix(self, buffer: Buffer, piece: Piece | None) -> None:
        """Checks the read of a product's operand."""
        if piece is None or not self.wrote(buffer, [piece]):
            self.unwritten(buffer)

    def wrote(self, buffer: Buffer, pieces: Iterable[Piece]) -> bool:
        """Whether launches have written these pieces of a buffer."""
        written = {walked(piece) for piece in self.pieces.get(buffer, ())}
        return bool(written) and all(walked(piece) in written for piece in pieces)

    def write(self, buffer: Buffer, piece: Piece, blocks: tuple[_Blocks, ...], kernel: str) -> None:
        """Records that all blocks write a piece of a buffer."""
        images: dict[SizeExpr, Size] = {}
        for block in blocks:
            extended = block.images(piece)
            if extended is None:
                self.note(buffer, kernel, "it is not known what all blocks of a buffer write together")
                return
            images.update(extended)
        if images:
            totals = [image for image in images.values() if isinstance(image, SizeExpr)]
            piece = piece.over(images, [(axis, axis_size(axis)) for axis in totals])
        self.writers.setdefault(buffer, self.number)
        self.pieces.setdefault(buffer, []).append(piece)

    def finish(self, buffer: Buffer | None) -> None:
        """Marks a buffer as whole if all its elements are written by now."""
        if buffer is None or buffer in self.whole or buffer not in self.pieces:
            return
        type_ = buffer.type
        repeated = product([size for size, stride in zip(type_.shape, type_.strides, strict=True) if stride == 0])
        if covers(self.pieces[buffer], self.runs_of(buffer), self.panels.get(buffer, 0), repeated):
            self.whole.add(buffer)

    def is_padded(self, buffer: Buffer) -> bool:
        """Whether the last panel of a buffer may be padded."""
        return not covers(self.pieces.get(buffer, ()), self.runs_of(buffer))

    def runs_of(self, buffer: Buffer) -> tuple[Run, ...]:
        """The elements of a buffer, as kernels address them."""
        runs = self.runs.get(buffer)
        if runs is None:
            runs = self.runs[buffer] = runs_of(buffer.type, buffer.type.dtype.is_complex)
        return runs

    def note(self, buffer: Buffer, kernel: str, reason: str) -> None:
        """Records an undecided write."""
        filled = buffer in self.whole
        if not filled and self.strict:
            self.fail(f"{reason}, and it was not filled before", buffer)
        launch = self.writers.setdefault(buffer, self.number)
        self.undecided.append(Undecided(buffer, launch, kernel, reason, filled))
        if not filled:
            self.open.add(buffer)

    def unwritten(self, buffer: Buffer, where: str = "a buffer is read that is") -> None:
        """Handles a read of elements that may not be written: an error if none of the buffer is."""
        if buffer in self.open or _is_empty(buffer):
            return
        if buffer not in self.pieces:
            self.fail(f"{where} not written before", buffer)
        self.note(buffer, "", f"{where} written in part, as far as is known")

    def fail(self, message: str, buffer: Buffer) -> None:
        """Raises C015."""
        broken(f"launch {self.number}", message, buffer=buffer.name)


def _is_empty(buffer: Buffer) -> bool:
    return product(buffer.type.shape) == 0


def _sizes(kernel: Kernel, arguments: Iterable[Any], first: int = 0) -> dict[SizeExpr, Size]:
    """The values that a launch passes for sizes of a kernel, unless they are the sizes themselves."""
    passed = zip(kernel.sizes[first:], arguments, strict=False)
    return {size: argument for size, argument in passed if size is not argument}


def _placed(piece: Piece, images: Mapping[SizeExpr, Size], start: Size) -> Piece:
    """A kernel's piece of a buffer as one of the buffer that a launch passes."""
    piece = piece.over(images) if images else piece
    return piece if start == 0 else replace(piece, offset=piece.offset + start)


def _tile_blocks(inner: Attached, m: Any, n: Any, batches: Size) -> tuple[_Blocks, ...]:
    """The blocks that an epilogue's tiles form: rows, columns and batches of the product."""
    sizes = dict(zip(TILE_ARGS, inner.kernel.sizes, strict=False))
    return (
        _Blocks(sizes["row"], sizes["rows"], axis_symbol(m, "m")),
        _Blocks(sizes["column"], sizes["columns"], axis_symbol(n, "n")),
        _Blocks(sizes["batch"], None, axis_symbol(batches, "batch")),
    )


def _row_block_loops(loop: RowBlockLoop) -> _Blocks:
    """The blocks of a loop over row blocks; a step of one row has no length."""
    return _Blocks(loop.start, None if loop.step == 1 else loop.length, axis_symbol(loop.extent, "all"))


def _verify_lifetimes(plan: Plan) -> None:
    """Checks that arena values with overlapping lifetimes lie apart, for all sizes. Errors: C015.

    Two such values in one memory lie apart if the slot of one begins after the end of the other's. Values that lie in
    an output must not be used once the output is. `_overlaps_in_scratch` checks the values of row blocks.
    """
    first: dict[Buffer, int] = {}
    last: dict[Buffer, int] = {}
    for step, launch in enumerate(plan.launches):
        for buffer in launch.buffers:
            first.setdefault(buffer, step)
            last[buffer] = step
    last.update(dict.fromkeys(plan.asserted, len(plan.launches)))
    below: list[int] = []
    living: dict[Buffer | None, list[int]] = {}
    starts = sorted([(first[slot.buffer], number) for number, slot in enumerate(plan.slots) if slot.buffer in first])
    for slot in plan.slots:
        if slot.size_bytes != product(slot.buffer.type.shape) * slot.buffer.type.dtype.itemsize:
            broken("arena", "a value's place has another size than the value", value=slot.buffer.name)
        mask = 0
        for index in slot.after:
            mask |= below[index] | 1 << index
        below.append(mask)
    for step, number in starts:
        slot = plan.slots[number]
        if slot.within is not None and first.get(slot.within, step) <= last[slot.buffer]:
            broken("arena", "a value lies in an output that is in use", value=slot.buffer, output=slot.within)
        others = [other for other in living.get(slot.within, ()) if last[plan.slots[other].buffer] >= step]
        for other in others:
            if not (below[number] >> other & 1 or below[other] >> number & 1):
                names = {"one": slot.buffer.name, "other": plan.slots[other].buffer.name}
                broken("arena", "two values that are needed at once share memory", **names)
        living[slot.within] = [*others, number]


def _overlaps_in_scratch(plan: Plan, strict: bool) -> list[Undecided]:
    """The values of row blocks that may overlap in scratch memory. Errors: C015 if `strict`."""
    undecided: list[Undecided] = []
    for kernel in plan.kernels:
        for buffer, reason in _row_block_overlaps(kernel) if isinstance(kernel, RowBlockKernel) else ():
            if strict:
                broken(kernel.name, reason, value=buffer.name)
            undecided.append(Undecided(buffer, 0, kernel.name, reason, filled=False))
    return undecided


def _row_block_overlaps(kernel: RowBlockKernel) -> Iterator[tuple[Buffer, str]]:
    """The values of a row block that may overlap at its largest sizes, and the reasons."""
    spans: dict[Buffer, tuple[int, int]] = {}
    for step, launch in enumerate(kernel.launches):
        for buffer in launch.buffers:
            spans[buffer] = (spans.get(buffer, (step, step))[0], step)
    most = {loop.length: loop.step for loop in kernel.loops}
    if kernel.causal_bound is not None:
        most[kernel.causal_bound.symbol] = kernel.causal_bound.far
    ends = {
        buffer: start
        + ceildiv(substitute(product(buffer.type.shape), most) * buffer.type.dtype.itemsize, ALIGNMENT) * ALIGNMENT
        for buffer, start in kernel.offsets
    }
    offsets = [(buffer, start) for buffer, start in kernel.offsets if buffer in spans]
    for number, (buffer, start) in enumerate(offsets):
        if not statically_known(le(ends[buffer], kernel.slot_bytes)):
            yield buffer, "a value of a row block reaches beyond its scratch memory"
        for other, other_start in offsets[:number]:
            (begin, end), (other_begin, other_end) = spans[buffer], spans[other]
            apart = statically_known(le(ends[other], start)) or statically_known(le(ends[buffer], other_start))
            if begin <= other_end and other_begin <= end and not apart:
                yield buffer, f"two values that are needed at once share memory: {other.name} too"
