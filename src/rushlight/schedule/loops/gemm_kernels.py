"""The launches of a matrix product: packing, a prologue that writes `b`, the product, an epilogue.

Packing is an ordinary kernel whose body is the operand's own expression, so casts, views, padding and any producer that
was folded into the operand cost nothing extra. A `b` that is not a matrix in memory is written by such a kernel too, a
prologue, but panel by panel inside the product: a convolution is a product whose prologue reads shifted pixels.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Mapping, Sequence
from dataclasses import replace

from rushlight.ir.choice import Product, ScheduleTarget
from rushlight.ir.gemm_tile import BLOCK, MADE_AROUND, Format, GemmTile, choose_tile
from rushlight.ir.kernel import PANEL_ARGS, TILE_ARGS, Axis, AxisKind, GemmKernel, Kernel, Loop, Store
from rushlight.ir.loops import Index
from rushlight.ir.plan import Address
from rushlight.ir.scalar import OPS, Buffer, Scalar, index, load
from rushlight.ir.type import TensorType
from rushlight.schedule.fuse.fusion import Group
from rushlight.schedule.gemm.matrices import Matrices, count, made_format, matrices, plain_load
from rushlight.schedule.gemm.recognition import GemmShape
from rushlight.schedule.loops.blocks import Walk
from rushlight.schedule.loops.kernels import Step, build_kernel, finish_kernel, span_loops
from rushlight.schedule.loops.nest import LoopNest, NestStore, linearise, open_group
from rushlight.schedule.loops.phases import asked_divisor
from rushlight.schedule.loops.tiles import in_blocks
from rushlight.schedule.loops.unroll import settled
from rushlight.schedule.lower.constants import is_constant
from rushlight.schedule.lower.rewrite import Substitution, at_position, flat_position, fresh_axes, rebuild, step_along
from rushlight.sym import (
    Size,
    SizeExpr,
    axis_size,
    axis_symbol,
    ceildiv,
    floordiv,
    gt,
    le,
    maximum,
    minimum,
    product,
    size_of_code,
    statically_known,
    substitute,
)
from rushlight.term import substitute as replace_terms

TILE_HINT = 128
# Each macro tile of rows writes the panels of `b` again. With more rows than this, `b` is packed once, which takes
# memory.
MANY_ROWS = 1536
# Split-K pays if k is this many times as long as m and as n, and if there are at most this many results.
PARTS_FROM = 32
MOST_RESULTS_IN_PARTS = 1 << 14


def build_gemm(
    group: Group, target: ScheduleTarget, aliases: Mapping[Buffer, Buffer], number: int, *, walk: Walk, shared: bool
) -> Iterator[Step]:
    """The launches of a group led by a matrix product: threads share them if `shared`, else one runs them.

    `walk` says how large macro tiles are; the tile is chosen before.
    """
    shape = group.gemm
    assert shape is not None
    node = group.nodes[0]
    assert node.contraction is not None
    name = f"k{number}"
    a_term, b_term = (_linear(term, aliases) for term in (shape.a, shape.b))
    stored = _stored_product(group, shape, aliases)
    dtype = node.contraction.operands[0].type
    widens = dtype is not node.contraction.type
    # Constant operands are packed once; then a product streams them, however few rows it has.
    a_once = not widens and is_constant(a_term, (*shape.batch, *shape.rows, *shape.inner))
    b_once = not widens and is_constant(b_term, (*shape.batch, *shape.inner, *shape.columns))
    split, a, b, c = _place_operands(shape, None if a_once else a_term, None if b_once else b_term, stored)
    if widens:
        a = a or (yield from _store_matrix(a_term, shape, split, f"{name}_a"))
    rows = count(shape.rows)
    many_rows = isinstance(rows, int) and rows > MANY_ROWS
    is_made = b is None and (widens or not (many_rows or b_once))
    tile = choose_tile(
        dtype.name,
        target.vector_bytes,
        a_format=_packed_format(a_term, shape, a_once) if a is None else a.format,
        a_packed=a is None,
        b_packed=b is None and not is_made,
        b_format=b.format if b is not None else made_format(b_term, shape.inner, shape.columns) if is_made else "row",
        b_made=is_made,
        rows=rows if isinstance(rows, int) else 0,
    )
    sizes = (count(shape.batch), count(shape.rows), count(shape.columns), count(shape.inner))
    tile = walk.macro_tile(target.choose(Product(tile, sizes, c is None)), sizes[1], sizes[2])
    a = a or (yield from _pack_a(a_term, shape, tile, split, name))
    prologue = _prologue(b_term, shape, tile, name) if is_made else None
    if b is None and prologue is None:
        b = yield from _pack_b(b_term, shape, tile, split, name)
    epilogue = _epilogue(group, shape, aliases, name) if c is None else None
    room = _room_for_sums(tile, sizes) if shared and target.splits else None
    sums = None if room is None else Buffer(f"{name}_sums", TensorType(room, node.contraction.type), "arena")
    kernel = GemmKernel(name, tile, epilogue, prologue, split_k=sums is not None)
    yield _product(kernel, shape, (a, b, c), split, sums)


def _place_operands(
    shape: GemmShape, a_term: Scalar | None, b_term: Scalar | None, stored: tuple[Buffer, Size] | None
) -> tuple[int, Matrices | None, Matrices | None, Matrices | None]:
    """How A, B and C lie in memory as batches of matrices, and the number of outer batch axes.

    None stands for an operand that must be packed; terms that are None are packed too. A batch has two strides, of the
    outer axes walked as one and of the inner axes; they are split where most operands fit.
    """
    best: tuple[int, Matrices | None, Matrices | None, Matrices | None] = (0, None, None, None)
    for cut in range(len(shape.batch) + 1):
        batch = (shape.batch[:cut], shape.batch[cut:])
        a = None if a_term is None else plain_load(a_term, batch, shape.rows, shape.inner)
        b = None if b_term is None else plain_load(b_term, batch, shape.inner, shape.columns)
        c = None if stored is None else matrices(*stored, batch, shape.rows, shape.columns)
        placement = (cut, a, b, None if c is None or c.format != "row" else c)
        if cut == 0 or sum(operand is not None for operand in placement[1:]) > sum(
            operand is not None for operand in best[1:]
        ):
            best = placement
    return best


def _stored_product(group: Group, shape: GemmShape, aliases: Mapping[Buffer, Buffer]) -> tuple[Buffer, Size] | None:
    """The buffer and offset of the product, if the group stores nothing but the plain product."""
    node = group.nodes[0]
    if len(group.nodes) > 1 or node.contraction is not node.body:
        return None
    return aliases.get(node.buffer, node.buffer), substitute(node.offset(), dict(shape.parted))


def _packed_format(term: Scalar, shape: GemmShape, once: bool) -> Format:
    """The format of a packed `a`: by columns if it is packed in one piece, or only once.

    Then the last few columns of `c` cost less.
    """
    if once:
        return "column"
    return "column" if shape.rows and _unit_step(term, shape.rows) and not _unit_step(term, shape.inner) else "row"


def _linear(term: Scalar, aliases: Mapping[Buffer, Buffer]) -> Scalar:
    nest = LoopNest((), [NestStore((), Buffer("none", TensorType((), term.type)), index(0), term)])
    linearise(nest, aliases)
    return nest.stores[0].value


def _unit_step(term: Scalar, axes: Sequence[SizeExpr]) -> bool:
    """Whether an operand is one load that has stride 1 along the last of some axes."""
    while term.op is OPS["cast"]:
        term = term.operands[0]
    return term.op is OPS["load"] and step_along(term.operands[0], axes[-1]) == 1


def _flat_batch(shape: GemmShape) -> tuple[Size, Size]:
    """The batch axes as one index, and the number of its values."""
    return flat_position(shape.batch, {}), count(shape.batch)


def _packed(buffer: Buffer, leading: Size, storage: Size, shape: GemmShape, split: int) -> Matrices:
    return Matrices(buffer, 0, leading, storage * count(shape.batch[split:]), storage)


def _pack_a(term: Scalar, shape: GemmShape, tile: GemmTile, split: int, name: str) -> Generator[Step, None, Matrices]:
    m, k = (count(axes) for axes in (shape.rows, shape.inner))
    batch = fresh_axes(shape.batch, "b")
    flat, batches = _flat_batch(shape)
    if tile.a_format == "row":
        span = in_blocks(k, BLOCK, "k")
        rows = fresh_axes(shape.rows, "m")
        m_at = flat_position(shape.rows, rows)
        outer = (*batch.values(), span.block, *rows.values())
        images = {**at_position(span.position, shape.inner), **rows}
        storage = ceildiv(k, BLOCK) * BLOCK * m
        offset = BLOCK * m_at + span.position + BLOCK * (m - 1) * span.block
    else:
        span = in_blocks(m, tile.mr, "m")
        k_images, k_axes, k_at = _walk(shape.inner)
        outer = (*batch.values(), span.block, *k_axes)
        images = {**at_position(span.position, shape.rows), **k_images}
        storage = ceildiv(m, tile.mr) * tile.mr * k
        offset = span.block * tile.mr * (k - 1) + k_at * tile.mr + span.position
    packed = Buffer(f"{name}_a", TensorType((batches, storage), term.type), "arena")
    yield _pack_step(
        term,
        {**images, **batch},
        packed,
        outer,
        span.within,
        offset + substitute(flat, batch) * storage,
        f"{name}_pack_a",
    )
    return _packed(packed, m, storage, shape, split)


def _store_matrix(term: Scalar, shape: GemmShape, split: int, name: str) -> Generator[Step, None, Matrices]:
    """Writes `a` as a batch of plain matrices, contiguous along the axis along which it is read."""
    by_columns = bool(shape.rows) and _unit_step(term, shape.rows) and not _unit_step(term, shape.inner)
    outer, inner = (shape.inner, shape.rows) if by_columns else (shape.rows, shape.inner)
    batch, far, near = fresh_axes(shape.batch, "b"), fresh_axes(outer, "i"), fresh_axes(inner, "j")
    images = {**batch, **far, **near}
    position = flat_position((*shape.batch, *outer, *inner), images)
    storage = count(shape.rows) * count(shape.inner)
    buffer = Buffer(name, TensorType((count(shape.batch), storage), term.type), "arena")
    axes = tuple(images.values())
    yield _pack_step(term, images, buffer, axes[:-1], axes[-1], position, f"{name}_store")
    matrix = _packed(buffer, count(inner), storage, shape, split)
    return replace(matrix, format="column") if by_columns else matrix


def _walk(axes: Sequence[SizeExpr]) -> tuple[dict[SizeExpr, SizeExpr], tuple[SizeExpr, ...], Size]:
    images = fresh_axes(axes, "k")
    return images, tuple(images.values()), flat_position(axes, images)


def _pack_b(term: Scalar, shape: GemmShape, tile: GemmTile, split: int, name: str) -> Generator[Step, None, Matrices]:
    n, k = (count(axes) for axes in (shape.columns, shape.inner))
    batch = fresh_axes(shape.batch, "b")
    flat, batches = _flat_batch(shape)
    span = in_blocks(n, tile.nr, "n")
    images = at_position(span.position, shape.columns)
    k_images, k_axes, k_at = _walk(shape.inner)
    storage = ceildiv(n, tile.nr) * tile.nr * k
    offset = span.block * tile.nr * (k - 1) + k_at * tile.nr + span.position
    packed = Buffer(f"{name}_b", TensorType((batches, storage), term.type), "arena")
    offset = offset + substitute(flat, batch) * storage
    outer = (*batch.values(), span.block, *k_axes)
    yield _pack_step(term, {**images, **k_images, **batch}, packed, outer, span.within, offset, f"{name}_pack_b")
    return _packed(packed, n, storage, shape, split)


def _pack_step(
    term: Scalar,
    images: Mapping[SizeExpr, Index],
    packed: Buffer,
    outer: tuple[Size, ...],
    within: SizeExpr,
    offset: Size,
    name: str,
) -> Step:
    value = Substitution(images)(term)
    axes = [axis for axis in outer if isinstance(axis, SizeExpr)]
    single: dict[SizeExpr, Index] = {axis: 0 for axis in axes if axis_size(axis) == 1}
    nest = LoopNest(
        tuple([axis for axis in axes if axis not in single]), [NestStore((within,), packed, index(offset), value)]
    )
    if single:
        nest.map(Substitution(single))
    return replace(build_kernel(nest, name), once=is_constant(term, images))


def _room_for_sums(tile: GemmTile, sizes: tuple[Size, Size, Size, Size]) -> tuple[Size, Size] | None:
    """The shape of scratch memory for split-K, counters and partial sums; None if split-K does not pay."""
    batches, m, n, k = sizes
    results = product((batches, m, n))
    longest = [statically_known(le(k, PARTS_FROM * side)) for side in (m, n)]
    if not tile.has_parts or any(longest) or statically_known(gt(results, MOST_RESULTS_IN_PARTS)):
        return None
    is_long = minimum(1, floordiv(k, PARTS_FROM * maximum(1, maximum(m, n))))
    are_few = minimum(1, floordiv(MOST_RESULTS_IN_PARTS, maximum(1, results)))
    return 1 + ceildiv(k, tile.kc), is_long * are_few * results


def _product(
    kernel: GemmKernel,
    shape: GemmShape,
    operands: tuple[Matrices, Matrices | None, Matrices | None],
    split: int,
    sums: Buffer | None,
) -> Step:
    a, b, c = operands
    m, n, k, batches = (count(axes) for axes in (shape.rows, shape.columns, shape.inner, shape.batch))
    chosen = (0, 0, 0, 0)  # when the product runs
    words: list[Buffer | Address | Size] = [
        *(a.address, 0 if b is None else b.address, 0 if c is None else c.address),
        *(m, n, k, a.leading, 0 if b is None else b.leading, 0 if c is None else c.leading),
        *(a.outer, 0 if b is None else b.outer, 0 if c is None else c.outer, count(shape.batch[split:])),
        *(a.inner, 0 if b is None else b.inner, 0 if c is None else c.inner),
        *((0, 0) if sums is None else (sums, sums.type.shape[1])),
        *chosen,
    ]
    for inner in kernel.attached:
        words += [*inner.kernel.buffers[1:], *inner.kernel.sizes[len(inner.args) :]]
    return Step(kernel, tuple(words), batches, m * n * k)


def _prologue(term: Scalar, shape: GemmShape, tile: GemmTile, name: str) -> Kernel:
    """The kernel that writes a panel of `b`, by rows or columns: contiguous elements fill the vectors."""
    panel = Buffer(f"{name}_panel", TensorType((0,), term.type), "local")
    first = _given(PANEL_ARGS)
    batch, step, column, steps, columns = first
    start = floordiv(step, BLOCK) * BLOCK  # the same, and quotients of steps are known to begin with it
    spans = ((shape.columns, column, columns), (shape.inner, start if tile.b_format == "column" else step, steps))
    (near, near_at, near_count), (far, far_at, far_count) = spans if tile.b_format == "row" else spans[::-1]
    within = axis_symbol(minimum(near_count, tile.made_ld), "i")
    counted, far_axes, position = _walk_in_runs(far, term) if tile.b_format == "row" else _walk(far)
    images = {**_at_positions(((shape.batch, batch), (near, near_at + within))), **counted}
    offset = index((position - far_at) * tile.made_ld + within)
    store = NestStore((within, *far_axes), panel, offset, Substitution(images)(term))
    far_axes, turns, width = _written_out(far_axes) if tile.b_format == "row" else (far_axes, ({},), 1)
    span = floordiv(far_at, width), ceildiv(far_at + far_count, width)
    places = [Substitution(turn) for turn in turns]
    stores = [NestStore((within, *far_axes), panel, at(store.offset), settled(at(store.value))) for at in places]
    nest = LoopNest((), stores)
    rows = span_loops(far_axes, *span, tuple([Store(panel, turn.offset, turn.value) for turn in nest.stores]), width)
    body = (Loop(Axis(within, axis_size(within), AxisKind.VECTOR), rows),)
    return _attached(finish_kernel(nest, f"{name}_prologue", (), body, 1), panel, first)


def _walk_in_runs(axes: Sequence[SizeExpr], term: Scalar) -> tuple[Mapping[SizeExpr, Size], tuple[SizeExpr, ...], Size]:
    """A walk whose last axis is two if conditions choose by its remainders: between halves of a byte."""
    images, walked, position = _walk(axes)
    divisor = asked_divisor(term, axes[-1]) if axes else None
    if divisor is None:
        return images, walked, position
    run, place = axis_symbol(floordiv(axis_size(axes[-1]), divisor), "run"), axis_symbol(divisor, "place")
    parted = {**images, axes[-1]: run * divisor + place}
    return parted, (*walked[:-1], run, place), flat_position(axes, parted)


def _written_out(
    axes: tuple[SizeExpr, ...],
) -> tuple[tuple[SizeExpr, ...], tuple[dict[SizeExpr, int], ...], int]:
    """The axes without a short last one, the images of that one for each of its places, and their number.

    What does not depend on the others, as conditions on a window's columns, is then computed once for a vector. Steps
    are made in whole runs of the short axis, up to `MADE_AROUND` more of them than are asked for.
    """
    size = axis_size(axes[-1]) if axes else 1
    if not isinstance(size, int) or not 1 < size <= MADE_AROUND:
        return axes, ({},), 1
    return axes[:-1], tuple([{axes[-1]: position} for position in range(size)]), size


def _epilogue(group: Group, shape: GemmShape, aliases: Mapping[Buffer, Buffer], name: str) -> Kernel:
    """The kernel that stores the group's values over the rows and columns of one tile."""
    node = group.nodes[0]
    assert node.contraction is not None
    tile = Buffer(f"{name}_tile", TensorType((0,), node.contraction.type), "local")
    first = _given(TILE_ARGS)
    leading, batch, row, column, rows, columns = first
    m_in, n_in = axis_symbol(rows, "m"), axis_symbol(columns, "n")
    product_load = load(tile, m_in * leading + n_in)
    (body,) = replace_terms([node.body], {node.contraction: product_load}, rebuild)
    led = Group(group.number, (replace(node, body=body), *group.nodes[1:]), None)
    nest = open_group(led, aliases, frozenset({tile}))
    new = dict(zip(node.axes, nest.outer, strict=True))
    positions = ((shape.batch, batch), (shape.rows, row + m_in), (shape.columns, column + n_in))
    images = _at_positions([([new.get(axis, axis) for axis in axes], at) for axes, at in positions])
    parted = {new[axis]: substitute(image, images) for axis, image in shape.parted}
    nest.map(Substitution({**images, **parted}))
    nest.outer = (m_in,)
    for store in nest.stores:
        store.inner = (n_in,)
    return _attached(build_kernel(nest, f"{name}_epilogue"), tile, first)


def _given(words: Sequence[str]) -> tuple[SizeExpr, ...]:
    """The sizes that a product passes to an attached kernel."""
    return tuple([size_of_code(text, TILE_HINT) for text in words])


def _at_positions(positions: Sequence[tuple[Sequence[SizeExpr], Size]]) -> dict[SizeExpr, Size]:
    """The images of several axes from their flat positions."""
    images: dict[SizeExpr, Size] = {}
    for axes, position in positions:
        if axes:
            images.update(at_position(position, axes))
    return images


def _attached(step: Step, memory: Buffer, first: tuple[SizeExpr, ...]) -> Kernel:
    """Returns a step's kernel with the product's memory as first buffer and the `first` sizes in front."""
    built = step.kernel
    assert isinstance(built, Kernel)
    sizes = (*first, *[symbol for symbol in built.sizes if symbol not in first])
    buffers = (memory, *[buffer for buffer in built.buffers if buffer is not memory])
    return Kernel(built.name, buffers, sizes, built.body)
