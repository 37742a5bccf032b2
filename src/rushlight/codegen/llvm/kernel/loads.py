"""Loads of kernels, for all lanes of a scope: contiguous, strided, repeated, gathered, masked.

Input: IR loads. Output: values. The strategy follows from the stride between lanes: 1 is one vector load, a small
constant is a wide load and a shuffle, others go by gather or lane by lane.
"""

from __future__ import annotations

from collections.abc import Sequence

from rushlight.codegen.llvm.builder.scope import Context, Lanes, Mask, Scope, Value, splat
from rushlight.codegen.llvm.builder.vector_types import Shape, shape_of
from rushlight.codegen.llvm.kernel.addresses import (
    LaneAddresses,
    active_lanes,
    from_memory,
    is_spread,
    letters,
    locate,
    mask_scope,
    pointer_vector,
    spread_out,
)
from rushlight.codegen.llvm.kernel.grid import checked_address
from rushlight.codegen.llvm.kernel.lane_loop import LaneLoop, copy_first, count_of_first, lane_address, spill
from rushlight.codegen.llvm.kernel.prefetch import prefetch_rows_ahead
from rushlight.codegen.llvm.kernel.transposed_loads import (
    lane_pointers,
    load_strided,
    load_transposed,
)
from rushlight.ir.dtype import bool_
from rushlight.ir.scalar import Buffer, Scalar
from rushlight.ir.target import Target


def emit_load(ctx: Context, term: Scalar, scope: Scope, mask: Mask | None) -> Value:
    """The value of a load: a scalar, a contiguous vector, or elements at arbitrary addresses."""
    buffer: Buffer = term.attr("buffer")
    lanes = scope.vector
    moving = lanes is not None and bool(ctx.analysis.free[term] & lanes.axes)
    spilled = buffer in ctx.analysis.spills
    address = locate(ctx, buffer, term.operands[0] if term.operands else 0, scope, mask, spilled)
    key = _load_key(address, mask, moving)
    loaded = scope.memo.get(key)
    if loaded is None:
        square = ctx.transposed.get(term)
        if square is not None and moving and lanes is not None and _is_transposed_load(address, mask, lanes):
            _load_transposed_group(ctx, square, scope)
            return scope.memo[key]
        if moving:
            prefetch_rows_ahead(ctx, term, address, scope, mask)
        loaded = scope.memo[key] = _load(ctx, buffer, address, scope, mask, moving)
        _pin(ctx, buffer, scope, key)
    return loaded


def _load_key(access: LaneAddresses, mask: Mask | None, moving: bool) -> tuple[object, ...]:
    return ("load", access.pointer, access.stride, access.extra, None if mask is None else mask.key, moving)


def _pin(ctx: Context, buffer: Buffer, scope: Scope, key: tuple[object, ...]) -> None:
    """Lets stores to a buffer invalidate a value that was loaded from it."""
    written = ctx.analysis.buffer_bits.get(buffer)
    if written is not None:
        scope.pinned[key] = written


def _is_strided(access: LaneAddresses, mask: Mask | None) -> bool:
    """Whether lanes have a constant stride, and the active lanes are the first ones."""
    return access.extra is None and mask is None


def _is_transposed_load(access: LaneAddresses, mask: Mask | None, lanes: Lanes) -> bool:
    plain = access.stride in (-1, 0, 1) or access.repeats
    return _is_strided(access, mask) and not plain and lanes.width % Target.TRANSPOSED_SIDE == 0


def _load_transposed_group(ctx: Context, square: Sequence[Scalar], scope: Scope) -> None:
    """Loads a group of neighbours at once, and records the value of each load."""
    assert scope.vector is not None
    buffer: Buffer = square[0].attr("buffer")
    width = scope.vector.width
    shape = shape_of(buffer.type.dtype, width)
    neighbours = [locate(ctx, buffer, term.operands[0], scope, None) for term in square]
    active = active_lanes(scope, None, width)
    pointers = lane_pointers(scope, mask_scope(scope, None), shape, neighbours[0].pointer, neighbours[0].stride, active)
    for access, raw in zip(neighbours, load_transposed(scope, shape, pointers), strict=True):
        key = _load_key(access, None, True)
        scope.memo[key] = Value(from_memory(scope, shape, raw), width, scope)
        _pin(ctx, buffer, scope, key)


def _load(ctx: Context, buffer: Buffer, access: LaneAddresses, scope: Scope, mask: Mask | None, moving: bool) -> Value:
    lanes = scope.vector
    if not moving or lanes is None or (access.extra is None and access.stride == 0):
        return _load_scalar(ctx, buffer, access.pointer, scope, mask)
    shape = shape_of(buffer.type.dtype, lanes.width)
    if not access.repeats and is_spread(ctx, shape, access):
        return Value(from_memory(scope, shape, _load_spread(scope, shape, access, mask)), lanes.width, scope)
    active = active_lanes(scope, mask, lanes.width)
    if access.extra is None and access.stride == 1:
        pointer = access.pointer
        if mask is not None and active is not None and _is_whole(ctx, lanes, mask):
            pointer = scope.let(f"select i1 {mask.text}, ptr {pointer}, ptr {ctx.zeros_address(shape.memory_type)}")
            active = None
        raw = load_run(ctx, scope, shape, pointer, active)
    elif access.extra is None and access.stride == -1 and active is None:
        last = scope.let(f"getelementptr {shape.memory}, ptr {access.pointer}, i64 {1 - lanes.width}")
        run = load_run(ctx, scope, shape, last, None)
        order = ", ".join([f"i32 {lanes.width - 1 - lane}" for lane in range(lanes.width)])
        raw = scope.let(
            f"shufflevector {shape.memory_type} {run}, {shape.memory_type} poison, <{lanes.width} x i32> <{order}>"
        )
    elif access.repeats:
        raw = _load_repeated(ctx, scope, shape, access, active)
    elif _is_strided(access, mask):
        home = mask_scope(scope, None)
        raw = load_strided(scope, shape, lane_pointers(scope, home, shape, access.pointer, access.stride, active))
    else:
        raw = _gather(ctx, scope, shape, pointer_vector(scope, shape, access), active)
    return Value(from_memory(scope, shape, raw), lanes.width, scope)


def _is_whole(ctx: Context, lanes: Lanes, mask: Mask) -> bool:
    """Whether a mask covers all lanes or none, and plain loads are faster than masked ones."""
    return mask.lanes == 1 and lanes.mask is None and not ctx.target.has_masks


def _load_scalar(ctx: Context, buffer: Buffer, pointer: str, scope: Scope, mask: Mask | None) -> Value:
    shape = shape_of(buffer.type.dtype)
    if ctx.target.emulates:
        pointer = checked_address(ctx, scope, buffer, pointer, writes=False, mask=None if mask is None else mask.text)
    if mask is not None:
        condition = mask.text
        if mask.lanes > 1:
            active = active_lanes(scope, mask, mask.lanes)
            word = scope.let(f"bitcast <{mask.lanes} x i1> {active} to i{mask.lanes}")
            condition = scope.let(f"icmp ne i{mask.lanes} {word}, 0")
        pointer = scope.let(f"select i1 {condition}, ptr {pointer}, ptr {ctx.zeros_address()}")
    raw = scope.let(f"load {shape.memory}, ptr {pointer}, align {shape.itemsize}")
    return Value(from_memory(scope, shape, raw), 1, scope)


def load_run(ctx: Context, scope: Scope, shape: Shape, pointer: str, active: str | None) -> str:
    """A contiguous run of elements, 0 in inactive lanes."""
    kind = shape.memory_type
    if active is None:
        return scope.let(f"load {kind}, ptr {pointer}, align {shape.itemsize}")
    if shape.itemsize < ctx.target.masked_bytes:
        count = count_of_first(ctx, scope, active)
        if count is not None:
            return _load_first(ctx, scope, shape, pointer, count)
        return _load_by_lane(ctx, scope, shape, active, pointer, None)
    suffix = f"v{shape.lanes}{letters(shape)}"
    return scope.let(
        f"call {kind} @llvm.masked.load.{suffix}.p0(ptr {pointer}, i32 {shape.itemsize}, "
        f"{shape.mask_type} {active}, {kind} zeroinitializer)"
    )


def _load_first(ctx: Context, scope: Scope, shape: Shape, pointer: str, count: str) -> str:
    """The first elements of a run, and zeros."""
    kind = shape.memory_type
    full, part, after = scope.names.label(), scope.names.label(), scope.names.label()
    scope.branch(scope.let(f"icmp eq i64 {count}, {shape.lanes}"), full, part)
    scope.block(full)
    whole = scope.let(f"load {kind}, ptr {pointer}, align {shape.itemsize}")
    scope.jump(after)
    scope.block(part)
    slot = spill(ctx, scope, kind, "zeroinitializer")
    copy_first(scope, shape, pointer, slot, count)
    first, last = scope.let(f"load {kind}, ptr {slot}, align 64"), scope.label
    scope.jump(after)
    scope.block(after)
    return scope.let(f"phi {kind} [ {whole}, %{full} ], [ {first}, %{last} ]")


def _load_spread(scope: Scope, shape: Shape, access: LaneAddresses, mask: Mask | None) -> str:
    """A wide masked load and a shuffle; reads nothing beyond the last element or of inactive lanes."""
    stride, width = int(access.stride), shape.lanes
    kind, flags = f"<{stride * width} x {shape.memory}>", f"<{stride * width} x i1>"
    active = _spread_lanes(scope, mask, width, stride)
    loaded = scope.let(
        f"call {kind} @llvm.masked.load.v{stride * width}{letters(shape)}.p0(ptr {access.pointer}, "
        f"i32 {shape.itemsize}, {flags} {active}, {kind} zeroinitializer)"
    )
    order = ", ".join(f"i32 {lane * stride}" for lane in range(width))
    return scope.let(f"shufflevector {kind} {loaded}, {kind} poison, <{width} x i32> <{order}>")


def _spread_lanes(scope: Scope, mask: Mask | None, width: int, stride: int) -> str:
    """The mask of `active_lanes` for a wide load, with `stride - 1` inactive lanes between its lanes.

    Each factor is spread in the scope that defines it: the taps of a pooling window then share the masks of their
    columns and of their rows.
    """
    running = None if scope.vector is None else scope.vector.mask
    factors = () if mask is None else mask.factors
    if running is not None:
        factors = (*factors, Value(running, width, mask_scope(scope, None)))
    total = ""
    kind, home = f"<{stride * width} x i1>", mask_scope(scope, mask)
    if all(factor.lanes == 1 for factor in factors):
        bits = ["true" if lane <= stride * (width - 1) else "false" for lane in range(stride * width)]
        total = f"<{', '.join(f'i1 {bit}' for bit in bits)}>"
    for factor in factors:
        defining = factor.scope or home
        key = (factor.text, "spread", stride, width)
        spread = defining.sizes.get(key)
        if spread is None:
            shape = shape_of(bool_, factor.lanes)
            spread = defining.sizes[key] = (
                splat(defining, kind, "i1", factor.text, stride * width)
                if factor.lanes == 1
                else spread_out(defining, shape.type, factor.text, width, stride)
            )
        key = (total, "and", spread)
        both = home.sizes.get(key) if total else spread
        total = home.sizes[key] = both or home.let(f"and {kind} {total}, {spread}")
    return total


def _load_repeated(ctx: Context, scope: Scope, shape: Shape, access: LaneAddresses, active: str | None) -> str:
    """Loads each element once for several lanes; reads only elements of active lanes. 0 in inactive lanes."""
    repeats, width = access.repeats, shape.lanes
    few = shape_of(shape.dtype, width // repeats)
    any_active: str | None = None
    for first in range(repeats if active is not None else 0):
        order = ", ".join([f"i32 {lane}" for lane in range(first, width, repeats)])
        part = scope.let(
            f"shufflevector {shape.mask_type} {active}, {shape.mask_type} poison, <{few.lanes} x i32> <{order}>"
        )
        any_active = part if any_active is None else scope.let(f"or {few.mask_type} {any_active}, {part}")
    run = load_run(ctx, scope, few, access.pointer, any_active)
    kind, order = few.memory_type, ", ".join([f"i32 {lane // repeats}" for lane in range(width)])
    wide = scope.let(f"shufflevector {kind} {run}, {kind} poison, <{width} x i32> <{order}>")
    if active is None:
        return wide
    kind = shape.memory_type
    return scope.let(f"select {shape.mask_type} {active}, {kind} {wide}, {kind} zeroinitializer")


def _gather(ctx: Context, scope: Scope, shape: Shape, addresses: str, active: str | None) -> str:
    if shape.itemsize < 4 and active is not None:
        return _load_by_lane(ctx, scope, shape, active, None, addresses)
    kind, width = shape.memory_type, shape.lanes
    if active is not None and not ctx.target.has_masks:
        # Without mask registers a masked gather is a branch for each lane: inactive lanes read zeros instead.
        zeros = splat(scope, f"<{width} x ptr>", "ptr", ctx.zeros_address(), width)
        pointers = f"<{width} x ptr> {addresses}, <{width} x ptr> {zeros}"
        addresses, active = scope.let(f"select <{width} x i1> {active}, {pointers}"), None
    mask = active or "splat (i1 true)"
    return scope.let(
        f"call {kind} @llvm.masked.gather.v{width}{letters(shape)}.v{width}p0(<{width} x ptr> {addresses}, "
        f"i32 {shape.itemsize}, <{width} x i1> {mask}, {kind} zeroinitializer)"
    )


def _load_by_lane(
    ctx: Context, scope: Scope, shape: Shape, active: str, pointer: str | None, addresses: str | None
) -> str:
    kind, element_type = shape.memory_type, shape.memory
    slot = spill(ctx, scope, kind, "zeroinitializer")
    table = None if addresses is None else spill(ctx, scope, f"<{shape.lanes} x ptr>", addresses)
    loop = LaneLoop(ctx, scope, shape.lanes, active)
    source = lane_address(scope, element_type, pointer, table, loop.lane)
    element = scope.let(f"load {element_type}, ptr {source}, align {shape.itemsize}")
    target = scope.let(f"getelementptr {element_type}, ptr {slot}, i64 {loop.lane}")
    scope.do(f"store {element_type} {element}, ptr {target}, align {shape.itemsize}")
    loop.close()
    return scope.let(f"load {kind}, ptr {slot}, align 64")
