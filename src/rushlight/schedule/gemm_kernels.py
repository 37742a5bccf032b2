"""The GEMM template's launches: packing, the product, and an epilogue on each finished tile.

Packing is an ordinary kernel whose body is the operand's own expression, so casts, views, padding and any producer that was
folded into the operand cost nothing of their own: a convolution is a product whose packing reads shifted pixels.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from rushlight.ir.gemm_tile import Format, GemmTile, choose_tile
from rushlight.ir.kernel import GemmKernel, Kernel
from rushlight.ir.loops import Index
from rushlight.ir.scalar import OPS, Buffer, Scalar, index, load
from rushlight.ir.type import TensorType
from rushlight.schedule.fuse import Group
from rushlight.schedule.gemm import GemmShape
from rushlight.schedule.kernels import Item, Nest, Step, build_kernel, linearise, open_group
from rushlight.schedule.terms import Substitution, as_size, rebuild
from rushlight.sym import (
    Scope,
    Size,
    SizeExpr,
    axis_size,
    axis_symbol,
    ceildiv,
    coefficient,
    floordiv,
    minimum,
    mod,
    product,
    substitute,
)
from rushlight.term import substitute as replace_terms

BLOCK = 256  # of the reduction; the packed formats are made of such blocks
EPILOGUE_WORDS = ("tile_ld", "batch", "row", "column", "rows", "columns")  # what the task tells an epilogue of its tile
TILE_HINT = 128


@dataclass(frozen=True, slots=True)
class _Operand:
    """A packed or direct operand: its buffer, leading dim and batch stride."""

    buffer: Buffer
    leading: Size
    batch_stride: Size
    format: Format = "row"


def build_gemm(group: Group, vector_bytes: int, placed: Mapping[Buffer, Buffer], number: int) -> Iterator[Step]:
    """The launches of a group led by a matrix product."""
    shape = group.gemm
    assert shape is not None
    node = group.nodes[0]
    assert node.contraction is not None
    m, n, k = (product([axis_size(axis) for axis in axes]) for axes in (shape.rows, shape.columns, shape.inner))
    a_term, b_term = (_linear(term, placed) for term in (shape.a, shape.b))
    plain_a = _plain(a_term, shape.batch, shape.rows, shape.inner)
    plain_b = _plain(b_term, shape.batch, shape.inner, shape.columns)
    tile = choose_tile(
        node.contraction.type.name,
        vector_bytes,
        a_format=_packed_format(a_term, shape) if plain_a is None else plain_a.format,
        a_packed=plain_a is None,
        b_packed=plain_b is None,
        b_format="row" if plain_b is None else plain_b.format,
        scratch=_direct_result(group, shape, placed) is None,
    )
    name = f"k{number}"
    a = plain_a or (yield from _pack_a(a_term, shape, tile, name))
    b = plain_b or (yield from _pack_b(b_term, shape, tile, name))
    yield from _product(group, shape, tile, (a, b), (m, n, k), placed, name)


def _plain(
    term: Scalar, batch: Sequence[SizeExpr], first: Sequence[SizeExpr], second: Sequence[SizeExpr]
) -> _Operand | None:
    """An operand that lies in memory as a batch of matrices with unit stride in one direction; the core takes it as it is."""
    offset = as_size(term.operands[0]) if term.op is OPS["load"] else None
    if offset is None or substitute(offset, dict.fromkeys((*batch, *first, *second), 0)) != 0:
        return None
    batch_step, first_step, second_step = (_joint_step(offset, axes) for axes in (batch, first, second))
    if batch_step is None or first_step is None or second_step is None or 1 not in (first_step, second_step):
        return None
    buffer: Buffer = term.attr("buffer")
    if second_step == 1:
        return _Operand(buffer, first_step, batch_step, "row")
    return _Operand(buffer, second_step, batch_step, "column")


def _packed_format(term: Scalar, shape: GemmShape) -> Format:
    return "column" if _unit_step(term, shape.rows) and not _unit_step(term, shape.inner) else "row"


def _linear(term: Scalar, placed: Mapping[Buffer, Buffer]) -> Scalar:
    nest = Nest((), [Item((), Buffer("none", TensorType((), term.type)), index(0), term)])
    linearise(nest, placed)
    return nest.items[0].value


def _unit_step(term: Scalar, axes: Sequence[SizeExpr]) -> bool:
    """Whether an operand is one load that walks the last of some axes with step 1."""
    while term.op is OPS["cast"]:
        term = term.operands[0]
    offset = as_size(term.operands[0]) if term.op is OPS["load"] else None
    return isinstance(offset, SizeExpr) and coefficient(offset, axes[-1]) == 1


def _flat_batch(shape: GemmShape) -> tuple[Size, Size]:
    """The batch axes as one index, and their number of values."""
    position: Size = 0
    for axis in shape.batch:
        position = position * axis_size(axis) + axis
    return position, product([axis_size(axis) for axis in shape.batch])


def _split(axes: Sequence[SizeExpr], width: int, name: str) -> tuple[dict[SizeExpr, Index], Size, SizeExpr, Size]:
    """Runs several axes as blocks of `width`: images of the axes, the block axis, the axis within, the flat position."""
    sizes = [axis_size(axis) for axis in axes]
    count = product(sizes)
    blocks = ceildiv(count, width)
    block = 0 if blocks == 1 else axis_symbol(blocks, f"{name}_block")
    within = axis_symbol(minimum(width, count - block * width), name)
    position = block * width + within
    return _delinearise(position, axes, sizes), block, within, position


def _delinearise(position: Size, axes: Sequence[SizeExpr], sizes: Sequence[Size]) -> dict[SizeExpr, Index]:
    images: dict[SizeExpr, Index] = {}
    for axis, size in list(zip(axes, sizes, strict=True))[:0:-1]:
        images[axis] = mod(position, size)
        position = floordiv(position, size)
    images[axes[0]] = position
    return images


def _fresh(axes: Sequence[SizeExpr], name: str) -> dict[SizeExpr, SizeExpr]:
    return {axis: axis_symbol(axis_size(axis), f"{name}{place}") for place, axis in enumerate(axes)}


def _pack_a(term: Scalar, shape: GemmShape, tile: GemmTile, name: str) -> Iterator[Step]:
    m, k = (product([axis_size(axis) for axis in axes]) for axes in (shape.rows, shape.inner))
    batch = _fresh(shape.batch, "b")
    flat, batches = _flat_batch(shape)
    if tile.a_format == "row":
        images, block, within, k_at = _split(shape.inner, BLOCK, "k")
        rows = _fresh(shape.rows, "m")
        m_at: Size = 0
        for axis in shape.rows:
            m_at = m_at * axis_size(axis) + rows[axis]
        outer = (*batch.values(), block, *rows.values())
        images = {**images, **rows}
        storage = ceildiv(k, BLOCK) * BLOCK * m
        offset = BLOCK * m_at + k_at + BLOCK * (m - 1) * block
    else:
        images, block, within, m_at = _split(shape.rows, tile.mr, "m")
        k_images, k_axes, k_at = _walk(shape.inner)
        outer = (*batch.values(), block, *k_axes)
        images = {**images, **k_images}
        storage = ceildiv(m, tile.mr) * tile.mr * k
        offset = block * tile.mr * (k - 1) + k_at * tile.mr + m_at
    packed = Buffer(f"{name}_a", TensorType((batches, storage), term.type), "arena")
    yield _pack_step(term, {**images, **batch}, packed, outer, within, offset + substitute(flat, batch) * storage, f"{name}_pack_a")
    return _Operand(packed, m, storage if shape.batch else 0)


def _walk(axes: Sequence[SizeExpr]) -> tuple[dict[SizeExpr, SizeExpr], tuple[SizeExpr, ...], Size]:
    images = _fresh(axes, "k")
    position: Size = 0
    for axis in axes:
        position = position * axis_size(axis) + images[axis]
    return images, tuple(images.values()), position


def _pack_b(term: Scalar, shape: GemmShape, tile: GemmTile, name: str) -> Iterator[Step]:
    n, k = (product([axis_size(axis) for axis in axes]) for axes in (shape.columns, shape.inner))
    batch = _fresh(shape.batch, "b")
    flat, batches = _flat_batch(shape)
    images, block, within, n_at = _split(shape.columns, tile.nr, "n")
    k_images, k_axes, k_at = _walk(shape.inner)
    storage = ceildiv(n, tile.nr) * tile.nr * k
    offset = block * tile.nr * (k - 1) + k_at * tile.nr + n_at
    packed = Buffer(f"{name}_b", TensorType((batches, storage), term.type), "arena")
    offset = offset + substitute(flat, batch) * storage
    outer = (*batch.values(), block, *k_axes)
    yield _pack_step(term, {**images, **k_images, **batch}, packed, outer, within, offset, f"{name}_pack_b")
    return _Operand(packed, n, storage if shape.batch else 0)


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
    nest = Nest(tuple([axis for axis in axes if axis not in single]), [Item((within,), packed, index(offset), value)])
    if single:
        nest.map(Substitution(single))
    return build_kernel(nest, name)


def _product(
    group: Group,
    shape: GemmShape,
    tile: GemmTile,
    operands: tuple[_Operand, _Operand],
    extents: tuple[Size, Size, Size],
    placed: Mapping[Buffer, Buffer],
    name: str,
) -> Iterator[Step]:
    (a, b), (m, n, k) = operands, extents
    batches = product([axis_size(axis) for axis in shape.batch])
    direct = _direct_result(group, shape, placed)
    c, leading, batch_stride = (0, 0, 0) if direct is None else direct
    tile_words = (0, 0)  # chosen when the product runs
    words = (a.buffer, b.buffer, c, m, n, k, a.leading, b.leading, leading, a.batch_stride, b.batch_stride, batch_stride, *tile_words)
    epilogue = _epilogue(group, shape, placed, name) if direct is None else None
    if epilogue is not None:
        words = (*words, *epilogue.buffers[1:], *epilogue.sizes[len(EPILOGUE_WORDS) :])
    yield Step(GemmKernel(name, tile, epilogue), words, batches, m * n * k)


def _direct_result(group: Group, shape: GemmShape, placed: Mapping[Buffer, Buffer]) -> tuple[Buffer, Size, Size] | None:
    """Where the product can be written straight to its buffer: that buffer, its row stride and its batch stride."""
    node = group.nodes[0]
    if len(group.nodes) > 1 or node.contraction is not node.body:
        return None
    nest = open_group(group, placed)
    item = nest.items[0]
    offset = as_size(item.offset)
    assert offset is not None
    order = {axis: nest.outer[node.axes.index(axis)] for axis in (*shape.batch, *shape.rows, *shape.columns)}
    strides: list[Size] = []
    for axes, last in ((shape.batch, None), (shape.rows, None), (shape.columns, 1)):
        step = _joint_step(offset, [order[axis] for axis in axes])
        if step is None or (last is not None and step != last):
            return None
        strides.append(step)
    flat = substitute(offset, dict.fromkeys(nest.outer, 0))
    return None if flat != 0 else (item.buffer, strides[1], strides[0])


def _joint_step(offset: Size, axes: Sequence[SizeExpr]) -> Size | None:
    """The step of several axes walked as one, row-major; None when they do not lie so."""
    step: Size = 0
    expected: Size | None = None
    for axis in reversed(axes):
        mine = coefficient(offset, axis) if isinstance(offset, SizeExpr) else 0
        if mine is None or (expected is not None and mine != expected):
            return None
        if expected is None:
            step = mine
        expected = mine * axis_size(axis)
    return step


def _epilogue(group: Group, shape: GemmShape, placed: Mapping[Buffer, Buffer], name: str) -> Kernel:
    """The group's stores over the rows and columns of one tile."""
    node = group.nodes[0]
    assert node.contraction is not None
    tile = Buffer(f"{name}_tile", TensorType((0,), node.contraction.type), "local")
    first = tuple([Scope().symbol(text, optimization_hint=TILE_HINT) for text in EPILOGUE_WORDS])
    leading, batch, row, column, rows, columns = first
    m_in, n_in = axis_symbol(rows, "m"), axis_symbol(columns, "n")
    product_load = load(tile, m_in * leading + n_in)
    (body,) = replace_terms([node.body], {node.contraction: product_load}, rebuild)
    led = Group(group.number, [replace(node, body=body), *group.nodes[1:]], None)
    nest = open_group(led, placed, frozenset({tile}))
    images: dict[SizeExpr, Index] = {}
    for axes, position in ((shape.batch, batch), (shape.rows, row + m_in), (shape.columns, column + n_in)):
        if axes:
            new = [nest.outer[node.axes.index(axis)] for axis in axes]
            images.update(_delinearise(position, new, [axis_size(axis) for axis in new]))
    nest.map(Substitution(images))
    nest.outer = (m_in,)
    for item in nest.items:
        item.inner = (n_in,)
    built = build_kernel(nest, f"{name}_epilogue").kernel
    assert isinstance(built, Kernel)
    sizes = (*first, *[symbol for symbol in built.sizes if symbol not in first])
    buffers = (tile, *[buffer for buffer in built.buffers if buffer is not tile])
    return Kernel(built.name, buffers, sizes, built.body)
