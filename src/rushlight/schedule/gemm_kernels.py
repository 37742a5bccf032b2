"""The GEMM template's launches: packing, the product, and an epilogue on each finished tile.

Packing is an ordinary kernel whose body is the operand's own expression, so casts, views, padding and any producer
that was folded into the operand cost nothing of their own: a convolution is a product whose packing reads shifted
pixels.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Mapping, Sequence
from dataclasses import replace

from rushlight.ir.choice import Machine, Product
from rushlight.ir.gemm_tile import Format, GemmTile, choose_tile
from rushlight.ir.kernel import TILE_WORDS, GemmKernel, Kernel
from rushlight.ir.loops import Index
from rushlight.ir.plan import Address
from rushlight.ir.scalar import OPS, Buffer, Scalar, index, load
from rushlight.ir.type import TensorType
from rushlight.schedule.constants import is_constant
from rushlight.schedule.fuse import Group
from rushlight.schedule.gemm import GemmShape
from rushlight.schedule.kernels import Item, Nest, Step, build_kernel, linearise, open_group
from rushlight.schedule.matrices import Matrices, count, matrices, plain_load
from rushlight.schedule.terms import Substitution, as_size, fresh_axes, rebuild
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
    substitute,
)
from rushlight.term import substitute as replace_terms

BLOCK = 256  # of the reduction; the packed formats are made of such blocks
TILE_HINT = 128


def build_gemm(group: Group, machine: Machine, placed: Mapping[Buffer, Buffer], number: int) -> Iterator[Step]:
    """The launches of a group led by a matrix product."""
    shape = group.gemm
    assert shape is not None
    node = group.nodes[0]
    assert node.contraction is not None
    name = f"k{number}"
    a_term, b_term = (_linear(term, placed) for term in (shape.a, shape.b))
    stored = _stored_product(group, shape, placed)
    dtype = node.contraction.operands[0].type
    widens = dtype is not node.contraction.type
    # What is constant is packed once: a product streams it as it needs it, with however few rows.
    a_once = not widens and is_constant(a_term, (*shape.batch, *shape.rows, *shape.inner))
    b_once = not widens and is_constant(b_term, (*shape.batch, *shape.inner, *shape.columns))
    split, a, b, c = _place_operands(shape, None if a_once else a_term, None if b_once else b_term, stored)
    if widens:
        a = a or (yield from _store_matrix(a_term, shape, split, f"{name}_a", shape.rows, shape.inner))
        b = b or (yield from _store_matrix(b_term, shape, split, f"{name}_b", shape.inner, shape.columns))
    tile = choose_tile(
        dtype.name,
        machine.vector_bytes,
        a_format=_packed_format(a_term, shape) if a is None else a.format,
        a_packed=a is None,
        b_packed=b is None,
        b_format="row" if b is None else b.format,
    )
    sizes = (_count(shape.batch), _count(shape.rows), _count(shape.columns), _count(shape.inner))
    tile = machine.choose(Product(tile, sizes, c is None))
    a = a or (yield from _pack_a(a_term, shape, tile, split, name))
    b = b or (yield from _pack_b(b_term, shape, tile, split, name))
    yield _product(group, shape, tile, (a, b, c), split, placed, name)


def _place_operands(
    shape: GemmShape, a_term: Scalar | None, b_term: Scalar | None, stored: tuple[Buffer, Size] | None
) -> tuple[int, Matrices | None, Matrices | None, Matrices | None]:
    """Where A, B and C lie as batches of matrices, None where they do not; and how many batch axes are outer ones.

    Terms that are None are packed. A batch has two strides, of the outer axes walked as one and of the inner ones; the
    cut is where most operands fit.
    """
    best: tuple[int, Matrices | None, Matrices | None, Matrices | None] = (0, None, None, None)
    for cut in range(len(shape.batch) + 1):
        batch = (shape.batch[:cut], shape.batch[cut:])
        a = None if a_term is None else plain_load(a_term, batch, shape.rows, shape.inner)
        b = None if b_term is None else plain_load(b_term, batch, shape.inner, shape.columns)
        c = None if stored is None else matrices(*stored, batch, shape.rows, shape.columns)
        found = (cut, a, b, None if c is None or c.format != "row" else c)
        if cut == 0 or sum(item is not None for item in found[1:]) > sum(item is not None for item in best[1:]):
            best = found
    return best


def _stored_product(group: Group, shape: GemmShape, placed: Mapping[Buffer, Buffer]) -> tuple[Buffer, Size] | None:
    """The buffer and offset of the product where it is all that the group stores, and stored as it is."""
    node = group.nodes[0]
    if len(group.nodes) > 1 or node.contraction is not node.body:
        return None
    offset: Size = 0
    for item, stride in zip(node.index(), node.buffer.type.strides, strict=True):
        offset = offset + item * stride
    return placed.get(node.buffer, node.buffer), offset


def _packed_format(term: Scalar, shape: GemmShape) -> Format:
    return "column" if shape.rows and _unit_step(term, shape.rows) and not _unit_step(term, shape.inner) else "row"


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
    return position, count(shape.batch)


def _packed(buffer: Buffer, leading: Size, storage: Size, shape: GemmShape, split: int) -> Matrices:
    return Matrices(buffer, 0, leading, storage * count(shape.batch[split:]), storage)


def _split(axes: Sequence[SizeExpr], width: int, name: str) -> tuple[dict[SizeExpr, Index], Size, SizeExpr, Size]:
    """Runs several axes as blocks of `width`.

    Images of the axes, the block axis, the axis within, the flat position.
    """
    sizes = [axis_size(axis) for axis in axes]
    total = count(axes)
    blocks = ceildiv(total, width)
    block = 0 if blocks == 1 else axis_symbol(blocks, f"{name}_block")
    within = axis_symbol(minimum(width, total - block * width), name)
    position = block * width + within
    return _delinearise(position, axes, sizes), block, within, position


def _delinearise(position: Size, axes: Sequence[SizeExpr], sizes: Sequence[Size]) -> dict[SizeExpr, Index]:
    images: dict[SizeExpr, Index] = {}
    for axis, size in list(zip(axes, sizes, strict=True))[:0:-1]:
        images[axis] = mod(position, size)
        position = floordiv(position, size)
    images[axes[0]] = position
    return images


def _pack_a(term: Scalar, shape: GemmShape, tile: GemmTile, split: int, name: str) -> Generator[Step, None, Matrices]:
    m, k = (count(axes) for axes in (shape.rows, shape.inner))
    batch = fresh_axes(shape.batch, "b")
    flat, batches = _flat_batch(shape)
    if tile.a_format == "row":
        images, block, within, k_at = _split(shape.inner, BLOCK, "k")
        rows = fresh_axes(shape.rows, "m")
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
    yield _pack_step(
        term, {**images, **batch}, packed, outer, within, offset + substitute(flat, batch) * storage, f"{name}_pack_a"
    )
    return _packed(packed, m, storage, shape, split)


def _store_matrix(
    term: Scalar,
    shape: GemmShape,
    split: int,
    name: str,
    first: tuple[SizeExpr, ...],
    second: tuple[SizeExpr, ...],
) -> Generator[Step, None, Matrices]:
    """Writes an operand as a batch of plain matrices, along the axis that it is read along."""
    by_columns = not second or (bool(first) and _unit_step(term, first) and not _unit_step(term, second))
    outer, inner = (second, first) if by_columns else (first, second)
    batch, far, near = fresh_axes(shape.batch, "b"), fresh_axes(outer, "i"), fresh_axes(inner, "j")
    images = {**batch, **far, **near}
    position: Size = 0
    for axis in (*shape.batch, *outer, *inner):
        position = position * axis_size(axis) + images[axis]
    storage = count(first) * count(second)
    buffer = Buffer(name, TensorType((count(shape.batch), storage), term.type), "arena")
    axes = tuple(images.values())
    yield _pack_step(term, images, buffer, axes[:-1], axes[-1], position, f"{name}_store")
    found = _packed(buffer, count(inner), storage, shape, split)
    return replace(found, format="column") if by_columns else found


def _walk(axes: Sequence[SizeExpr]) -> tuple[dict[SizeExpr, SizeExpr], tuple[SizeExpr, ...], Size]:
    images = fresh_axes(axes, "k")
    position: Size = 0
    for axis in axes:
        position = position * axis_size(axis) + images[axis]
    return images, tuple(images.values()), position


def _pack_b(term: Scalar, shape: GemmShape, tile: GemmTile, split: int, name: str) -> Generator[Step, None, Matrices]:
    n, k = (count(axes) for axes in (shape.columns, shape.inner))
    batch = fresh_axes(shape.batch, "b")
    flat, batches = _flat_batch(shape)
    images, block, within, n_at = _split(shape.columns, tile.nr, "n")
    k_images, k_axes, k_at = _walk(shape.inner)
    storage = ceildiv(n, tile.nr) * tile.nr * k
    offset = block * tile.nr * (k - 1) + k_at * tile.nr + n_at
    packed = Buffer(f"{name}_b", TensorType((batches, storage), term.type), "arena")
    offset = offset + substitute(flat, batch) * storage
    outer = (*batch.values(), block, *k_axes)
    yield _pack_step(term, {**images, **k_images, **batch}, packed, outer, within, offset, f"{name}_pack_b")
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
    nest = Nest(tuple([axis for axis in axes if axis not in single]), [Item((within,), packed, index(offset), value)])
    if single:
        nest.map(Substitution(single))
    return replace(build_kernel(nest, name), once=is_constant(term, images))


def _product(
    group: Group,
    shape: GemmShape,
    tile: GemmTile,
    operands: tuple[Matrices, Matrices, Matrices | None],
    split: int,
    placed: Mapping[Buffer, Buffer],
    name: str,
) -> Step:
    a, b, c = operands
    m, n, k, batches = (count(axes) for axes in (shape.rows, shape.columns, shape.inner, shape.batch))
    inner_batches = count(shape.batch[split:])
    tile_words = (0, 0)  # chosen when the product runs
    words: tuple[Buffer | Address | Size, ...] = (
        *(a.address, b.address, 0 if c is None else c.address),
        *(m, n, k, a.leading, b.leading, 0 if c is None else c.leading),
        *(a.outer, b.outer, 0 if c is None else c.outer, inner_batches, a.inner, b.inner, 0 if c is None else c.inner),
        *tile_words,
    )
    epilogue = _epilogue(group, shape, placed, name) if c is None else None
    if epilogue is not None:
        words = (*words, *epilogue.buffers[1:], *epilogue.sizes[len(TILE_WORDS) :])
    return Step(GemmKernel(name, tile, epilogue), words, batches, m * n * k)


def _epilogue(group: Group, shape: GemmShape, placed: Mapping[Buffer, Buffer], name: str) -> Kernel:
    """The group's stores over the rows and columns of one tile."""
    node = group.nodes[0]
    assert node.contraction is not None
    tile = Buffer(f"{name}_tile", TensorType((0,), node.contraction.type), "local")
    first = tuple([Scope().symbol(text, optimization_hint=TILE_HINT) for text in TILE_WORDS])
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
