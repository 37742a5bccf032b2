"""Stores of kernels, for all lanes of a scope: contiguous, strided, scattered, masked, combined with what is there.

Input: IR stores. Output: lines. All values of consecutive stores are computed before the first of them.
"""

from __future__ import annotations

from collections.abc import Sequence

from rushlight.codegen.llvm.builder.scope import Context, Mask, Scope, Value, widen
from rushlight.codegen.llvm.builder.vector_types import Shape, shape_of
from rushlight.codegen.llvm.kernel.addresses import (
    LaneAddresses,
    active_lanes,
    from_memory,
    is_spread,
    letters,
    locate,
    pointer_vector,
    spread_out,
    to_memory,
)
from rushlight.codegen.llvm.kernel.grid import checked_address
from rushlight.codegen.llvm.kernel.lane_loop import LaneLoop, copy_first, count_of_first, lane_address, spill
from rushlight.codegen.llvm.kernel.loads import load_run
from rushlight.codegen.llvm.kernel.nontemporal import cached_bit, store_nontemporal
from rushlight.codegen.llvm.kernel.transposed_loads import (
    find_transposed_loads,
)
from rushlight.codegen.llvm.math import arithmetic, casts
from rushlight.codegen.llvm.math.terms import value
from rushlight.ir.dtype import float32
from rushlight.ir.kernel import Store
from rushlight.ir.scalar import Scalar
from rushlight.ir.target import Target


def emit_stores(ctx: Context, stores: Sequence[Store], scope: Scope) -> None:
    """Consecutive stores, for all lanes of the scope; all values are computed before the first store."""
    if scope.vector is not None and len(stores) >= Target.TRANSPOSED_SIDE:
        ctx.transposed.update(find_transposed_loads([store.value for store in stores]))
    prepared = [_prepare(ctx, store, scope) for store in stores]
    for store, (access, stored, mask) in zip(stores, prepared, strict=True):
        if scope.vector is None:
            _store_scalar(ctx, store, scope, access, stored, mask)
        else:
            _store_vector(ctx, store, scope, access, stored, mask)
        scope.forget(ctx.analysis.buffer_bits[store.buffer])


def _store_vector(
    ctx: Context, store: Store, scope: Scope, access: LaneAddresses, stored: Value, mask: Mask | None
) -> None:
    """Stores all lanes of a scope, or those of a mask.

    One condition for all of them is a branch without mask registers (AVX2): a masked store takes tens of cycles.
    """
    assert scope.vector is not None
    shape = shape_of(store.buffer.type.dtype, scope.vector.width)
    text = widen(stored, shape)
    if mask is None or mask.lanes > 1 or ctx.target.has_masks or access.extra is not None or access.stride != 1:
        _store_lanes(ctx, store, scope, shape, access, text, active_lanes(scope, mask, shape.lanes))
        return
    inside, after = scope.names.label(), scope.names.label()
    scope.branch(mask.text, inside, after)
    scope.block(inside)
    _store_lanes(ctx, store, scope, shape, access, text, active_lanes(scope, None, shape.lanes))
    scope.jump(after)
    scope.block(after)


def emit_spill(ctx: Context, term: Scalar, scope: Scope, mask: Mask | None) -> Value:
    """The value of a `keep`: it is spilled to memory as well, for a later loop over the same row."""
    spilled, offset = term.operands
    result = value(ctx, spilled, scope, mask)
    store = Store(term.attr("buffer"), offset, spilled)
    address = locate(ctx, store.buffer, offset, scope, None, spilled=True)
    shape = shape_of(spilled.type, 1 if scope.vector is None else scope.vector.width)
    if scope.vector is None:
        _store_scalar(ctx, store, scope, address, result, mask)
    else:
        active = active_lanes(scope, mask, shape.lanes)
        _store_lanes(ctx, store, scope, shape, address, widen(result, shape), active, is_last=False)
    scope.forget(ctx.analysis.buffer_bits[store.buffer])
    return result


def _prepare(ctx: Context, store: Store, scope: Scope) -> tuple[LaneAddresses, Value, Mask | None]:
    mask: Mask | None = None
    if store.where is not None:
        condition = value(ctx, store.where, scope)
        mask = Mask(condition.text, condition.lanes, condition.scope or scope, store.where)
    stored = value(ctx, store.value, scope)
    return locate(ctx, store.buffer, store.offset, scope, None), stored, mask


def _store_scalar(
    ctx: Context, store: Store, scope: Scope, access: LaneAddresses, stored: Value, mask: Mask | None
) -> None:
    shape = shape_of(store.buffer.type.dtype)
    after = scope.names.label()
    if mask is not None:
        inside = scope.names.label()
        scope.branch(mask.text, inside, after)
        scope.block(inside)
    pointer = access.pointer
    if ctx.target.emulates:
        pointer = checked_address(ctx, scope, store.buffer, pointer, writes=True)
    _combine_scalar(scope, shape, store.combine, pointer, stored.text)
    if mask is not None:
        scope.jump(after)
        scope.block(after)


def _combine_scalar(scope: Scope, shape: Shape, combine: str | None, pointer: str, text: str) -> None:
    if combine is not None and combine != "set":
        old = from_memory(scope, shape, scope.let(f"load {shape.memory}, ptr {pointer}, align {shape.itemsize}"))
        text = _combined(scope, shape, combine, old, text)
    text = to_memory(scope, shape, text)
    scope.do(f"store {shape.memory} {text}, ptr {pointer}, align {shape.itemsize}")


def _combined(scope: Scope, shape: Shape, combine: str, old: str, text: str) -> str:
    if not shape.is_half:
        return arithmetic.fold(scope, combine, shape, old, text)
    wide = shape_of(float32, shape.lanes)
    a, b = casts.widen_half(scope, shape, old), casts.widen_half(scope, shape, text)
    return casts.narrow_half(scope, shape, arithmetic.fold(scope, combine, wide, a, b))


def _store_lanes(
    ctx: Context,
    store: Store,
    scope: Scope,
    shape: Shape,
    access: LaneAddresses,
    text: str,
    active: str | None,
    is_last: bool = True,
) -> None:
    """Stores all lanes of a scope. The store is nontemporal if that pays and it `is_last`: nothing reads them again."""
    combine = None if store.combine == "set" else store.combine
    if access.extra is None and access.stride == 1:
        if combine is not None:
            old = from_memory(scope, shape, load_run(ctx, scope, shape, access.pointer, active))
            text = _combined(scope, shape, combine, old, text)
        text = to_memory(scope, shape, text)
        lines = active is None and combine is None and shape.lanes * shape.itemsize % Target.LINE_BYTES == 0
        bit = cached_bit(ctx, store.buffer) if lines and is_last else None
        if bit is None:
            _store_run(ctx, scope, shape, access.pointer, text, active)
        else:
            store_nontemporal(scope, shape, access.pointer, text, bit)
        return
    if combine is None and is_spread(ctx, shape, access):
        _store_spread(scope, shape, access, to_memory(scope, shape, text), active)
        return
    addresses = pointer_vector(scope, shape, access)
    if combine is None and shape.itemsize >= 4 and ctx.target.has_masks:
        width = shape.lanes
        # Lanes with equal addresses are stored in ascending order, so the last one stays.
        scope.do(
            f"call void @llvm.masked.scatter.v{width}{letters(shape)}.v{width}p0({shape.memory_type} {text}, "
            f"<{width} x ptr> {addresses}, i32 {shape.itemsize}, <{width} x i1> {active or 'splat (i1 true)'})"
        )
        return
    _store_by_lane(ctx, scope, shape, combine, None, addresses, to_memory(scope, shape, text), active)


def _store_run(ctx: Context, scope: Scope, shape: Shape, pointer: str, text: str, active: str | None) -> None:
    """Stores a run of elements.

    Without mask registers the full vectors among those of a tail have a branch of their own.
    """
    whole = f"store {shape.memory_type} {text}, ptr {pointer}, align {shape.itemsize}"
    if active is None:
        scope.do(whole)
        return
    count = count_of_first(ctx, scope, active)
    if count is None:
        _store_active(ctx, scope, shape, pointer, text, active)
        return
    full, part, after = scope.names.label(), scope.names.label(), scope.names.label()
    scope.branch(scope.let(f"icmp eq i64 {count}, {shape.lanes}"), full, part)
    scope.block(full)
    scope.do(whole)
    scope.jump(after)
    scope.block(part)
    if shape.itemsize < ctx.target.masked_bytes:
        copy_first(scope, shape, spill(ctx, scope, shape.memory_type, text), pointer, count)
    else:
        _store_active(ctx, scope, shape, pointer, text, active)
    scope.jump(after)
    scope.block(after)


def _store_active(ctx: Context, scope: Scope, shape: Shape, pointer: str, text: str, active: str) -> None:
    if shape.itemsize < ctx.target.masked_bytes:
        _store_by_lane(ctx, scope, shape, None, pointer, None, text, active)
    else:
        scope.do(
            f"call void @llvm.masked.store.v{shape.lanes}{letters(shape)}.p0({shape.memory_type} {text}, "
            f"ptr {pointer}, i32 {shape.itemsize}, {shape.mask_type} {active})"
        )


def _store_by_lane(
    ctx: Context,
    scope: Scope,
    shape: Shape,
    combine: str | None,
    pointer: str | None,
    addresses: str | None,
    text: str,
    active: str | None,
) -> None:
    """Stores lane by lane in ascending order: lanes with one address then combine as iterations do."""
    scalar = shape_of(shape.dtype)
    slot = spill(ctx, scope, shape.memory_type, text)
    table = None if addresses is None else spill(ctx, scope, f"<{shape.lanes} x ptr>", addresses)
    loop = LaneLoop(ctx, scope, shape.lanes, active)
    at = scope.let(f"getelementptr {scalar.memory}, ptr {slot}, i64 {loop.lane}")
    element = scope.let(f"load {scalar.memory}, ptr {at}, align {scalar.itemsize}")
    target = lane_address(scope, scalar.memory, pointer, table, loop.lane)
    _combine_scalar(scope, scalar, combine, target, from_memory(scope, scalar, element))
    loop.close()


def _store_spread(scope: Scope, shape: Shape, access: LaneAddresses, text: str, active: str | None) -> None:
    """Stores elements with a small constant stride by one wide masked store."""
    stride, width = int(access.stride), shape.lanes
    mask = spread_out(scope, shape.mask_type, active or "splat (i1 true)", width, stride)
    apart = spread_out(scope, shape.memory_type, text, width, stride)
    scope.do(
        f"call void @llvm.masked.store.v{stride * width}{letters(shape)}.p0(<{stride * width} x {shape.memory}> "
        f"{apart}, ptr {access.pointer}, i32 {shape.itemsize}, <{stride * width} x i1> {mask})"
    )
