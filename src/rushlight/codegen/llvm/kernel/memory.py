"""Loads and stores of all lanes of a scope: contiguous, strided, repeated, gathered, masked.

Input: IR loads and stores. Output: values and lines. Addresses are summed from the outermost scope inwards, so that a
loop adds only what depends on its own axis. The strategy follows from the stride between lanes: 1 is one vector load, a
small constant is a wide load and a shuffle, others go lane by lane or by gather.
"""

from __future__ import annotations

from collections.abc import Sequence

from rushlight.codegen.llvm.builder import sizes
from rushlight.codegen.llvm.builder.scope import Context, Lanes, Mask, Scope, Value, splat, widen
from rushlight.codegen.llvm.builder.sizes import Affine, Offset, Part
from rushlight.codegen.llvm.builder.vector_types import Shape, shape_of, vector_type
from rushlight.codegen.llvm.kernel.grid import checked_address
from rushlight.codegen.llvm.kernel.nontemporal import cached_bit, store_nontemporal
from rushlight.codegen.llvm.kernel.row_scratch import row_address
from rushlight.codegen.llvm.kernel.transposed_loads import (
    find_transposed_loads,
    lane_pointers,
    load_strided,
    load_transposed,
)
from rushlight.codegen.llvm.math import arithmetic, casts
from rushlight.codegen.llvm.math.terms import value
from rushlight.ir.dtype import bool_, float32
from rushlight.ir.kernel import Store
from rushlight.ir.scalar import Buffer, Scalar
from rushlight.ir.target import Target
from rushlight.sym import Size


class LaneAddresses:
    """The addresses of all lanes: lane 0's `pointer`, a `stride` in elements, a vector of `extra` offsets.

    If `repeats` is not 0, that many consecutive lanes have the same element, the next ones the next element.
    """

    __slots__ = ("extra", "pointer", "repeats", "stride")

    def __init__(self, pointer: str, stride: int | str, extra: str | None, repeats: int) -> None:
        self.repeats = repeats
        self.pointer = pointer
        self.stride = stride
        self.extra = extra


def locate(
    ctx: Context, buffer: Buffer, offset: Scalar | Size, scope: Scope, mask: Mask | None, spilled: bool = False
) -> LaneAddresses:
    """The addresses of an element in all lanes; `spilled`: the element may lie in row scratch memory."""
    split = Offset(offset)
    lanes = scope.vector
    affine = sizes.affine(ctx, split.parts, scope)
    extra, repeats = affine.extra, affine.repeats
    steps: dict[Scope, list[str]] = {}
    for factor, term in split.data:
        index = value(ctx, term, scope, mask)
        if index.lanes > 1:
            assert lanes is not None
            repeats = 0
            text = index.text
            vector = vector_type(lanes.width, "i64")
            if factor != 1:
                text = scope.let(f"mul {vector} {text}, splat (i64 {factor})")
            extra = text if extra is None else scope.let(f"add {vector} {extra}, {text}")
        else:
            home = index.scope or scope
            text = index.text if factor == 1 else home.let(f"mul i64 {index.text}, {factor}")
            steps.setdefault(home, []).append(text)
    address, base = ctx.base(buffer), affine.base
    bit = cached_bit(ctx, buffer) if spilled else None
    if bit is not None:
        address, base = row_address(ctx, buffer, bit, base, scope)
    memory = shape_of(buffer.type.dtype).memory
    return LaneAddresses(_pointer(ctx, memory, address, base, steps, scope), affine.stride, extra, repeats)


def _pointer(
    ctx: Context, memory: str, start: str, base: list[Part], data: dict[Scope, list[str]], scope: Scope
) -> str:
    """The address `start` + parts + data, added scope by scope inwards.

    A constant is added last: the loads of neighbours then share all of the address but an immediate displacement.
    """
    address = start
    by_scope: dict[Scope, list[Part]] = {}
    constant = 0
    for part in base:
        if part[1]:
            home = ctx.hoist(ctx.analysis.atoms_axes(part[1]), 0, scope)
            by_scope.setdefault(home, []).append(part)
        else:
            constant += part[0]
    for home in sorted({*by_scope, *data}, key=lambda region: region.depth):
        total = sizes.sum_text(ctx, by_scope[home], home) if home in by_scope else ""
        for offset in data.get(home, ()):
            total = offset if not total else home.let(f"add i64 {total}, {offset}")
        address = home.once((address, total), f"getelementptr {memory}, ptr {address}, i64 {total}")
    if constant:
        address = scope.once((address, str(constant)), f"getelementptr {memory}, ptr {address}, i64 {constant}")
    return address


def active_lanes(scope: Scope, mask: Mask | None, width: int) -> str | None:
    """The mask of the lanes that may touch memory; None when all may."""
    lanes = scope.vector
    running = lanes.mask if lanes is not None else None
    if mask is None:
        return running
    shape = shape_of(bool_, width)
    text = widen(Value(mask.text, mask.lanes, mask.scope), shape)
    if running is None:
        return text
    return _mask_scope(scope, mask).once((text, running), f"and {shape.type} {text}, {running}")


def _mask_scope(scope: Scope, mask: Mask | None) -> Scope:
    """The outermost scope in which the mask of active lanes is defined."""
    lanes, defining = scope.vector, None if mask is None else mask.scope
    while scope is not defining and scope.parent is not None and scope.parent.vector is lanes:
        scope = scope.parent
    return scope


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
    pointers = lane_pointers(
        scope, _mask_scope(scope, None), shape, neighbours[0].pointer, neighbours[0].stride, active
    )
    for access, raw in zip(neighbours, load_transposed(scope, shape, pointers), strict=True):
        key = _load_key(access, None, True)
        scope.memo[key] = Value(from_memory(scope, shape, raw), width, scope)
        _pin(ctx, buffer, scope, key)


def _load(ctx: Context, buffer: Buffer, access: LaneAddresses, scope: Scope, mask: Mask | None, moving: bool) -> Value:
    lanes = scope.vector
    if not moving or lanes is None or (access.extra is None and access.stride == 0):
        return _load_scalar(ctx, buffer, access.pointer, scope, mask)
    shape = shape_of(buffer.type.dtype, lanes.width)
    if not access.repeats and _is_spread(ctx, shape, access):
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
        home = _mask_scope(scope, None)
        raw = load_strided(scope, shape, lane_pointers(scope, home, shape, access.pointer, access.stride, active))
    else:
        raw = _gather(ctx, scope, shape, _addresses(scope, shape, access), active)
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


def from_memory(scope: Scope, shape: Shape, raw: str) -> str:
    """Converts from the memory type to the register type: bools are bytes in memory, bits in registers."""
    if not shape.is_bool:
        return raw
    return scope.let(f"icmp ne {shape.memory_type} {raw}, {'splat (i8 0)' if shape.lanes > 1 else '0'}")


def to_memory(scope: Scope, shape: Shape, text: str) -> str:
    """Converts from the register type to the memory type."""
    return scope.let(f"zext {shape.type} {text} to {shape.memory_type}") if shape.is_bool else text


def _addresses(scope: Scope, shape: Shape, access: LaneAddresses) -> str:
    split = Affine([], access.stride, access.extra)
    width = shape.lanes
    offsets = sizes.add_steps(scope, "splat (i64 0)", split, width)
    return scope.let(f"getelementptr {shape.memory}, ptr {access.pointer}, <{width} x i64> {offsets}")


def load_run(ctx: Context, scope: Scope, shape: Shape, pointer: str, active: str | None) -> str:
    """A contiguous run of elements, 0 in inactive lanes."""
    kind = shape.memory_type
    if active is None:
        return scope.let(f"load {kind}, ptr {pointer}, align {shape.itemsize}")
    if shape.itemsize < ctx.target.masked_bytes:
        return _load_by_lane(ctx, scope, shape, active, pointer, None)
    suffix = f"v{shape.lanes}{_letters(shape)}"
    return scope.let(
        f"call {kind} @llvm.masked.load.{suffix}.p0(ptr {pointer}, i32 {shape.itemsize}, "
        f"{shape.mask_type} {active}, {kind} zeroinitializer)"
    )


def _letters(shape: Shape) -> str:
    return {"float": "f32", "double": "f64"}.get(shape.memory, shape.memory)


def _is_spread(ctx: Context, shape: Shape, access: LaneAddresses) -> bool:
    """Whether one wide load and a shuffle are faster than a gather: the stride is a small constant."""
    near = access.extra is None and isinstance(access.stride, int) and 1 < access.stride <= Target.WIDE_LOAD_STRIDE
    return near and shape.itemsize >= max(4, ctx.target.masked_bytes)


def _load_spread(scope: Scope, shape: Shape, access: LaneAddresses, mask: Mask | None) -> str:
    """A wide masked load and a shuffle; reads nothing beyond the last element or of inactive lanes."""
    stride, width = int(access.stride), shape.lanes
    kind, flags = f"<{stride * width} x {shape.memory}>", f"<{stride * width} x i1>"
    active = _spread_lanes(scope, mask, width, stride)
    loaded = scope.let(
        f"call {kind} @llvm.masked.load.v{stride * width}{_letters(shape)}.p0(ptr {access.pointer}, "
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
        factors = (*factors, Value(running, width, _mask_scope(scope, None)))
    total = ""
    kind, home = f"<{stride * width} x i1>", _mask_scope(scope, mask)
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
                else _spread(defining, shape.type, factor.text, width, stride)
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


def _spread(scope: Scope, kind: str, text: str, width: int, stride: int) -> str:
    """Moves a vector's elements `stride` lanes apart, with zeros between."""
    lanes = ", ".join(f"i32 {width if lane % stride else lane // stride}" for lane in range(stride * width))
    return scope.let(f"shufflevector {kind} {text}, {kind} zeroinitializer, <{stride * width} x i32> <{lanes}>")


def _store_spread(scope: Scope, shape: Shape, access: LaneAddresses, text: str, active: str | None) -> None:
    """Stores elements with a small constant stride by one wide masked store."""
    stride, width = int(access.stride), shape.lanes
    mask = _spread(scope, shape.mask_type, active or "splat (i1 true)", width, stride)
    apart = _spread(scope, shape.memory_type, text, width, stride)
    scope.do(
        f"call void @llvm.masked.store.v{stride * width}{_letters(shape)}.p0(<{stride * width} x {shape.memory}> "
        f"{apart}, ptr {access.pointer}, i32 {shape.itemsize}, <{stride * width} x i1> {mask})"
    )


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
        f"call {kind} @llvm.masked.gather.v{width}{_letters(shape)}.v{width}p0(<{width} x ptr> {addresses}, "
        f"i32 {shape.itemsize}, <{width} x i1> {mask}, {kind} zeroinitializer)"
    )


class _LaneLoop:
    """A loop over the active lanes, for elements that no masked instruction handles."""

    def __init__(self, ctx: Context, scope: Scope, width: int, active: str | None) -> None:
        self.scope = scope
        names = scope.names
        self.again, self.hit, self.next, self.after = names.label(), names.label(), names.label(), names.label()
        self.lane, self.following = names.value(), names.value()
        self.width = width
        bits = scope.let(f"bitcast <{width} x i1> {active} to i{width}") if active else None
        before = scope.label
        scope.jump(self.again)
        scope.block(self.again)
        scope.do(f"{self.lane} = phi i64 [ 0, %{before} ], [ {self.following}, %{self.next} ]")
        if bits is None:
            scope.jump(self.hit)
        else:
            count = self.lane if width == 64 else scope.let(f"trunc i64 {self.lane} to i{width}")
            shifted = scope.let(f"lshr i{width} {bits}, {count}")
            scope.branch(scope.let(f"trunc i{width} {shifted} to i1"), self.hit, self.next)
        scope.block(self.hit)

    def close(self) -> None:
        """Ends the loop."""
        scope = self.scope
        scope.jump(self.next)
        scope.block(self.next)
        scope.do(f"{self.following} = add i64 {self.lane}, 1")
        more = scope.let(f"icmp ult i64 {self.following}, {self.width}")
        scope.branch(more, self.again, self.after)
        scope.block(self.after)


def _spill(ctx: Context, scope: Scope, llvm_type: str, text: str) -> str:
    """The address of scratch memory that holds a vector."""
    slot = ctx.allocate(llvm_type)
    scope.do(f"store {llvm_type} {text}, ptr {slot}, align 64")
    return slot


def _load_by_lane(
    ctx: Context, scope: Scope, shape: Shape, active: str, pointer: str | None, addresses: str | None
) -> str:
    kind, element_type = shape.memory_type, shape.memory
    slot = _spill(ctx, scope, kind, "zeroinitializer")
    table = None if addresses is None else _spill(ctx, scope, f"<{shape.lanes} x ptr>", addresses)
    loop = _LaneLoop(ctx, scope, shape.lanes, active)
    source = _lane_address(scope, element_type, pointer, table, loop.lane)
    element = scope.let(f"load {element_type}, ptr {source}, align {shape.itemsize}")
    target = scope.let(f"getelementptr {element_type}, ptr {slot}, i64 {loop.lane}")
    scope.do(f"store {element_type} {element}, ptr {target}, align {shape.itemsize}")
    loop.close()
    return scope.let(f"load {kind}, ptr {slot}, align 64")


def _lane_address(scope: Scope, element_type: str, pointer: str | None, table: str | None, lane: str) -> str:
    if table is None:
        return scope.let(f"getelementptr {element_type}, ptr {pointer}, i64 {lane}")
    at = scope.let(f"getelementptr ptr, ptr {table}, i64 {lane}")
    return scope.let(f"load ptr, ptr {at}, align 8")


# ------------------------------------------------------------------- stores


def emit_stores(ctx: Context, stores: Sequence[Store], scope: Scope) -> None:
    """Consecutive stores, for all lanes of the scope; all values are computed before the first store."""
    if scope.vector is not None and len(stores) >= Target.TRANSPOSED_SIDE:
        ctx.transposed.update(find_transposed_loads([store.value for store in stores]))
    prepared = [_prepare(ctx, store, scope) for store in stores]
    for store, (access, stored, mask) in zip(stores, prepared, strict=True):
        lanes = scope.vector
        if lanes is None:
            _store_scalar(ctx, store, scope, access, stored, mask)
        else:
            shape = shape_of(store.buffer.type.dtype, lanes.width)
            active = active_lanes(scope, mask, lanes.width)
            _store_lanes(ctx, store, scope, shape, access, widen(stored, shape), active)
        scope.forget(ctx.analysis.buffer_bits[store.buffer])


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
    if combine is None and _is_spread(ctx, shape, access):
        _store_spread(scope, shape, access, to_memory(scope, shape, text), active)
        return
    addresses = _addresses(scope, shape, access)
    if combine is None and shape.itemsize >= 4 and ctx.target.has_masks:
        width = shape.lanes
        # Lanes with equal addresses are stored in ascending order, so the last one stays.
        scope.do(
            f"call void @llvm.masked.scatter.v{width}{_letters(shape)}.v{width}p0({shape.memory_type} {text}, "
            f"<{width} x ptr> {addresses}, i32 {shape.itemsize}, <{width} x i1> {active or 'splat (i1 true)'})"
        )
        return
    _store_by_lane(ctx, scope, shape, combine, None, addresses, to_memory(scope, shape, text), active)


def _store_run(ctx: Context, scope: Scope, shape: Shape, pointer: str, text: str, active: str | None) -> None:
    kind = shape.memory_type
    if active is None:
        scope.do(f"store {kind} {text}, ptr {pointer}, align {shape.itemsize}")
    elif shape.itemsize < ctx.target.masked_bytes:
        _store_by_lane(ctx, scope, shape, None, pointer, None, text, active)
    else:
        scope.do(
            f"call void @llvm.masked.store.v{shape.lanes}{_letters(shape)}.p0({kind} {text}, "
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
    slot = _spill(ctx, scope, shape.memory_type, text)
    table = None if addresses is None else _spill(ctx, scope, f"<{shape.lanes} x ptr>", addresses)
    loop = _LaneLoop(ctx, scope, shape.lanes, active)
    at = scope.let(f"getelementptr {scalar.memory}, ptr {slot}, i64 {loop.lane}")
    element = scope.let(f"load {scalar.memory}, ptr {at}, align {scalar.itemsize}")
    target = _lane_address(scope, scalar.memory, pointer, table, loop.lane)
    _combine_scalar(scope, scalar, combine, target, from_memory(scope, scalar, element))
    loop.close()
